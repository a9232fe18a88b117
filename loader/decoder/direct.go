package decoder

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
)

// DirectRequest asks what heads' changed outputs at one row do to the difference of two logits there without any later head or MLP.
type DirectRequest struct {
	Final          []float32   // [hidden], the plain run's last residual at that row, before the final norm
	Plain, Changed [][]float32 // by layer, [heads, headDim], outputs of the heads at that row
	Token, Other   int32
}

// DirectEffects returns, for every head alone, the change of logit(Token) - logit(Other) that its changed output makes through the residual
// stream and the output matrix, the final norm's statistics frozen at those of the plain run: [layers, heads]. Computed in float32.
func (m *Model) DirectEffects(r *DirectRequest) ([]float64, error) {
	if len(r.Final) != m.Spec.Hidden || len(r.Plain) != m.Spec.Layers || len(r.Changed) != m.Spec.Layers {
		return nil, fmt.Errorf("direct effects: got %d values and %d and %d layers, want %d, %d, %d",
			len(r.Final), len(r.Plain), len(r.Changed), m.Spec.Hidden, m.Spec.Layers, m.Spec.Layers)
	}
	read, err := m.program("direct_read", m.cfg.directRead)
	if err != nil {
		return nil, err
	}
	x, err := m.be.floats(r.Final, dtypes.Float32, 1, m.Spec.Hidden)
	if err != nil {
		return nil, err
	}
	defer free(x)
	ids, err := m.be.ints([]int32{r.Token, r.Other}, 2, 1)
	if err != nil {
		return nil, err
	}
	defer free(ids)
	var out []float64
	for l := range m.Spec.Layers {
		delta, err := m.directWrites(l, r)
		if err != nil {
			return nil, err
		}
		w, err := m.weights.finalLayer()
		if err != nil {
			free(delta)
			return nil, err
		}
		got, err := call(read, append([]any{x, delta, ids}, w...)...)
		free(delta)
		if err != nil {
			return nil, err
		}
		effects, err := floatsOf(got[0])
		free(got...)
		if err != nil {
			return nil, err
		}
		for _, e := range effects {
			out = append(out, float64(e))
		}
	}
	return out, nil
}

// directWrites is what each head of layer l alone changes of the residual, [heads, hidden] float32.
func (m *Model) directWrites(l int, r *DirectRequest) (*tensors.Tensor, error) {
	prog, err := m.program("direct_write", m.cfg.directWrite)
	if err != nil {
		return nil, err
	}
	var z [2]*tensors.Tensor
	defer func() { free(z[:]...) }()
	for i, data := range [][]float32{r.Plain[l], r.Changed[l]} {
		if z[i], err = m.be.floats(data, m.cfg.dtype, 1, 1, m.cfg.heads, m.cfg.headDim); err != nil {
			return nil, err
		}
	}
	out, err := m.callLayer(prog, l, z[0], z[1])
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// directWrite: heads' outputs at one row, plain and changed [1, 1, H, D], and the layer's weights -> [H, hidden] float32.
func (c *blockConfig) directWrite(args []*Node) []*Node {
	in := &nodeReader{args}
	plain, changed := in.next(), in.next()
	w := in.weights(c)
	full := []int{c.heads, 1, c.heads, c.headDim}
	own := BroadcastToDims(Reshape(Diagonal(plain.Graph(), c.heads), c.heads, 1, c.heads, 1), full...)
	each := Where(own, BroadcastToDims(changed, full...), BroadcastToDims(plain, full...))
	float := func(z *Node) *Node { return ConvertDType(c.attnWrite(z, w), dtypes.Float32) }
	delta := Sub(float(each), BroadcastToDims(float(plain), c.heads, 1, c.spec.Hidden))
	return []*Node{Reshape(delta, c.heads, c.spec.Hidden)}
}

// directRead: the residual x [1, hidden], changes of it [H, hidden], two ids [2, 1] and the parameters after the layers -> the change of the
// first logit less the second [H].
func (c *blockConfig) directRead(args []*Node) []*Node {
	in := &nodeReader{args}
	x, delta, ids := in.next(), in.next(), in.next()
	w := in.final(c)
	f32 := func(n *Node) *Node { return ConvertDType(n, dtypes.Float32) }
	head := f32(c.outputRows(w.head, ids)) // [2, hidden]
	logits := func(h *Node) *Node { return DotGeneral(h, []int{1}, nil, head, []int{1}, nil) }
	base := logits(f32(c.norm(x, f32(w.norm), optionalFloat(w.normBias))))
	if w.headBias != nil {
		base = Add(base, Reshape(f32(Gather(w.headBias, ids)), 1, 2))
	}
	changed := Add(logits(c.frozenNorm(x, delta, w.norm)), base)
	difference := func(lg *Node) *Node {
		lg = capped(DivScalar(MulScalar(lg, c.spec.LogitScale), c.spec.LogitDivide), c.spec.LogitCap)
		return Sub(sliceLast(lg, 1, 0, 1), sliceLast(lg, 1, 1, 2))
	}
	effect := Sub(difference(changed), BroadcastToDims(difference(base), delta.Shape().Dim(0), 1))
	return []*Node{Reshape(effect, delta.Shape().Dim(0))}
}

func optionalFloat(n *Node) *Node {
	if n == nil {
		return nil
	}
	return ConvertDType(n, dtypes.Float32)
}

// frozenNorm is what a change delta [H, hidden] of x [1, hidden] becomes behind a norm whose mean and scale stay those of x.
func (c *blockConfig) frozenNorm(x, delta, weight *Node) *Node {
	kind := c.spec.Norm
	if kind == loader.LayerNorm || kind == loader.LayerNormBare {
		x = Sub(x, ReduceAndKeep(x, ReduceMean, -1))
		delta = Sub(delta, ReduceAndKeep(delta, ReduceMean, -1))
	}
	scale := Sqrt(AddScalar(ReduceAndKeep(Square(x), ReduceMean, -1), c.spec.NormEps))
	y := Div(delta, BroadcastToDims(scale, delta.Shape().Dim(0), 1))
	switch kind {
	case loader.LayerNormBare:
		return y
	case loader.RMSNormOffset:
		return Mul(y, AddScalar(floatTo(weight, y), 1))
	}
	return Mul(y, floatTo(weight, y))
}
