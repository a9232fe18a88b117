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

		GreedyNoCache []int32 `json:"greedy_no_cache"` // where a table depends on the length
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
	arrays   *safetensors.Store
	ref      *loadertest.Reference
	ropeType string // of the first table
	anew     bool   // Spec.Recompute
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
	p.ropeType, p.anew = c.Spec.Tables[0].Type, c.Spec.Recompute
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

// follows holds the argmax of the rows before each of the next tokens against them, and the rows themselves against a golden array where
// there is one. A causal model with one table for all lengths needs one pass for all rows; anew runs one for each, as without a cache.
func (p parityCase) follows(t *testing.T, ids, next []int32, g loadertest.Gains, anew bool, array string) {
	t.Helper()
	if len(next) == 0 {
		t.Fatal("the golden file has no continuation")
	}
	var rows [][]float64
	if !anew {
		rows = p.forward(t, slices.Concat(ids, next[:len(next)-1]), g).Logits[len(ids)-1:]
	}
	for i := 0; anew && i < len(next); i++ {
		logits := p.forward(t, slices.Concat(ids, next[:i]), g).Logits
		rows = append(rows, logits[len(logits)-1])
	}
	for i, want := range next {
		if got := int32(argmax(rows[i])); got != want {
			t.Errorf("%d tokens and %d new ones: got %d next, want %d", len(ids), i, got, want)
		}
	}
	if array != "" {
		p.compare(t, array, tolState, rows...)
	}
}

// continuations checks the greedy tokens of a sequence, those with a cache and those without it. transformers' cache keeps the keys that
// tables of another length have rotated; Phi-3's is computed anew when a pass is the first to need longrope's other table.
func (p parityCase) continuations(t *testing.T, i int) {
	t.Helper()
	seq, none := p.Sequences[i], loadertest.Gains{}
	name := func(s string) string { return fmt.Sprintf("seq%d.%s", i, s) }
	switch {
	case p.ropeType == "dynamic", p.ropeType == "longrope" && !p.anew:
		p.ref.Pass = func(row int) int { return max(row+1, len(seq.IDs)) }
		p.follows(t, seq.IDs, seq.Greedy, none, false, name("greedy_logits"))
		p.ref.Pass = nil
		p.follows(t, seq.IDs, seq.GreedyNoCache, none, true, name("greedy_no_cache_logits"))
	case p.ropeType == "longrope":
		p.follows(t, seq.IDs, seq.Greedy, none, true, name("greedy_logits"))
		p.follows(t, seq.IDs, seq.GreedyNoCache, none, true, name("greedy_no_cache_logits"))
	default:
		p.follows(t, seq.IDs, seq.Greedy, none, false, "")
	}
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
				p.continuations(t, i)
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
				p.follows(t, ids, iv.Greedy, g, false, "")
			}
		})
	}
	t.Logf("interventions compared: %v", ran)
	for _, name := range []string{"zero_heads", "zero_heads_decode", "zero_q_planes", "uniform_heads_all", "uniform_heads_decode"} {
		if ran[name] < 8 {
			t.Errorf("%s: compared in %d cases, want at least 8", name, ran[name])
		}
	}
}
