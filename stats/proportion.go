package stats

import (
	"encoding/json"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Interval is a closed interval [Lo, Hi]. Where it is undefined, Why says so and both ends are NaN, which poisons arithmetic rather
// than pass for an end at 0; [Interval.Ends] gives them as Values.
type Interval struct {
	Lo, Hi float64
	Why    Undefined // "" where it is defined
}

// Contains reports whether x lies in the interval, ends included. It is false for an undefined interval.
func (iv Interval) Contains(x float64) bool { return iv.Lo <= x && x <= iv.Hi }

// Ends returns both ends, with the reason where there are none.
func (iv Interval) Ends() (lo, hi Value) {
	if iv.Why != "" {
		return NoValue(iv.Why), NoValue(iv.Why)
	}
	return Number(iv.Lo), Number(iv.Hi)
}

// MarshalJSON writes [lo, hi], or null.
func (iv Interval) MarshalJSON() ([]byte, error) {
	if iv.Why != "" {
		return []byte("null"), nil
	}
	return json.Marshal([2]float64{iv.Lo, iv.Hi})
}

func undefined(why Undefined) Interval { return Interval{math.NaN(), math.NaN(), why} }

// Wilson returns the Wilson score interval of the proportion k/n at a confidence level such as 0.95:
//
//	( p + z^2/2n -+ z sqrt( p(1-p)/n + z^2/4n^2 ) ) / ( 1 + z^2/n ),  z = Phi^-1((1+level)/2)
//
// The bound at k = 0 (k = n) is exactly 0 (1). It is undefined for n = 0. Wilson panics unless
// 0 <= k <= n and 0 < level < 1.
func Wilson(k, n int, level float64) Interval {
	checkCounts(k, n)
	checkLevel(level)
	if n == 0 {
		return undefined(ReasonNoData)
	}
	z := math.Sqrt2 * math.Erfinv(level)
	nn, p := float64(n), float64(k)/float64(n)
	centre := p + z*z/(2*nn)
	half := z * math.Sqrt(p*(1-p)/nn+z*z/(4*nn*nn))
	iv := Interval{Lo: (centre - half) / (1 + z*z/nn), Hi: (centre + half) / (1 + z*z/nn)}
	return pinEnds(iv, k, n)
}

// ClopperPearson returns the exact interval of the proportion k/n, from quantiles of the beta distribution:
//
//	Lo = BetaInv(alpha/2; k, n-k+1),  Hi = BetaInv(1-alpha/2; k+1, n-k),  alpha = 1 - level
//
// It is 0 (1) at the end k = 0 (k = n) and undefined for n = 0. It is never narrower than it says, so it is
// wider than Wilson. Its width has seven digits at n = 10^8; beyond, the beta function has too few. ClopperPearson panics unless
// 0 <= k <= n <= 10^8 and 0 < level < 1.
func ClopperPearson(k, n int, level float64) Interval {
	checkCounts(k, n)
	checkLevel(level)
	if n > 1e8 {
		panic(fmt.Sprintf("stats: Clopper and Pearson's interval of %d trials: want at most 100000000", n))
	}
	if n == 0 {
		return undefined(ReasonNoData)
	}
	tail := (1 - level) / 2
	iv := Interval{Lo: 0, Hi: 1}
	if k > 0 {
		iv.Lo = betaQuantile(tail, float64(k), float64(n-k+1))
	}
	if k < n {
		// The upper bound is the mirror image of a lower bound; a small tail probability keeps its digits.
		iv.Hi = 1 - betaQuantile(tail, float64(n-k), float64(k+1))
	}
	return iv
}

// betaQuantile solves I_x(a, b) = p for x. The closed-form starts and Newton steps of other routines lose digits for n above 10^4.
func betaQuantile(p, a, b float64) float64 {
	return bisect(0, 1, func(x float64) bool { return mathext.RegIncBeta(a, b, x) < p })
}

func pinEnds(iv Interval, k, n int) Interval {
	if k == 0 {
		iv.Lo = 0
	}
	if k == n {
		iv.Hi = 1
	}
	return iv
}

func checkCounts(k, n int) {
	if n < 0 || k < 0 || k > n {
		panic(fmt.Sprintf("stats: %d successes of %d", k, n))
	}
}

func checkLevel(level float64) {
	if !(level > 0 && level < 1) {
		panic(fmt.Sprintf("stats: confidence level %v is not between 0 and 1", level))
	}
}

func checkAlpha(alpha float64) {
	if !(alpha > 0 && alpha < 1) {
		panic(fmt.Sprintf("stats: alpha %v is not between 0 and 1", alpha))
	}
}
