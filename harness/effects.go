package harness

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/headscope/headscope/loader/decoder"
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
func (p *Plan) summarise(c *condition, stage string, trials, base []Trial) ConditionResult {
	s := &p.Statistics
	r := ConditionResult{Name: c.name, Stage: stage, Edits: c.edits, Heads: c.heads, Scope: c.scope, ControlOf: c.controlOf, Pool: c.pool}
	if r.Edits == nil {
		r.Edits = []decoder.Edit{}
	}
	flips := [2]int{}
	var sums, margins []float64
	var scores ScorerShares
	for i := range trials {
		t := &trials[i]
		r.N.add(t)
		if t.Outcome == Failed {
			continue
		}
		sums = append(sums, float64(t.Sum))
		if t.Decoy != nil {
			margins = append(margins, float64(t.Margin))
		}
		scores.add(t)
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
	if c.scoreOnly {
		r.Metrics.Recall = undefined(wilsonMethod, "the answers of this control set were scored and not decoded (--full-answers decodes all)")
	} else if r.N.Fragile > 0 {
		r.Metrics.Flipped = &flips
	}
	r.Metrics.SumLogProb, r.Metrics.Margin = s.mean(sums), s.mean(margins)
	switch {
	case done == 0:
		r.Metrics.SumLogProb = undefined(bootstrapMethod, "every trial failed")
		r.Metrics.Margin = r.Metrics.SumLogProb
	case len(margins) == 0:
		r.Metrics.Margin = undefined(bootstrapMethod, "no trial has a decoy to compare with")
	}
	if !c.scoreOnly {
		r.Metrics.Scorers = scores.shares()
	}
	if base != nil {
		r.NoOp = p.noOp(c, trials, base)
		p.compare(c, &r, trials, base)
	}
	return r
}

// mean is the mean of x with a bootstrap interval.
func (s *PlanStats) mean(x []float64) Metric {
	return metricOf(stats.PairedBootstrap(make([]float64, len(x)), x, s.resampling(), s.bootstrap()), bootstrapMethod, len(x))
}

// ScorerShares are the shares of trials that each scorer counts as answered, and the mean of ROUGE-1 recall.
type ScorerShares struct {
	FirstToken Number `json:"first_token"`
	Substring  Number `json:"substring"`
	Exact      Number `json:"exact"`
	Rouge1     Number `json:"rouge1"`
	Of         int    `json:"of"`
}

func (s *ScorerShares) add(t *Trial) {
	if t.Scores == nil {
		return
	}
	s.Of++
	for _, x := range []struct {
		to *Number
		on bool
	}{{&s.FirstToken, t.Scores.FirstToken}, {&s.Substring, t.Scores.Substring}, {&s.Exact, t.Scores.Exact}} {
		if x.on {
			*x.to++
		}
	}
	s.Rouge1 += t.Scores.Rouge1
}

func (s *ScorerShares) shares() *ScorerShares {
	if s.Of == 0 {
		return nil
	}
	n := Number(s.Of)
	return &ScorerShares{s.FirstToken / n, s.Substring / n, s.Exact / n, s.Rouge1 / n, s.Of}
}

func recall(hits, of int) Metric {
	if of == 0 {
		return undefined(wilsonMethod, "every trial failed")
	}
	iv := stats.Wilson(hits, of, level)
	return Metric{Number(float64(hits) / float64(of)), Number(iv.Lo), Number(iv.Hi), wilsonMethod, of, ""}
}

// compare adds the paired comparisons; pairs with a failed trial are left out.
func (p *Plan) compare(c *condition, r *ConditionResult, trials, base []Trial) {
	s := &p.Statistics
	var before, after, marginBefore, marginAfter []float64
	var hitBefore, hitAfter []bool
	for i := range trials {
		if trials[i].Outcome == Failed || base[i].Outcome == Failed {
			continue
		}
		before, after = append(before, float64(base[i].Sum)), append(after, float64(trials[i].Sum))
		if trials[i].Decoy != nil && base[i].Decoy != nil {
			marginBefore, marginAfter = append(marginBefore, float64(base[i].Margin)), append(marginAfter, float64(trials[i].Margin))
		}
		hitBefore, hitAfter = append(hitBefore, base[i].Outcome == Hit), append(hitAfter, trials[i].Outcome == Hit)
	}
	change := s.change(before, after)
	r.Metrics.Change = &change
	primary, old, now := change, before, after
	if len(marginBefore) > 0 {
		m := s.change(marginBefore, marginAfter)
		r.Metrics.MarginChange = &m
		if p.Primary.Metric == metricMargin {
			primary, old, now = m, marginBefore, marginAfter
		}
	}
	r.Metrics.Equivalence = s.equivalence(primary, old, now)
	if c.scoreOnly {
		return
	}
	lost, gained := stats.Discordant(hitBefore, hitAfter)
	m := stats.McNemar(lost, gained)
	if len(before) == 0 {
		m.P, m.Log10P = math.NaN(), math.NaN()
	}
	r.Metrics.McNemar = &Paired{Lost: lost, Gained: gained, P: Number(m.P), Log10P: Number(m.Log10P), Of: len(before), About: "prompts only"}
}

func (s *PlanStats) change(before, after []float64) Metric {
	return metricOf(stats.PairedBootstrap(before, after, s.resampling(), s.bootstrap()), bootstrapMethod+", paired", len(before))
}

// Equivalence is the two one-sided tests of "no effect": the 90 % interval of the change has to lie within the margin that the plan
// states. Not equivalent does not mean different.
type Equivalence struct {
	Margin     Number `json:"margin"` // nats, of the primary outcome
	Low        Number `json:"low"`    // bootstrap over prompts, percentile 0.90
	High       Number `json:"high"`
	Equivalent bool   `json:"equivalent"`
}

func (s *PlanStats) equivalence(change Metric, before, after []float64) *Equivalence {
	if s.Equivalence <= 0 || len(before) < 2 || change.Reason != "" {
		return nil
	}
	e := stats.PairedBootstrap(before, after, stats.Resampling{N: s.Resamples, Level: 0.9}, s.bootstrap())
	return &Equivalence{Number(s.Equivalence), Number(e.Lo), Number(e.Hi), e.Lo > -s.Equivalence && e.Hi < s.Equivalence}
}

func (s *PlanStats) resampling() stats.Resampling {
	return stats.Resampling{N: s.Resamples, Level: s.Level}
}

// bootstrap starts the stream anew for each interval, so that a number does not depend on which others are computed.
func (s *PlanStats) bootstrap() *rand.Rand { return rand.New(rand.NewPCG(s.Seed, s.Bootstrap)) }

// effects ranks each condition's drop of the primary outcome among those of its controls, pool by pool. results are of conds, in their
// order.
func effects(p *Plan, conds []condition, results []ConditionResult) []Effect {
	var out []Effect
	for i := range conds {
		c := &results[i]
		for _, with := range conds[i].compared {
			var drops []float64
			for j := range results {
				if results[j].ControlOf == cmp.Or(with.with, c.Name) && results[j].Pool == with.pool {
					drops = append(drops, p.drop(&results[j]))
				}
			}
			e := Effect{Condition: c.Name, Pool: with.pool, Metric: p.Primary.Metric, Method: cmp.Or(with.of, "head-set") + " randomisation on the drop of " + p.Primary.Metric}
			e.Primary = c.Name == p.Primary.condition() && with.pool == p.Primary.Pool
			e.Drop, e.ControlDrop, e.LargestControl = Number(p.drop(c)), nan, nan
			if len(drops) == 0 {
				e.Reason = "has no controls: " + with.reason
				out = append(out, e)
				continue
			}
			test := stats.HeadSetTest(p.drop(c), drops)
			e.Controls, e.AtLeast = test.Controls, test.AtLeast
			e.ControlDrop, e.LargestControl = Number(stats.Mean(drops)), Number(slices.Max(drops))
			switch p, ok := test.P.Get(); {
			case !ok:
				e.Reason = "is undefined: one of the drops is not a number"
			case test.Controls >= fewestControls && with.noP != "":
				e.Reason = with.noP
			case test.Controls >= fewestControls:
				v := Number(p)
				e.P = &v
			default:
				if e.Reason = "needs >= 19 controls"; with.reason != "" {
					e.Reason += ": " + with.reason
				}
			}
			out = append(out, e)
		}
	}
	return out
}

// drop is how far a condition lowers the primary outcome.
func (p *Plan) drop(c *ConditionResult) float64 {
	m := c.Metrics.Change
	if p.Primary.Metric == metricMargin {
		m = c.Metrics.MarginChange
	}
	if m == nil {
		return math.NaN()
	}
	return -float64(m.Value)
}
