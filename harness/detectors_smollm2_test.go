package harness

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
)

// TestSmolLM2Wu: both forms of Wu's score on the real model are those of the reference, over all its prompts, and so is which of them count. Slow.
func TestSmolLM2Wu(t *testing.T) {
	if os.Getenv("HEADSCOPE_SLOW") != "1" {
		t.Skip("SKIPPED: slow; HEADSCOPE_SLOW=1 runs it")
	}
	c, m := openSmolLM2(t)
	var ref struct {
		Detectors struct {
			Step [][]float64 `json:"wu_step"`
			Set  [][]float64 `json:"wu_set"`
			Kept []int       `json:"wu_kept"`
		}
	}
	if err := json.Unmarshal(readFile(t, "verify/testdata/smollm2/reference.json"), &ref); err != nil {
		t.Fatal(err)
	}
	prompts, err := ReadPrompts(BuiltinPrompts)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStudy(context.Background(), Options{
		Verb: "detect", Stages: []string{StageDetect}, Detectors: []string{"wu_step", "wu_set"}, Checkpoint: c, Model: m, Prompts: prompts,
		Threshold: 0.1, MaxNew: 16, Batch: 1, Out: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i, trial := range stageTrials(t, s.TrialsPath(), StageObserve) {
		if _, ok := trial.HeadScores["wu_step"]; ok != (ref.Detectors.Kept[i] == 1) {
			t.Errorf("prompt %s: counts: %t, want %d", trial.Prompt, ok, ref.Detectors.Kept[i])
		}
	}
	for name, want := range map[string][][]float64{"wu_step": ref.Detectors.Step, "wu_set": ref.Detectors.Set} {
		got, ok := res.Detection.Score(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		differ := 0
		for l, row := range want {
			for h, w := range row {
				if g := got.At(decoder.Head{Layer: l, Index: h}); math.Abs(g-w) > 2e-6 { // the reference is rounded to six places
					differ++
					t.Errorf("%s L%dH%d: %.6f, want %.6f", name, l, h, g, w)
				}
			}
		}
		t.Logf("%s: %d of %d heads differ, %d prompts", name, differ, len(got.Data), got.N)
	}
}
