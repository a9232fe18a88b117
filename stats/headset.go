package stats

import (
	"math"
	"slices"
)

// HeadSetResult is a head-set randomisation test.
type HeadSetResult struct {
	Observed float64 // drop of the set under test
	Controls int     // R, the number of control sets
	AtLeast  int     // control sets with a drop at least as large
	P        float64 // one-sided; at best 1/(R+1)
}

// HeadSetTest asks whether switching off the chosen heads does more than switching off other heads of the
// same layers. Each control is the drop (baseline minus edited, larger = more harm) of one control set on
// the same prompts, and
//
//	P = (1 + #{controls with drop >= observed}) / (R + 1)
//
// (the add-one of a sampled randomisation test, so P is never 0; without controls it is 1). A control within
// 1e-12 of the largest absolute drop counts as equal, so that ties which differ only in rounding are ties.
// The control sets must be distinct draws from the same pool: repeated sets make P too small.
//
// A NaN among the drops makes P NaN: a control that failed has to be replaced by another draw, not left out.
func HeadSetTest(observed float64, controls []float64) HeadSetResult {
	r := HeadSetResult{Observed: observed, Controls: len(controls)}
	if math.IsNaN(observed) || slices.ContainsFunc(controls, math.IsNaN) {
		r.P = math.NaN()
		return r
	}
	largest := math.Abs(observed)
	for _, c := range controls {
		largest = max(largest, math.Abs(c))
	}
	slack := 1e-12 * largest
	if math.IsInf(slack, 0) {
		slack = 0
	}
	for _, c := range controls {
		if c >= observed-slack {
			r.AtLeast++
		}
	}
	r.P = float64(1+r.AtLeast) / float64(r.Controls+1)
	return r
}
