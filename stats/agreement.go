package stats

import (
	"cmp"
	"math"
	"slices"
)

// Jaccard returns |a and b| / |a or b|, duplicates counted once. Two empty sets agree: 1.
func Jaccard[T comparable](a, b []T) float64 {
	return Overlap(a, b).Jaccard
}

// SetOverlap compares two sets.
type SetOverlap struct {
	Jaccard      float64 `json:"jaccard"`
	Intersection int     `json:"intersection"`
	Union        int     `json:"union"`
}

// Overlap counts what two sets share, duplicates counted once; see [Jaccard].
func Overlap[T comparable](a, b []T) SetOverlap {
	inA := make(map[T]bool, len(a))
	for _, v := range a {
		inA[v] = true
	}
	both, either := 0, len(inA)
	seen := make(map[T]bool, len(b))
	for _, v := range b {
		if seen[v] {
			continue
		}
		seen[v] = true
		if inA[v] {
			both++
		} else {
			either++
		}
	}
	if either == 0 {
		return SetOverlap{Jaccard: 1}
	}
	return SetOverlap{float64(both) / float64(either), both, either}
}

// Ranks returns the ranks of x from 1, smallest first, ties given the mean of the ranks they share. A NaN
// has no rank: it gets NaN and the other values are ranked without it.
func Ranks(x []float64) []float64 { return ranksWithin(x, 0) }

// ranksWithin takes neighbours in the order that differ by slack or less for ties.
func ranksWithin(x []float64, slack float64) []float64 {
	ranks := make([]float64, len(x))
	order := make([]int, 0, len(x))
	for i, v := range x {
		if math.IsNaN(v) {
			ranks[i] = v
			continue
		}
		order = append(order, i)
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(x[i], x[j]) })
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && (x[order[j]] == x[order[j-1]] || x[order[j]]-x[order[j-1]] <= slack) {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+j+1) / 2 // mean of i+1 .. j
		}
		i = j
	}
	return ranks
}

// Gini returns the concentration of x, with x ascending and i from 1:
//
//	sum_i (2i - n - 1) x_(i) / ( n sum x )
//
// It is 0 for equal values and (n-1)/n where one value has all. Negative values count as 0, as in published head profiles; nothing
// and all zeros give 0. Undefined with a NaN or infinity.
func Gini(x []float64) Value {
	if why := checkData(x); why != "" {
		return NoValue(why)
	}
	sorted := slices.Sorted(slices.Values(x))
	scale := 0.0
	if len(x) > 0 {
		scale = max(0, sorted[len(x)-1])
	}
	if scale == 0 {
		return Number(0)
	}
	var weighted, sum float64
	n := float64(len(x))
	for i, v := range sorted {
		v = max(v, 0) / scale // no sum leaves float64's range
		weighted += (2*float64(i+1) - n - 1) * v
		sum += v
	}
	return Number(weighted / (n * sum))
}
