package decoder

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas

	"github.com/headscope/headscope/loader"
)

// norm is the family's norm over the last axis; weight and bias, which may be nil, are the trailing axes of x. Statistics are float32;
// where the weight is applied differs, see loader.NormKind. x / Sqrt rather than Rsqrt, which has no gradient.
func (c *blockConfig) norm(x, weight, bias *Node) *Node {
	kind, dtype := c.spec.Norm, x.DType()
	f := ConvertDType(x, dtypes.Float32)
	if kind == loader.LayerNorm || kind == loader.LayerNormBare {
		f = Sub(f, ReduceAndKeep(f, ReduceMean, -1))
	}
	y := Div(f, Sqrt(AddScalar(ReduceAndKeep(Square(f), ReduceMean, -1), c.spec.NormEps)))
	switch kind {
	case loader.RMSNorm:
		return Mul(ConvertDType(y, dtype), ExpandLeftToRank(weight, y.Rank()))
	case loader.RMSNormFloat, loader.LayerNorm:
		y = Mul(y, floatTo(weight, y))
	case loader.RMSNormOffset:
		y = Mul(y, AddScalar(floatTo(weight, y), 1))
	case loader.LayerNormBare:
	default:
		panic(fmt.Sprintf("norm %q has no graph", kind))
	}
	if bias != nil {
		y = Add(y, floatTo(bias, y))
	}
	return ConvertDType(y, dtype)
}

// floatTo widens a parameter and gives it the axes to multiply x.
func floatTo(w, x *Node) *Node {
	return ExpandLeftToRank(ConvertDType(w, dtypes.Float32), x.Rank())
}

// attnInput is what the attention of a layer reads of its residual stream.
func (c *blockConfig) attnInput(x *Node, w layerNodes) *Node {
	if !c.spec.Norms.PreAttn {
		return x
	}
	return c.norm(x, w.preAttn, w.preAttnB)
}

// project makes queries [B, R, H, D], keys and values [B, KV, R, D] of h [B, R, hidden]: after bias, clipping, norm and, for the
// queries, their gains; before rotation.
func (c *blockConfig) project(h *Node, w layerNodes, edits *editNodes, pos *Node) (q, k, v *Node) {
	q, k = c.linear(h, w.q, w.qb), c.linear(h, w.k, w.kb)
	if edits != nil {
		q = c.legacyGain(q, pos, edits.legacyQ, edits.legacyQRows)
		k = c.legacyGain(k, pos, edits.legacyK, edits.legacyKRows)
	}
	q, k = c.headVectors(q, c.heads, w.qNorm), c.headVectors(k, c.kv, w.kNorm)
	v = c.headVectors(c.linear(h, w.v, w.vb), c.kv, nil)
	return edits.queryGain(c, q, pos), TransposeAllDims(k, 0, 2, 1, 3), TransposeAllDims(v, 0, 2, 1, 3)
}

// headVectors clips and normalises a projection [B, R, heads*D]: [B, R, heads, D].
func (c *blockConfig) headVectors(x *Node, heads int, norm *Node) *Node {
	if limit := c.spec.QKVClip; limit > 0 {
		x = ClipScalar(x, -limit, limit)
	}
	if norm != nil && c.spec.QKNorm == loader.QKNormFull {
		x = c.norm(x, norm, nil)
	}
	b, r := x.Shape().Dim(0), x.Shape().Dim(1)
	x = Reshape(x, b, r, heads, c.headDim)
	if norm != nil && c.spec.QKNorm != loader.QKNormFull {
		x = c.norm(x, norm, nil)
	}
	return x
}

// layerOutput is the residual stream after a layer: x [B, R, hidden] before it, h what its attention read, z [B, R, H, D] the heads'
// outputs.
func (c *blockConfig) layerOutput(x, h, z *Node, w layerNodes) *Node {
	attn := c.attnWrite(z, w)
	if c.spec.Parallel == loader.Sequential {
		x = Add(x, attn)
		return Add(x, c.mlp(x, x, w))
	}
	mlp := c.mlp(x, h, w)
	if c.spec.Parallel == loader.ParallelBranches {
		return Add(Add(mlp, attn), x)
	}
	return Add(Add(x, attn), mlp)
}

// attnWrite is what the heads' outputs z [B, R, H, D] add to the residual stream: [B, R, hidden].
func (c *blockConfig) attnWrite(z *Node, w layerNodes) *Node {
	b, r := z.Shape().Dim(0), z.Shape().Dim(1)
	attn := c.linear(Reshape(z, b, r, c.heads*c.headDim), w.o, w.ob)
	if c.spec.Norms.PostAttn {
		attn = c.norm(attn, w.postAttn, w.postAttnB)
	}
	return scaled(attn, c.spec.ResidualScale)
}

// mlp is what the feed-forward part adds to the residual stream x; without a norm of its own it reads `bare`.
func (c *blockConfig) mlp(x, bare *Node, w layerNodes) *Node {
	h := bare
	if c.spec.Norms.PreMLP {
		h = c.norm(x, w.preMLP, w.preMLPB)
	}
	up := c.linear(h, w.up, w.ub)
	if c.spec.Gated {
		up = Mul(c.activate(c.linear(h, w.gate, w.gb)), up)
	} else {
		up = c.activate(up)
	}
	out := c.linear(up, w.down, w.db)
	if c.spec.Norms.PostMLP {
		out = c.norm(out, w.postMLP, w.postMLPB)
	}
	return scaled(out, c.spec.ResidualScale)
}

// activate is the MLP's nonlinearity, computed in float32 and cast back, as torch does.
func (c *blockConfig) activate(x *Node) *Node {
	f := ConvertDType(x, dtypes.Float32)
	switch c.spec.Activation {
	case loader.SiLU:
		f = Mul(f, Sigmoid(settled(f)))
	case loader.GELU:
		f = Mul(MulScalar(f, 0.5), AddScalar(Erf(MulScalar(f, math.Sqrt2/2)), 1))
	case loader.GELUTanh:
		inner := MulScalar(Add(f, MulScalar(Mul(f, Square(f)), 0.044715)), math.Sqrt(2/math.Pi))
		f = Mul(MulScalar(f, 0.5), AddScalar(Tanh(inner), 1))
	default:
		panic(fmt.Sprintf("activation %q has no graph", c.spec.Activation))
	}
	return ConvertDType(f, x.DType())
}

// scaled multiplies by a factor that is not rounded to x's dtype.
func scaled(x *Node, factor float64) *Node {
	if factor == 1 {
		return x
	}
	return inFloat32(x, func(x *Node) *Node { return MulScalar(x, factor) })
}

// inFloat32 computes f in float32 and casts back, as torch does with one operation on its numbers.
func inFloat32(x *Node, f func(*Node) *Node) *Node {
	return ConvertDType(f(ConvertDType(x, dtypes.Float32)), x.DType())
}
