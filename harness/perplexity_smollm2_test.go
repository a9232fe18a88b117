package harness

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// openSmolLM2 opens the real model in float32; the test is skipped where it is not there.
func openSmolLM2(t *testing.T) (*loader.Checkpoint, *decoder.Model) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	if _, err := os.Stat(filepath.Join(smolDir(), "model.safetensors")); err != nil {
		t.Skipf("SKIPPED: no SmolLM2 (%v): run make model, or set HEADSCOPE_SMOLLM2 to its folder", err)
	}
	device := os.Getenv("HEADSCOPE_DEVICE")
	if device == "" {
		device = "cpu"
	}
	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: device})
	if err != nil {
		t.Skipf("SKIPPED on %s: %v", device, err)
	}
	c, err := loader.Open(smolDir())
	if err != nil {
		t.Fatal(err)
	}
	m, err := decoder.New(be, c, decoder.Options{DType: "float32"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, m
}

// goldenTexts are the reference's texts, and what it says of them.
type goldenTexts struct {
	Perplexity []struct {
		Text string
		IDs  []int32
		NLL  []float64
	}
	Interventions map[string]json.RawMessage
}

// goldenEdit is an intervention of the reference as an edit.
type goldenEdit struct {
	Kind   string
	Heads  json.RawMessage
	Planes []int
	Table  []float64
	NLL    []float64
}

func (g *goldenEdit) edit(t *testing.T, s *loader.Spec) decoder.Edit {
	t.Helper()
	e := decoder.Edit{Scope: decoder.ScopeAll, Planes: g.Planes}
	switch g.Kind {
	case "knockout":
		e.Op = decoder.OpZero
	case "q_zero":
		e.Op = decoder.OpZeroPlanes
	case "qk_zero":
		e.Op = decoder.OpLegacy
	case "freeze":
		e.Op = decoder.OpFreeze
	case "table":
		e.Op, e.Table, e.InvFreq = decoder.OpSwap, "golden", g.Table
	default:
		t.Fatalf("unknown kind %q", g.Kind)
	}
	if string(g.Heads) != `"all"` {
		if err := json.Unmarshal(g.Heads, &e.Heads); err != nil {
			t.Fatal(err)
		}
		return e
	}
	for l := range s.Layers {
		for h := range s.Heads {
			e.Heads = append(e.Heads, decoder.Head{Layer: l, Index: h})
		}
	}
	return e
}

// TestSmolLM2Perplexity: transformers' negative log-likelihoods on the real model, token by token within 1e-4 for the unmodified model and
// as means of each text within 1e-4 under every knock-out, zeroed and frozen planes and tables of the reference. One text and one edit of
// a kind, or all under HEADSCOPE_SLOW=1.
func TestSmolLM2Perplexity(t *testing.T) {
	c, m := openSmolLM2(t)
	var ref goldenTexts
	if err := json.Unmarshal(readFile(t, "verify/testdata/smollm2/reference.json"), &ref); err != nil {
		t.Fatal(err)
	}
	slow := os.Getenv("HEADSCOPE_SLOW") == "1"
	o := PerplexityOptions{Checkpoint: c, Model: m, Texts: &TextSet{Source: "reference", SHA256: "0"}}
	want := map[string][]float64{}
	for name, raw := range ref.Interventions {
		if quick := name == "knockout/top10" || name == "table/all/base10000"; name == "baseline" || !slow && !quick {
			continue
		}
		var g goldenEdit
		if err := json.Unmarshal(raw, &g); err != nil {
			t.Fatal(err)
		}
		o.Conditions, want[name] = append(o.Conditions, NamedEdits{name, []decoder.Edit{g.edit(t, &c.Spec)}}), g.NLL
	}
	slices.SortFunc(o.Conditions, func(a, b NamedEdits) int { return strings.Compare(a.Name, b.Name) })
	texts := ref.Perplexity[1:2] // the shortest
	if slow {
		texts = ref.Perplexity
	}
	for i, p := range texts {
		o.Texts.Documents = append(o.Texts.Documents, Document{string(rune('a' + i)), p.Text})
	}
	r, err := MeasurePerplexity(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for k, cond := range r.Conditions {
		for i, d := range cond.Documents {
			if d.Tokens != len(texts[i].NLL) {
				t.Fatalf("text %d: %d tokens scored, want %d", i, d.Tokens, len(texts[i].NLL))
			}
			ref := meanNumber(texts[i].NLL)
			if k > 0 {
				at := i
				if !slow {
					at = 1
				}
				ref = want[cond.Name][at]
			}
			if off := math.Abs(float64(d.NLL)/float64(d.Tokens) - ref); !(off <= 1e-4) {
				t.Errorf("%s, text %d: nll %g, want %g", cond.Name, i, float64(d.NLL)/float64(d.Tokens), ref)
			} else {
				worst = max(worst, off)
			}
		}
	}
	t.Logf("%d conditions, %d texts: largest difference of a mean nll %.1e", len(r.Conditions), len(texts), worst)
	for i, p := range texts {
		err := m.ScoreText(context.Background(), []decoder.TextWindow{{IDs: p.IDs, From: 1}}, nil, func(_ int, s []decoder.TextScore) error {
			worst := 0.0
			for j, lp := range s[0].LogProb {
				worst = max(worst, math.Abs(lp+p.NLL[j]))
			}
			if !(worst <= 1e-4) || len(s[0].LogProb) != len(p.NLL) {
				t.Errorf("text %d: %d tokens, off by up to %g", i, len(s[0].LogProb), worst)
			}
			t.Logf("text %d: largest difference of a token's nll %.1e", i, worst)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func meanNumber(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
