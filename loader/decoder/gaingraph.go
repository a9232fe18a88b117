package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
)

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

// queryGain multiplies the planes of q [B, R, H, D], before rotation, by their gains where pos is in the head's rows, and scales that go by
// the row.
func (e *editNodes) queryGain(c *blockConfig, q, pos *Node) *Node {
	if e == nil {
		return q
	}
	q = e.lengthGain(q, pos)
	if e.spreadRows != nil {
		e.plain = q
	}
	q = c.planeGain(q, pos, e.q, e.qRows)
	if e.dims == nil {
		return q
	}
	return dimGain(q, pos, e.dims, e.dimRows)
}

// dimGain multiplies single dimensions of x [B, R, heads, D] by gains [B, heads, D] where pos is in a head's rows [B, heads, 2].
func dimGain(x, pos, gains, rows *Node) *Node {
	dims := x.Shape().Dimensions
	gain := BroadcastToDims(ExpandAxes(gains, 1), dims...)
	on := BroadcastToDims(ExpandAxes(inRows(pos, rows), -1), dims...)
	gain = Where(on, gain, OnesLike(gain))
	return Mul(x, ConvertDType(gain, x.DType()))
}

// planeGain multiplies the planes of x [B, R, heads, D] by gains [B, heads, planes+1] where pos is in a head's rows [B, heads, 2].
func (c *blockConfig) planeGain(x, pos, gains, rows *Node) *Node {
	b, h := x.Shape().Dim(0), x.Shape().Dim(2)
	planes := sliceLast(gains, 2, 0, c.planes())
	parts := []*Node{c.joinPlanes(planes, planes)}
	if rest := c.headDim - c.rotary; rest > 0 {
		parts = append(parts, BroadcastToDims(sliceLast(gains, 2, c.planes(), c.planes()+1), b, h, rest))
	}
	return dimGain(x, pos, Concatenate(parts, 2), rows)
}

// variantNodes are the inputs beyond the base ones, nil where the variant lacks them.
type variantNodes struct {
	cos, sin  *Node // [N, P, planes]: the layer's own table first
	table     *Node // [B, H] int32, which of them
	tableRows *Node // [B, H, 2] int32
	rawPrompt *Node // [Bp, KV, Tp, D], in the row program: the prompt's keys before rotation

	legacyQ, legacyQRows *Node // [B, H, planes+1] float32, [B, H, 2] int32
	legacyK, legacyKRows *Node // [B, KV, planes+1], [B, KV, 2]

	donor      *Node // [B, H, C, D] float32
	donorFirst *Node // [B, H] int32, the row of the first of these vectors
	donorRows  *Node // [B, H, 2] int32
	ownMean    *Node // [B, H] int32, in whole passes: 1 = the mean over the first `length` rows, [B], in place of the donor's
	length     *Node

	sink, recent, streamRows *Node // [B, H] int32 twice, [B, H, 2]

	growth, from, growthRows *Node // [B, H] float32 twice, [B, H, 2]
	spreadRows               *Node // [B, H, 2]
	plain                    *Node // no input: with spreadRows, the queries without gains on planes
	dims, dimRows            *Node // [B, H, D] float32, [B, H, 2] int32
}

// editVariant is what a program reads beside the base inputs.
type editVariant struct {
	kinds  editKinds
	tables int // N
}

func (r *nodeReader) variant(v editVariant, rows bool) variantNodes {
	var e variantNodes
	if v.kinds&kindTable != 0 {
		stack := func() *Node {
			var all []*Node
			for range v.tables {
				all = append(all, ExpandAxes(r.next(), 0))
			}
			return Concatenate(all, 0)
		}
		e.cos, e.sin = stack(), stack()
		e.table, e.tableRows = r.next(), r.next()
		e.rawPrompt = r.optional(rows)
	}
	if v.kinds&kindLegacy != 0 {
		e.legacyQ, e.legacyQRows, e.legacyK, e.legacyKRows = r.next(), r.next(), r.next(), r.next()
	}
	if v.kinds&kindDonor != 0 {
		e.donor, e.donorFirst, e.donorRows = r.next(), r.next(), r.next()
		e.ownMean, e.length = r.optional(!rows), r.optional(!rows)
	}
	if v.kinds&kindStreaming != 0 {
		e.sink, e.recent, e.streamRows = r.next(), r.next(), r.next()
	}
	if v.kinds&kindLength != 0 {
		e.growth, e.from, e.growthRows = r.next(), r.next(), r.next()
	}
	if v.kinds&kindSpread != 0 {
		e.spreadRows = r.next()
	}
	if v.kinds&kindDims != 0 {
		e.dims, e.dimRows = r.next(), r.next()
	}
	return e
}

// legacyGain zeroes planes of a projection's output [B, R, heads*D], before anything else is done to it.
func (c *blockConfig) legacyGain(x, pos, gains, rows *Node) *Node {
	if gains == nil {
		return x
	}
	dims := x.Shape().Dimensions
	byHead := Reshape(x, dims[0], dims[1], dims[2]/c.headDim, c.headDim)
	return Reshape(c.planeGain(byHead, pos, gains, rows), dims...)
}

// headTurns are cosines and sines of each head's own table at positions pos [B, S]: [B, H, S, planes] twice.
func (e *editNodes) headTurns(pos *Node) (cos, sin *Node) {
	b, h, s := e.table.Shape().Dim(0), e.table.Shape().Dim(1), pos.Shape().Dim(1)
	index := Concatenate([]*Node{
		ExpandAxes(BroadcastToDims(ExpandAxes(e.table, 2), b, h, s), -1),
		ExpandAxes(BroadcastToDims(ExpandAxes(pos, 1), b, h, s), -1),
	}, -1)
	return Gather(e.cos, index), Gather(e.sin, index)
}

// turnQueries turns queries [B, R, H, D] by their heads' own tables; nil without such tables.
func (c *blockConfig) turnQueries(e *editNodes, q, pos *Node) *Node {
	if e == nil || e.table == nil {
		return nil
	}
	cos, sin := e.headTurns(pos)
	return c.rotate(q, TransposeAllDims(cos, 0, 2, 1, 3), TransposeAllDims(sin, 0, 2, 1, 3))
}

// turnKeys turns keys k [B or 1, KV, S, D] as each query head sees them: [B, H, S, D]; nil without tables of heads.
func (c *blockConfig) turnKeys(e *editNodes, k, pos *Node) *Node {
	if e == nil || e.table == nil {
		return nil
	}
	cos, sin := e.headTurns(pos)
	b, s := pos.Shape().Dim(0), pos.Shape().Dim(1)
	seen := BroadcastToDims(ExpandAxes(k, 2), k.Shape().Dim(0), c.kv, c.group(), s, c.headDim)
	seen = BroadcastToDims(Reshape(seen, k.Shape().Dim(0), c.heads, s, c.headDim), b, c.heads, s, c.headDim)
	return c.rotate(seen, cos, sin)
}

// headScores replaces, in scores s [B, KV, G, R, S], those of heads and rows with a table of their own by q [B, R, H, D] times k
// [B, H, S, D], both turned by it.
func (c *blockConfig) headScores(e *editNodes, s, q, k, pos *Node) *Node {
	if q == nil {
		return s
	}
	dims := s.Shape().Dimensions
	own := c.scores(ExpandAxes(TransposeAllDims(q, 0, 2, 1, 3), 2), k) // [B, H, 1, R, S]
	on := TransposeAllDims(inRows(pos, e.tableRows), 0, 2, 1)          // [B, H, R]
	on = BroadcastToDims(Reshape(on, dims[0], dims[1], dims[2], dims[3], 1), dims...)
	return Where(on, Reshape(own, dims...), s)
}

// stream hides, in scores s [B, KV, G, R, S] of keys at keyPos [B, S], all but the sink and recent keys of heads that are so restricted.
func (e *editNodes) stream(s, pos, keyPos *Node) *Node {
	if e == nil || e.sink == nil {
		return s
	}
	dims := s.Shape().Dimensions
	b, h, r, n := dims[0], dims[1]*dims[2], dims[3], dims[4]
	full := func(x *Node, axes ...int) *Node { return BroadcastToDims(ExpandAxes(x, axes...), b, h, r, n) }
	key := full(keyPos, 1, 2)
	beyond := LogicalAnd(GreaterOrEqual(key, full(e.sink, 2, 3)), GreaterOrEqual(Sub(full(pos, 1, 3), key), full(e.recent, 2, 3)))
	hidden := LogicalAnd(beyond, full(TransposeAllDims(inRows(pos, e.streamRows), 0, 2, 1), 3))
	return Where(Reshape(hidden, dims...), Scalar(s.Graph(), dtypes.Float32, masked), s)
}

// headOutput puts given vectors in the place of heads' outputs z [B, R, H, D], and then the gains on. The second result is, of a whole
// pass, each head's mean over the prompt's rows, [B, H, D] float32; nil without donors.
func (e *editNodes) headOutput(z, pos *Node) (out, mean *Node) {
	if e == nil || e.donor == nil {
		return e.headGain(z, pos), nil
	}
	b, r, h, d := z.Shape().Dim(0), z.Shape().Dim(1), z.Shape().Dim(2), z.Shape().Dim(3)
	given := e.donorVectors(pos)
	if e.ownMean != nil {
		counted := LessThan(pos, BroadcastToDims(ExpandAxes(e.length, 1), b, r))
		zf := Where(BroadcastToDims(ExpandAxes(counted, 2, 3), b, r, h, d), ConvertDType(z, dtypes.Float32), Scalar(z.Graph(), dtypes.Float32, 0))
		mean = Div(ReduceSum(zf, 1), ExpandAxes(ConvertDType(e.length, dtypes.Float32), 1, 2))
		own := Equal(e.ownMean, OnesLike(e.ownMean))
		given = Where(BroadcastToDims(ExpandAxes(own, 1, 3), b, r, h, d), BroadcastToDims(ExpandAxes(mean, 1), b, r, h, d), given)
	}
	on := BroadcastToDims(ExpandAxes(inRows(pos, e.donorRows), -1), b, r, h, d)
	return e.headGain(Where(on, ConvertDType(given, z.DType()), z), pos), mean
}

// donorVectors picks each row's vector: [B, R, H, D] float32.
func (e *editNodes) donorVectors(pos *Node) *Node {
	dims := e.donor.Shape().Dimensions
	b, h, n, d, r := dims[0], dims[1], dims[2], dims[3], pos.Shape().Dim(1)
	if n == 1 {
		return BroadcastToDims(TransposeAllDims(e.donor, 0, 2, 1, 3), b, r, h, d)
	}
	at := Sub(BroadcastToDims(ExpandAxes(pos, 2), b, r, h), BroadcastToDims(ExpandAxes(e.donorFirst, 1), b, r, h))
	at = ClipScalar(at, 0, float64(n-1))
	g := pos.Graph()
	index := Concatenate([]*Node{
		Iota(g, shapes.Make(dtypes.Int32, b, r, h, 1), 0), Iota(g, shapes.Make(dtypes.Int32, b, r, h, 1), 2), ExpandAxes(at, -1),
	}, -1)
	return Gather(e.donor, index)
}
