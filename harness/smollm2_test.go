package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

func readGoldenPrompts(t *testing.T) []goldenPrompt {
	t.Helper()
	var out []goldenPrompt
	for _, line := range bytes.Split(bytes.TrimSpace(readFile(t, "verify/testdata/smollm2/prompts_512.jsonl")), []byte("\n")) {
		var p goldenPrompt
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

type goldenReference struct {
	Detectors struct {
		Index     [][][]int32   `json:"argmax_index"`
		Close     [][4]float64  `json:"argmax_close_calls"`
		Argmax    [][]float64   `json:"argmax_last"`
		Retrieval heads.Ranking `json:"retrieval_heads"`
	}
	Interventions map[string]json.RawMessage
}

type goldenKnockout struct {
	Heads   heads.Set
	Recall  float64
	Sum     float64     `json:"sum_logprob_mean"`
	Correct []int       `json:"correct"`
	LogProb [][]float64 `json:"code_logprob"`
	Greedy  [][]int32   `json:"greedy_ids"`
	Margin  []float64   `json:"greedy_min_margin"`
	N       int
}

// TestSmolLM2Study: the whole path from prompt file to result reproduces transformers' knock-outs on the real model: the heads found,
// the outcome of each prompt, log-probabilities within 1e-3, greedy ids save near-ties. 2 prompts with verified answers, or 20 with whole ones under
// HEADSCOPE_SLOW=1.
func TestSmolLM2Study(t *testing.T) {
	c, m := openSmolLM2(t)
	var ref goldenReference
	if err := json.Unmarshal(readFile(t, "verify/testdata/smollm2/reference.json"), &ref); err != nil {
		t.Fatal(err)
	}
	n, full, names := 2, false, []string{"knockout/argmax>=0.1", "knockout/argmax>=0.1/matched0"}
	if os.Getenv("HEADSCOPE_SLOW") == "1" {
		n, full = 20, true
		names = append(names, "knockout/argmax>=0.1/matched1", "knockout/argmax>=0.1/matched2", "knockout/top3")
	}
	prompts, err := ReadPrompts(BuiltinPrompts)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Verb: "study", Stages: []string{StageDetect, StageKnockout}, Checkpoint: c, Model: m, Prompts: prompts.Limit(n), Threshold: 0.1,
		MaxNew: 16, FullAnswers: full, Batch: 1, Out: t.TempDir(), // no scopes: the conditions named below and no others
	}
	want := map[string]goldenKnockout{}
	for _, name := range append([]string{"baseline"}, names...) {
		var k goldenKnockout
		if err := json.Unmarshal(ref.Interventions[name], &k); err != nil {
			t.Fatal(err)
		}
		want[name] = k
		if name != "baseline" {
			o.Conditions = append(o.Conditions, NamedEdits{name, patch.ZeroHeads(k.Heads, decoder.ScopeAll)})
		}
	}
	s, err := NewStudy(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	checkDetection(t, &ref, n, s, res)
	checkTrials(t, s, want, n)
	for _, r := range res.Conditions {
		w, ok := want[r.Name]
		if r.Name == baseline {
			w, ok = want["baseline"], true
		}
		if !ok || n < w.N {
			continue
		}
		if got := float64(r.Metrics.Recall.Value); math.Abs(got-w.Recall) > 1e-9 {
			t.Errorf("%s: recall %g, want %g", r.Name, got, w.Recall)
		}
		if got := float64(r.Metrics.SumLogProb.Value); math.Abs(got-w.Sum) > 1e-3 {
			t.Errorf("%s: mean log-probability %g, want %g", r.Name, got, w.Sum)
		}
	}
	t.Logf("%d prompts, %d conditions on %s", n, len(res.Conditions), m.Backend().About)
}

// checkDetection compares the arg max of every head and prompt, save the reference's close calls.
func checkDetection(t *testing.T, ref *goldenReference, n int, s *Study, res *Result) {
	t.Helper()
	closeCalls := map[[3]int]bool{}
	for _, c := range ref.Detectors.Close {
		closeCalls[[3]int{int(c[0]), int(c[1]), int(c[2])}] = true
	}
	for i, trial := range stageTrials(t, s.TrialsPath(), StageDetect) {
		for l, row := range ref.Detectors.Index[i] {
			for h, want := range row {
				got := trial.Attention.Argmax[0][l*len(row)+h]
				if got != want && !closeCalls[[3]int{i, l, h}] {
					t.Errorf("prompt %d L%dH%d: arg max %d, want %d", i, l, h, got, want)
				}
			}
		}
	}
	if top := res.Heads[:1]; !slices.Equal(top, ref.Detectors.Retrieval[:1]) {
		t.Errorf("best head %v, want %v", top, ref.Detectors.Retrieval[:1])
	}
}

func stageTrials(t *testing.T, path, stage string) []Trial {
	t.Helper()
	var out []Trial
	for _, line := range bytes.Split(bytes.TrimSpace(readFile(t, path)), []byte("\n"))[2:] {
		var trial Trial
		if err := json.Unmarshal(line, &trial); err != nil {
			t.Fatal(err)
		}
		if trial.Stage == stage {
			out = append(out, trial)
		}
	}
	return out
}

// checkTrials compares every stored trial with the reference's.
func checkTrials(t *testing.T, s *Study, want map[string]goldenKnockout, n int) {
	t.Helper()
	seen := map[string]int{}
	all := append(stageTrials(t, s.TrialsPath(), StageDetect), stageTrials(t, s.TrialsPath(), StageKnockout)...)
	for _, trial := range all {
		name := trial.Condition
		if name == baseline {
			name = "baseline"
		}
		w, ok := want[name]
		if !ok {
			continue
		}
		i := seen[name]
		seen[name]++
		for k, lp := range w.LogProb[i] {
			if d := math.Abs(float64(trial.LogProb[k]) - lp); !(d <= 1e-3) {
				t.Errorf("%s prompt %d token %d: log-probability %g, want %g", name, i, k, trial.LogProb[k], lp)
			}
		}
		tie := w.Margin[i] < 1e-3
		got, greedy := trial.Greedy, w.Greedy[i]
		if trial.Verified {
			greedy = greedy[:len(got)]
		}
		if !slices.Equal(got, greedy) && !tie {
			t.Errorf("%s prompt %d: greedy %v, want %v (margin %g)", name, i, got, greedy, w.Margin[i])
		}
		if (trial.Outcome == Hit) != (w.Correct[i] == 1) && !tie {
			t.Errorf("%s prompt %d: %s, want correct = %d", name, i, trial.Outcome, w.Correct[i])
		}
	}
	for name := range want {
		if seen[name] != n {
			t.Errorf("%s: %d trials, want %d", name, seen[name], n)
		}
	}
}
