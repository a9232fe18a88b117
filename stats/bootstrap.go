package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Resampling says how a bootstrap resamples.
type Resampling struct {
	N     int     // number of resamples; 10000 is usual
	Level float64 // confidence level of the interval, such as 0.95
}

// Estimate is a value with an interval.
type Estimate struct {
	Value float64
	Interval
}

// PairedBootstrap returns the mean of after - before over pairs, with its percentile bootstrap interval:
// whole pairs are drawn with replacement r.N times and the interval runs from the (1-Level)/2 to the
// (1+Level)/2 quantile (type 7) of the resampled means. The same seed and data give the same bits.
//
// The interval answers for a new sample of prompts, not of heads. For one pair it has length zero, which
// says nothing about certainty. Value and ends are NaN for no pairs or when either slice holds a NaN.
// PairedBootstrap panics if the lengths differ, r.N < 1, or r.Level is not between 0 and 1.
func PairedBootstrap(before, after []float64, r Resampling, rng *rand.Rand) Estimate {
	sameLength(len(before), len(after))
	if r.N < 1 {
		panic(fmt.Sprintf("stats: %d resamples", r.N))
	}
	checkLevel(r.Level)
	diff := make([]float64, len(before))
	for i := range diff {
		diff[i] = after[i] - before[i]
	}
	if len(diff) == 0 || math.IsNaN(Mean(diff)) {
		return Estimate{math.NaN(), undefined()}
	}
	reps := resampledMeans(diff, r.N, func(int, int) int { return rng.IntN(len(diff)) })
	return Estimate{Mean(diff), percentile(reps, r.Level)}
}

// resampledMeans returns the means of n resamples of x; draw(b, j) is the index of member j of resample b.
func resampledMeans(x []float64, n int, draw func(b, j int) int) []float64 {
	reps := make([]float64, n)
	for b := range reps {
		var s float64
		for j := range x {
			s += x[draw(b, j)]
		}
		reps[b] = s / float64(len(x))
	}
	return reps
}

func percentile(reps []float64, level float64) Interval {
	q := Quantiles(reps, (1-level)/2, (1+level)/2)
	return Interval{q[0], q[1]}
}
