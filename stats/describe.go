package stats

import (
	"fmt"
	"math"
	"slices"
)

// Mean returns the arithmetic mean; NaN for an empty slice or one that holds a NaN.
func Mean(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	var s float64
	for _, v := range x {
		s += v
	}
	return s / float64(len(x))
}

// SD returns the sample standard deviation, sqrt( sum (x - mean)^2 / (n-1) ), from two passes, so a large
// common offset costs no digits. NaN for fewer than two values or a NaN among them.
func SD(x []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
	m := Mean(x)
	var ss float64
	for _, v := range x {
		ss += (v - m) * (v - m)
	}
	return math.Sqrt(ss / float64(len(x)-1))
}

// Quantile returns the q-quantile of x by linear interpolation between order statistics: with
// h = (n-1) q, x_(floor h) + (h - floor h)(x_(floor h + 1) - x_(floor h)). This is type 7 of Hyndman and
// Fan, numpy's default. x need not be sorted and is not changed. NaN for an empty slice or one that holds a
// NaN. Quantile panics unless 0 <= q <= 1.
func Quantile(x []float64, q float64) float64 { return Quantiles(x, q)[0] }

// Quantiles returns several quantiles of x with one sort; see [Quantile].
func Quantiles(x []float64, qs ...float64) []float64 {
	sorted := slices.Clone(x)
	slices.Sort(sorted) // NaN sorts first
	out := make([]float64, len(qs))
	for i, q := range qs {
		if !(q >= 0 && q <= 1) {
			panic(fmt.Sprintf("stats: quantile %v is not between 0 and 1", q))
		}
		if len(sorted) == 0 || math.IsNaN(sorted[0]) {
			out[i] = math.NaN()
			continue
		}
		h := float64(len(sorted)-1) * q
		j := min(int(h), len(sorted)-1)
		k := min(j+1, len(sorted)-1)
		out[i] = lerp(sorted[j], sorted[k], h-float64(j))
	}
	return out
}

// lerp interpolates from the nearer end, which makes it monotone in t and exact at both ends.
func lerp(a, b, t float64) float64 {
	if a == b || t == 0 {
		return a // Inf - Inf and 0 * Inf are NaN
	}
	if t < 0.5 {
		return a + (b-a)*t
	}
	return b - (b-a)*(1-t)
}
