package decoder

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
)

// rowBlock builds one decoder layer over a few new rows that attend to a kept cache.
//
// Arguments: x [B, R, hidden]; pos [B, R] int32 absolute positions; branch [R] int32; cos, sin [P, planes], P above every position;
// window [] int32; prompt k, v [Bp, KV, Tp, D] (Bp is 1, shared by all rows, or B), k after rotation; promptLen [B] int32, prompt keys
// that count; tail k, v [B, KV, C, D], k before rotation; tailPos [B, C] int32, the position of each slot once the new rows
// are in, -1 = empty; tailBranch [B, C], seen by rows of the same branch, 0 = by all; slot [] int32, first slot of the new rows (R slots);
// the edit inputs; the layer's weights.
//
// Results: x [B, R, hidden], tail k and v with the new rows in their slots.
func (c *blockConfig) rowBlock(variant editVariant) func([]*Node) []*Node {
	return func(args []*Node) []*Node { return c.rowLayer(variant, args) }
}

func (c *blockConfig) rowLayer(variant editVariant, args []*Node) []*Node {
	in := &nodeReader{args}
	x, pos, branch, cos, sin, window := in.next(), in.next(), in.next(), in.next(), in.next(), in.next()
	pk, pv, promptLen := in.next(), in.next(), in.next()
	tk, tv, tailPos, tailBranch, slot := in.next(), in.next(), in.next(), in.next(), in.next()
	edits := in.edits(c, variant, true)
	w := in.weights(c)

	b := x.Shape().Dim(0)
	h := c.attnInput(x, w)
	q, k, v := c.project(h, w, edits, pos)
	own := c.turnQueries(edits, q, pos)
	cosAt, sinAt := ExpandAxes(atPositions(cos, pos), 2), ExpandAxes(atPositions(sin, pos), 2)
	q = c.rotate(q, cosAt, sinAt)
	tk, tv = putRows(tk, k, slot), putRows(tv, v, slot)

	bp, tp := pk.Shape().Dim(0), pk.Shape().Dim(2)
	filled := MaxScalar(tailPos, 0)
	tr := c.rotate(tk, ExpandAxes(atPositions(cos, filled), 1), ExpandAxes(atPositions(sin, filled), 1))

	promptPos := positions(x.Graph(), b, tp)
	keyPos := Where(LessThan(promptPos, BroadcastToDims(ExpandAxes(promptLen, 1), b, tp)), promptPos, emptySlot(promptPos))
	tailKey := Where(LessThan(tailPos, ZerosLike(tailPos)), emptySlot(tailPos), tailPos)
	seen, seenTail := visibleKeys(pos, keyPos, window), LogicalAnd(visibleKeys(pos, tailKey, window), sameBranch(branch, tailBranch))
	q = c.keepSpread(edits, q, edits.plainQueries(c, cosAt, sinAt), pos, spreadPart{pk, seen}, spreadPart{tr, seenTail})

	qg := c.groupHeads(q)
	shared := bp == 1 && b > 1
	var sp *Node
	if shared {
		sp = c.sharedScores(qg, pk)
	} else {
		sp = c.scores(qg, pk)
	}
	st := c.scores(qg, tr)
	if own != nil {
		sp = c.headScores(edits, sp, own, c.turnKeys(edits, edits.rawPrompt, promptPos), pos)
		st = c.headScores(edits, st, own, c.turnKeys(edits, tk, filled), pos)
	}
	sp = edits.stream(mask(sp, seen), pos, keyPos)
	st = edits.stream(mask(st, seenTail), pos, tailKey)

	pp, pt := softmaxOf2(sp, st)
	var z *Node
	if shared {
		z = c.sharedWeigh(pp, pv)
	} else {
		z = c.weigh(pp, pv)
	}
	z, _ = edits.headOutput(c.ungroupHeads(Add(z, c.weigh(pt, tv))), pos)
	return []*Node{c.layerOutput(x, h, z, w), tk, tv}
}

// softmaxOf2 is the softmax over the last axes of a and b together, without a copy of both in one.
func softmaxOf2(a, b *Node) (pa, pb *Node) {
	settledA := settled(a) // b follows: the registers stay as they are
	top := Max(ReduceAndKeep(a, ReduceMax, -1), ReduceAndKeep(b, ReduceMax, -1))
	ea, eb := Exp(Sub(settledA, top)), Exp(Sub(b, top))
	sum := Add(ReduceAndKeep(ea, ReduceSum, -1), ReduceAndKeep(eb, ReduceSum, -1))
	return Div(ea, sum), Div(eb, sum)
}

// sharedScores scores q [B, KV, G, R, D] of many conditions against one prompt's k [1, KV, Tp, D] as one product a KV head.
func (c *blockConfig) sharedScores(q, k *Node) *Node { return c.sharedProduct(q, k, c.scores) }

// sharedProduct is score, a product of queries and keys, with the conditions' rows together.
func (c *blockConfig) sharedProduct(q, k *Node, score func(q, k *Node) *Node) *Node {
	kv, tp := c.kv, k.Shape().Dim(2)
	rowsFirst := TransposeAllDims(q, 1, 0, 2, 3, 4) // [KV, B, G, R, D]
	b, g, r := rowsFirst.Shape().Dim(1), rowsFirst.Shape().Dim(2), rowsFirst.Shape().Dim(3)
	flat := Reshape(rowsFirst, 1, kv, 1, b*g*r, c.headDim)
	s := Reshape(score(flat, k), kv, b, g, r, tp)
	return TransposeAllDims(s, 1, 0, 2, 3, 4)
}

// sharedWeigh is weigh for weights p [B, KV, G, R, Tp] over one prompt's v [1, KV, Tp, D].
func (c *blockConfig) sharedWeigh(p, v *Node) *Node {
	kv, tp := c.kv, v.Shape().Dim(2)
	rowsFirst := TransposeAllDims(p, 1, 0, 2, 3, 4)
	b, g, r := rowsFirst.Shape().Dim(1), rowsFirst.Shape().Dim(2), rowsFirst.Shape().Dim(3)
	z := c.weigh(Reshape(rowsFirst, 1, kv, 1, b*g*r, tp), v)
	return TransposeAllDims(Reshape(z, kv, b, g, r, c.headDim), 1, 0, 2, 3, 4)
}

// sameBranch is true where a tail key's branch, [B, C], is the row's, [R], or the trunk: [B, R, C].
func sameBranch(rows, keys *Node) *Node {
	b, r, c := keys.Shape().Dim(0), rows.Shape().Dim(0), keys.Shape().Dim(1)
	k := BroadcastToDims(ExpandAxes(keys, 1), b, r, c)
	return LogicalOr(Equal(k, ZerosLike(k)), Equal(k, BroadcastToDims(ExpandAxes(rows, 0, 2), b, r, c)))
}

// widen repeats x [1, ...] for every batch row: [b, ...]. With a capacity x is a tail [1, KV, C, D] that gets empty slots up to it.
func widen(b, capacity int) func(in []*Node) []*Node {
	return func(in []*Node) []*Node {
		x := in[0]
		if capacity > 0 {
			x = withSlots(x, capacity)
		}
		dims := slices.Clone(x.Shape().Dimensions)
		dims[0] = b
		return []*Node{BroadcastToDims(x, dims...)}
	}
}

// withSlots adds empty slots to a tail [B, KV, C, D] up to capacity.
func withSlots(x *Node, capacity int) *Node {
	s := x.Shape().Clone()
	if s.Dimensions[2] = capacity - s.Dimensions[2]; s.Dimensions[2] == 0 {
		return x
	}
	return Concatenate([]*Node{x, Zeros(x.Graph(), s)}, 2)
}

// emptySlot is the position of a key that nobody sees, shaped like x.
func emptySlot(x *Node) *Node { return AddScalar(ZerosLike(x), Forever) }

// atPositions picks table rows: table [P, planes], pos [B, R] -> [B, R, planes].
func atPositions(table, pos *Node) *Node { return Gather(table, ExpandAxes(pos, -1)) }

// stackRows takes pairs of a batch [B, ...] and an index [1, 1] and stacks the chosen entries: [pairs, ...].
func stackRows(in []*Node) *Node {
	var parts []*Node
	for i := 0; i < len(in); i += 2 {
		parts = append(parts, Gather(in[i], in[i+1]))
	}
	return Concatenate(parts, 0)
}

func stackOnly(in []*Node) []*Node { return []*Node{stackRows(in)} }

// stackTails stacks tails [1, KV, C', D] and adds empty slots: [tails, KV, capacity, D].
func stackTails(capacity int) func(in []*Node) []*Node {
	return func(in []*Node) []*Node { return []*Node{withSlots(Concatenate(in, 0), capacity)} }
}

// stackKeys is stackRows for keys [B, KV, T, D] with the tables cos and sin [T, planes] before the pairs: stacked and rotated.
func (c *blockConfig) stackKeys(in []*Node) []*Node {
	cos, sin := ExpandAxes(in[0], 0, 1), ExpandAxes(in[1], 0, 1)
	return []*Node{c.rotate(stackRows(in[2:]), cos, sin)}
}

// putRows writes rows [B, KV, R, D] into slots slot..slot+R-1 of tail [B, KV, C, D]. A gather and a choice rather than
// DynamicUpdateSlice, which the Go backend lacks.
func putRows(tail, rows, slot *Node) *Node {
	dims := tail.Shape().Dimensions
	b, kv, n, d := dims[0], dims[1], dims[2], dims[3]
	r := rows.Shape().Dim(2)
	offset := Sub(Iota(tail.Graph(), shapes.Make(dtypes.Int32, n), 0), BroadcastToDims(slot, n))
	in := LogicalAnd(GreaterOrEqual(offset, ZerosLike(offset)), LessThan(offset, AddScalar(ZerosLike(offset), r)))
	var spread *Node
	if r == 1 {
		spread = BroadcastToDims(rows, b, kv, n, d)
	} else {
		byRow := Gather(TransposeAllDims(rows, 2, 0, 1, 3), ExpandAxes(ClipScalar(offset, 0, float64(r-1)), -1))
		spread = TransposeAllDims(byRow, 1, 2, 0, 3)
	}
	return Where(BroadcastToDims(Reshape(in, 1, 1, n, 1), b, kv, n, d), spread, tail)
}
