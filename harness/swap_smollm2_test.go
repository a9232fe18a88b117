package harness

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
)

// goldenTable is what the reference says of a table in all heads.
type goldenTable struct {
	Recall  float64
	LogProb [][]float64 `json:"code_logprob"`
	Greedy  [][]int32   `json:"greedy_ids"`
	Margin  []float64   `json:"greedy_min_margin"`
	NLL     []float64
}

// TestSmolLM2Swap: other tables in all heads of the real model, by their names and through the whole path from prompt file to result, give
// transformers' recall, log-probabilities of the code within 1e-3, greedy ids save near-ties, and nll of texts within 1e-4.
func TestSmolLM2Swap(t *testing.T) {
	if os.Getenv("HEADSCOPE_SLOW") != "1" {
		t.Skip("SKIPPED: HEADSCOPE_SLOW=1 runs it")
	}
	c, m := openSmolLM2(t)
	golden := map[string]string{
		"theta10000": "table/all/base10000", "thetatimes0.5": "table/all/theta_x0.5", "thetatimes2": "table/all/theta_x2",
		"times0.5": "table/all/linear2", "moebius2048": "table/all/moebius2048",
	}
	var tables []string
	var ref goldenTexts
	if err := json.Unmarshal(readFile(t, "verify/testdata/smollm2/reference.json"), &ref); err != nil {
		t.Fatal(err)
	}
	wanted := map[string]goldenTable{}
	for name, intervention := range golden {
		var g goldenTable
		if err := json.Unmarshal(ref.Interventions[intervention], &g); err != nil {
			t.Fatal(err)
		}
		tables, wanted[name] = append(tables, name), g
	}
	slices.Sort(tables)
	prompts, err := ReadPrompts(BuiltinPrompts)
	if err != nil {
		t.Fatal(err)
	}
	const n = 10
	o := Options{
		Verb: "swap", Stages: []string{StageSwap}, Checkpoint: c, Model: m, Prompts: prompts.Limit(n), MaxNew: 16, FullAnswers: true, Batch: 1, Out: t.TempDir(),
	}
	if o.Swap, err = PlanSwaps(&c.Spec, SwapOptions{Tables: tables, Scope: decoder.ScopeAll}); err != nil {
		t.Fatal(err)
	}
	set := &TextSet{Source: "reference", SHA256: sumOf("reference")}
	for i, p := range ref.Perplexity {
		set.Documents = append(set.Documents, Document{string(rune('a' + i)), p.Text})
	}
	if o.Texts, err = CutTexts(c, set, Windows{}); err != nil {
		t.Fatal(err)
	}
	s, err := NewStudy(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	trials := stageTrials(t, s.TrialsPath(), StageSwap)
	for k, table := range tables {
		want := wanted[table]
		r := res.Conditions[k+1]
		if math.Abs(float64(r.Metrics.Recall.Value)-want.Recall) > 1e-9 {
			t.Errorf("%s: recall %g, want %g", table, r.Metrics.Recall.Value, want.Recall)
		}
		worst := 0.0
		for i := range n {
			trial := trials[i*(len(tables)+1)+k+1]
			for j, lp := range want.LogProb[i] {
				d := math.Abs(float64(trial.LogProb[j]) - lp)
				if worst = max(worst, d); !(d <= 1e-3) {
					t.Errorf("%s prompt %d token %d: log-probability %g, want %g", table, i, j, trial.LogProb[j], lp)
				}
			}
			if !slices.Equal(trial.Greedy, want.Greedy[i]) && want.Margin[i] >= 1e-3 {
				t.Errorf("%s prompt %d: greedy %v, want %v (margin %g)", table, i, trial.Greedy, want.Greedy[i], want.Margin[i])
			}
		}
		off := 0.0
		for i, d := range res.Texts[k+1].Documents {
			x := math.Abs(float64(d.NLL)/float64(d.Tokens) - want.NLL[i])
			if off = max(off, x); !(x <= 1e-4) {
				t.Errorf("%s text %d: nll %g, want %g", table, i, float64(d.NLL)/float64(d.Tokens), want.NLL[i])
			}
		}
		t.Logf("%s: recall %.2f, log-probabilities off by up to %.1e, nll by %.1e", table, r.Metrics.Recall.Value, worst, off)
	}
}
