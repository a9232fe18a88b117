package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// This file holds the small sums of published head profiles, as published, so that their numbers can be recomputed.

// FrequencySignature is where along the frequency axis recall drops.
type FrequencySignature struct {
	Centre Value `json:"freq_com"`   // weighted mean of the windows' centres, weights max(0, baseline - recall)
	Width  Value `json:"freq_width"` // weighted standard deviation
}

// FrequencyCentre returns the signature of the recall under each window's edit. Undefined where no window lowers recall, with a NaN
// or infinity. It panics if the lengths differ.
func FrequencyCentre(centres, recall []float64, baseline float64) FrequencySignature {
	sameLength(len(centres), len(recall))
	if why := checkData(centres, recall, []float64{baseline}); why != "" {
		return FrequencySignature{NoValue(why), NoValue(why)}
	}
	var weights, mean, variance float64
	for i, r := range recall {
		w := max(0, baseline-r)
		weights, mean = weights+w, mean+w*centres[i]
	}
	if weights == 0 {
		return FrequencySignature{NoValue(ReasonNoDrop), NoValue(ReasonNoDrop)}
	}
	mean /= weights
	for i, r := range recall {
		d := centres[i] - mean
		variance += max(0, baseline-r) * d * d
	}
	return FrequencySignature{Number(mean), Number(math.Sqrt(variance / weights))}
}

// Windows are equally wide windows over the dimensions of a head, in ascending order of frequency.
type Windows struct {
	Width   int       `json:"width"`
	Starts  []int     `json:"starts"`  // first dimension; an odd one cuts a plane in two
	Centres []float64 `json:"centers"` // as a share of headDim
}

// FrequencyWindows returns n windows of max(2, headDim/divisor) dimensions whose starts are spread evenly, rounded down, repeated ones
// left out. It panics unless n >= 1, divisor >= 1 and headDim >= 2.
func FrequencyWindows(headDim, n, divisor int) Windows {
	if n < 1 || divisor < 1 || headDim < 2 {
		panic(fmt.Sprintf("stats: %d windows of 1/%d of %d dimensions", n, divisor, headDim))
	}
	w := Windows{Width: max(2, headDim/divisor)}
	last := headDim - w.Width
	for i := range n {
		start := 0
		if n > 1 {
			start = int(float64(i) * (float64(last) / float64(n-1)))
		}
		if i == n-1 && n > 1 {
			start = last
		}
		if !slices.Contains(w.Starts, start) {
			w.Starts = append(w.Starts, start)
		}
	}
	slices.Sort(w.Starts)
	for _, s := range w.Starts {
		w.Centres = append(w.Centres, (float64(s)+float64(w.Width)/2)/float64(headDim))
	}
	return w
}

// Specificity is the published verdict on an edit.
type Specificity struct {
	Ratio   Value  `json:"ratio"`
	Verdict string `json:"published_verdict"`
}

// PerplexitySpecificity returns the relative rise of perplexity over the relative drop of accuracy, with the published verdict:
// below .33 retrieval-specific (a negative ratio too), above .67 general-long-context-degradation, else, and where it is undefined,
// ambiguous. Undefined for a baseline of 0, without a change of accuracy, with a NaN or infinity.
func PerplexitySpecificity(pplBase, pplEdited, accBase, accEdited float64) Specificity {
	s := Specificity{Verdict: "ambiguous"}
	why := checkData([]float64{pplBase, pplEdited, accBase, accEdited})
	switch {
	case why != "":
	case accBase == 0:
		why = ReasonZeroBaseline
	case pplBase == 0:
		why = ReasonZeroPerplexity
	case accBase == accEdited:
		why = ReasonNoDrop
	}
	if why != "" {
		s.Ratio = NoValue(why)
		return s
	}
	ratio := (pplEdited - pplBase) / pplBase / ((accBase - accEdited) / accBase)
	s.Ratio = Number(ratio)
	switch {
	case ratio < 0.33:
		s.Verdict = "retrieval-specific"
	case ratio > 0.67:
		s.Verdict = "general-long-context-degradation"
	}
	return s
}

// CoverageCount returns how many of n detected heads a coverage c stands for: n c rounded half to even, as Python's round does (22.5
// becomes 22), at least one, at most limit and at most n. It panics unless n >= 0 and c is finite and not negative.
func CoverageCount(n int, c float64, limit int) int {
	if n < 0 || !(c >= 0) || math.IsInf(c, 0) {
		panic(fmt.Sprintf("stats: coverage %v of %d", c, n))
	}
	return int(min(max(1, math.RoundToEven(float64(n)*c)), float64(limit), float64(n)))
}

// TopK returns the indices of scores at or above the threshold, largest score first, at most k of them; equal scores keep their
// order. A NaN reaches no threshold. It panics for a negative k.
func TopK(scores []float64, threshold float64, k int) []int {
	if k < 0 {
		panic(fmt.Sprintf("stats: the top %d", k))
	}
	out := []int{}
	for i, s := range scores {
		if s >= threshold {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
	return out[:min(k, len(out))]
}
