package loadertest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/safetensors"
)

// Tolerances of testdata/parity/README.md.
const (
	tolState     = 1e-4
	tolAttention = 1e-5
)

type golden struct {
	Shape     struct{ Layers, Heads, Hidden, Vocab int }
	Sequences []struct {
		IDs        []int32 `json:"ids"`
		AttnArgmax [][]int `json:"attn_argmax"`
		Greedy     []int32 `json:"greedy"`
	}
	Interventions []intervention
}

type intervention struct {
	Name   string
	Kind   string
	Heads  [][2]int
	Rows   string
	Planes []int
	Greedy []int32
}

// parityCases are the cases in testdata/parity and in the folders that HEADSCOPE_GOLDEN lists.
func parityCases(t *testing.T) []string {
	t.Helper()
	roots := append([]string{"../testdata/parity"}, filepath.SplitList(os.Getenv("HEADSCOPE_GOLDEN"))...)
	var out []string
	for _, root := range roots {
		found, err := filepath.Glob(filepath.Join(root, "*", "config.json"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no cases: %v", root, err)
		}
		for _, f := range found {
			out = append(out, filepath.Dir(f))
		}
	}
	return out
}

type parityCase struct {
	golden
	arrays *safetensors.Store
	ref    *loadertest.Reference
}

func openCase(t *testing.T, dir string) parityCase {
	t.Helper()
	var p parityCase
	b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &p.golden); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir)
	var unsupported *loader.UnsupportedError
	if errors.As(err, &unsupported) && !strings.HasPrefix(dir, "../testdata") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if p.arrays, err = safetensors.Open(filepath.Join(dir, "golden.safetensors")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); p.arrays.Close() })
	if p.ref, err = loadertest.NewReference(c); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p parityCase) forward(t *testing.T, ids []int32, g loadertest.Gains) *loadertest.Trace {
	t.Helper()
	trace, err := p.ref.Forward(ids, g)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// compare holds got, flattened row-major, against a golden array.
func (p parityCase) compare(t *testing.T, name string, tol float64, got ...[]float64) {
	t.Helper()
	want, err := p.arrays.Float32s(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	flat := slices.Concat(got...)
	if len(flat) != len(want) {
		t.Fatalf("%s: got %d values, want %d", name, len(flat), len(want))
	}
	worst, at := 0.0, 0
	for i, v := range flat {
		if d := math.Abs(v - float64(want[i])); d > worst || math.IsNaN(d) {
			worst, at = d, i
		}
	}
	t.Logf("%-28s %6d values, largest difference %.1e", name, len(flat), worst)
	if !(worst <= tol) {
		t.Errorf("%s: value %d: got %v, want %v within %g", name, at, flat[at], want[at], tol)
	}
}

// greedy continues ids by a full pass for each token.
func (p parityCase) greedy(t *testing.T, ids []int32, n int, g loadertest.Gains) []int32 {
	t.Helper()
	var out []int32
	for range n {
		logits := p.forward(t, slices.Concat(ids, out), g).Logits
		out = append(out, int32(argmax(logits[len(logits)-1])))
	}
	return out
}

func argmax(v []float64) int {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	return best
}

func TestReferenceAgainstTransformers(t *testing.T) {
	for _, dir := range parityCases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			p := openCase(t, dir)
			for i, seq := range p.Sequences {
				tr := p.forward(t, seq.IDs, loadertest.Gains{})
				name := func(s string) string { return fmt.Sprintf("seq%d.%s", i, s) }
				last := len(seq.IDs) - 1
				var attention, hidden [][]float64
				for l := range tr.Hidden {
					hidden = append(hidden, tr.Hidden[l][last])
					for h, rows := range tr.Attention[l] {
						attention = append(attention, rows[last])
						if got := argmax(rows[last]); got != seq.AttnArgmax[l][h] {
							t.Errorf("sequence %d: L%dH%d: attention argmax: got %d, want %d", i, l, h, got, seq.AttnArgmax[l][h])
						}
					}
				}
				p.compare(t, name("logits"), tolState, tr.Logits...)
				p.compare(t, name("attn_last"), tolAttention, attention...)
				p.compare(t, name("hidden_last"), tolState, hidden...)
				for _, l := range []int{0, len(tr.Hidden) - 1} {
					at := func(s string) string { return name(fmt.Sprintf("layer%d.%s", l, s)) }
					p.compare(t, at("q_pre"), tolState, slices.Concat(tr.QPre[l]...)...)
					p.compare(t, at("k_pre"), tolState, slices.Concat(tr.KPre[l]...)...)
					p.compare(t, at("q_rot"), tolState, slices.Concat(tr.QRot[l]...)...)
					p.compare(t, at("k_rot"), tolState, slices.Concat(tr.KRot[l]...)...)
				}
				if got := p.greedy(t, seq.IDs, len(seq.Greedy), loadertest.Gains{}); !slices.Equal(got, seq.Greedy) {
					t.Errorf("sequence %d: greedy: got %v, want %v", i, got, seq.Greedy)
				}
			}
		})
	}
}

// gains returns the edit of an intervention on a prompt of n tokens, false for a kind that gains cannot express.
func (iv intervention) gains(n int) (loadertest.Gains, bool) {
	edited := func(layer, head, row int) bool {
		return slices.Contains(iv.Heads, [2]int{layer, head}) && (iv.Rows == "all" || row >= n-1)
	}
	var g loadertest.Gains
	switch iv.Kind {
	case "zero_heads":
		g.Head = func(layer, head, row int) float64 {
			if edited(layer, head, row) {
				return 0
			}
			return 1
		}
	case "uniform_heads", "zero_q_planes":
		g.Q = func(layer, head, plane, row int) float64 {
			if edited(layer, head, row) && (iv.Kind == "uniform_heads" || slices.Contains(iv.Planes, plane)) {
				return 0
			}
			return 1
		}
	default:
		return g, false
	}
	return g, iv.Rows == "all" || iv.Rows == "decode"
}

func TestReferenceInterventions(t *testing.T) {
	ran := map[string]int{}
	for _, dir := range parityCases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			p := openCase(t, dir)
			ids := p.Sequences[len(p.Sequences)-1].IDs
			for _, iv := range p.Interventions {
				g, ok := iv.gains(len(ids))
				if !ok {
					continue
				}
				ran[iv.Name]++
				logits := p.forward(t, ids, g).Logits
				p.compare(t, "iv."+iv.Name+".logits", tolState, logits[len(logits)-1])
				if got := p.greedy(t, ids, len(iv.Greedy), g); !slices.Equal(got, iv.Greedy) {
					t.Errorf("%s: greedy: got %v, want %v", iv.Name, got, iv.Greedy)
				}
			}
		})
	}
	t.Logf("interventions compared: %v", ran)
	for _, name := range []string{"zero_heads", "zero_heads_decode", "zero_q_planes", "uniform_heads_all", "uniform_heads_decode"} {
		if ran[name] < 2 {
			t.Errorf("%s: compared in %d cases, want at least 2", name, ran[name])
		}
	}
}
