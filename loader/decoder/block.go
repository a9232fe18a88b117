package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
)

// probeMode says what a block returns of the attention rows it is asked about.
type probeMode int

const (
	probeNone    probeMode = iota
	probeStats             // argmax, gap of the two largest weights, mass on spans
	probeRows              // whole rows
	probeScores            // whole rows before the softmax, hidden keys far below any other
	probeObserve           // reduced rows and what the heads write, see observe
)

// blockVariant is one compiled kind of prefill block.
type blockVariant struct {
	probe probeMode
	taps  bool // also return q before and after rotation, k after it, and z
	heads bool // also return z
	norms bool // also return the mean norm of each plane of q and k
	edits editVariant
}

// prefillBlock builds one decoder layer over whole sequences.
//
// Arguments: x [B, T, hidden] (donated), cos and sin [T, planes], window [] int32, the edit inputs, then with a probe rows
// [B, P] int32 and with probeStats spans [B, P, S, 2] int32 (with probeObserve spans [B, S, 2] int32 and directions [B, P, hidden]), with
// norms the sequences' lengths [B] int32, then the layer's weights.
//
// Results: x [B, T, hidden]; k, v [B, KV, T, D], k after bias and before rotation; then the probe's: argmax [B, H, P] int32,
// gap [B, H, P], mass [B, H, P, S], write [B, H, P], or rows [B, H, P, T], or those of observe; then the taps' q before and after rotation
// [B, T, H, D], k after rotation [B, KV, T, D] and z [B, T, H, D], what the output projection reads; then z, if asked for alone; then the
// planes' norms of q [B, H, planes+1] and k [B, KV, planes+1]; then, with donors, the heads' means [B, H, D].
func (c *blockConfig) prefillBlock(variant blockVariant) func([]*Node) []*Node {
	return func(args []*Node) []*Node {
		in := &nodeReader{args}
		x, cos, sin, window := in.next(), in.next(), in.next(), in.next()
		edits := in.edits(c, variant.edits, false)
		rows := in.optional(variant.probe != probeNone)
		spans := in.optional(variant.probe == probeStats || variant.probe == probeObserve)
		toward := in.optional(variant.probe == probeObserve)
		lengths := in.optional(variant.norms)
		w := in.weights(c)

		b, t := x.Shape().Dim(0), x.Shape().Dim(1)
		pos := positions(x.Graph(), b, t)
		h := c.attnInput(x, w)
		q, k, v := c.project(h, w, edits, pos)
		qr := c.rotate(q, ExpandAxes(cos, 0, 2), ExpandAxes(sin, 0, 2))
		kr := c.rotate(k, ExpandAxes(cos, 0, 1), ExpandAxes(sin, 0, 1))

		keys := headKeys{k: kr, v: v, own: c.turnKeys(edits, k, pos), pos: pos}
		queries := headQueries{q: qr, own: c.turnQueries(edits, q, pos), pos: pos}
		z, mean := edits.headOutput(c.attendTiled(edits, queries, keys, window), pos)
		x = c.layerOutput(x, h, z, w)

		out := []*Node{x, k, v}
		switch {
		case variant.probe == probeObserve:
			out = append(out, c.observe(edits, queries, keys, observeNodes{probeNodes{variant.probe, rows, spans, window}, toward, z, w})...)
		case rows != nil:
			out = append(out, c.probe(edits, queries, keys, probeNodes{variant.probe, rows, spans, window})...)
		}
		if variant.probe == probeStats {
			out = append(out, c.writeNorm(gatherRows(z, rows), c.outIn(w.o)))
		}
		if variant.taps {
			out = append(out, q, qr, kr, z)
		}
		if variant.heads {
			out = append(out, z)
		}
		if variant.norms {
			out = append(out, c.planeNorms(q, lengths), c.planeNorms(TransposeAllDims(k, 0, 2, 1, 3), lengths))
		}
		if mean != nil {
			out = append(out, mean)
		}
		return out
	}
}

// tileRows is how many query rows are scored at once. Small tiles skip the keys that causality hides; each costs compile time.
// On XLA's CPU plugin tiles of 64 to 256 are within 3 % of each other in float32, and 64 is a fifth faster than 128 in bfloat16.
func (c *blockConfig) tileRows(t int) int {
	if c.dtype == dtypes.Float32 {
		return max(128, t/16)
	}
	return max(64, t/16)
}

// headQueries are rotated queries [B, R, H, D] at positions pos [B, R], and as tables of single heads turn them; nil without such tables.
type headQueries struct{ q, own, pos *Node }

// headKeys are rotated keys and values [B, KV, S, D] at positions pos [B, S], and the keys as each query head sees them, [B, H, S, D].
type headKeys struct{ k, v, own, pos *Node }

// rows are the queries from..to-1.
func (q headQueries) rows(from, to int) headQueries {
	return headQueries{cutAxis(q.q, 1, from, to), cutAxis(q.own, 1, from, to), cutAxis(q.pos, 1, from, to)}
}

// first are the keys before `to`.
func (k headKeys) first(to int) headKeys {
	return headKeys{cutAxis(k.k, 2, 0, to), cutAxis(k.v, 2, 0, to), cutAxis(k.own, 2, 0, to), cutAxis(k.pos, 1, 0, to)}
}

// cutAxis is x from..to-1 along an axis, nil for nil.
func cutAxis(x *Node, axis, from, to int) *Node {
	if x == nil {
		return nil
	}
	return SliceAxis(x, axis, AxisRange(from, to))
}

// visibleScores scores queries against keys under a layer's edits and hides what a causal window hides: [B, KV, G, R, S] float32.
func (c *blockConfig) visibleScores(e *editNodes, q headQueries, k headKeys, window *Node) *Node {
	s := c.headScores(e, c.scores(c.groupHeads(q.q), k.k), q.own, k.own, q.pos)
	return e.stream(mask(s, visibleKeys(q.pos, k.pos, window)), q.pos, k.pos)
}

// attendTiled is causal attention, a tile of query rows at a time against the keys at or before its end: [B, R, H, D].
func (c *blockConfig) attendTiled(e *editNodes, q headQueries, k headKeys, window *Node) *Node {
	t := q.q.Shape().Dim(1)
	tile := c.tileRows(t)
	var parts []*Node
	for from := 0; from < t; from += tile {
		to := min(t, from+tile)
		keys := k.first(to)
		s := c.visibleScores(e, q.rows(from, to), keys, window)
		parts = append(parts, c.weigh(Softmax(s, -1), keys.v))
	}
	return c.ungroupHeads(Concatenate(parts, 3))
}

// probeNodes are what a probe is asked: the arguments of prefillBlock of the same names.
type probeNodes struct {
	mode                probeMode
	rows, spans, window *Node
}

// probe computes the attention rows in.rows [B, P] anew.
func (c *blockConfig) probe(e *editNodes, q headQueries, k headKeys, in probeNodes) []*Node {
	rows, spans := in.rows, in.spans
	b, p, t := rows.Shape().Dim(0), rows.Shape().Dim(1), k.k.Shape().Dim(2)
	g := rows.Graph()
	asked := headQueries{q: gatherRows(q.q, rows), pos: rows}
	if q.own != nil {
		asked.own = gatherRows(q.own, rows)
	}
	s := c.visibleScores(e, asked, k, in.window)
	if in.mode == probeScores {
		return []*Node{Reshape(s, b, c.heads, p, t)}
	}
	a := Reshape(Softmax(s, -1), b, c.heads, p, t)
	if in.mode == probeRows {
		return []*Node{a}
	}
	arg := ArgMax(a, -1, dtypes.Int32)
	top := ReduceMax(a, -1)
	index := Iota(g, a.Shape().Clone(), 3)
	index = ConvertDType(index, dtypes.Int32)
	isTop := Equal(index, BroadcastToDims(ExpandAxes(arg, -1), a.Shape().Dimensions...))
	second := ReduceMax(Where(isTop, ZerosLike(a), a), -1)

	ns := spans.Shape().Dim(2)
	key := Iota(g, shapes.Make(dtypes.Int32, b, p, ns, t), 3)
	lo := BroadcastToDims(SliceAxis(spans, 3, AxisRange(0, 1)), b, p, ns, t)
	hi := BroadcastToDims(SliceAxis(spans, 3, AxisRange(1, 2)), b, p, ns, t)
	inside := ConvertDType(LogicalAnd(GreaterOrEqual(key, lo), LessThan(key, hi)), dtypes.Float32)
	full := []int{b, c.heads, p, ns, t}
	mass := ReduceSum(Mul(BroadcastToDims(ExpandAxes(a, 3), full...), BroadcastToDims(ExpandAxes(inside, 1), full...)), -1)
	return []*Node{arg, Sub(top, second), mass}
}

// writeNorm is the size of what each head adds to the residual: the Euclidean norm of its slice of z [B, P, H, D] times its slice of
// the output projection o [hidden, H*D] -> [B, H, P] float32.
func (c *blockConfig) writeNorm(z, o *Node) *Node {
	zf := ConvertDType(z, dtypes.Float32)
	of := Reshape(ConvertDType(o, dtypes.Float32), o.Shape().Dim(0), c.heads, c.headDim)
	write := DotGeneral(zf, []int{3}, []int{2}, of, []int{2}, []int{1}) // [H, B, P, hidden]
	return TransposeAllDims(Sqrt(ReduceSum(Square(write), -1)), 1, 0, 2)
}

// planeNorms is the mean, over the first `lengths` [B] rows of x [B, R, heads, D], of the Euclidean norm of each plane and, last, of the
// dimensions that do not rotate: [B, heads, planes+1] float32.
func (c *blockConfig) planeNorms(x, lengths *Node) *Node {
	f := ConvertDType(x, dtypes.Float32)
	first, second := c.splitPlanes(sliceLast(f, 3, 0, c.rotary))
	n := Sqrt(Add(Square(first), Square(second)))
	rest := ZerosLike(sliceLast(n, 3, 0, 1))
	if c.rotary < c.headDim {
		rest = Sqrt(ReduceAndKeep(Square(sliceLast(f, 3, c.rotary, c.headDim)), ReduceSum, -1))
	}
	n = Concatenate([]*Node{n, rest}, 3)
	b, r := n.Shape().Dim(0), n.Shape().Dim(1)
	counted := LessThan(positions(x.Graph(), b, r), BroadcastToDims(ExpandAxes(lengths, 1), b, r))
	n = Where(BroadcastToDims(ExpandAxes(counted, 2, 3), n.Shape().Dimensions...), n, ZerosLike(n))
	return Div(ReduceSum(n, 1), ExpandAxes(ConvertDType(lengths, dtypes.Float32), 1, 2))
}
