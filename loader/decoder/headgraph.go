package decoder

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
)

// finalNodes are the parameters after the layers; biases are nil where the family has none.
type finalNodes struct{ norm, normBias, head, headBias *Node }

func (r *nodeReader) final(c *blockConfig) finalNodes {
	var w finalNodes
	w.norm = r.optional(c.spec.Params.FinalNorm.Has())
	w.normBias = r.optional(c.spec.Params.FinalBias.Has())
	w.head = r.next()
	w.headBias = r.optional(c.spec.Params.HeadBias.Has())
	return w
}

// outputRows are the rows of the output matrix for tokens ids [n, 1]: [n, hidden].
func (c *blockConfig) outputRows(head, ids *Node) *Node {
	if !c.isTurned(head) {
		return Gather(head, ids)
	}
	hot := OneHot(Reshape(ids, ids.Shape().Dim(0)), head.Shape().Dim(1), head.DType())
	return c.product(hot, 1, nil, head, 1) // exact: one term of each sum is not zero
}

// logitsGraph is the final norm and output matrix at rows idx: x [B, T, hidden], idx [B, P] int32 -> logits [B, P, vocab] float32, whose
// values are x's dtype's, rounded after each operation as in transformers.
func (c *blockConfig) logitsGraph(x, idx *Node, w finalNodes) *Node {
	h := c.norm(gatherRows(x, idx), w.norm, w.normBias)
	lg := scaled(c.linear(h, w.head, w.headBias), c.spec.LogitScale)
	if d := c.spec.LogitDivide; d != 1 {
		lg = inFloat32(lg, func(x *Node) *Node { return DivScalar(x, d) })
	}
	if limit := c.spec.LogitCap; limit != 0 {
		lg = inFloat32(lg, func(x *Node) *Node { return DivScalar(x, limit) })
		lg = inFloat32(lg, Tanh)
		lg = scaled(lg, limit)
	}
	return ConvertDType(lg, dtypes.Float32)
}

// scoreGraph reduces logits to what a trial needs. With targets [B, P] int32 it returns, each [B, P]: the log-probability of
// the target, the argmax (int32, lowest index on ties), the gap between the two largest logits, and the largest |logit|.
func (c *blockConfig) scoreGraph(x, idx, targets *Node, w finalNodes) []*Node {
	lg := c.logitsGraph(x, idx, w)
	g, dims := lg.Graph(), lg.Shape().Dimensions
	best := ReduceAndKeep(lg, ReduceMax, -1)
	logZ := Add(Log(ReduceAndKeep(Exp(Sub(settled(lg), best)), ReduceSum, -1)), best)
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

// logSoftmax of logits [B, P, vocab], over the last axis.
func logSoftmax(lg *Node) *Node {
	centred := Sub(lg, ReduceAndKeep(lg, ReduceMax, -1))
	return Sub(centred, Log(ReduceAndKeep(Exp(settled(centred)), ReduceSum, -1)))
}

// pick takes the targets' entries [B, P] out of x [B, P, vocab].
func pick(x, targets *Node) *Node {
	index := ConvertDType(Iota(x.Graph(), x.Shape().Clone(), 2), dtypes.Int32)
	isTarget := Equal(index, BroadcastToDims(ExpandAxes(targets, -1), x.Shape().Dimensions...))
	return ReduceSum(Where(isTarget, x, ZerosLike(x)), -1)
}

// textGraph returns the targets' log-probabilities [B, P] and those of the whole vocabulary [B, P, vocab].
func (c *blockConfig) textGraph(x, idx, targets *Node, w finalNodes) []*Node {
	lp := logSoftmax(c.logitsGraph(x, idx, w))
	return []*Node{pick(lp, targets), lp}
}

// divergenceGraph returns the targets' log-probabilities and the divergence of base, log-probabilities [B, P, vocab], from those of x:
// [B, P] each. Its terms p (ln p - ln q) - p + q are never negative and sum up to the same, as p and q both sum to 1; where d = ln q - ln p is
// small they are p (d^2/2 + d^3/6 + ...), which the difference itself would lose in float32.
func (c *blockConfig) divergenceGraph(base, x, idx, targets *Node, w finalNodes) []*Node {
	lp := logSoftmax(c.logitsGraph(x, idx, w))
	d, p := Sub(lp, base), Exp(base)
	series := Mul(Mul(p, Square(d)), AddScalar(Mul(d, AddScalar(Mul(d, AddScalar(MulScalar(d, 1.0/120), 1.0/24)), 1.0/6)), 0.5))
	direct := Sub(Sub(Exp(lp), p), Mul(p, d))
	near := LessThan(Abs(d), AddScalar(ZerosLike(d), 0.1))
	return []*Node{pick(lp, targets), ReduceSum(Where(near, series, direct), -1)}
}
