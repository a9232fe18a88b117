package harness

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// TestPredict: the change of the score that the ledger predicts is that of the edited run, for heads that do not feed one another; the change of
// the answer's and the decoy's log-probability is the edited run's to first order.
func TestPredict(t *testing.T) {
	o := bandOptions(t)
	s := inUnits(t, o)
	r := &runner{o: s.o, plan: s.Plan, trace: s.trace}
	var conds []condition
	for _, form := range []string{"zero_planes:L1H1,L1H7:slow4", "freeze:L1H1:fast8@question", "swap=theta50:L2H3,L2H4", "zero_dims:L2H3:1+4+9@question", "zero:L1H1",
		"scale=1.01:L1H1,L2H3", "temperature=1.02:L1H1,L2H3@question"} {
		e, err := decoder.ParseEdit(form, nil)
		if err != nil {
			t.Fatal(err)
		}
		conds = append(conds, condition{name: form, edits: []decoder.Edit{e}, heads: heads.NewSet(e.Heads...), looksAtScores: len(conds) == 0})
	}
	got, err := r.predict(context.Background(), s.Plan.Bands, append(conds, condition{name: "legacy", edits: []decoder.Edit{{Op: decoder.OpLegacy, Heads: o.Heads, Band: "slow4"}}}), s.prompts[:1])
	if err != nil || len(got) != 1 || len(got[0].Ledger) != len(conds) {
		t.Fatalf("%+v, %v", got, err)
	}
	p := s.prompts[0]
	if x := got[0].Ledger[conds[0].name]; math.Abs(float64(x.Measured-x.Score)) > 4e-6 || got[0].Ledger[conds[1].name].Measured == got[0].Ledger[conds[1].name].Measured {
		t.Errorf("the first condition's score alone is measured: %+v, %+v", x, got[0].Ledger[conds[1].name])
	}
	plain, moved := measure(t, s, p, nil), 0.0
	for _, c := range conds {
		edited, x := measure(t, s, p, c.edits), got[0].Ledger[c.name]
		score := 0.0
		for _, h := range c.edits[0].Heads {
			score += (edited.score(h, p) - plain.score(h, p)) / float64(len(c.edits[0].Heads))
		}
		apart := c.edits[0].Heads[0].Layer == c.edits[0].Heads[len(c.edits[0].Heads)-1].Layer
		if moved = max(moved, math.Abs(score)); apart && !(math.Abs(float64(x.Score)-score) <= 4e-6) {
			t.Errorf("%s: score: predicted %g, measured %g", c.name, x.Score, score)
		}
		if !strings.HasPrefix(c.name, "scale") && !strings.HasPrefix(c.name, "temperature") {
			continue
		}
		for what, pair := range map[string][2]float64{
			"answer": {float64(x.Sum), edited.answer - plain.answer}, "margin": {float64(x.Margin), (edited.answer - edited.decoy) - (plain.answer - plain.decoy)},
		} {
			if d := math.Abs(pair[0] - pair[1]); !(d <= 2e-5+0.1*math.Abs(pair[1])) || math.Abs(pair[1]) < 5e-5 && what == "answer" && strings.HasPrefix(c.name, "scale") {
				t.Errorf("%s: %s: predicted %g, measured %g", c.name, what, pair[0], pair[1])
			}
		}
	}
	if moved < 1e-3 {
		t.Errorf("scores move by %g: nothing is tested", moved)
	}
}

// TestPredictLongAnswer: an answer of more tokens than a gradient's program takes is predicted.
func TestPredictLongAnswer(t *testing.T) {
	o := bandOptions(t)
	s := inUnits(t, o)
	r := &runner{o: s.o, plan: s.Plan, trace: s.trace}
	p := *s.prompts[0]
	for len(p.Answer) <= 64 {
		p.Answer, p.Decoy = append(slices.Clone(p.Answer), p.IDs[:30]...), append(slices.Clone(p.Decoy), p.IDs[:30]...)
	}
	e, err := decoder.ParseEdit("scale=1.01:L1H1", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.predict(context.Background(), s.Plan.Bands, []condition{{name: "a", edits: []decoder.Edit{e}, heads: heads.NewSet(e.Heads...)}}, []*Prompt{&p})
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	plain, edited := measure(t, s, &p, nil), measure(t, s, &p, []decoder.Edit{e})
	if x, want := float64(got[0].Ledger["a"].Sum), edited.answer-plain.answer; !(math.Abs(x-want) <= 2e-4+0.1*math.Abs(want)) || x == 0 {
		t.Errorf("predicted %g, measured %g", x, want)
	}
}

// TestUnpredicted: the heads of all edits count, and controls of passes that are whole are left out by their cost.
func TestUnpredicted(t *testing.T) {
	edits := []decoder.Edit{{Op: decoder.OpZero}, {Op: decoder.OpScale, Value: 2}}
	for i := range 80 {
		edits[i%2].Heads = append(edits[i%2].Heads, decoder.Head{Layer: 1, Index: i})
	}
	k := &PlanControls{WholePasses: []decoder.Scope{"0..8"}}
	for _, tc := range []struct {
		c    condition
		want string
	}{
		{condition{edits: edits}, "it edits 80 heads"},
		{condition{edits: edits[:1]}, ""},
		{condition{edits: edits[:1], controlOf: "a", scope: "question"}, ""},
		{condition{edits: edits[:1], controlOf: "a", scope: "0..8"}, "whole passes"},
		{condition{edits: []decoder.Edit{{Op: decoder.OpKeepSpread, Heads: edits[0].Heads}}}, "keep_spread is not worked out by the ledger"},
	} {
		if got := tc.c.unpredicted(k); got != tc.want && (tc.want == "" || !strings.Contains(got, tc.want)) {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// TestPredictionPrompts: a prediction is a mean over the prompts that the drop beside it has too.
func TestPredictionPrompts(t *testing.T) {
	b := &PlanBands{Ledger: true}
	p := &Plan{Bands: b, Primary: PlanPrimary{Metric: metricSum}, Detect: &PlanDetect{}}
	trial := func(failed bool, x Number) Trial {
		out := Trial{Ledger: map[string]TrialPrediction{"a": {Sum: x}}}
		if failed {
			out.Outcome = Failed
		}
		return out
	}
	e := &evidence{plan: p, trials: map[string][]Trial{
		StageDetect: {trial(false, 0), trial(true, 0), trial(false, 0), trial(false, 0)}, ledgerStage(b): {trial(false, 1), trial(false, 10), trial(false, 100), trial(true, 1000)},
	}}
	conds := []condition{{name: "a", edits: []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{{}}}}}}
	results := make([]ConditionResult, 1)
	e.fillPredictions(b, conds, results, map[string][]Trial{"a": {trial(false, 0), trial(false, 0), trial(true, 0), trial(false, 0)}})
	if x := results[0].Predicted; x == nil || x.N != 1 || x.Sum != 1 || x.Drop != -1 {
		t.Errorf("got %+v: the first prompt alone has baseline, condition and prediction", x)
	}
	r := &Result{Plan: p, Conditions: []ConditionResult{{Name: "a", Stage: StageBands, Predicted: &Prediction{N: 1}, Metrics: Metrics{Change: &Metric{Of: 2}}}}}
	if _, rows, _ := r.predictionRows(StageBands); len(rows) != 2 || rows[1][0] != "a (predicted: 1 of 2 prompts)" {
		t.Errorf("got %q", rows)
	}
}

// measured is one prompt run with its answer, and with its decoy.
type measured struct {
	tr            *decoder.Trace
	answer, decoy float64
}

func measure(t *testing.T, s *Study, p *Prompt, edits []decoder.Edit) measured {
	t.Helper()
	fed := func(answer []int32) (*decoder.Trace, float64) {
		rows := []int{}
		for i := range answer {
			rows = append(rows, len(p.IDs)-1+i)
		}
		tr, err := s.trace(context.Background(), &decoder.Prompt{IDs: p.IDs, Answer: answer, Question: p.Question}, edits,
			decoder.TraceOptions{Hidden: -1, Logits: rows, Attention: rows[:1], Scores: true})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, id := range answer {
			sum += float64(tr.Logits[i][id]) - logSumExp(tr.Logits[i], float64(slices.Max(tr.Logits[i])))
		}
		return tr, sum
	}
	_, decoy := fed(p.Decoy)
	tr, answer := fed(p.Answer)
	return measured{tr, answer, decoy}
}

// score is a head's mean score of the code's tokens at the last row less that of the keys outside of the needle, by a plain loop.
func (m *measured) score(h decoder.Head, p *Prompt) float64 {
	code, rest, n, others := 0.0, 0.0, 0.0, 0.0
	for k, x := range m.tr.Attention[h.Layer][h.Index*m.tr.T:][:len(p.IDs)] {
		switch {
		case k >= p.Code[0] && k < p.Code[1]:
			code, n = code+float64(x), n+1
		case k < p.Needle[0] || k >= p.Needle[1]:
			rest, others = rest+float64(x), others+1
		}
	}
	return code/n - rest/others
}
