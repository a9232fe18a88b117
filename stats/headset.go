package stats

import (
	"fmt"
	"math"
	"slices"
)

// HeadSetResult is a head-set randomisation test.
type HeadSetResult struct {
	Observed float64 `json:"observed"` // drop of the set under test
	Controls int     `json:"controls"` // R, the number of control sets
	AtLeast  int     `json:"at_least"` // control sets with a drop at least as large
	P        Value   `json:"p"`        // one-sided; at best 1/(R+1)
}

// HeadSetTest asks whether switching off the chosen heads does more than switching off other heads of the
// same layers. Each control is the drop (baseline minus edited, larger = more harm) of one control set on
// the same prompts, and
//
//	P = (1 + #{controls with drop >= observed}) / (R + 1)
//
// (the add-one of a sampled randomisation test, so P is never 0; without controls it is 1). Where the
// controls are all sets that there are besides the observed one, this is the exact p of a full enumeration,
// the observed set being one of the R+1. A control within 1e-12 of the largest absolute drop counts as equal,
// so that ties which differ only in rounding are ties. The control sets must be distinct draws from the same
// pool: repeated sets make P too small.
//
// P is undefined with a NaN among the drops: a control that failed has to be replaced by another draw, not left out.
func HeadSetTest(observed float64, controls []float64) HeadSetResult {
	r := HeadSetResult{Observed: observed, Controls: len(controls)}
	if math.IsNaN(observed) || slices.ContainsFunc(controls, math.IsNaN) {
		r.P = NoValue(ReasonMissing)
		return r
	}
	slack := tieTolerance * max(math.Abs(observed), largestAbs(controls))
	if math.IsInf(slack, 0) {
		slack = 0
	}
	for _, c := range controls {
		if c >= observed-slack {
			r.AtLeast++
		}
	}
	r.P = Number(float64(1+r.AtLeast) / float64(r.Controls+1))
	return r
}

// HeadSets are the outcomes of one study, a number a prompt: 0 or 1 for recall, or a log-probability. All lists are of the same
// prompts in the same order.
type HeadSets struct {
	Baseline []float64
	Edited   []float64   // with the heads under test edited
	Controls [][]float64 // with each control set edited
	Possible int         // how many control sets the pool allows, without the one under test; 0 where not known
}

// HeadSetComparison answers three questions about one study.
type HeadSetComparison struct {
	Drop        Value `json:"drop"`         // mean of baseline - edited
	ControlDrop Value `json:"control_drop"` // mean over control sets
	Excess      Value `json:"excess"`       // Drop - ControlDrop

	// Would other heads have done the same? The head-set randomisation test.
	P        Value  `json:"p_head_set"`
	SE       Value  `json:"se_p_head_set"` // what drawing R sets leaves open
	AtLeast  int    `json:"at_least"`
	Controls int    `json:"controls"`
	Exact    bool   `json:"exact"`      // the controls are all sets that the pool allows
	Smallest Value  `json:"smallest_p"` // 1/(R+1): no result can be below it
	About    string `json:"about"`      // "heads and prompts"
	McNemarP Value  `json:"p_mcnemar"`  // did these heads matter on other prompts? For outcomes 0 and 1; says nothing about other heads
	Lost     int    `json:"lost"`       // of McNemar's test
	Gained   int    `json:"gained"`     //
	Mixed    Mixed  `json:"mixed"`      // by how much, over prompts and control sets at once
}

// Mixed is the interval of Excess from resampling prompts and, independently, control sets.
type Mixed struct {
	Interval  Interval `json:"interval"`
	SE        Value    `json:"se"`
	Level     float64  `json:"level"`
	N         int      `json:"n"`
	SetsDrawn bool     `json:"sets_drawn"` // false where the controls are all there are: no other draw of them exists
	Generator string   `json:"generator"`
	Seed      Source   `json:"seed"`
}

// CompareHeadSets puts the head-set randomisation test beside McNemar's and a crossed bootstrap of prompts x control sets (each
// replicate draws prompts and control sets with replacement; Owen 2007). Undefined without prompts or controls, with a NaN or
// infinity. It panics where lengths differ, more controls than possible are given, r.N < 1 or the level is outside (0, 1).
func CompareHeadSets(h HeadSets, r Resampling, src Source) HeadSetComparison {
	r.check()
	sameLength(len(h.Baseline), len(h.Edited))
	for _, c := range h.Controls {
		sameLength(len(h.Baseline), len(c))
	}
	if h.Possible < 0 || h.Possible > 0 && len(h.Controls) > h.Possible {
		panic(fmt.Sprintf("stats: %d control sets of %d possible", len(h.Controls), h.Possible))
	}
	out := HeadSetComparison{Controls: len(h.Controls), Exact: h.Possible > 0 && len(h.Controls) == h.Possible, About: "heads and prompts"}
	out.Mixed = Mixed{Level: r.Level, N: r.N, SetsDrawn: !out.Exact, Generator: Generator, Seed: src}
	why := checkData(append([][]float64{h.Baseline, h.Edited}, h.Controls...)...)
	if len(h.Baseline) == 0 || len(h.Controls) == 0 {
		why = ReasonNoData
	}
	if why != "" {
		v := NoValue(why)
		out.Drop, out.ControlDrop, out.Excess, out.P, out.SE, out.Smallest, out.McNemarP = v, v, v, v, v, v, v
		out.Mixed.Interval, out.Mixed.SE = undefined(why), v
		return out
	}
	drops := differences(h.Baseline, h.Edited)
	controls, means := make([][]float64, len(h.Controls)), make([]float64, len(h.Controls))
	for i, c := range h.Controls {
		controls[i] = differences(h.Baseline, c)
		means[i] = Mean(controls[i])
	}
	t := HeadSetTest(Mean(drops), means)
	out.Drop, out.ControlDrop, out.Excess = Number(t.Observed), Number(Mean(means)), Number(t.Observed-Mean(means))
	out.P, out.AtLeast, out.Smallest = t.P, t.AtLeast, Number(1/float64(t.Controls+1))
	out.SE = Draws{Exact: out.Exact, N: t.Controls}.se(out.P)
	out.McNemarP = NoValue(ReasonNotBinary)
	if before, ok := binary(h.Baseline); ok {
		if after, ok := binary(h.Edited); ok {
			out.Lost, out.Gained = Discordant(before, after)
			out.McNemarP = Number(McNemar(out.Lost, out.Gained).P)
		}
	}
	out.Mixed.resample(drops, controls, r)
	return out
}

func differences(before, after []float64) []float64 {
	out := make([]float64, len(before))
	for i := range out {
		out[i] = before[i] - after[i]
	}
	return out
}

func binary(x []float64) (out []bool, ok bool) {
	for _, v := range x {
		if v != 0 && v != 1 {
			return nil, false
		}
		out = append(out, v == 1)
	}
	return out, true
}

func (m *Mixed) resample(drops []float64, controls [][]float64, r Resampling) {
	rng := m.Seed.Rand()
	n := len(drops)
	reps, weight := make([]float64, r.N), make([]float64, n)
	for b := range reps {
		clear(weight)
		for range n {
			weight[rng.IntN(n)]++
		}
		other := 0.0
		for i := range controls {
			c := controls[i]
			if m.SetsDrawn {
				c = controls[rng.IntN(len(controls))]
			}
			for j, w := range weight {
				other += w * c[j]
			}
		}
		own := 0.0
		for j, w := range weight {
			own += w * drops[j]
		}
		reps[b] = (own - other/float64(len(controls))) / float64(n)
	}
	m.Interval, m.SE = percentile(reps, r.Level), NoValue(ReasonNoReplicates)
	if r.N > 1 {
		m.SE = Number(SD(reps))
	}
}
