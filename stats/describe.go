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
	return sum(x) / float64(len(x))
}

// sum adds in numpy's order (pairwise above 128 values, eight partial sums above 8): its error grows with log n rather than n, and
// numbers that a comparison decides on, such as a bootstrap replicate against its estimate, come out as numpy's do.
func sum(x []float64) float64 {
	switch {
	case len(x) < 8:
		s := 0.0
		for _, v := range x {
			s += v
		}
		return s
	case len(x) <= 128:
		var r [8]float64
		copy(r[:], x)
		i := 8
		for ; i+8 <= len(x); i += 8 {
			for j := range r {
				r[j] += x[i+j]
			}
		}
		s := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
		for _, v := range x[i:] {
			s += v
		}
		return s
	}
	half := len(x) / 2
	half -= half % 8
	return sum(x[:half]) + sum(x[half:])
}

// squares is the sum of squared deviations from the mean.
func squares(x []float64) float64 {
	d := deviations(x, Mean(x))
	for i, v := range d {
		d[i] = v * v
	}
	return sum(d)
}

func median(x []float64) float64 {
	q := slices.Sorted(slices.Values(x))
	n := len(q)
	if n%2 == 1 {
		return q[n/2]
	}
	return (q[n/2-1] + q[n/2]) / 2
}

// SD returns the sample standard deviation, sqrt( sum (x - mean)^2 / (n-1) ), from two passes, so a large
// common offset costs no digits. NaN for fewer than two values or a NaN among them.
func SD(x []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
	return math.Sqrt(squares(x) / float64(len(x)-1))
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

// QuantileValues is [Quantiles] with a reason for what is undefined.
func QuantileValues(x []float64, qs ...float64) []Value {
	why := checkData(x)
	if len(x) == 0 {
		why = ReasonNoData
	}
	out := make([]Value, len(qs))
	for i, q := range Quantiles(x, qs...) {
		out[i] = Number(q)
		if why != "" {
			out[i] = NoValue(why)
		}
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

// Description sums up a sample.
type Description struct {
	N       int   `json:"n"`
	Mean    Value `json:"mean"`
	VarN    Value `json:"var_ddof0"`
	Var     Value `json:"var_ddof1"`
	SD      Value `json:"sd"` // sqrt of Var
	Min     Value `json:"min"`
	Median  Value `json:"median"`
	Max     Value `json:"max"`
	Missing int   `json:"missing"` // NaN, left out of all the others
}

// Describe sums up x; missing values (NaN) are counted and left out. The variance is from two passes, with what the rounding of the
// mean leaves taken off again (Chan, Golub and LeVeque 1983).
func Describe(x []float64) Description {
	var there []float64
	for _, v := range x {
		if !math.IsNaN(v) {
			there = append(there, v)
		}
	}
	n := len(there)
	none := NoValue(ReasonNoData)
	d := Description{N: n, Mean: none, VarN: none, Var: none, SD: none, Min: none, Median: none, Max: none, Missing: len(x) - n}
	if n == 0 {
		return d
	}
	m := Mean(there)
	var ss, drift float64
	for _, v := range there {
		ss += (v - m) * (v - m)
		drift += v - m
	}
	ss -= drift * drift / float64(n)
	d.Mean, d.VarN = Number(m+drift/float64(n)), Number(max(ss, 0)/float64(n))
	d.Var, d.SD = NoValue(ReasonTooFew), NoValue(ReasonTooFew)
	if n > 1 {
		v := max(ss, 0) / float64(n-1)
		d.Var, d.SD = Number(v), Number(math.Sqrt(v))
	}
	q := Quantiles(there, 0, 0.5, 1)
	d.Min, d.Median, d.Max = Number(q[0]), Number(q[1]), Number(q[2])
	return d
}
