package stats

import (
	"cmp"
	"math"
	"slices"
)

// Jaccard returns |a and b| / |a or b|, duplicates counted once. Two empty sets agree: 1.
func Jaccard[T comparable](a, b []T) float64 {
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
		return 1
	}
	return float64(both) / float64(either)
}

// Spearman returns the rank correlation of x and y: Pearson's r of the ranks, ties given their average rank.
// It returns no p: the heads of a layer are not independent, and the usual t test takes them to be. NaN for
// fewer than two values, a constant input, or a NaN in either. It panics if the lengths differ.
func Spearman(x, y []float64) float64 {
	sameLength(len(x), len(y))
	if len(x) < 2 || slices.ContainsFunc(x, math.IsNaN) || slices.ContainsFunc(y, math.IsNaN) {
		return math.NaN()
	}
	rx, ry := Ranks(x), Ranks(y)
	mid := float64(len(x)+1) / 2
	var xy, xx, yy float64
	for i := range rx {
		dx, dy := rx[i]-mid, ry[i]-mid
		xy += dx * dy
		xx += dx * dx
		yy += dy * dy
	}
	if xx == 0 || yy == 0 {
		return math.NaN()
	}
	return xy / (math.Sqrt(xx) * math.Sqrt(yy))
}

// Ranks returns the ranks of x from 1, smallest first, ties given the mean of the ranks they share. A NaN
// has no rank: it gets NaN and the other values are ranked without it.
func Ranks(x []float64) []float64 {
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
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+j+1) / 2 // mean of i+1 .. j
		}
		i = j
	}
	return ranks
}
