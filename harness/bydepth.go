package harness

import (
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/stats"
)

// Needle depths of the far and the near group, ends included: far from the question, which stands at the end, is early in the text.
const (
	farFrom, farTo   = 0.1, 0.25
	nearFrom, nearTo = 0.75, 0.9
)

// DepthResult is one condition by the depth of the needle.
type DepthResult struct {
	Condition string       `json:"condition"`
	Depths    []DepthGroup `json:"depths"` // ascending
	Far       DepthGroup   `json:"far"`    // depths .1 to .25
	Near      DepthGroup   `json:"near"`   // depths .75 to .9

	// Far minus near. A bootstrap draws prompts within each group.
	Recall     Metric  `json:"recall_far_minus_near"`
	Margin     Metric  `json:"margin_far_minus_near"`
	SumLogProb Metric  `json:"sum_logprob_far_minus_near"`
	Change     *Metric `json:"change_far_minus_near,omitempty"` // of the primary outcome's change against the unmodified model
}

// DepthGroup is a condition on the prompts whose needle stands at depths From to To.
type DepthGroup struct {
	From       Number `json:"from"`
	To         Number `json:"to"`
	N          int    `json:"n"` // trials that did not fail
	Recall     Metric `json:"recall"`
	Margin     Metric `json:"margin"`
	SumLogProb Metric `json:"sum_logprob"`
}

// byDepth sorts one condition's trials by depth; base are the unmodified model's, nil for itself.
func (p *Plan) byDepth(name string, records []PromptRecord, trials, base []Trial) DepthResult {
	r := DepthResult{Condition: name, Depths: []DepthGroup{}}
	var depths []float64
	for _, rec := range records {
		if d := float64(rec.Depth); d == d && !slices.Contains(depths, d) {
			depths = append(depths, d)
		}
	}
	slices.Sort(depths)
	for _, d := range depths {
		g, _ := p.depthGroup(records, trials, d, d)
		r.Depths = append(r.Depths, g)
	}
	var far, near []int
	r.Far, far = p.depthGroup(records, trials, farFrom, farTo)
	r.Near, near = p.depthGroup(records, trials, nearFrom, nearTo)
	difference := func(of func(i int) (float64, bool)) Metric {
		take := func(group []int) (out []float64) {
			for _, i := range group {
				if x, ok := of(i); ok {
					out = append(out, x)
				}
			}
			return out
		}
		return p.Statistics.difference(take(far), take(near))
	}
	r.Recall = difference(func(i int) (float64, bool) {
		if trials[i].Outcome == Scored {
			return 0, false
		}
		return map[bool]float64{true: 1}[trials[i].Outcome == Hit], true
	})
	margin := func(t []Trial) func(i int) (float64, bool) {
		return func(i int) (float64, bool) { return float64(t[i].Margin), t[i].Decoy != nil }
	}
	sum := func(t []Trial) func(i int) (float64, bool) {
		return func(i int) (float64, bool) { return float64(t[i].Sum), true }
	}
	r.Margin, r.SumLogProb = difference(margin(trials)), difference(sum(trials))
	if base != nil {
		primary := sum
		if p.Primary.Metric == metricMargin {
			primary = margin
		}
		change := difference(func(i int) (float64, bool) {
			after, ok := primary(trials)(i)
			before, was := primary(base)(i)
			return after - before, ok && was && base[i].Outcome != Failed
		})
		r.Change = &change
	}
	return r
}

// depthGroup summarises the trials of the prompts at some depths, and lists those that did not fail.
func (p *Plan) depthGroup(records []PromptRecord, trials []Trial, from, to float64) (DepthGroup, []int) {
	const slack = 1e-9 // depths are decimal fractions
	var members []int
	var group []Trial
	for i := range trials {
		if d := float64(records[i].Depth); d >= from-slack && d <= to+slack && trials[i].Outcome != Failed {
			members, group = append(members, i), append(group, trials[i])
		}
	}
	g := DepthGroup{From: Number(from), To: Number(to), N: len(group)}
	if len(group) == 0 {
		none := undefined(bootstrapMethod, fmt.Sprintf("no prompt has its needle at a depth from %g to %g", from, to))
		g.Recall, g.Margin, g.SumLogProb = none, none, none
		return g, nil
	}
	sum := p.summarise(&condition{scoreOnly: group[0].Outcome == Scored}, "", group, nil)
	g.Recall, g.Margin, g.SumLogProb = sum.Metrics.Recall, sum.Metrics.Margin, sum.Metrics.SumLogProb
	return g, members
}

const differenceMethod = "bootstrap over prompts of each group, 10000, percentile 0.95"

// difference is mean(far) - mean(near) with an interval.
func (s *PlanStats) difference(far, near []float64) Metric {
	if len(far) == 0 || len(near) == 0 {
		return undefined(differenceMethod, "one of the groups is empty")
	}
	b := stats.Bootstrap([][]float64{far, near}, stats.MeanDifferenceOf, s.resampling(), stats.Source{Seed: s.Seed, Stream: s.Bootstrap})
	m := Metric{Number(b.Estimate.Or(math.NaN())), Number(b.Percentile.Lo), Number(b.Percentile.Hi), differenceMethod, len(far) + len(near), ""}
	switch {
	case b.Estimate.Why() != "":
		m.Low, m.High, m.Reason = nan, nan, "a log-probability is not a finite number"
	case len(far) == 1 || len(near) == 1:
		m.Low, m.High, m.Reason = nan, nan, "one prompt in a group gives no interval"
	}
	return m
}
