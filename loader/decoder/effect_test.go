package decoder

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/safetensors"
)

// rewritten is a float32 checkpoint with element [row, column] of the named tensors multiplied by gain.
func rewritten(t *testing.T, src *loader.Checkpoint, gain map[string]func(row, column int) float32) *loader.Checkpoint {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(src.Dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	var entries []safetensors.Entry
	used := 0
	for _, name := range src.Weights.Names() {
		info, _ := src.Weights.Info(name)
		raw, err := src.Weights.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		data := slices.Clone(raw)
		if g := gain[name]; g != nil {
			used++
			for i := range info.Elements() {
				v := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
				v *= g(i/info.Shape[1], i%info.Shape[1])
				binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
			}
		}
		entries = append(entries, safetensors.Entry{Name: name, DType: info.DType, Shape: info.Shape, Write: safetensors.Bytes(data)})
	}
	if used != len(gain) {
		t.Fatalf("%d of %d tensors found", used, len(gain))
	}
	if err := safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), entries, nil); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestEditIsWeights: an edit of a head on all rows is the same change made in the checkpoint.
func TestEditIsWeights(t *testing.T) {
	const d = 16
	layer := ckpt(t, "float32").Spec.Params.Layer
	o := func(l int) string { return layer(l).O.Views[0].Tensor }
	q := func(l int) string { return layer(l).Q.Views[0].Tensor }
	head := func(h int, g float32) func(int, int) float32 {
		return func(_, column int) float32 {
			if column/d == h {
				return g
			}
			return 1
		}
	}
	planes := func(h int, g float32, ps ...int) func(int, int) float32 {
		return func(row, _ int) float32 {
			if row/d == h && slices.Contains(ps, row%d%(d/2)) {
				return g
			}
			return 1
		}
	}
	every := func(g float32) func(int, int) float32 { return func(_, _ int) float32 { return g } }
	type gains = map[string]func(int, int) float32
	cases := []struct {
		form  string
		gains gains
	}{
		{"zero:L1H2", gains{o(1): head(2, 0)}},
		{"scale=-2:L0H3,L2H1", gains{o(0): head(3, -2), o(2): head(1, -2)}},
		{"zero:L1H0,L1H1,L1H2,L1H3", gains{o(1): every(0)}}, // no attention output at all
		{"zero_planes:L1H1:6+2", gains{q(1): planes(1, 0, 2, 6)}},
		{"scale_planes=4:L2H0:fast4", gains{q(2): planes(0, 4, 0, 1)}},
		{"uniform:L0H2", gains{q(0): planes(2, 0, 0, 1, 2, 3, 4, 5, 6, 7)}},
		{"temperature=0.25:L0H0,L0H1,L0H2,L0H3", gains{q(0): every(4)}},
	}
	p := &Prompt{IDs: tokens(300, 75)}
	rows := rowRange(0, 64)
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		for _, c := range cases {
			edited := trace(t, m, p, edits(t, c.form), TraceOptions{Logits: rows, Hidden: -1})
			other := sibling(t, m, rewritten(t, ckpt(t, "float32"), c.gains), Options{})
			changed := trace(t, other, p, nil, TraceOptions{Logits: rows, Hidden: -1})
			d, _ := largest(slices.Concat(edited.Logits...), slices.Concat(changed.Logits...))
			if !(d <= 1e-5) {
				t.Errorf("%s: edit and weights disagree by %g", c.form, d)
			}
		}
	})
}

// TestPlanesAddUp: a band and its complement together leave no query; powers of two commute with rounding, so do their products.
func TestPlanesAddUp(t *testing.T) {
	p := &Prompt{IDs: tokens(301, 75)}
	rows := rowRange(0, 64)
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		logits := func(forms ...string) []float32 {
			return slices.Concat(trace(t, m, p, edits(t, forms...), TraceOptions{Logits: rows, Hidden: -1}).Logits...)
		}
		for _, c := range []struct{ a, b []string }{
			{[]string{"zero_planes:L0H1,L2H2:slow6", "zero_planes:L0H1,L2H2:fast10"}, []string{"uniform:L0H1,L2H2"}},
			{[]string{"zero_planes:L1H3:slow4"}, []string{"zero_planes:L1H3:6+7"}},
			{[]string{"scale_planes=4:L1H3:slow16"}, []string{"temperature=0.25:L1H3"}},
			{[]string{"scale=0:L1H3"}, []string{"zero:L1H3"}},
			{[]string{"scale=0.5:L1H3", "scale=4:L1H3"}, []string{"scale=2:L1H3"}},
			{[]string{"scale_planes=1:L1H3:fast4", "temperature=1:L0H0", "scale=1:L2H2"}, nil},
		} {
			sameBits(t, fmt.Sprintf("%v for %v", c.a, c.b), outcome{"logits": logits(c.a...)}, outcome{"logits": logits(c.b...)})
		}
	})
}

// TestEffect catches edits that do nothing, and edits that reach layers or rows before their own.
func TestEffect(t *testing.T) {
	p := &Prompt{IDs: tokens(302, 75), Question: 50}
	all := rowRange(0, 64)
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		w := m.Spec.Hidden
		plain := trace(t, m, p, nil, TraceOptions{Logits: all, Hidden: 60})
		for _, form := range []string{
			"zero:L%dH0", "scale=2:L%dH1", "uniform:L%dH2", "zero_planes:L%dH3:slow8", "scale_planes=3:L%dH0:0+1", "temperature=3:L%dH1",
		} {
			for l := range m.Spec.Layers {
				f := fmt.Sprintf(form, l) + "@question"
				edited := trace(t, m, p, edits(t, f), TraceOptions{Logits: all, Hidden: 60})
				d, _ := largest(slices.Concat(edited.Logits[50:]...), slices.Concat(plain.Logits[50:]...))
				if !(d > 1e-3) {
					t.Errorf("%s: moves the logits by %g", f, d)
				}
				sameBits(t, f+": rows before the question", outcome{"logits": slices.Concat(edited.Logits[:50]...)},
					outcome{"logits": slices.Concat(plain.Logits[:50]...)})
				for below := range l {
					sameBits(t, fmt.Sprintf("%s: layer %d", f, below), outcome{"hidden": edited.Hidden[below]}, outcome{"hidden": plain.Hidden[below]})
				}
				if d, _ := largest(edited.Hidden[l], plain.Hidden[l]); !(d > 1e-4) || len(edited.Hidden[l]) != w {
					t.Errorf("%s: moves its own layer by %g", f, d)
				}
			}
		}
	})
}

// TestSharedTrunk: a condition that starts from the plain run's residual has the bits of a run of its own.
func TestSharedTrunk(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		p := []*Prompt{{IDs: tokens(303, 64), Answer: tokens(304, 3)}}
		conds := []Condition{{}, {Edits: edits(t, "zero:L2H1")}, {Edits: edits(t, "uniform:L1H1")}, {Edits: edits(t, "zero:L0H1")}}
		before := m.Work().PrefillLayerRows
		together := ask(t, m, p, conds, AskOptions{Batch: 1})
		if got, want := m.Work().PrefillLayerRows-before, int64(67*(3+1+2+3)); got != want {
			t.Errorf("computed %d rows x layers, want %d", got, want)
		}
		for k, c := range conds {
			sameReply(t, fmt.Sprintf("condition %d", k), ask(t, m, p, []Condition{c}, AskOptions{Batch: 1})[0][0], together[0][k])
		}
		// Decoded answers are checked against the plain run's where there is one, several tokens a step: another shape of program.
		decoded := ask(t, m, p, conds, AskOptions{Batch: 1, MaxNew: 4})[0]
		for k, c := range conds {
			alone := ask(t, m, p, []Condition{c}, AskOptions{Batch: 1, MaxNew: 4})[0][0]
			if !slices.Equal(alone.Greedy, decoded[k].Greedy) {
				t.Errorf("condition %d alone: got %v, want %v", k, alone.Greedy, decoded[k].Greedy)
			}
			within(t, m, fmt.Sprintf("condition %d alone: gaps", k), alone.GreedyGap, decoded[k].GreedyGap)
		}
	})
}
