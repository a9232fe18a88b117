package decoder

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
)

// trainable opens a checkpoint's graph for training and its weights.
func trainable(t *testing.T, o loadertest.Options) (*loader.Checkpoint, *Trainable, [][]float32) {
	t.Helper()
	c := loadertest.Open(t, o)
	tr, err := NewTrainable(&c.Spec)
	if err != nil {
		t.Fatal(err)
	}
	var weights [][]float32
	for _, p := range tr.Params() {
		w, err := c.Float32s(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		weights = append(weights, w)
	}
	return c, tr, weights
}

// arguments are ids and rows as tensors, then the weights.
func arguments(tr *Trainable, ids, rows []int32, weights [][]float32) []any {
	args := []any{tensors.FromFlatDataAndDimensions(ids, 1, len(ids)), tensors.FromFlatDataAndDimensions(rows, 1, len(rows))}
	for i, p := range tr.Params() {
		args = append(args, tensors.FromFlatDataAndDimensions(weights[i], p.Shape...))
	}
	return args
}

func build(t *testing.T, be *Backend, f func([]*graph.Node) []*graph.Node) *graph.Exec {
	t.Helper()
	e, err := graph.NewExec(be.Backend, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Finalize)
	return e
}

// TestTrainable compares the stacked blocks with the plain float64 forward pass.
func TestTrainable(t *testing.T) {
	be := backend(t, "go")
	ids, rows := tokens(5, 40), []int32{0, 17, 39}
	for _, o := range []loadertest.Options{
		{KVHeads: 2}, {KVHeads: 2, Tied: true}, {Family: "Gemma2ForCausalLM", KVHeads: 2}, {Family: "GPTNeoXForCausalLM"},
		{Family: "SmolLM3ForCausalLM", Config: map[string]any{"no_rope_layer_interval": 2}}, {Family: "CohereForCausalLM", KVHeads: 2},
	} {
		o.Seed = 3
		c, tr, weights := trainable(t, o)
		t.Run(c.Spec.Architecture, func(t *testing.T) {
			ref, err := reference(t, c).Forward(ids, loadertest.Gains{})
			if err != nil {
				t.Fatal(err)
			}
			e := build(t, be, func(args []*graph.Node) []*graph.Node { return []*graph.Node{tr.Logits(args[0], args[1], args[2:])} })
			out, err := call(e, arguments(tr, ids, rows, weights)...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := floatsOf(out[0])
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range got {
				if want := ref.Logits[rows[i/c.Spec.Vocab]][i%c.Spec.Vocab]; math.Abs(float64(x)-want) > 2e-4 {
					t.Fatalf("row %d, token %d: got logit %g, want %g", rows[i/c.Spec.Vocab], i%c.Spec.Vocab, x, want)
				}
			}
		})
	}
}

// TestTrainableGradient compares, for each parameter, the gradient along a random direction with the difference quotient.
func TestTrainableGradient(t *testing.T) {
	_, tr, weights := trainable(t, loadertest.Options{KVHeads: 2, Tied: true, Seed: 3})
	ids, rows := tokens(6, 24), []int32{5, 11, 23}
	loss := func(args []*graph.Node) *graph.Node {
		return graph.ReduceAllMean(graph.Sin(tr.Logits(args[0], args[1], args[2:])))
	}
	be := backend(t, "go")
	value := build(t, be, func(args []*graph.Node) []*graph.Node { return []*graph.Node{loss(args)} })
	gradient := build(t, be, func(args []*graph.Node) []*graph.Node { return graph.Gradient(loss(args), args[2:]...) })
	grads, err := call(gradient, arguments(tr, ids, rows, weights)...)
	if err != nil {
		t.Fatal(err)
	}
	at := func(w [][]float32) float64 {
		out, err := call(value, arguments(tr, ids, rows, w)...)
		if err != nil {
			t.Fatal(err)
		}
		return float64(tensors.ToScalar[float32](out[0]))
	}
	rng := rand.New(rand.NewPCG(1, 9))
	for i, p := range tr.Params() {
		g, err := floatsOf(grads[i])
		if err != nil {
			t.Fatal(err)
		}
		// Along the gradient itself, shaken a little: a random direction is nearly perpendicular, and float32 sees no difference there.
		var norm, want float64
		for _, x := range g {
			norm += float64(x) * float64(x)
		}
		norm = math.Sqrt(norm)
		const step = 2e-2
		up, down := append([][]float32{}, weights...), append([][]float32{}, weights...)
		up[i], down[i] = append([]float32{}, weights[i]...), append([]float32{}, weights[i]...)
		for k, x := range g {
			d := float64(x)/norm + rng.NormFloat64()/math.Sqrt(float64(len(g)))/4
			want += float64(x) * d
			up[i][k] += float32(step * d)
			down[i][k] -= float32(step * d)
		}
		if got := (at(up) - at(down)) / (2 * step); norm == 0 || math.Abs(got-want) > 0.02*math.Abs(want)+2e-5 {
			t.Errorf("%s: got slope %g, want %g", p.Views[0].Tensor, got, want)
		}
	}
}
