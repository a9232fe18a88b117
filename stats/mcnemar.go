package stats

import (
	"fmt"
	"math"
	"math/big"
)

// McNemarResult is the exact test of paired yes/no outcomes.
type McNemarResult struct {
	B      int     `json:"b"`             // pairs that changed from yes to no
	C      int     `json:"c"`             // from no to yes
	P      float64 `json:"p_exact"`       // exact, two-sided; 0 only where it underflows, see Log10P
	Log10P float64 `json:"log10_p_exact"` // log10 of P, also where P underflows
	MidP   float64 `json:"p_mid"`         // two-sided mid-p

	MidPDoubled float64 `json:"p_mid_doubled"` // min(1, 2 sum - term): twice the one-sided mid-p, which differs from MidP where b = c: 1 there
}

// McNemar returns the exact McNemar test of b and c, the two counts of discordant pairs. With n = b + c,
//
//	P    = min(1, 2 sum_{i <= min(b,c)} C(n,i) / 2^n)
//	MidP = 2 sum_{i <= m} C(n,i)/2^n - C(n,m)/2^n,  m = min(b,c);  1 - C(n,b)/2^n / 2 where b = c
//
// (Fagerland, Lydersen and Laake 2013 for the mid-p). Both are 1 when n is 0. The terms are summed with
// 128 bits of mantissa, so P is right to the last digits for any n that a study reaches.
// McNemar panics if b or c is negative.
func McNemar(b, c int) McNemarResult {
	if b < 0 || c < 0 {
		panic(fmt.Sprintf("stats: negative count of discordant pairs: %d, %d", b, c))
	}
	r := McNemarResult{B: b, C: c, P: 1, MidP: 1, MidPDoubled: 1}
	n, m := b+c, min(b, c)
	if n == 0 {
		return r
	}
	const bits = 128
	pmf := new(big.Float).SetPrec(bits).SetMantExp(big.NewFloat(1), -n) // C(n,0)/2^n
	cdf := new(big.Float).SetPrec(bits).Set(pmf)
	f := new(big.Float).SetPrec(bits)
	for i := 1; i <= m; i++ {
		pmf.Mul(pmf, f.SetInt64(int64(n-i+1)))
		pmf.Quo(pmf, f.SetInt64(int64(i)))
		cdf.Add(cdf, pmf)
	}
	two := big.NewFloat(2)
	p := new(big.Float).SetPrec(bits).Mul(cdf, two)
	if p.Cmp(big.NewFloat(1)) < 0 {
		r.P, _ = p.Float64()
		r.Log10P = log10(p)
	}
	if b == c {
		half, _ := pmf.Float64()
		r.MidP = 1 - half/2
	} else {
		r.MidP, _ = p.Sub(p, pmf).Float64()
		r.MidPDoubled = min(1, r.MidP)
	}
	return r
}

// log10 takes the exponent apart first, so that values below the range of float64 keep their logarithm.
func log10(x *big.Float) float64 {
	mant := new(big.Float)
	exp := x.MantExp(mant)
	m, _ := mant.Float64()
	return math.Log10(m) + float64(exp)*math.Log10(2)
}

// Discordant counts the pairs that changed between two runs on the same prompts: b where before is true
// and after is false, c the other way round. It panics if the lengths differ.
func Discordant(before, after []bool) (b, c int) {
	sameLength(len(before), len(after))
	for i, yes := range before {
		switch {
		case yes && !after[i]:
			b++
		case !yes && after[i]:
			c++
		}
	}
	return b, c
}

func sameLength(n, m int) {
	if n != m {
		panic(fmt.Sprintf("stats: slice lengths differ: %d and %d", n, m))
	}
}
