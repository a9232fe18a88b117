package decoder

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas

	"github.com/headscope/headscope/loader"
)

// layerParamCount is the length of loader.LayerParams.All.
const layerParamCount = 24

// blockConfig is what a block is compiled for, besides the shapes of its arguments.
type blockConfig struct {
	spec               *loader.Spec
	has                [layerParamCount]bool // which of loader.LayerParams.All a layer has
	heads, kv, headDim int
	rotary             int // rotated dimensions of a head
	dtype              dtypes.DType
	widen              bool // form products in float32, see product
	turns              bool // small matrices are [in, out], not [out, in], see weightStore.turned
	plain              bool // built without edit inputs: what the identity law compares against
}

func newBlockConfig(s *loader.Spec, rotary int, dtype dtypes.DType) blockConfig {
	c := blockConfig{spec: s, heads: s.Heads, kv: s.KVHeads, headDim: s.HeadDim, rotary: rotary, dtype: dtype}
	layer := s.Params.Layer(0) // the others have the same
	for i, p := range layer.All() {
		c.has[i] = p.Has()
	}
	return c
}

func (c *blockConfig) group() int  { return c.heads / c.kv }
func (c *blockConfig) planes() int { return c.rotary / 2 }

// layerNodes are one layer's weights as loader.LayerParams describes them; nil where the family has none.
type layerNodes struct {
	preAttn, preAttnB                             *Node
	q, qb, k, kb, v, vb, qNorm, kNorm, o, ob      *Node
	postAttn, postAttnB, preMLP, preMLPB          *Node
	gate, gb, up, ub, down, db, postMLP, postMLPB *Node
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

// weights reads a layer's weights in the order of loader.LayerParams.All.
func (r *nodeReader) weights(c *blockConfig) layerNodes {
	var w layerNodes
	for i, to := range []**Node{
		&w.preAttn, &w.preAttnB, &w.q, &w.qb, &w.k, &w.kb, &w.v, &w.vb, &w.qNorm, &w.kNorm, &w.o, &w.ob,
		&w.postAttn, &w.postAttnB, &w.preMLP, &w.preMLPB, &w.gate, &w.gb, &w.up, &w.ub, &w.down, &w.db, &w.postMLP, &w.postMLPB,
	} {
		*to = r.optional(c.has[i])
	}
	return w
}

// editNodes are the edit inputs of one layer: the base ones, and those of the variant where it has them.
type editNodes struct {
	head     *Node // [B, H] float32
	headRows *Node // [B, H, 2] int32, half-open range of absolute positions
	q        *Node // [B, H, planes+1] float32
	qRows    *Node // [B, H, 2] int32

	variantNodes
}

// edits reads the edit inputs of a variant; rows = of the row program, whose variants take other inputs than whole passes do.
func (r *nodeReader) edits(c *blockConfig, v editVariant, rows bool) *editNodes {
	if c.plain {
		return nil
	}
	return &editNodes{head: r.next(), headRows: r.next(), q: r.next(), qRows: r.next(), variantNodes: r.variant(v, rows)}
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

// linear is x W^T + b over the last axis; w is as it was uploaded, [out, in] or turned.
func (c *blockConfig) linear(x, w, b *Node) *Node {
	in := 1
	if c.isTurned(w) {
		in = 0
	}
	y := c.product(x, x.Rank()-1, nil, w, in)
	if b != nil {
		y = Add(y, ExpandLeftToRank(b, y.Rank()))
	}
	return y
}

// isTurned tells whether an uploaded matrix is [in, out].
func (c *blockConfig) isTurned(w *Node) bool { return c.turns && isSmall(w.Shape().Size()) }

// outIn is an uploaded matrix as [out, in].
func (c *blockConfig) outIn(w *Node) *Node {
	if c.isTurned(w) {
		return Transpose(w, 0, 1)
	}
	return w
}

// settled is x. On the Go backend it is a copy if x is used again, and copying leaves the processor's vector registers as scalar code
// wants them: the AVX2 products do not (compute v0.1.6), and until something does exp takes 15 times as long.
func settled(x *Node) *Node {
	return IdentityWithCustomGradient(x, func(_, v *Node) *Node { return v })
}

// rotate turns the first `rotary` dims of x, plane by plane; cos and sin broadcast to x's leading axes with rotary/2 as the last axis.
// They are float32 where the family rotates in it, else of x's dtype.
func (c *blockConfig) rotate(x, cos, sin *Node) *Node {
	last, dtype := x.Rank()-1, x.DType()
	turned := ConvertDType(sliceLast(x, last, 0, c.rotary), cos.DType())
	a, b := c.splitPlanes(turned)
	turned = ConvertDType(c.joinPlanes(Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin))), dtype)
	if c.rotary == c.headDim {
		return turned
	}
	return Concatenate([]*Node{turned, sliceLast(x, last, c.rotary, c.headDim)}, last)
}

// splitPlanes takes rotated dims [..., rotary] apart into the first and second members of their planes, [..., rotary/2] each.
func (c *blockConfig) splitPlanes(x *Node) (a, b *Node) {
	last, half := x.Rank()-1, c.rotary/2
	if !c.spec.Interleaved {
		return sliceLast(x, last, 0, half), sliceLast(x, last, half, c.rotary)
	}
	dims := append(slices.Clone(x.Shape().Dimensions[:last]), half)
	pairs := Reshape(x, append(slices.Clone(dims), 2)...)
	return Reshape(sliceLast(pairs, last+1, 0, 1), dims...), Reshape(sliceLast(pairs, last+1, 1, 2), dims...)
}

// joinPlanes undoes splitPlanes.
func (c *blockConfig) joinPlanes(a, b *Node) *Node {
	last := a.Rank() - 1
	if !c.spec.Interleaved {
		return Concatenate([]*Node{a, b}, last)
	}
	dims := append(slices.Clone(a.Shape().Dimensions[:last]), c.rotary)
	return Reshape(Concatenate([]*Node{ExpandAxes(a, -1), ExpandAxes(b, -1)}, last+1), dims...)
}

func sliceLast(x *Node, last, from, to int) *Node {
	return SliceAxis(x, last, AxisRange(from, to))
}

// smallProduct is the size, rows times columns times terms, from which the Go backend's products go by other kernels. Those below it
// contract two last axes slowly, see weightStore.turned; turning keys first pays where each is multiplied often enough.
const smallProduct = 4 << 20

// isSmall tells whether a matrix has few enough elements to be turned: products of 16 rows with it are still small.
func isSmall(elements int) bool { return elements < smallProduct/16 }

// masked is the score of a hidden key: far below any score, finite so that a row without keys stays a number.
const masked = -1e30

// scores is q.k times the family's scale, and capped where it caps, for q [B, KV, G, R, D] and k [B, KV, S, D] -> [B, KV, G, R, S]
// float32.
func (c *blockConfig) scores(q, k *Node) *Node {
	over := 3
	if rows, s := q.Shape().Dim(2)*q.Shape().Dim(3), k.Shape().Dim(2); c.turns && 4*rows >= c.headDim && rows*s*c.headDim < smallProduct {
		k, over = Transpose(k, 2, 3), 2
	}
	s := c.product(q, 4, []int{0, 1}, k, over)
	return capped(MulScalar(ConvertDType(s, dtypes.Float32), c.spec.ScoreScale), c.spec.ScoreCap)
}

// capped is cap*tanh(x/cap), x itself where cap is 0.
func capped(x *Node, limit float64) *Node {
	if limit == 0 {
		return x
	}
	return MulScalar(Tanh(DivScalar(x, limit)), limit)
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
