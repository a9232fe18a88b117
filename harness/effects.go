package harness

import (
	"math"
	"math/rand/v2"

	"github.com/headscope/headscope/stats"
)

// fewestControls is how many control sets the head-set randomisation needs for a p of 0.05.
const fewestControls = 19

const (
	wilsonMethod    = "wilson 0.95"
	bootstrapMethod = "bootstrap over prompts, 10000, percentile 0.95"
)

// byCondition sorts a stage's trials by condition; each slice is in the order of the prompts.
func byCondition(trials []Trial, conds []condition) map[string][]Trial {
	out := map[string][]Trial{}
	for i, t := range trials {
		name := conds[i%len(conds)].name
		out[name] = append(out[name], t)
	}
	return out
}

// summarise computes a condition's numbers; base are the unmodified model's trials of the same prompts, nil for itself.
func summarise(s *PlanStats, c *condition, stage string, trials, base []Trial) ConditionResult {
	r := ConditionResult{Name: c.name, Stage: stage, Edits: c.edits, Heads: c.heads, Scope: c.scope, ControlOf: c.controlOf}
	if r.Edits == nil {
		r.Edits = r.Edits[:0:0]
	}
	flips := [2]int{}
	var sums []float64
	for i := range trials {
		t := &trials[i]
		r.N.add(t)
		if t.Outcome == Failed {
			continue
		}
		sums = append(sums, float64(t.Sum))
		if t.Outcome == Hit {
			flips[1]++
			if !t.Fragile {
				flips[0]++
			}
		} else if t.Fragile {
			flips[1]++
		}
	}
	done := r.N.Planned - r.N.Failed
	r.Metrics.Recall = recall(r.N.Hit, done)
	if r.N.Fragile > 0 {
		r.Metrics.Flipped = &flips
	}
	mean := stats.PairedBootstrap(make([]float64, len(sums)), sums, s.resampling(), s.bootstrap())
	r.Metrics.SumLogProb = metricOf(mean, bootstrapMethod, len(sums))
	if base != nil {
		compare(s, &r, trials, base)
	}
	return r
}

func recall(hits, of int) Metric {
	if of == 0 {
		return undefined(wilsonMethod, "every trial failed")
	}
	iv := stats.Wilson(hits, of, level)
	return Metric{Number(float64(hits) / float64(of)), Number(iv.Lo), Number(iv.Hi), wilsonMethod, of, ""}
}

// compare adds the paired comparisons; pairs with a failed trial are left out.
func compare(s *PlanStats, r *ConditionResult, trials, base []Trial) {
	var before, after []float64
	var hitBefore, hitAfter []bool
	for i := range trials {
		if trials[i].Outcome == Failed || base[i].Outcome == Failed {
			continue
		}
		before, after = append(before, float64(base[i].Sum)), append(after, float64(trials[i].Sum))
		hitBefore, hitAfter = append(hitBefore, base[i].Outcome == Hit), append(hitAfter, trials[i].Outcome == Hit)
	}
	change := metricOf(stats.PairedBootstrap(before, after, s.resampling(), s.bootstrap()), bootstrapMethod+", paired", len(before))
	r.Metrics.Change = &change
	b, c := stats.Discordant(hitBefore, hitAfter)
	m := stats.McNemar(b, c)
	if len(before) == 0 {
		m.P, m.Log10P = math.NaN(), math.NaN()
	}
	r.Metrics.McNemar = &Paired{Lost: b, Gained: c, P: Number(m.P), Log10P: Number(m.Log10P), Of: len(before), About: "prompts only"}
}

func (s *PlanStats) resampling() stats.Resampling {
	return stats.Resampling{N: s.Resamples, Level: s.Level}
}

// bootstrap starts the stream anew for each interval, so that a number does not depend on which others are computed.
func (s *PlanStats) bootstrap() *rand.Rand { return rand.New(rand.NewPCG(s.Seed, s.Bootstrap)) }

// effects ranks each knock-out's drop of the mean log-probability among those of its controls.
func effects(conds []ConditionResult) []Effect {
	var out []Effect
	for i := range conds {
		c := &conds[i]
		var drops []float64
		for j := range conds {
			if conds[j].ControlOf == c.Name {
				drops = append(drops, drop(&conds[j]))
			}
		}
		if len(drops) == 0 {
			continue
		}
		test := stats.HeadSetTest(drop(c), drops)
		e := Effect{Condition: c.Name, Controls: test.Controls, AtLeast: test.AtLeast, Method: "head-set randomisation on the drop of sum_logprob"}
		switch p := Number(test.P); {
		case math.IsNaN(test.P):
			e.Reason = "is undefined: one of the drops is not a number"
		case test.Controls >= fewestControls:
			e.P = &p
		default:
			e.Reason = "needs >= 19 controls"
		}
		out = append(out, e)
	}
	return out
}

func drop(c *ConditionResult) float64 { return -float64(c.Metrics.Change.Value) }
