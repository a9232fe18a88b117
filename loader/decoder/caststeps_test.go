package decoder

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas

	"github.com/headscope/headscope/loader"
)

// castStep computes a golden array from others.
type castStep struct {
	want  string
	in    []string
	build func(in []*Node) *Node
}

// steps are all that the case has goldens of. Where no matrix product lies between two steps, they are held together too: a compiler may
// leave out a rounding between them.
func (c castCase) steps() []castStep {
	steps := slices.Concat(c.normSteps(), c.residualSteps(), []castStep{c.mlpStep()})
	for _, vector := range []string{"q", "k"} {
		steps = append(steps, c.vectorSteps(vector)...)
	}
	if c.has("head.raw") {
		steps = append(steps, c.headStep())
	}
	return steps
}

// params are the names of a norm's parameters, those that it has.
func (c castCase) params(norm string) []string {
	return slices.DeleteFunc([]string{norm + ".weight", norm + ".bias"}, func(name string) bool { return !c.has(name) })
}

// at hands out nodes that may be absent.
func at(in []*Node, i int) *Node {
	if i < len(in) {
		return in[i]
	}
	return nil
}

func (c castCase) normSteps() []castStep {
	input := map[string]string{"pre_attn": "x", "post_attn": "attn", "pre_mlp": "mid", "post_mlp": "mlp"}
	if !c.has("mid") {
		input["pre_mlp"] = "x"
	}
	var steps []castStep
	for _, place := range []string{"pre_attn", "post_attn", "pre_mlp", "post_mlp"} {
		if c.has(place + ".out") {
			steps = append(steps, castStep{place + ".out", append([]string{input[place]}, c.params(place)...), func(in []*Node) *Node {
				return c.m.cfg.norm(in[0], at(in, 1), at(in, 2))
			}})
		}
	}
	return steps
}

// layerOutput runs the decoder's function of that name for given outputs of the two sublayers: products with zero matrices, and the
// outputs for biases. No mlp stands for zeros.
func (c castCase) layerOutput(x, attn, mlp *Node, norms layerNodes) *Node {
	g, dims := x.Graph(), x.Shape().Dimensions
	zeros := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.BFloat16, dims...)) }
	cfg := c.m.cfg
	x = ExpandAxes(x, 0)
	z := zeros(1, dims[0], cfg.heads, cfg.headDim)
	norms.o, norms.ob = zeros(dims[1], cfg.heads*cfg.headDim), ExpandAxes(attn, 0)
	norms.gate, norms.up, norms.down, norms.db = zeros(1, dims[1]), zeros(1, dims[1]), zeros(dims[1], 1), zeros(dims[1])
	if mlp != nil {
		norms.db = ExpandAxes(mlp, 0)
	}
	return Squeeze(cfg.layerOutput(x, x, z, norms), 0)
}

func (c castCase) residualSteps() []castStep {
	in := []string{"x", "attn", "mlp"}
	for _, norm := range []string{"post_attn", "post_mlp", "pre_mlp"} {
		in = append(in, c.params(norm)...)
	}
	norms := func(nodes []*Node) layerNodes {
		var w layerNodes
		for i, name := range in {
			for want, to := range map[string]**Node{
				"post_attn.weight": &w.postAttn, "post_mlp.weight": &w.postMLP, "pre_mlp.weight": &w.preMLP,
				"post_attn.bias": &w.postAttnB, "post_mlp.bias": &w.postMLPB, "pre_mlp.bias": &w.preMLPB,
			} {
				if name == want {
					*to = nodes[i]
				}
			}
		}
		return w
	}
	steps := []castStep{{"out", in, func(n []*Node) *Node { return c.layerOutput(n[0], n[1], n[2], norms(n)) }}}
	if !c.has("mid") {
		return steps
	}
	mid := func(n []*Node) *Node { return c.layerOutput(n[0], n[1], nil, norms(n)) }
	steps = append(steps, castStep{"mid", in, mid})
	if c.has("pre_mlp.out") {
		steps = append(steps, castStep{"pre_mlp.out", in, func(n []*Node) *Node {
			return c.m.cfg.norm(mid(n), norms(n).preMLP, norms(n).preMLPB)
		}})
	}
	return steps
}

// mlpStep runs the decoder's mlp for given results of its first products, one row of single elements, without what stands around it.
func (c castCase) mlpStep() castStep {
	in := []string{"act.up"}
	if c.m.Spec.Gated {
		in = append(in, "act.gate")
	}
	return castStep{"act.out", in, func(in []*Node) *Node {
		g, n := in[0].Graph(), in[0].Shape().Dim(0)
		zeros := Zeros(g, shapes.Make(dtypes.BFloat16, n, 1))
		bare := c.m.cfg
		spec := *bare.spec
		spec.Norms, spec.ResidualScale = loader.Norms{}, 1
		bare.spec = &spec
		x := Zeros(g, shapes.Make(dtypes.BFloat16, 1, 1, 1))
		w := layerNodes{up: zeros, ub: in[0], gate: zeros, gb: at(in, 1), down: DiagonalWithValue(Scalar(g, dtypes.BFloat16, 1), n)}
		return Reshape(bare.mlp(x, x, w), n)
	}}
}

// vectorSteps are the norm of queries or keys and their rotation, apart and together.
func (c castCase) vectorSteps(vector string) []castStep {
	heads := c.m.cfg.heads
	if vector == "k" {
		heads = c.m.cfg.kv
	}
	norm := func(in []*Node) *Node { // [H, R, D] -> [1, R, H, D]
		x := TransposeAllDims(in[0], 1, 0, 2)
		r := x.Shape().Dim(0)
		return c.m.cfg.headVectors(Reshape(x, 1, r, heads*c.m.cfg.headDim), heads, in[1])
	}
	turns := func(x *Node, axes ...int) *Node { // the dtype that the decoder's tables have
		if c.m.Spec.RotateFloat {
			x = ConvertDType(x, dtypes.Float32)
		}
		return ExpandAxes(x, axes...)
	}
	back := func(x *Node) *Node { return TransposeAllDims(Squeeze(x, 0), 1, 0, 2) }
	var steps []castStep
	l := "layer0."
	if c.has(l + vector + "_norm.in") {
		in := []string{l + vector + "_norm.in", l + vector + "_norm.weight", l + "cos", l + "sin"}
		steps = append(steps,
			castStep{l + vector + "_pre", in[:2], func(in []*Node) *Node { return back(norm(in)) }},
			castStep{l + vector + "_rot", in, func(in []*Node) *Node {
				return back(c.m.cfg.rotate(norm(in), turns(in[2], 0, 2), turns(in[3], 0, 2)))
			}})
	}
	for _, layer := range c.Cases[c.name].Layers {
		l := fmt.Sprintf("layer%d.", layer)
		steps = append(steps, castStep{l + vector + "_rot", []string{l + vector + "_pre", l + "cos", l + "sin"}, func(in []*Node) *Node {
			return Squeeze(c.m.cfg.rotate(ExpandAxes(in[0], 0), turns(in[1], 0, 1), turns(in[2], 0, 1)), 0)
		}})
	}
	return steps
}

// headStep runs logitsGraph for given products with the output matrix.
func (c castCase) headStep() castStep {
	return castStep{"head.out", []string{"head.raw", "x"}, func(in []*Node) *Node {
		g, r, hidden := in[1].Graph(), in[1].Shape().Dim(0), in[1].Shape().Dim(1)
		w := finalNodes{
			norm: Zeros(g, shapes.Make(dtypes.BFloat16, hidden)), head: Zeros(g, shapes.Make(dtypes.BFloat16, in[0].Shape().Dim(1), hidden)),
			headBias: ExpandAxes(in[0], 0),
		}
		return Squeeze(c.m.cfg.logitsGraph(ExpandAxes(in[1], 0), positions(g, 1, r), w), 0)
	}}
}
