package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Adjusted are p values adjusted for the number of tests. A missing p (NaN) is not a test: it stays undefined and is not counted.
type Adjusted struct {
	P     []Value `json:"p"`
	Tests int     `json:"tests"`
}

// Reject tells of each test whether it is significant at level alpha: adjusted p <= alpha. It panics unless 0 < alpha < 1.
func (a Adjusted) Reject(alpha float64) []bool {
	checkAlpha(alpha)
	out := make([]bool, len(a.P))
	for i, v := range a.P {
		p, ok := v.Get()
		out[i] = ok && p <= alpha*(1+4*epsilon) // p m / rank may round to above an alpha that p meets
	}
	return out
}

// Holm adjusts p values so that the chance of any false rejection is kept (Holm 1979): over the sorted p, the running maximum of
// (m - rank + 1) p, at most 1. It panics for a p outside [0, 1].
func Holm(p []float64) Adjusted {
	order := testsOf(p)
	a := adjusted(p, order)
	top := 0.0
	for rank, i := range order {
		top = max(top, float64(len(order)-rank)*p[i])
		a.P[i] = Number(min(1, top))
	}
	return a
}

// BenjaminiHochberg adjusts p values so that the expected share of false ones among the rejections is kept (Benjamini and Hochberg
// 1995; for independent or positively dependent tests): from the largest p down, the running minimum of p m / rank. It panics for a p
// outside [0, 1].
func BenjaminiHochberg(p []float64) Adjusted {
	order := testsOf(p)
	a := adjusted(p, order)
	low := 1.0
	for rank := len(order); rank >= 1; rank-- {
		i := order[rank-1]
		low = min(low, max(p[i], p[i]*float64(len(order))/float64(rank))) // p m / m may round to below p
		a.P[i] = Number(low)
	}
	return a
}

func adjusted(p []float64, order []int) Adjusted {
	a := Adjusted{P: make([]Value, len(p)), Tests: len(order)}
	for i := range a.P {
		a.P[i] = NoValue(ReasonMissing)
	}
	return a
}

// testsOf returns the indices of the p values that are there, smallest first.
func testsOf(p []float64) []int {
	var order []int
	for i, v := range p {
		if math.IsNaN(v) {
			continue
		}
		if v < 0 || v > 1 {
			panic(fmt.Sprintf("stats: p value %v is not between 0 and 1", v))
		}
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	return order
}
