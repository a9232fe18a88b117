package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Resampling says how a bootstrap resamples.
type Resampling struct {
	N     int     // number of resamples; 10000 is usual
	Level float64 // confidence level of the interval, such as 0.95
}

func (r Resampling) check() {
	if r.N < 1 {
		panic(fmt.Sprintf("stats: %d resamples", r.N))
	}
	checkLevel(r.Level)
}

// Estimate is a value with an interval.
type Estimate struct {
	Value Value
	Interval
}

// PairedBootstrap returns the mean of after - before over pairs, with its percentile bootstrap interval:
// whole pairs are drawn with replacement r.N times and the interval runs from the (1-Level)/2 to the
// (1+Level)/2 quantile (type 7) of the resampled means. The same seed and data give the same bits.
//
// The interval answers for a new sample of prompts, not of heads. For one pair it has length zero, which
// says nothing about certainty. Undefined for no pairs, with a NaN or infinity. PairedBootstrap panics if the
// lengths differ, r.N < 1, or r.Level is not between 0 and 1. [Bootstrap] has BCa intervals too.
func PairedBootstrap(before, after []float64, r Resampling, rng *rand.Rand) Estimate {
	sameLength(len(before), len(after))
	r.check()
	why := checkData(before, after)
	if len(before) == 0 {
		why = ReasonNoData
	}
	if why != "" {
		return Estimate{NoValue(why), undefined(why)}
	}
	diff := differences(after, before)
	reps := resampledMeans(diff, r.N, func(int, int) int { return rng.IntN(len(diff)) })
	return Estimate{Number(Mean(diff)), percentile(reps, r.Level)}
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
	return Interval{Lo: q[0], Hi: q[1]}
}

// BootstrapResult is a bootstrap of one statistic.
type BootstrapResult struct {
	Estimate   Value    `json:"estimate"` // the statistic of the data
	SE         Value    `json:"se"`       // standard deviation of the replicates
	Level      float64  `json:"level"`
	Percentile Interval `json:"percentile"`
	BCa        Interval `json:"bca"` // bias-corrected and accelerated (Efron 1987)

	Z0        Value `json:"z0"` // bias correction: Phi^-1 of the share of replicates below the estimate, ties half
	A         Value `json:"a"`  // acceleration, from leaving one out
	Alpha1    Value `json:"alpha1"`
	Alpha2    Value `json:"alpha2"`               // the quantiles of the replicates that the BCa interval takes
	N         int   `json:"n"`                    // replicates
	Undefined int   `json:"undefined_replicates"` // those without a value, which the interval leaves out

	Generator string  `json:"generator"`
	Seed      Source  `json:"seed"`
	replicate []Value // in the order drawn
}

// Replicates returns the statistic of every resample, in the order drawn.
func (r BootstrapResult) Replicates() []Value { return r.replicate }

// Statistic is a number computed from one or more samples. It must not keep or change them.
type Statistic func(samples [][]float64) Value

// The statistics that the command knows by name.

// MeanOf is the mean of one sample.
func MeanOf(s [][]float64) Value { return Number(Mean(s[0])) }

// MedianOf is the median of one sample.
func MedianOf(s [][]float64) Value { return Number(Quantile(s[0], 0.5)) }

// MeanDifferenceOf is mean(first sample) - mean(second).
func MeanDifferenceOf(s [][]float64) Value { return Number(Mean(s[0]) - Mean(s[1])) }

// CohenDOf is Cohen's d of the first sample against the second.
func CohenDOf(s [][]float64) Value { return CohenD(s[0], s[1]).CohenD }

// Bootstrap resamples each sample by itself, with replacement and to its own size, and returns percentile and BCa intervals of the
// statistic; quantiles are of type 7. The acceleration is, over all samples with U = (n-1)(mean - leave-one-out value),
//
//	a = sum_samples( sum U^3 / n^3 ) / ( 6 ( sum_samples sum U^2 / n^2 )^1.5 )
//
// The interval answers for a new sample of what was resampled, prompts say, and for nothing else. The BCa interval is undefined where
// every replicate lies on one side of the estimate or no value matters more than another. All is undefined for an empty sample, with a
// NaN or infinity. Bootstrap panics without samples, for r.N < 1 or a level outside (0, 1).
func Bootstrap(samples [][]float64, stat Statistic, r Resampling, src Source) BootstrapResult {
	r.check()
	if len(samples) == 0 {
		panic("stats: no samples")
	}
	for _, x := range samples {
		if len(x) == 0 {
			return noBootstrap(ReasonNoData, r, src)
		}
	}
	if why := checkData(samples...); why != "" {
		return noBootstrap(why, r, src)
	}
	rng := src.Rand()
	return bootstrap(samples, stat, r, src, func(_, sample int, indices []int) {
		n := uint64(len(samples[sample]))
		for i := range indices {
			indices[i] = int(rng.Uint64N(n))
		}
	})
}

// BootstrapPairs is [Bootstrap] of the mean of after - before over pairs: whole pairs are drawn. It panics if the lengths differ.
func BootstrapPairs(before, after []float64, r Resampling, src Source) BootstrapResult {
	sameLength(len(before), len(after))
	return Bootstrap([][]float64{differences(after, before)}, MeanOf, r, src)
}

// bootstrap takes its resamples from draw, which fills the indices of one sample of resample b.
func bootstrap(samples [][]float64, stat Statistic, r Resampling, src Source, draw func(b, sample int, indices []int)) BootstrapResult {
	drawn := make([][]float64, len(samples))
	indices := make([][]int, len(samples))
	for s, x := range samples {
		drawn[s], indices[s] = make([]float64, len(x)), make([]int, len(x))
	}
	reps := make([]Value, r.N)
	for b := range reps {
		for s, x := range samples {
			draw(b, s, indices[s])
			for i, j := range indices[s] {
				drawn[s][i] = x[j]
			}
		}
		reps[b] = stat(drawn)
	}
	left := make([][]Value, len(samples))
	without := append([][]float64(nil), samples...)
	for s, x := range samples {
		short := make([]float64, len(x)-1)
		for i := range x {
			copy(short, x[:i])
			copy(short[i:], x[i+1:])
			without[s] = short
			left[s] = append(left[s], stat(without))
		}
		without[s] = x
	}
	return summarise(stat(samples), reps, left, r, src)
}

// ClusterStatistic is a number computed from members, indices of the data, some of them drawn more than once; ids gives each drawn
// cluster a number of its own, so that a cluster drawn twice is two.
type ClusterStatistic func(members, ids []int) Value

// ClusterBootstrap draws whole clusters, such as layers, with replacement, and as many as there are. The acceleration comes from
// leaving one cluster out. Replicates in which the statistic is undefined (no labelled head in any drawn layer, say) are counted and
// left out. clusters has one entry a value. It panics for r.N < 1 or a level outside (0, 1).
func ClusterBootstrap(clusters []int, stat ClusterStatistic, r Resampling, src Source) BootstrapResult {
	r.check()
	groups := groupsOf(clusters)
	if len(groups) == 0 {
		return noBootstrap(ReasonNoData, r, src)
	}
	rng := src.Rand()
	return clusterBootstrap(groups, stat, r, src, func(_ int, drawn []int) {
		for i := range drawn {
			drawn[i] = rng.IntN(len(groups))
		}
	})
}

func clusterBootstrap(groups [][]int, stat ClusterStatistic, r Resampling, src Source, draw func(b int, drawn []int)) BootstrapResult {
	of := func(drawn []int) Value {
		var members, ids []int
		for id, g := range drawn {
			for _, i := range groups[g] {
				members, ids = append(members, i), append(ids, id)
			}
		}
		if len(members) == 0 {
			return NoValue(ReasonNoData)
		}
		return stat(members, ids)
	}
	reps, drawn := make([]Value, r.N), make([]int, len(groups))
	for b := range reps {
		draw(b, drawn)
		reps[b] = of(drawn)
	}
	for g := range drawn {
		drawn[g] = g
	}
	left := make([]Value, len(groups))
	for g := range groups {
		left[g] = of(slices.Concat(drawn[:g], drawn[g+1:]))
	}
	return summarise(of(drawn), reps, [][]Value{left}, r, src)
}

func noBootstrap(why Undefined, r Resampling, src Source) BootstrapResult {
	v, iv := NoValue(why), undefined(why)
	return BootstrapResult{Estimate: v, SE: v, Level: r.Level, Percentile: iv, BCa: iv, Z0: v, A: v, Alpha1: v, Alpha2: v, Generator: Generator, Seed: src}
}

// summarise makes the intervals; left are the leave-one-out values of each sample.
func summarise(estimate Value, reps []Value, left [][]Value, r Resampling, src Source) BootstrapResult {
	t, ok := estimate.Get()
	if !ok {
		return noBootstrap(estimate.Why(), r, src)
	}
	out := noBootstrap(ReasonNoReplicates, r, src)
	out.Estimate, out.replicate, out.N = estimate, reps, len(reps)
	good := make([]float64, 0, len(reps))
	for _, v := range reps {
		if x, ok := v.Get(); ok {
			good = append(good, x)
		}
	}
	out.Undefined = len(reps) - len(good)
	if len(good) == 0 {
		return out
	}
	out.Percentile = percentile(good, r.Level)
	if len(good) > 1 {
		out.SE = Number(SD(good))
	}
	out.bca(t, good, left)
	return out
}

func (r *BootstrapResult) bca(t float64, reps []float64, left [][]Value) {
	below := 0.0
	for _, x := range reps {
		switch {
		case x < t:
			below++
		case x == t:
			below += 0.5
		}
	}
	share := below / float64(len(reps))
	if share == 0 || share == 1 {
		v := NoValue(ReasonOneSided)
		r.BCa, r.Z0, r.A, r.Alpha1, r.Alpha2 = undefined(ReasonOneSided), v, v, v, v
		return
	}
	z0 := distuv.UnitNormal.Quantile(share)
	r.Z0, r.A = Number(z0), acceleration(t, left)
	a, ok := r.A.Get()
	if !ok {
		r.BCa, r.Alpha1, r.Alpha2 = undefined(r.A.Why()), r.A, r.A
		return
	}
	at := func(p float64) float64 {
		z := z0 + distuv.UnitNormal.Quantile(p)
		return distuv.UnitNormal.CDF(z0 + z/(1-a*z))
	}
	a1, a2 := at((1-r.Level)/2), at((1+r.Level)/2)
	q := Quantiles(reps, a1, a2)
	r.Alpha1, r.Alpha2, r.BCa = Number(a1), Number(a2), Interval{Lo: q[0], Hi: q[1]}
}

func acceleration(t float64, left [][]Value) Value {
	var cubes, squares float64
	for _, sample := range left {
		x := make([]float64, len(sample))
		for i, v := range sample {
			value, ok := v.Get()
			if !ok {
				return NoValue(ReasonJackknife)
			}
			x[i] = value
		}
		n, m := float64(len(x)), Mean(x)
		for _, v := range x {
			u := (n - 1) * (m - v) / n
			cubes, squares = cubes+u*u*u, squares+u*u
		}
	}
	if squares <= 1e-28*t*t { // rounding of equal values
		return NoValue(ReasonEqualJackknife)
	}
	return Number(cubes / (6 * math.Pow(squares, 1.5)))
}
