package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Equivalence is the pair of one-sided tests of "the difference is smaller than the margin" (TOST, Schuirmann 1987). An insignificant
// difference is not one: it may be a large difference with few prompts.
type Equivalence struct {
	Difference Value    `json:"difference"`
	Margin     float64  `json:"margin"`
	Alpha      float64  `json:"alpha"`
	PLower     Value    `json:"p_lower"`    // of difference <= -margin
	PUpper     Value    `json:"p_upper"`    // of difference >= margin
	P          Value    `json:"p"`          // the larger of both
	Interval   Interval `json:"interval"`   // at level 1 - 2 alpha; lies inside the margins exactly when P < alpha
	Equivalent bool     `json:"equivalent"` // P < Alpha
}

func noEquivalence(why Undefined, margin, alpha float64) Equivalence {
	v := NoValue(why)
	return Equivalence{Difference: v, Margin: margin, Alpha: alpha, PLower: v, PUpper: v, P: v, Interval: undefined(why)}
}

func checkMargin(margin, alpha float64) {
	if !(margin > 0) || math.IsInf(margin, 0) {
		panic("stats: the margin of an equivalence test has to be positive")
	}
	if !(alpha > 0 && alpha < 0.5) {
		panic("stats: alpha of an equivalence test has to lie in (0, 0.5)")
	}
}

func (e *Equivalence) decide() {
	e.P = Number(max(e.PLower.Or(1), e.PUpper.Or(1)))
	e.Equivalent = e.P.Or(1) < e.Alpha
}

// EquivalentMeans tests whether the mean of paired differences d is within the margin of 0, by two one-sided t tests. Undefined for
// fewer than two differences, where all are the same (certainty from a deviation of 0 is none), with a NaN or infinity. It panics
// unless margin > 0 and 0 < alpha < 0.5.
func EquivalentMeans(d []float64, margin, alpha float64) Equivalence {
	checkMargin(margin, alpha)
	why := checkData(d)
	switch {
	case len(d) < 2:
		why = ReasonTooFew
	case why == "" && constant(d):
		why = ReasonConstant
	}
	if why != "" {
		return noEquivalence(why, margin, alpha)
	}
	df, m := float64(len(d)-1), Mean(d)
	se := SD(d) / math.Sqrt(float64(len(d)))
	half := se * criticalT(alpha, df)
	e := Equivalence{
		Difference: Number(m), Margin: margin, Alpha: alpha, PLower: Number(upperT((m+margin)/se, df)), PUpper: Number(upperT((margin-m)/se, df)),
		Interval: Interval{Lo: m - half, Hi: m + half},
	}
	e.decide()
	return e
}

// EquivalentProportions tests whether two success rates on the same n prompts are within the margin of each other; b prompts succeed
// only in the first run, c only in the second, and the difference is (b - c)/n. The tests are Tango's (1998) score tests,
//
//	z(D) = (b - c - n D) / sqrt( n (2 q + D (1 - D)) )
//
// with q the likeliest rate of "only the second" at a difference of D, and the interval is where they do not reject. At D = 0 this is
// McNemar's statistic. Unlike Wald's it works with b + c = 0. Undefined for n = 0. It panics unless 0 <= b, c and b + c <= n,
// 0 < margin < 1 and 0 < alpha < 0.5.
func EquivalentProportions(b, c, n int, margin, alpha float64) Equivalence {
	checkMargin(margin, alpha)
	if b < 0 || c < 0 || b+c > n {
		panic("stats: counts of discordant pairs that do not fit n")
	}
	if margin >= 1 {
		panic("stats: the margin of a difference of rates has to be below 1")
	}
	if n == 0 {
		return noEquivalence(ReasonNoData, margin, alpha)
	}
	t := tango{float64(b), float64(c), float64(n)}
	z := distuv.UnitNormal.Quantile(1 - alpha)
	e := Equivalence{
		Difference: Number((t.b - t.c) / t.n), Margin: margin, Alpha: alpha,
		PLower: Number(upperNormal(t.z(-margin))), PUpper: Number(upperNormal(-t.z(margin))),
		Interval: Interval{Lo: t.solve(z), Hi: t.solve(-z)},
	}
	e.decide()
	return e
}

// tango is a table of paired outcomes.
type tango struct{ b, c, n float64 }

// z is the score statistic of a difference d in (-1, 1); it falls as d grows.
func (t tango) z(d float64) float64 {
	b := -t.b - t.c + (2*t.n-t.b+t.c)*d
	q := (math.Sqrt(max(0, b*b+8*t.n*t.c*d*(1-d))) - b) / (4 * t.n)
	q = max(q, 0, -d) // both rates of discordance are probabilities
	variance := t.n * (2*q + d*(1-d))
	if variance <= 0 {
		return 0 // only at d = 0 without discordant pairs
	}
	return (t.b - t.c - t.n*d) / math.Sqrt(variance)
}

// solve returns the d in [-1, 1] at which z(d) crosses z.
func (t tango) solve(z float64) float64 {
	return bisect(-1, 1, func(d float64) bool { return t.z(d) > z })
}
