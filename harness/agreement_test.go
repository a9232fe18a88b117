package harness

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// TestAgreement: the curves begin with the map's own entries, what a detector's table says follows from scores and map, random rankings
// are there, and the result can be computed again from its trials.
func TestAgreement(t *testing.T) {
	o := tinyOptions(t, 2)
	o.Verb, o.Stages, o.AgreementPrompts = "detect", []string{StageDetect}, shifted(t, 3)
	for i := range o.AgreementPrompts.Specs {
		o.AgreementPrompts.Specs[i].Template = []string{"plain", "other"}[i%2]
	}
	s, res := runStudy(t, o)
	a := res.Agreement
	if a == nil || a.Prompts != 3 || a.Relevant != 2 || len(a.Sizes) != 3 || len(a.Detectors) != 7 || a.Random.Rankings != randomRankings {
		t.Fatalf("got %+v", a)
	}
	trials := stageTrials(t, s.TrialsPath(), StageAgreement)
	top, _ := a.Causal.Top(2)
	relevant := make([]bool, 36)
	for _, h := range top {
		relevant[h.Layer*12+h.Index] = true
	}
	for _, d := range a.Detectors {
		score, ok := res.Detection.Score(d.Name)
		if !ok {
			t.Fatalf("%s is no detector of the result", d.Name)
		}
		if want := stats.AUPRC(score.Data, relevant).Value.Or(-1); float64(d.AUPRC) != want {
			t.Errorf("%s: AUPRC %g, want %g", d.Name, d.AUPRC, want)
		}
		best, mean := score.Ranking()[0], 0.0
		for _, trial := range trials {
			one := trial.HeadScores["causal"][best.Layer*12+best.Index]
			if math.Abs(float64(trial.Curves[d.Name][0]-one)) > 2e-6 {
				t.Errorf("%s: without %v alone %g, the map says %g", d.Name, best, trial.Curves[d.Name][0], one)
			}
			mean += float64(trial.Curves[d.Name][0]) / 3
		}
		if math.Abs(float64(d.Curve[0])-mean) > 1e-9 || len(d.Templates) != 2 || d.Templates[0].Prompts != 2 {
			t.Errorf("%s: curve begins with %g, want %g; templates %v", d.Name, d.Curve[0], mean, d.Templates)
		}
	}
	if check, err := Recheck(res.Path); err != nil || !check.OK {
		t.Errorf("recheck: %v, %+v", err, check)
	}
}

func TestAgreementRefuses(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"same prompts": func(o *Options) { o.AgreementPrompts = o.Prompts },
		"edited": func(o *Options) {
			o.Edits = []decoder.Edit{{Op: decoder.OpZero, Heads: heads.NewSet(decoder.Head{}), Scope: decoder.ScopeAll}}
		},
		"no detection": func(o *Options) { o.Stages, o.Heads = []string{StageKnockout}, heads.Ranking{{}} },
		"shard":        func(o *Options) { o.Shard = Shard{1, 2} },
	} {
		o := tinyOptions(t, 2)
		o.Verb, o.Stages, o.AgreementPrompts = "detect", []string{StageDetect}, shifted(t, 3)
		change(&o)
		var usage *UsageError
		if _, err := NewStudy(context.Background(), o); !errors.As(err, &usage) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
