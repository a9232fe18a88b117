package harness

import (
	"math"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
)

// TestOverflow: log-probabilities that are none are null with a reason wherever they are summed up, and never a number.
func TestOverflow(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0.5} {
		var trial Trial
		trial.fill(&decoder.Reply{LogProb: []float64{-1, bad}, Decoy: []float64{-2, -3}})
		if trial.Error != overflow || trial.Sum == trial.Sum || trial.Margin == trial.Margin || trial.LogProb[0] == trial.LogProb[0] || trial.Decoy[0] == trial.Decoy[0] {
			t.Errorf("%g: %+v", bad, trial)
		}
		trial.Outcome = Failed
		p := &Plan{Statistics: PlanStats{Resamples: 100, Level: level}, Primary: PlanPrimary{Metric: metricMargin}}
		base := []Trial{{LogProb: []Number{-1, -1}, Sum: -2, Decoy: []Number{-2, -3}, Margin: 3}}
		if r := p.summarise(&condition{name: "x"}, "", []Trial{trial}, base); r.N.Failed != 1 || r.Metrics.Recall.Value == r.Metrics.Recall.Value || r.Metrics.MarginChange != nil || r.Metrics.SumLogProb.Value == r.Metrics.SumLogProb.Value || r.Metrics.SumLogProb.Reason == "" {
			t.Errorf("%g: %+v", bad, r)
		}
		var text TextTotals
		plain := &decoder.TextScore{LogProb: []float64{-1, -1}}
		text.add(&decoder.TextScore{LogProb: []float64{-1, bad}, KL: []float64{0, 0}}, plain)
		var sum TextTotals
		sum.plus(&text)
		sum.plus(&TextTotals{Tokens: 2, NLL: 3, KL: 1, Largest: 1})
		s := &PlanStats{Resamples: 100, Level: level}
		r := s.textResult(NamedEdits{Name: "x"}, "float32", []TextTotals{sum, {Tokens: 4, NLL: 4}}, []TextTotals{{Tokens: 4, NLL: 4}, {Tokens: 4, NLL: 4}})
		if r.Tax.Reason != overflow || r.Tax.Value == r.Tax.Value || r.NLL.Reason != overflow || r.KL.Reason != overflow || r.Largest == r.Largest || r.NoOp != "" {
			t.Errorf("%g: %+v", bad, r)
		}
	}
	var fine Trial
	fine.fill(&decoder.Reply{LogProb: []float64{-1, 1e-6}, Decoy: []float64{-200}})
	if fine.Error != "" || float64(fine.Margin) != 1e-6-1+200 {
		t.Errorf("%+v", fine)
	}
	s := &PlanStats{Resamples: 100, Level: level}
	if r := s.textResult(NamedEdits{}, "float32", []TextTotals{{Tokens: 1, NLL: 1000}}, nil); !strings.Contains(r.Perplexity.Reason, "too large") || float64(r.NLL.Value) != 1000 {
		t.Errorf("%+v", r)
	}
}
