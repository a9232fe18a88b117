package pretrain

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

func goBackend(t *testing.T) *decoder.Backend {
	t.Helper()
	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: "go"})
	if err != nil {
		t.Fatal(err)
	}
	return be
}

// little is a run that takes a second.
func little() Recipe {
	r := Needle(3)
	r.Model = Shape{Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 4, Hidden: 16, Intermediate: 16, Window: 48, Theta: 10000, Near: 4}
	r.Phases = []Phase{
		{Until: 3, Length: 32, Batch: 4, Mix: Mix{Repeat: 1, Kinds: 16, Facts: 2}},
		{Length: 48, Batch: 4, Keep: []int{3, 1}, Mix: Mix{Repeat: 0.5, Kinds: 16, Language: 0.1, Facts: 2, Asked: 0.5}},
	}
	r.Steps, r.Weigh, r.Optimise.WarmUp = 6, 4, 2
	return r
}

// TestAdamW compares three steps with the algorithm written out in float64: a matrix, which decays, and a vector, which does not; the
// second gradient is long enough to be clipped.
func TestAdamW(t *testing.T) {
	o := Optimise{Beta1: 0.9, Beta2: 0.95, Eps: 1e-3, Decay: 0.25, Clip: 2}
	e, err := graph.NewExec(goBackend(t).Backend, func(a []*graph.Node) []*graph.Node {
		norm, after := update{o, a[0], a[1], a[2]}.apply(a[3:5], a[5:])
		return append([]*graph.Node{norm}, after...)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Finalize()
	w, m, v := []float64{1, -2, 0.5}, make([]float64, 3), make([]float64, 3)
	state := []any{[][]float32{{1, -2}}, []float32{0.5}, [][]float32{{0, 0}}, []float32{0}, [][]float32{{0, 0}}, []float32{0}}
	for step, g := range [][]float64{{0.3, -0.1, 0.2}, {3, 4, -12}, {0, 0.5, 1e-4}} {
		n, rate := float64(step+1), 0.1/float64(step+1)
		fix1, fix2 := 1/(1-math.Pow(o.Beta1, n)), 1/(1-math.Pow(o.Beta2, n))
		out, err := e.Call(append([]any{float32(rate), float32(fix1), float32(fix2), [][]float32{{float32(g[0]), float32(g[1])}}, []float32{float32(g[2])}}, state...)...)
		if err != nil {
			t.Fatal(err)
		}
		norm := math.Sqrt(g[0]*g[0] + g[1]*g[1] + g[2]*g[2])
		if got := tensors.ToScalar[float32](out[0]); math.Abs(float64(got)-norm) > 1e-5 {
			t.Errorf("step %d: got norm %g, want %g", step, got, norm)
		}
		got := append(tensors.MustCopyFlatData[float32](out[1]), tensors.MustCopyFlatData[float32](out[2])...)
		for i := range w {
			x := g[i] * math.Min(1, o.Clip/norm)
			m[i], v[i] = o.Beta1*m[i]+(1-o.Beta1)*x, o.Beta2*v[i]+(1-o.Beta2)*x*x
			move := m[i] * fix1 / (math.Sqrt(v[i]*fix2) + o.Eps)
			if i < 2 {
				move += o.Decay * w[i]
			}
			w[i] -= rate * move
			if math.Abs(float64(got[i])-w[i]) > 1e-6 {
				t.Errorf("step %d: parameter %d: got %g, want %g", step, i, got[i], w[i])
			}
		}
		state = nil
		for _, x := range out[1:] {
			state = append(state, x)
		}
	}
}

func TestRate(t *testing.T) {
	r := Recipe{Optimise: Optimise{Rate: 2, WarmUp: 4}, Steps: 12}
	for step, want := range map[int]float64{0: 0.5, 3: 2, 4: 2, 8: 1, 12: 0} {
		if got := r.rateAt(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: got rate %g, want %g", step, got, want)
		}
	}
}

// bits are a run's state as it would be saved.
func bits(t *testing.T, tr *Trainer) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	if err := tr.Save(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var errStop = errors.New("stop")

// TestResume holds a run that was stopped in each phase and resumed to the bits of the unbroken one.
func TestResume(t *testing.T) {
	be, r := goBackend(t), little()
	whole, err := New(be, r)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	before := bits(t, whole)
	if err := whole.Run(context.Background(), 100, func(Progress) error { return nil }); err != nil {
		t.Fatal(err)
	}
	want := bits(t, whole)
	if bytes.Equal(before, want) {
		t.Fatal("training changed nothing")
	}
	path := filepath.Join(t.TempDir(), "saved")
	tr, err := New(be, r)
	for err == nil {
		err = tr.Run(context.Background(), 2, func(p Progress) error {
			if err := tr.Save(path); err != nil || p.Step == p.Steps {
				return err
			}
			return errStop
		})
		if err == nil {
			break
		}
		if !errors.Is(err, errStop) {
			t.Fatal(err)
		}
		tr.Close()
		tr, err = Resume(be, r, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if !bytes.Equal(bits(t, tr), want) {
		t.Error("the resumed run has other bits than the unbroken one")
	}

	other := r
	other.Seed++
	if _, err := Resume(be, other, path); err == nil || !strings.Contains(err.Error(), "recipe") {
		t.Errorf("resuming under another recipe: got error %v", err)
	}
}

// TestExport trains a little, and asks the exported folder what the training graph says.
func TestExport(t *testing.T) {
	be, r := goBackend(t), little()
	tr, err := New(be, r)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Run(context.Background(), 100, func(Progress) error { return nil }); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := tr.Export(dir); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rng := rand.New(rand.NewPCG(5, 5))
	var rows []Sequence
	for range 2 {
		rows = append(rows, tr.task.Sequence(rng, r.Phases[1].Mix, 48))
	}
	want, _, err := tr.ask(rows, tr.gates)
	if err != nil {
		t.Fatal(err)
	}
	if got := exportedLoss(t, be, c, rows); math.Abs(got-want) > 5e-5 {
		t.Errorf("loss of the exported model: got %g, want %g, that of the training graph", got, want)
	}
	all := slices.Repeat([]float32{1}, len(tr.gates))
	if open, _, err := tr.ask(rows, all); err != nil || math.Abs(open-want) < 5e-4 {
		t.Errorf("with all gates open: got loss %g and error %v, want another than %g", open, err, want)
	}
	if got := c.Tokenizer.VocabSize(); got != tr.task.Vocab() {
		t.Errorf("tokenizer: got %d tokens, want %d", got, tr.task.Vocab())
	}
	if s := c.Spec; len(s.EOS) != 1 || s.EOS[0] != end || s.MaxPositions != r.Model.Window || !s.Tied {
		t.Errorf("spec: got %+v", s)
	}
}

// exportedLoss is the loss on rows by the model as inference runs it.
func exportedLoss(t *testing.T, be *decoder.Backend, c *loader.Checkpoint, rows []Sequence) float64 {
	t.Helper()
	m, err := decoder.New(be, c, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var loss, weight float64
	for _, s := range rows {
		o := decoder.TraceOptions{Hidden: -1}
		for _, row := range s.Rows {
			o.Logits = append(o.Logits, int(row))
		}
		trace, err := m.Trace(context.Background(), &decoder.Prompt{IDs: s.IDs}, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		for i, logits := range trace.Logits {
			sum := 0.0
			for _, x := range logits {
				sum += math.Exp(float64(x))
			}
			loss += float64(s.Weights[i]) * (math.Log(sum) - float64(logits[s.Targets[i]]))
			weight += float64(s.Weights[i])
		}
	}
	return loss / weight
}

// TestPrune: a phase that keeps fewer heads closes gates, of those heads whose absence costs least, and a closed head learns nothing more.
func TestPrune(t *testing.T) {
	be, r := goBackend(t), little()
	tr, err := New(be, r)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.prune(r.Phases[0]); err != nil || sum(tr.gates) != 8 {
		t.Errorf("a phase that keeps all: got gates %v and error %v", tr.gates, err)
	}
	if err := tr.prune(r.Phases[1]); err != nil {
		t.Fatal(err)
	}
	if sum(tr.gates[:4]) != 3 || sum(tr.gates[4:]) != 1 {
		t.Errorf("got gates %v, want 3 open ones in the first layer and 1 in the second", tr.gates)
	}
	dir := t.TempDir()
	if err := tr.Export(dir); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for l := range 2 {
		q, err := c.Float32s(c.Spec.Params.Layer(l).Q, nil)
		if err != nil {
			t.Fatal(err)
		}
		o, err := c.Float32s(c.Spec.Params.Layer(l).O, nil)
		if err != nil {
			t.Fatal(err)
		}
		for h := range 4 {
			closed := tr.gates[4*l+h] == 0
			for i, x := range q { // [heads * 4, 16]
				if i/64 == h && (x == 0) != closed {
					t.Fatalf("L%dH%d, gate closed %v: got query weight %g", l, h, closed, x)
				}
			}
			for i, x := range o { // [16, heads * 4]
				if i%16/4 == h && (x == 0) != closed {
					t.Fatalf("L%dH%d, gate closed %v: got output weight %g", l, h, closed, x)
				}
			}
		}
	}
}

// TestLearns trains a little model on runs of 16 words of 456: it learns at least which words there are, -log(1/16) = 2.77.
func TestLearns(t *testing.T) {
	r := little()
	r.Phases = []Phase{{Length: 32, Batch: 4, Mix: Mix{Repeat: 1, Kinds: 16, Facts: 2}}}
	r.Steps, r.Optimise.WarmUp, r.Optimise.Rate = 60, 10, 2e-2
	tr, err := New(goBackend(t), r)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var losses []float64
	if err := tr.Run(context.Background(), 10, func(p Progress) error { losses = append(losses, p.Loss); return nil }); err != nil {
		t.Fatal(err)
	}
	if n := len(losses); n != 6 || losses[0] < 4 || losses[n-1] > 3 {
		t.Errorf("got mean losses %.2f of 10 steps each, want the first above 4 and the last below 3", losses)
	}
}

func TestRecipeCheck(t *testing.T) {
	for name, spoil := range map[string]func(*Recipe){
		"phases":  func(r *Recipe) { r.Phases = nil },
		"warm-up": func(r *Recipe) { r.Steps = r.Optimise.WarmUp },
		"batch":   func(r *Recipe) { r.Phases[0].Batch = 0 },
		"keep":    func(r *Recipe) { r.Phases[1].Keep = []int{1} },
		"near":    func(r *Recipe) { r.Model.Near = 0 },
		"kinds":   func(r *Recipe) { r.Phases[1].Mix.Kinds = longestRun - 1 },
		"facts":   func(r *Recipe) { r.Phases[0].Mix.Facts = 1 },
		"length":  func(r *Recipe) { r.Phases[1].Length = r.Model.Window + 1 },
	} {
		r := little()
		spoil(&r)
		if _, err := New(goBackend(t), r); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}
