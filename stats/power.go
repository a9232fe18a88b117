package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// MinDetectable returns the smallest true mean of n paired differences, in units of their standard deviation, that a two-sided t test
// at 1-level finds with the given power:
//
//	( t_{(1+level)/2, n-1} + t_{power, n-1} ) / sqrt(n)
//
// with t the quantiles of Student's distribution: the usual approximation to the noncentral one, within 1 % of it from n = 10 on. It is
// NaN for n < 2. MinDetectable panics unless 0 < level < 1 and 0.5 <= power < 1.
func MinDetectable(n int, power, level float64) float64 {
	checkLevel(level)
	if !(power >= 0.5 && power < 1) {
		panic(fmt.Sprintf("stats: power %g is not in [0.5, 1)", power))
	}
	if n < 2 {
		return math.NaN()
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}
	return (t.Quantile((1+level)/2) + t.Quantile(power)) / math.Sqrt(float64(n))
}

// FewestDiscordant returns the smallest number of discordant pairs, all of one kind, whose exact McNemar test has a two-sided p of at
// most alpha: 6 for 0.05. FewestDiscordant panics unless 0 < alpha < 1.
func FewestDiscordant(alpha float64) int {
	checkLevel(1 - alpha)
	for b := 1; ; b++ {
		if McNemar(b, 0).P <= alpha {
			return b
		}
	}
}
