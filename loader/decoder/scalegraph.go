package decoder

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
)

// lengthGain multiplies queries q [B, R, H, D], where pos is in the head's rows, by max(0, 1 + growth ln(n/from)), n = pos + 1 the keys up
// to the row, and by 1 where n <= from: scores are linear in the query.
func (e *editNodes) lengthGain(q, pos *Node) *Node {
	if e.growth == nil {
		return q
	}
	b, r, h := q.Shape().Dim(0), q.Shape().Dim(1), q.Shape().Dim(2)
	byHead := func(x *Node) *Node { return BroadcastToDims(ExpandAxes(x, 1), b, r, h) }
	n := BroadcastToDims(ExpandAxes(AddScalar(ConvertDType(pos, dtypes.Float32), 1), 2), b, r, h)
	gain := AddScalar(Mul(byHead(e.growth), Log(MaxScalar(Div(n, byHead(e.from)), 1))), 1)
	gain = Where(inRows(pos, e.growthRows), MaxScalar(gain, 0), OnesLike(gain))
	return inFloat32(q, func(q *Node) *Node { return Mul(q, ExpandAxes(gain, -1)) })
}

// plainQueries are the queries without gains on their planes, rotated; nil where nothing is rescaled to them.
func (e *editNodes) plainQueries(c *blockConfig, cos, sin *Node) *Node {
	if e == nil || e.plain == nil {
		return nil
	}
	return c.rotate(e.plain, cos, sin)
}

// spreadPart are keys that queries see: k [B, KV, S, D], or [1, KV, S, D] of one prompt for all, of which visible [B, R, S] count.
type spreadPart struct{ k, visible *Node }

// keepSpread multiplies rotated queries q [B, R, H, D], where pos is in the head's rows, so that the standard deviation of their products
// with the visible keys of all parts is that of plain, the same queries without gains on their planes. Where a row's products are all alike
// there is nothing to rescale.
func (c *blockConfig) keepSpread(e *editNodes, q, plain, pos *Node, parts ...spreadPart) *Node {
	if plain == nil {
		return q
	}
	want, have := c.variance(plain, parts), c.variance(q, parts) // [B, KV, G, R, 1]
	one := OnesLike(have)
	spread := GreaterThan(have, ZerosLike(have))
	gain := Where(spread, Sqrt(Div(want, Where(spread, have, one))), one)
	gain = c.ungroupRows(gain)
	gain = Where(inRows(pos, e.spreadRows), gain, OnesLike(gain))
	return inFloat32(q, func(q *Node) *Node { return Mul(q, ExpandAxes(gain, -1)) })
}

// variance is that of the products of q [B, R, H, D] with the visible keys of all parts together: [B, KV, G, R, 1] float32.
func (c *blockConfig) variance(q *Node, parts []spreadPart) *Node {
	grouped := c.groupHeads(q)
	add := func(sum, x *Node) *Node {
		if sum == nil {
			return x
		}
		return Add(sum, x)
	}
	var n, sum *Node
	var products, counted []*Node
	for _, p := range parts {
		score := c.rawScores
		if p.k.Shape().Dim(0) == 1 && q.Shape().Dim(0) > 1 {
			score = c.sharedRaw
		}
		s := score(grouped, p.k)
		on := ConvertDType(BroadcastToDims(ExpandAxes(p.visible, 1, 2), s.Shape().Dimensions...), dtypes.Float32)
		products, counted = append(products, s), append(counted, on)
		n = add(n, ReduceAndKeep(on, ReduceSum, -1))
		sum = add(sum, ReduceAndKeep(Mul(on, s), ReduceSum, -1))
	}
	n = MaxScalar(n, 1)
	mean := Div(sum, n)
	var squares *Node
	for i, s := range products {
		squares = add(squares, ReduceAndKeep(Mul(counted[i], Square(Sub(s, mean))), ReduceSum, -1))
	}
	return Div(squares, n)
}

// rawScores is q.k for q [B, KV, G, R, D] and k [B, KV, S, D]: [B, KV, G, R, S] float32, neither scaled nor capped.
func (c *blockConfig) rawScores(q, k *Node) *Node {
	return ConvertDType(c.product(q, 4, []int{0, 1}, k, 3), dtypes.Float32)
}

// sharedRaw is rawScores of many rows against one prompt's k [1, KV, S, D].
func (c *blockConfig) sharedRaw(q, k *Node) *Node { return c.sharedProduct(q, k, c.rawScores) }

// ungroupRows is [B, KV, G, R, 1] -> [B, R, H].
func (c *blockConfig) ungroupRows(x *Node) *Node {
	b, r := x.Shape().Dim(0), x.Shape().Dim(3)
	return Reshape(TransposeAllDims(x, 0, 3, 1, 2, 4), b, r, c.heads)
}
