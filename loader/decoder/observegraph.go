package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas

	"github.com/headscope/headscope/loader"
)

// observeNodes are what an observation is asked: a probe's rows [B, P] int32 and spans of keys, here [B, S, 2] int32, and for each row the
// direction of the residual stream that writes are measured along, [B, P, hidden] float32; and what of the layer it reads.
type observeNodes struct {
	probeNodes
	toward *Node
	z      *Node // [B, T, H, D], the heads' outputs
	w      layerNodes
}

// observeOutputs is how many results observe returns.
const observeOutputs = 6

// observe computes the attention rows in.rows anew and reduces them. Results, float32 but for the positions (int32): the largest
// weight's key [B, H, P], its lead over the second, the largest weight's key but for key 0, masses on spans [B, H, P, S]; then along
// in.toward the whole write of each head [B, H, P], and what it writes from the keys of each span [B, H, P, S].
func (c *blockConfig) observe(e *editNodes, q headQueries, k headKeys, in observeNodes) []*Node {
	b, p, t := in.rows.Shape().Dim(0), in.rows.Shape().Dim(1), k.k.Shape().Dim(2)
	g := in.rows.Graph()
	grouped := Softmax(c.visibleScores(e, headQueries{q: gatherRows(q.q, in.rows), pos: in.rows}, k, in.window), -1) // [B, KV, G, P, T]
	a := Reshape(grouped, b, c.heads, p, t)
	index := ConvertDType(Iota(g, a.Shape().Clone(), 3), dtypes.Int32)
	arg := ArgMax(a, -1, dtypes.Int32)
	isTop := Equal(index, BroadcastToDims(ExpandAxes(arg, -1), a.Shape().Dimensions...))
	second := ReduceMax(Where(isTop, ZerosLike(a), a), -1)
	rest := ArgMax(Where(Equal(index, ZerosLike(index)), AddScalar(ZerosLike(a), -1), a), -1, dtypes.Int32)

	ns := in.spans.Shape().Dim(1)
	key := Iota(g, shapes.Make(dtypes.Int32, b, ns, t), 2)
	lo := BroadcastToDims(SliceAxis(in.spans, 2, AxisRange(0, 1)), b, ns, t)
	hi := BroadcastToDims(SliceAxis(in.spans, 2, AxisRange(1, 2)), b, ns, t)
	inside := ConvertDType(LogicalAnd(GreaterOrEqual(key, lo), LessThan(key, hi)), dtypes.Float32)
	onSpans := func(x *Node) *Node { return DotGeneral(x, []int{3}, []int{0}, inside, []int{2}, []int{0}) }

	zRows := gatherRows(in.z, in.rows)
	u := c.headDirections(in.toward, zRows, in.w) // [B, P, H, D]
	direct := TransposeAllDims(ReduceSum(Mul(ConvertDType(zRows, dtypes.Float32), u), -1), 0, 2, 1)
	along := DotGeneral(c.groupHeads(u), []int{4}, []int{0, 1}, ConvertDType(k.v, dtypes.Float32), []int{3}, []int{0, 1})
	parts := onSpans(Reshape(Mul(grouped, along), b, c.heads, p, t))
	return []*Node{arg, Sub(ReduceMax(a, -1), second), rest, onSpans(a), direct, parts}
}

// headDirections carries directions of the residual stream, [B, P, hidden], back through what stands between it and the heads' outputs
// z [B, P, H, D] at the same rows: factor, norm behind the attention with its statistics frozen, output projection. [B, P, H, D] float32:
// the product with a head's output is what that output adds along the direction.
func (c *blockConfig) headDirections(toward, z *Node, w layerNodes) *Node {
	b, p := z.Shape().Dim(0), z.Shape().Dim(1)
	d := MulScalar(toward, c.spec.ResidualScale)
	if c.spec.Norms.PostAttn {
		attn := c.linear(Reshape(z, b, p, c.heads*c.headDim), w.o, w.ob)
		d = c.throughNorm(d, attn, w.postAttn)
	}
	return Reshape(DotGeneral(d, []int{2}, nil, ConvertDType(c.outIn(w.o), dtypes.Float32), []int{0}, nil), b, p, c.heads, c.headDim)
}

// throughNorm is the direction d before a norm that reads x, for a direction behind it: the norm as the linear map that it is once its
// mean and size are frozen at those of x.
func (c *blockConfig) throughNorm(d, x, weight *Node) *Node {
	f := ConvertDType(x, dtypes.Float32)
	centred := c.spec.Norm == loader.LayerNorm || c.spec.Norm == loader.LayerNormBare
	if centred {
		f = Sub(f, ReduceAndKeep(f, ReduceMean, -1))
	}
	switch c.spec.Norm {
	case loader.RMSNorm, loader.RMSNormFloat, loader.LayerNorm:
		d = Mul(d, floatTo(weight, d))
	case loader.RMSNormOffset:
		d = Mul(d, AddScalar(floatTo(weight, d), 1))
	}
	d = Div(d, Sqrt(AddScalar(ReduceAndKeep(Square(f), ReduceMean, -1), c.spec.NormEps)))
	if centred {
		d = Sub(d, ReduceAndKeep(d, ReduceMean, -1))
	}
	return d
}
