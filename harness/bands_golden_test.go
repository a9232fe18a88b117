package harness

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// TestSmolLM2Bands: the verb's own conditions, made from heads and k alone, reproduce transformers' numbers on the real model: the ten best
// heads without their slowest planes and with those frozen, in the published form too, and the same planes away in the reference's control
// heads. Log-probabilities within 1e-3, outcomes save near-ties. Under HEADSCOPE_SLOW=1.
func TestSmolLM2Bands(t *testing.T) {
	if os.Getenv("HEADSCOPE_SLOW") != "1" {
		t.Skip("SKIPPED: HEADSCOPE_SLOW=1 runs it")
	}
	c, m := openSmolLM2(t)
	var ref goldenReference
	if err := json.Unmarshal(readFile(t, "verify/testdata/smollm2/reference.json"), &ref); err != nil {
		t.Fatal(err)
	}
	golden := func(name string) (k goldenKnockout) {
		if err := json.Unmarshal(ref.Interventions[name], &k); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return k
	}
	top := ref.Detectors.Retrieval[:10]
	for _, tc := range []struct {
		heads    heads.Set
		protocol string
		k        []int
		want     map[string]string // of a condition, the reference's name
	}{
		{top.Set(), ProtocolCorrected, []int{16, 32}, map[string]string{"zero/slow16@all": "q_zero/k16/low", "zero/slow32@all": "q_zero/k32/low", "zero/fast16@all": "q_zero/k16/high",
			"freeze/slow16@all": "freeze/k16/low", "freeze/slow32@all": "freeze/k32/low"}},
		{golden("q_zero/k16/low/matched0").Heads, ProtocolCorrected, []int{16}, map[string]string{"zero/slow16@all": "q_zero/k16/low/matched0"}},
		{top.Set(), ProtocolPublished, []int{16}, map[string]string{"legacy/slow16@all": "qk_zero/k16/low"}},
	} {
		prompts, err := ReadPrompts(BuiltinPrompts)
		if err != nil {
			t.Fatal(err)
		}
		const n = 2
		s, err := NewStudy(context.Background(), Options{
			Verb: "bands", Stages: []string{StageBands}, Checkpoint: c, Model: m, Prompts: prompts.Limit(n), Heads: heads.Ranking(tc.heads), Exclude: tc.heads,
			Scopes: []decoder.Scope{decoder.ScopeAll}, Bands: &BandOptions{Protocol: tc.protocol, K: tc.k}, MaxNew: 16, FullAnswers: true, Batch: 1, Out: t.TempDir(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		worst := 0.0
		for _, trial := range stageTrials(t, s.TrialsPath(), StageBands) {
			name, ok := tc.want[trial.Condition]
			if !ok {
				continue
			}
			w, i := golden(name), seen[name]
			seen[name]++
			for k, lp := range w.LogProb[i] {
				d := math.Abs(float64(trial.LogProb[k]) - lp)
				if worst = max(worst, d); !(d <= 1e-3) {
					t.Errorf("%s prompt %d token %d: log-probability %g, want %g", name, i, k, trial.LogProb[k], lp)
				}
			}
			tie := w.Margin[i] < 1e-3
			if !slices.Equal(trial.Greedy, w.Greedy[i]) && !tie {
				t.Errorf("%s prompt %d: greedy %v, want %v", name, i, trial.Greedy, w.Greedy[i])
			}
			if (trial.Outcome == Hit) != (w.Correct[i] == 1) && !tie {
				t.Errorf("%s prompt %d: %s, want correct = %d", name, i, trial.Outcome, w.Correct[i])
			}
		}
		for _, name := range tc.want {
			if seen[name] != n {
				t.Errorf("%s: %d trials, want %d", name, seen[name], n)
			}
		}
		t.Logf("%v: largest difference of a log-probability %.2g", tc.want, worst)
	}
}
