package decoder

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
)

// logitsGraph is the final norm and output matrix at rows idx: x [B, T, hidden], idx [B, P] int32, norm [hidden], head [vocab,
// hidden] -> logits [B, P, vocab] float32.
func (c *blockConfig) logitsGraph(x, idx, norm, head *Node) *Node {
	h := rmsNorm(gatherRows(x, idx), norm, c.eps)
	return ConvertDType(c.linear(h, head, nil), dtypes.Float32)
}

// scoreGraph reduces logits to what a trial needs. With targets [B, P] int32 it returns, each [B, P]: the log-probability of
// the target, the argmax (int32, lowest index on ties), the gap between the two largest logits, and the largest |logit|.
func (c *blockConfig) scoreGraph(x, idx, targets, norm, head *Node) []*Node {
	lg := c.logitsGraph(x, idx, norm, head)
	g, dims := lg.Graph(), lg.Shape().Dimensions
	best := ReduceAndKeep(lg, ReduceMax, -1)
	logZ := Add(Log(ReduceAndKeep(Exp(Sub(lg, best)), ReduceSum, -1)), best)
	index := ConvertDType(Iota(g, lg.Shape().Clone(), 2), dtypes.Int32)
	zero := ZerosLike(lg)
	isTarget := Equal(index, BroadcastToDims(ExpandAxes(targets, -1), dims...))
	target := ReduceAndKeep(Where(isTarget, lg, zero), ReduceSum, -1)
	arg := ArgMax(lg, -1, dtypes.Int32)
	isBest := Equal(index, BroadcastToDims(ExpandAxes(arg, -1), dims...))
	second := ReduceMax(Where(isBest, AddScalar(zero, masked), lg), -1)
	b, p := dims[0], dims[1]
	return []*Node{
		Reshape(Sub(target, logZ), b, p), arg, Sub(Reshape(best, b, p), second), ReduceMax(Abs(lg), -1),
	}
}
