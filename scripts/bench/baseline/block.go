package baseline

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas

	"github.com/headscope/headscope/loader"
)

type blockGraph struct {
	spec *loader.Spec
	tile int // query rows scored at once; 0 = all
}

func (g *blockGraph) rms(x, weight *Node) *Node {
	f := ConvertDType(x, dtypes.Float32)
	mean := ReduceAndKeep(Square(f), ReduceMean, -1)
	y := ConvertDType(Mul(f, Rsqrt(AddScalar(mean, g.spec.NormEps))), x.DType())
	return Mul(y, ExpandLeftToRank(weight, y.Rank()))
}

func linear(x, w *Node) *Node {
	return DotGeneral(x, []int{x.Rank() - 1}, nil, w, []int{1}, nil)
}

// rotate turns x [B, H, T, D] by cos and sin [1, H, T, D/2].
func (g *blockGraph) rotate(x, cos, sin *Node) *Node {
	half := g.spec.HeadDim / 2
	a, b := SliceAxis(x, 3, AxisRange(0, half)), SliceAxis(x, 3, AxisRange(half, 2*half))
	return Concatenate([]*Node{Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin))}, -1)
}

// split is [B, T, heads*D] -> [B, heads, T, D].
func (g *blockGraph) split(x *Node, heads int) *Node {
	b, t := x.Shape().Dim(0), x.Shape().Dim(1)
	return TransposeAllDims(Reshape(x, b, t, heads, g.spec.HeadDim), 0, 2, 1, 3)
}

// repeat is [B, KV, T, D] -> [B, H, T, D].
func (g *blockGraph) repeat(x *Node) *Node {
	b, t, d := x.Shape().Dim(0), x.Shape().Dim(2), g.spec.HeadDim
	return Reshape(BroadcastToDims(ExpandAxes(x, 2), b, g.spec.KVHeads, g.spec.Group(), t, d), b, g.spec.Heads, t, d)
}

// attend returns the output of query rows q over keys k and the weights of the last row.
func (g *blockGraph) attend(q, k, v, causal *Node) (z, last *Node) {
	rows, keys := q.Shape().Dim(2), k.Shape().Dim(2)
	s := ConvertDType(Einsum("bhqd,bhkd->bhqk", q, k), dtypes.Float32)
	s = MulScalar(s, 1/math.Sqrt(float64(g.spec.HeadDim)))
	hidden := Scalar(q.Graph(), dtypes.Float32, -1e9)
	s = Where(BroadcastToDims(causal, q.Shape().Dim(0), g.spec.Heads, rows, keys), s, hidden)
	p := Softmax(s, -1)
	last = SliceAxis(p, 2, AxisRange(rows-1, rows))
	return Einsum("bhqk,bhkd->bhqd", ConvertDType(p, v.DType()), v), last
}

func (g *blockGraph) attention(q, k, v *Node) (z, last *Node) {
	t := q.Shape().Dim(2)
	i := Iota(q.Graph(), shapes.Make(dtypes.Int32, t, t), 0)
	j := Iota(q.Graph(), shapes.Make(dtypes.Int32, t, t), 1)
	causal := ExpandAxes(GreaterOrEqual(i, j), 0, 1)
	if g.tile == 0 {
		return g.attend(q, k, v, causal)
	}
	var parts []*Node
	for from := 0; from < t; from += g.tile {
		to := min(t, from+g.tile)
		c := SliceAxis(SliceAxis(causal, 2, AxisRange(from, to)), 3, AxisRange(0, to))
		var part *Node
		part, last = g.attend(SliceAxis(q, 2, AxisRange(from, to)), SliceAxis(k, 2, AxisRange(0, to)), SliceAxis(v, 2, AxisRange(0, to)), c)
		parts = append(parts, part)
	}
	return Concatenate(parts, 2), last
}

// block is one decoder layer: x [B, T, hidden], gain [B, H], cos and sin [1, H, T, D/2], nine weights -> x and, per head, the key
// that the last row looks at most [B, H].
func (g *blockGraph) block(in []*Node) []*Node {
	x, gain, cos, sin := in[0], in[1], in[2], in[3]
	norm1, wq, wk, wv, wo, norm2, wg, wu, wd := in[4], in[5], in[6], in[7], in[8], in[9], in[10], in[11], in[12]
	dtype, s := x.DType(), g.spec
	b, t := x.Shape().Dim(0), x.Shape().Dim(1)
	h := g.rms(x, norm1)
	cos, sin = ConvertDType(cos, dtype), ConvertDType(sin, dtype)
	q := g.rotate(g.split(linear(h, wq), s.Heads), cos, sin)
	k := g.rotate(g.repeat(g.split(linear(h, wk), s.KVHeads)), cos, sin)
	v := g.repeat(g.split(linear(h, wv), s.KVHeads))
	z, last := g.attention(q, k, v)
	z = Mul(z, ConvertDType(Reshape(gain, b, s.Heads, 1, 1), dtype))
	x = Add(x, linear(Reshape(TransposeAllDims(z, 0, 2, 1, 3), b, t, s.Heads*s.HeadDim), wo))
	h = g.rms(x, norm2)
	gate := linear(h, wg)
	gate = Mul(gate, Sigmoid(gate))
	x = Add(x, linear(Mul(gate, linear(h, wu)), wd))
	return []*Node{x, Reshape(ArgMax(last, -1), b, s.Heads)}
}

// head is the last row's logits, [B, vocab] float32.
func (g *blockGraph) head(x, norm, out *Node) *Node {
	b, t := x.Shape().Dim(0), x.Shape().Dim(1)
	last := Reshape(SliceAxis(x, 1, AxisRange(t-1, t)), b, g.spec.Hidden)
	return ConvertDType(linear(g.rms(last, norm), out), dtypes.Float32)
}

func embed(ids, table *Node) *Node { return Gather(table, ExpandAxes(ids, -1)) }
