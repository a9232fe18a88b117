package decoder

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
)

// blockConfig is what a block is compiled for, besides the shapes of its arguments.
type blockConfig struct {
	heads, kv, headDim, rotary int
	eps                        float64
	attnBias, mlpBias          bool
	dtype                      dtypes.DType
	widen                      bool // form products in float32, see product
	plain                      bool // built without edit inputs: what the identity law compares against
}

func (c *blockConfig) group() int  { return c.heads / c.kv }
func (c *blockConfig) planes() int { return c.rotary / 2 }

// layerNodes are one layer's weights, [out, in] as the checkpoint stores them.
type layerNodes struct {
	inputNorm, q, qb, k, kb, v, vb, o, ob, postNorm, gate, gb, up, ub, down, db *Node
}

// nodeReader hands out arguments in order.
type nodeReader struct{ rest []*Node }

func (r *nodeReader) next() *Node {
	n := r.rest[0]
	r.rest = r.rest[1:]
	return n
}

func (r *nodeReader) optional(have bool) *Node {
	if !have {
		return nil
	}
	return r.next()
}

// weights reads a layer's weights in the order in which weightNames lists them.
func (r *nodeReader) weights(c *blockConfig) layerNodes {
	var w layerNodes
	w.inputNorm = r.next()
	w.q, w.qb = r.next(), r.optional(c.attnBias)
	w.k, w.kb = r.next(), r.optional(c.attnBias)
	w.v, w.vb = r.next(), r.optional(c.attnBias)
	w.o, w.ob = r.next(), r.optional(c.attnBias)
	w.postNorm = r.next()
	w.gate, w.gb = r.next(), r.optional(c.mlpBias)
	w.up, w.ub = r.next(), r.optional(c.mlpBias)
	w.down, w.db = r.next(), r.optional(c.mlpBias)
	return w
}

// editNodes are the base edit inputs of one layer.
type editNodes struct {
	head     *Node // [B, H] float32
	headRows *Node // [B, H, 2] int32, half-open range of absolute positions
	q        *Node // [B, H, planes+1] float32
	qRows    *Node // [B, H, 2] int32
}

func (r *nodeReader) edits(c *blockConfig) *editNodes {
	if c.plain {
		return nil
	}
	return &editNodes{head: r.next(), headRows: r.next(), q: r.next(), qRows: r.next()}
}

// rmsNorm is LlamaRMSNorm: statistics in float32, the normalised value cast back before the weight multiplies it.
// x / Sqrt rather than Rsqrt, which has no gradient.
func rmsNorm(x, weight *Node, eps float64) *Node {
	f := ConvertDType(x, dtypes.Float32)
	mean := ReduceAndKeep(Square(f), ReduceMean, -1)
	y := ConvertDType(Div(f, Sqrt(AddScalar(mean, eps))), x.DType())
	return Mul(y, ExpandLeftToRank(weight, y.Rank()))
}

// product is DotGeneral with the result in a's dtype. The Go backend returns wrong numbers for small bfloat16 products whose right
// operand is contracted over its last axis (compute v0.1.6), so there the operands are widened first: that is exact, and its
// float32 kernels are the faster ones.
func (c *blockConfig) product(a *Node, aAxis int, batch []int, b *Node, bAxis int) *Node {
	if !c.widen {
		return DotGeneral(a, []int{aAxis}, batch, b, []int{bAxis}, batch)
	}
	dtype := a.DType()
	a, b = ConvertDType(a, dtypes.Float32), ConvertDType(b, dtypes.Float32)
	return ConvertDType(DotGeneral(a, []int{aAxis}, batch, b, []int{bAxis}, batch), dtype)
}

// linear is x W^T + b over the last axis; w is [out, in].
func (c *blockConfig) linear(x, w, b *Node) *Node {
	y := c.product(x, x.Rank()-1, nil, w, 1)
	if b != nil {
		y = Add(y, ExpandLeftToRank(b, y.Rank()))
	}
	return y
}

// rotate turns the first `rotary` dims of x by pairs (i, i+rotary/2); cos and sin broadcast to x's leading axes with
// rotary/2 as the last axis.
func (c *blockConfig) rotate(x, cos, sin *Node) *Node {
	half := c.rotary / 2
	last := x.Rank() - 1
	a, b := sliceLast(x, last, 0, half), sliceLast(x, last, half, c.rotary)
	parts := []*Node{Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin))}
	if c.rotary < c.headDim {
		parts = append(parts, sliceLast(x, last, c.rotary, c.headDim))
	}
	return Concatenate(parts, last)
}

func sliceLast(x *Node, last, from, to int) *Node {
	return SliceAxis(x, last, AxisRange(from, to))
}

// inRows is true where lo <= pos < hi: pos [B, R] int32, rows [B, H, 2] int32 -> [B, R, H].
func inRows(pos, rows *Node) *Node {
	b, r, h := pos.Shape().Dim(0), pos.Shape().Dim(1), rows.Shape().Dim(1)
	p := BroadcastToDims(ExpandAxes(pos, 2), b, r, h)
	lo := BroadcastToDims(Reshape(SliceAxis(rows, 2, AxisRange(0, 1)), b, 1, h), b, r, h)
	hi := BroadcastToDims(Reshape(SliceAxis(rows, 2, AxisRange(1, 2)), b, 1, h), b, r, h)
	return LogicalAnd(GreaterOrEqual(p, lo), LessThan(p, hi))
}

// headGain multiplies each head's output z [B, R, H, D] by its gain where pos is in the head's rows.
func (e *editNodes) headGain(z, pos *Node) *Node {
	if e == nil {
		return z
	}
	b, r, h := z.Shape().Dim(0), z.Shape().Dim(1), z.Shape().Dim(2)
	gain := BroadcastToDims(Reshape(e.head, b, 1, h), b, r, h)
	gain = Where(inRows(pos, e.headRows), gain, OnesLike(gain))
	return Mul(z, ExpandAxes(ConvertDType(gain, z.DType()), -1))
}

// queryGain multiplies the planes of q [B, R, H, D], before rotation, by their gains where pos is in the head's rows.
func (e *editNodes) queryGain(c *blockConfig, q, pos *Node) *Node {
	if e == nil {
		return q
	}
	b, r, h := q.Shape().Dim(0), q.Shape().Dim(1), q.Shape().Dim(2)
	planes := sliceLast(e.q, 2, 0, c.planes())
	parts := []*Node{planes, planes}
	if rest := c.headDim - c.rotary; rest > 0 {
		parts = append(parts, BroadcastToDims(sliceLast(e.q, 2, c.planes(), c.planes()+1), b, h, rest))
	}
	gain := BroadcastToDims(ExpandAxes(Concatenate(parts, 2), 1), b, r, h, c.headDim)
	on := BroadcastToDims(ExpandAxes(inRows(pos, e.qRows), -1), b, r, h, c.headDim)
	gain = Where(on, gain, OnesLike(gain))
	return Mul(q, ConvertDType(gain, q.DType()))
}

// masked is the score of a hidden key: far below any score, finite so that a row without keys stays a number.
const masked = -1e30

// scores is q.k / sqrt(D) for q [B, KV, G, R, D] and k [B, KV, S, D] -> [B, KV, G, R, S] float32.
func (c *blockConfig) scores(q, k *Node) *Node {
	s := c.product(q, 4, []int{0, 1}, k, 3)
	return MulScalar(ConvertDType(s, dtypes.Float32), 1/math.Sqrt(float64(c.headDim)))
}

// weigh sums values v [B, KV, S, D] with weights p [B, KV, G, R, S] float32 -> [B, KV, G, R, D]; the weights are cast to the
// values' dtype first, as in HF's eager attention.
func (c *blockConfig) weigh(p, v *Node) *Node {
	return c.product(ConvertDType(p, v.DType()), 4, []int{0, 1}, v, 2)
}

// mask hides scores s [B, KV, G, R, S] where visible [B, R, S] is false.
func mask(s, visible *Node) *Node {
	on := BroadcastToDims(ExpandAxes(visible, 1, 2), s.Shape().Dimensions...)
	return Where(on, s, Scalar(s.Graph(), dtypes.Float32, masked))
}

// visibleKeys is true where a key at keyPos [B, S] can be seen from pos [B, R] through a window of `window` keys, the query's
// own included. An empty slot stands at a position beyond every query (see emptySlot). One unsigned comparison does for both
// ends of the window: a key after the query is at a huge unsigned distance.
func visibleKeys(pos, keyPos, window *Node) *Node {
	b, r, s := pos.Shape().Dim(0), pos.Shape().Dim(1), keyPos.Shape().Dim(1)
	p := BroadcastToDims(ExpandAxes(pos, 2), b, r, s)
	k := BroadcastToDims(ExpandAxes(keyPos, 1), b, r, s)
	distance := Bitcast(Sub(p, k), dtypes.Uint32)
	return LessThan(distance, BroadcastToDims(Bitcast(window, dtypes.Uint32), b, r, s))
}

// groupHeads is [B, R, H, D] -> [B, KV, G, R, D].
func (c *blockConfig) groupHeads(x *Node) *Node {
	b, r := x.Shape().Dim(0), x.Shape().Dim(1)
	return TransposeAllDims(Reshape(x, b, r, c.kv, c.group(), c.headDim), 0, 2, 3, 1, 4)
}

// ungroupHeads is [B, KV, G, R, D] -> [B, R, H, D].
func (c *blockConfig) ungroupHeads(x *Node) *Node {
	b, r := x.Shape().Dim(0), x.Shape().Dim(3)
	return Reshape(TransposeAllDims(x, 0, 3, 1, 2, 4), b, r, c.heads, c.headDim)
}

// keyLayout is [B, R, KV*D] -> [B, KV, R, D].
func (c *blockConfig) keyLayout(x *Node) *Node {
	b, r := x.Shape().Dim(0), x.Shape().Dim(1)
	return TransposeAllDims(Reshape(x, b, r, c.kv, c.headDim), 0, 2, 1, 3)
}

// mlp is the gated feed-forward part with its norm and residual.
func (c *blockConfig) mlp(x *Node, w layerNodes) *Node {
	h := rmsNorm(x, w.postNorm, c.eps)
	gate := c.linear(h, w.gate, w.gb)
	gate = Mul(gate, Sigmoid(gate))
	return Add(x, c.linear(Mul(gate, c.linear(h, w.up, w.ub)), w.down, w.db))
}

// output adds the attention output z [B, R, H, D] to the residual after its projection.
func (c *blockConfig) output(x, z *Node, w layerNodes) *Node {
	b, r := z.Shape().Dim(0), z.Shape().Dim(1)
	return Add(x, c.linear(Reshape(z, b, r, c.heads*c.headDim), w.o, w.ob))
}

// positions is [B, T] int32 of 0..T-1.
func positions(g *Graph, b, t int) *Node {
	return Iota(g, shapes.Make(dtypes.Int32, b, t), 1)
}

// gatherRows picks rows idx [B, P] of x [B, T, ...] -> [B, P, ...].
func gatherRows(x, idx *Node) *Node {
	b, p := idx.Shape().Dim(0), idx.Shape().Dim(1)
	batch := Iota(x.Graph(), shapes.Make(dtypes.Int32, b, p, 1), 0)
	return Gather(x, Concatenate([]*Node{batch, ExpandAxes(idx, -1)}, -1))
}
