package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

func checkPower(power, alpha float64) {
	checkAlpha(alpha)
	if !(power >= 0.5 && power < 1) {
		panic(fmt.Sprintf("stats: power %g is not in [0.5, 1)", power))
	}
}

// DetectableMean returns the smallest true mean of n paired differences, in units of their standard deviation, that a two-sided t test
// at alpha finds with the given power, from the noncentral t distribution. Undefined for n < 2. It panics unless 0 < alpha < 1 and
// 0.5 <= power < 1.
func DetectableMean(n int, power, alpha float64) Value {
	checkPower(power, alpha)
	if n < 2 {
		return NoValue(ReasonTooFew)
	}
	hi := 1.0
	for PowerOfMean(n, hi, alpha).Or(1) < power {
		if hi *= 2; hi > 1e20 {
			return NoValue(ReasonNoSuchEffect)
		}
	}
	return Number(bisect(0, hi, func(d float64) bool { return PowerOfMean(n, d, alpha).Or(1) < power }))
}

// PowerOfMean returns the probability that a two-sided t test at alpha of n paired differences finds a true mean of d standard
// deviations: of |T| > t_{1-alpha/2, n-1} for T noncentral with d sqrt(n). Undefined for n < 2. It panics unless 0 < alpha < 1.
func PowerOfMean(n int, d, alpha float64) Value {
	checkAlpha(alpha)
	if n < 2 {
		return NoValue(ReasonTooFew)
	}
	df, shift := float64(n-1), math.Abs(d)*math.Sqrt(float64(n))
	critical := criticalT(alpha/2, df)
	if shift > 37 {
		// The series of NoncentralT starts from exp(-shift^2/2), which is 0 soon after. T > critical where the normal part z of T
		// makes sqrt(chi2/df) < (shift+z)/critical; the other tail is below 1e-300.
		power := quad.Fixed(func(z float64) float64 {
			ratio := (shift + z) / critical
			return distuv.UnitNormal.Prob(z) * distuv.ChiSquared{K: df}.CDF(df*ratio*ratio)
		}, -9, 9, 100, quad.Legendre{}, 0)
		return Number(min(1, power))
	}
	t := distuv.NoncentralT{Nu: df, Mu: shift}
	return Number(max(0, min(1, 1-t.CDF(critical)+t.CDF(-critical))))
}

// DetectableLoss returns the smallest share of n prompts that an edit has to lose, more than it gains, for a two-sided exact McNemar
// test at alpha to find it with the given power, where it gains a known share of them (0 from a baseline at the ceiling): lost -
// gained. Undefined where even the loss of all other prompts is not enough. It panics unless n >= 0, 0 <= gained < 0.5, 0 < alpha < 1
// and 0.5 <= power < 1.
func DetectableLoss(n int, gained, power, alpha float64) Value {
	checkPower(power, alpha)
	if n < 0 || !(gained >= 0 && gained < 0.5) {
		panic("stats: DetectableLoss needs n >= 0 and a share gained in [0, 0.5)")
	}
	critical := criticalDiscordant(n, alpha)
	if mcNemarPower(n, 1-gained, gained, critical) < power {
		return NoValue(ReasonNoSuchEffect)
	}
	return Number(bisect(gained, 1-gained, func(lost float64) bool { return mcNemarPower(n, lost, gained, critical) < power }) - gained)
}

// PowerOfLoss returns the probability that a two-sided exact McNemar test at alpha of n prompts rejects, when a share lost of them
// succeeds only before the edit and a share gained only after it: over the number m of discordant prompts, binomial(n, lost+gained),
// that of a rejection with binomial(m, lost/(lost+gained)). It panics unless n >= 0, the shares are >= 0 and add up to at most 1,
// and 0 < alpha < 1.
func PowerOfLoss(n int, lost, gained, alpha float64) float64 {
	checkAlpha(alpha)
	if n < 0 || !(lost >= 0 && gained >= 0 && lost+gained <= 1+epsilon) {
		panic("stats: PowerOfLoss needs n >= 0 and shares that add up to at most 1")
	}
	return mcNemarPower(n, lost, gained, criticalDiscordant(n, alpha))
}

// criticalDiscordant returns, for each number m <= n of discordant pairs, the largest smaller count that is significant; -1 for none.
func criticalDiscordant(n int, alpha float64) []int {
	out := make([]int, n+1)
	k := -1
	for m := range out {
		for binomialCDF(k+1, m, 0.5) <= alpha/2 && 2*(k+1) < m {
			k++
		}
		out[m] = k // never falls as m grows
	}
	return out
}

func mcNemarPower(n int, lost, gained float64, critical []int) float64 {
	rate := min(1, lost+gained)
	if rate == 0 {
		return 0
	}
	power, share := 0.0, lost/(lost+gained)
	for m := range n + 1 {
		k := critical[m]
		if k < 0 {
			continue
		}
		some := math.Exp(lgamma(float64(n+1)) - lgamma(float64(m+1)) - lgamma(float64(n-m+1)) + logPower(rate, m) + logPower(1-rate, n-m))
		power += some * (binomialCDF(k, m, share) + binomialCDF(k, m, 1-share))
	}
	return min(1, power)
}

// logPower is k ln x, 0 for k = 0.
func logPower(x float64, k int) float64 {
	if k == 0 {
		return 0
	}
	return float64(k) * math.Log(x)
}

// binomialCDF is P(X <= k), X binomial(n, p).
func binomialCDF(k, n int, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}

// FewestDiscordant returns the smallest number of discordant pairs, all of one kind, whose exact McNemar test has a two-sided p of at
// most alpha: 6 for 0.05. FewestDiscordant panics unless 0 < alpha < 1.
func FewestDiscordant(alpha float64) int {
	checkAlpha(alpha)
	for b := 1; ; b++ {
		if McNemar(b, 0).P <= alpha {
			return b
		}
	}
}
