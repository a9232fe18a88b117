package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// The upper tails of distributions, without the loss of digits of 1 - CDF.

func upperNormal(z float64) float64 { return distuv.UnitNormal.CDF(-z) }

// twoSidedT is P(|T| >= |t|) of Student's distribution.
func twoSidedT(t, df float64) float64 { return 2 * upperT(math.Abs(t), df) }

func upperT(t, df float64) float64 { return distuv.StudentsT{Sigma: 1, Nu: df}.Survival(t) }

func upperF(f, d1, d2 float64) float64 { return mathext.RegIncBeta(d2/2, d1/2, d2/(d1*f+d2)) }

func lowerF(f, d1, d2 float64) float64 { return mathext.RegIncBeta(d1/2, d2/2, d1/(d1+d2/f)) }

// criticalT is the t with P(T >= t) = tail < 1/2. Gonum's quantile is far off for 1e5 degrees of freedom and a tail of 1e-8.
func criticalT(tail, df float64) float64 {
	hi := 1.0
	for upperT(hi, df) > tail {
		hi *= 2
	}
	return bisect(0, hi, func(t float64) bool { return upperT(t, df) > tail })
}

// bisect returns, to the last bit, where below turns from true to false between lo and hi.
func bisect(lo, hi float64, below func(float64) bool) float64 {
	mid := lo + (hi-lo)/2
	for range 200 { // more only where it is at 0
		if mid <= lo || mid >= hi {
			break
		}
		if below(mid) {
			lo = mid
		} else {
			hi = mid
		}
		mid = lo + (hi-lo)/2
	}
	return mid
}

func upperChi2(x, df float64) float64 { return distuv.ChiSquared{K: df}.Survival(x) }

// Test is a test of groups.
type Test struct {
	Stat Value     `json:"stat"`
	P    Value     `json:"p"`
	DF   []float64 `json:"df"` // degrees of freedom, empty where undefined
}

func noTest(why Undefined) Test { return Test{NoValue(why), NoValue(why), []float64{}} }

// FRatio is the F test of two variances. It takes both samples for normal, and is far off where they are not.
type FRatio struct {
	F         Value  `json:"f"` // var(x) / var(y), ddof 1
	DF        [2]int `json:"df"`
	PTwoSided Value  `json:"p_two_sided"` // 2 min(cdf, upper tail)
	PGreater  Value  `json:"p_greater"`   // of var(x) > var(y)
}

// FTest compares the variances of x and y. Undefined for fewer than two values in a group, a constant y, a NaN or infinity.
func FTest(x, y []float64) FRatio {
	why := checkData(x, y)
	switch {
	case len(x) < 2 || len(y) < 2:
		why = ReasonGroupOfOne
	case why == "" && constant(y):
		why = ReasonSecondConstant
	}
	if why != "" {
		return FRatio{F: NoValue(why), PTwoSided: NoValue(why), PGreater: NoValue(why)}
	}
	v1, v2 := squares(x)/float64(len(x)-1), squares(y)/float64(len(y)-1)
	if constant(x) {
		v1 = 0
	}
	return FFromRatio(v1/v2, len(x)-1, len(y)-1)
}

// FFromRatio is the F test of a ratio of variances that is known by itself. It panics for a negative ratio or fewer than one degree
// of freedom. Undefined for a ratio that is not finite.
func FFromRatio(f float64, df1, df2 int) FRatio {
	if f < 0 || df1 < 1 || df2 < 1 {
		panic("stats: F needs a ratio >= 0 and degrees of freedom >= 1")
	}
	v := Number(f)
	if _, ok := v.Get(); !ok {
		return FRatio{F: v, PTwoSided: v, PGreater: v}
	}
	d1, d2 := float64(df1), float64(df2)
	up, low := upperF(f, d1, d2), lowerF(f, d1, d2)
	return FRatio{v, [2]int{df1, df2}, Number(min(1, 2*min(up, low))), Number(up)}
}

// WelchT is Welch's t test of two means with unequal variances.
type WelchT struct {
	T  Value `json:"t"`
	DF Value `json:"df"` // Welch-Satterthwaite
	P  Value `json:"p"`  // two-sided
}

// Summary is a sample by its mean, standard deviation (ddof 1) and size.
type Summary struct {
	Mean, SD float64
	N        int
}

// Welch compares the means of x and y. Undefined for fewer than two values in a group, for two constant groups, a NaN or infinity.
func Welch(x, y []float64) WelchT {
	if why := checkData(x, y); why != "" {
		return WelchT{NoValue(why), NoValue(why), NoValue(why)}
	}
	a, b := Summary{N: len(x)}, Summary{N: len(y)}
	if len(x) >= 2 && len(y) >= 2 {
		a.Mean, b.Mean = Mean(x), Mean(y)
		if !constant(x) {
			a.SD = SD(x)
		}
		if !constant(y) {
			b.SD = SD(y)
		}
	}
	return WelchSummary(a, b)
}

// WelchSummary is [Welch] from published means and deviations. It panics for a negative deviation or size.
func WelchSummary(a, b Summary) WelchT {
	if a.SD < 0 || b.SD < 0 || a.N < 0 || b.N < 0 {
		panic("stats: negative standard deviation or size")
	}
	why := checkData([]float64{a.Mean, a.SD, b.Mean, b.SD})
	switch {
	case a.N < 2 || b.N < 2:
		why = ReasonGroupOfOne
	case why == "" && a.SD == 0 && b.SD == 0:
		why = ReasonAllConstant
	}
	if why != "" {
		return WelchT{NoValue(why), NoValue(why), NoValue(why)}
	}
	n1, n2 := float64(a.N), float64(b.N)
	se1, se2 := a.SD/math.Sqrt(n1), b.SD/math.Sqrt(n2)
	se := math.Hypot(se1, se2)
	t := (a.Mean - b.Mean) / se
	r1, r2 := se1/se, se2/se
	df := 1 / (r1*r1*r1*r1/(n1-1) + r2*r2*r2*r2/(n2-1))
	return WelchT{Number(t), Number(df), Number(twoSidedT(t, df))}
}
