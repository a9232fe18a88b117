package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/loadertest"
)

// unrotatedModel is a SmolLM3 whose layer 1 does not rotate.
func unrotatedModel(t *testing.T) (*loader.Checkpoint, *decoder.Model) {
	t.Helper()
	dir := t.TempDir()
	o := loadertest.Options{Family: "SmolLM3ForCausalLM", Layers: 2, Heads: 4, KVHeads: 2, Vocab: 960, MaxPositions: 512, Seed: 9, Config: map[string]any{"no_rope_layer_interval": 2}}
	if err := loadertest.Write(dir, o); err != nil {
		t.Fatal(err)
	}
	tok, err := os.ReadFile(filepath.Join("testdata", "tiny", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), tok, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, tiny := tinyModel(t)
	m, err := decoder.New(tiny.Backend(), c, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	return c, m
}

// TestUnrotatedLayers: edits of planes and tables leave out heads of layers that do not rotate, count them in table and result, and do what
// the same edit of the other heads does; with no other head they are refused, by every kind of run.
func TestUnrotatedLayers(t *testing.T) {
	c, m := unrotatedModel(t)
	if !c.Spec.Unrotated(1) || c.Spec.Unrotated(0) {
		t.Fatal("layer 1 alone does not rotate")
	}
	parsed := func(form string) []decoder.Edit {
		e, err := decoder.ParseEdit(form, nil)
		if err != nil {
			t.Fatal(err)
		}
		return []decoder.Edit{e}
	}
	o := tinyOptions(t, 1)
	o.Checkpoint, o.Model, o.MaxNew, o.Top, o.Controls, o.Scopes = c, m, 1, 0, 0, nil
	o.Stages = []string{StageKnockout}
	for _, form := range []string{"zero_planes:%s:slow8", "swap=theta50:%s@question"} {
		both, one := strings.Replace(form, "%s", "L0H1,L1H1", 1), strings.Replace(form, "%s", "L0H1", 1)
		o.Conditions = append(o.Conditions, NamedEdits{both, parsed(both)}, NamedEdits{one, parsed(one)})
	}
	_, r := runStudy(t, o)
	for i := 1; i < len(r.Conditions); i += 2 {
		if a, b := r.Conditions[i].Metrics, r.Conditions[i+1].Metrics; a.SumLogProb.Value != b.SumLogProb.Value || float64(a.Change.Value) == 0 {
			t.Errorf("%s: log p %v, want %v", r.Conditions[i].Name, a.SumLogProb, b.SumLogProb)
		}
	}
	var table bytes.Buffer
	if err := r.Write(&table, View{}); err != nil || !strings.Contains(table.String(), "as their layers do not rotate: 1 heads, L1H1.") {
		t.Errorf("%v: the table does not count what is left out:\n%s", err, &table)
	}
	texts := &TextSet{Source: "one", SHA256: "0", Documents: []Document{{"a", "The sea is far. The code is old."}}}
	p := PerplexityOptions{Checkpoint: c, Model: m, Texts: texts, Conditions: []NamedEdits{{"both", parsed("freeze:L0H1,L1H1:fast8")}, {"one", parsed("freeze:L0H1:fast8")}}}
	got, err := MeasurePerplexity(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Skipped.Equal(heads.NewSet(decoder.Head{Layer: 1, Index: 1})) || got.Conditions[1].NLL.Value != got.Conditions[2].NLL.Value || got.Conditions[1].NLL.Value == got.Conditions[0].NLL.Value {
		t.Errorf("skipped %v, nll %v and %v", got.Skipped, got.Conditions[1].NLL, got.Conditions[2].NLL)
	}
	only := parsed("freeze:L1H1,L1H2:slow4")
	o.Conditions = []NamedEdits{{"x", only}}
	p.Conditions = o.Conditions
	bands := o
	bands.Stages, bands.Conditions, bands.Heads, bands.Scopes = []string{StageBands}, nil, heads.Ranking{{Layer: 1, Index: 1}}, []decoder.Scope{decoder.ScopeAll}
	bands.Bands = &BandOptions{Protocol: ProtocolCorrected}
	_, errKnockout := NewStudy(context.Background(), o)
	_, errTexts := MeasurePerplexity(context.Background(), p)
	_, errBands := NewStudy(context.Background(), bands)
	_, errSwap := PlanSwaps(&c.Spec, SwapOptions{Tables: []string{"nope"}, Layers: []int{1}, Scope: decoder.ScopeAll})
	_, errHand := NextTokens(context.Background(), &TextRequest{Checkpoint: c, Model: m, Text: "The sea", Edits: only}, 3)
	for what, err := range map[string]error{"knockout": errKnockout, "perplexity": errTexts, "bands": errBands, "swap": errSwap, "logits": errHand} {
		var usage *UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%s: got %v, want a usage error", what, err)
		}
	}
	if s := SkippedNote(&c.Spec, parsed("freeze:L0H1,L1H1,L1H3:slow4")); !strings.Contains(s, "2 heads, L1H1,L1H3") {
		t.Errorf("got %q", s)
	}
}
