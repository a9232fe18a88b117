package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// TestAgreement: the curves begin with the map's own entries, what a detector's table says follows from scores and map, random rankings
// are there, every kind of needle is held against its own prompts' map, and the result can be computed again from its trials.
func TestAgreement(t *testing.T) {
	o := tinyOptions(t, 2)
	o.Verb, o.Stages, o.AgreementPrompts = "detect", []string{StageDetect}, shifted(t, 3)
	for i := range o.AgreementPrompts.Specs {
		o.AgreementPrompts.Specs[i].Kind = []string{"decoy", "no_overlap"}[i%2]
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
			if trial.Curves[d.Name][0] != one {
				t.Errorf("%s: without %v alone %g, the map says %g", d.Name, best, trial.Curves[d.Name][0], one)
			}
			mean += float64(trial.Curves[d.Name][0]) / 3
		}
		if math.Abs(float64(d.Curve[0])-mean) > 1e-9 {
			t.Errorf("%s: curve begins with %g, want %g", d.Name, d.Curve[0], mean)
		}
	}
	if len(a.Kinds) != 2 || a.Kinds[0].Kind != "decoy" || a.Kinds[0].Prompts != 2 || a.Kinds[1].Prompts != 1 || !(a.LogProb < 0) {
		t.Fatalf("kinds %+v", a.Kinds)
	}
	for i, k := range a.Kinds {
		for h, got := range k.Causal.Data {
			want := float64(trials[i].HeadScores["causal"][h])
			if i == 0 {
				want = (want + float64(trials[2].HeadScores["causal"][h])) / 2
			}
			if math.Abs(got-want) > 1e-9 {
				t.Fatalf("%s: head %d costs %g, want %g", k.Kind, h, got, want)
			}
		}
		if len(k.Detectors) != 7 || len(k.Detectors[0].Curve) != 3 || math.IsNaN(float64(k.Detectors[0].AUPRCLow)) != (k.Prompts == 1) {
			t.Errorf("%s: %+v", k.Kind, k.Detectors[0])
		}
	}
	est, err := s.DryRun(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	last := est.Stages[len(est.Stages)-1]
	if last.Name != StageAgreement || est.Trials != res.N.Planned || last.Trials != 3 || last.Work.RowPasses < 3*(36+7) || est.Prompts.Agree != 3 {
		t.Errorf("%d trials, the run had %d; %+v", est.Trials, res.N.Planned, last)
	}
	asked := map[string]bool{}
	e := newEvidence(s.Plan, Shape{3, 12, 3}, nil)
	e.found = res.Detection
	off, err := e.knockouts()
	if err != nil {
		t.Fatal(err)
	}
	if got := last.Work.RowPasses; got < 3*len(off.conds) {
		t.Errorf("at most %d row edits are counted, the run has %d", got, 3*len(off.conds))
	}
	for _, c := range off.conds[1:] {
		set := fmt.Sprint(c.Edits)
		if asked[set] {
			t.Errorf("%s is switched off twice", set)
		}
		asked[set] = true
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
