package stats

import (
	"math"
	"math/rand/v2"
)

// TestRetestResult says how well two measurements of the same things agree.
type TestRetestResult struct {
	Pearson  Correlation `json:"pearson"`
	Spearman Correlation `json:"spearman"`
	ICC      Value       `json:"icc"`       // absolute agreement of single measurements, two-way: ICC(A,1) of McGraw and Wong (1996)
	Bias     Value       `json:"bias"`      // mean of second - first
	Limits   Interval    `json:"limits_95"` // bias -+ 1.96 sd of the differences (Bland and Altman 1986)
	N        int         `json:"n"`
}

// TestRetest compares two measurements of the same heads, such as their scores under two seeds: correlations, which do not see a
// shift, and the intraclass correlation, which does,
//
//	ICC = (MSR - MSE) / ( MSR + MSE + 2 (MSC - MSE) / n )
//
// with MSR, MSC and MSE the mean squares of heads, of measurements and of what is left. Undefined for fewer than two heads, where
// nothing varies, with a NaN or infinity. It panics if the lengths differ.
func TestRetest(first, second []float64) TestRetestResult {
	sameLength(len(first), len(second))
	r := TestRetestResult{Pearson: Pearson(first, second), Spearman: Spearman(first, second), N: len(first)}
	why := checkData(first, second)
	if len(first) < 2 {
		why = ReasonTooFew
	}
	if why != "" {
		r.ICC, r.Bias, r.Limits = NoValue(why), NoValue(why), undefined(why)
		return r
	}
	n := float64(len(first))
	sums, diffs := make([]float64, len(first)), make([]float64, len(first))
	for i := range first {
		sums[i], diffs[i] = first[i]/2+second[i]/2, second[i]-first[i]
	}
	bias, sd := Mean(diffs), SD(diffs)
	rows, columns, rest := 2*squares(sums)/(n-1), n*bias*bias/2, sd*sd/2
	r.ICC = NoValue(ReasonNoVariation)
	if d := rows + rest + 2*(columns-rest)/n; d > 0 {
		r.ICC = Number((rows - rest) / d)
	}
	half := 1.959963984540054 * sd // Phi^-1(0.975)
	r.Bias, r.Limits = Number(bias), Interval{Lo: bias - half, Hi: bias + half}
	return r
}

// SplitHalfResult says how far the scores of heads depend on which prompts they were measured on.
type SplitHalfResult struct {
	Pearson       Value    `json:"pearson"`        // mean over splits
	Spearman      Value    `json:"spearman"`       // mean over splits
	SpearmanBrown Value    `json:"spearman_brown"` // 2r/(1+r) of Pearson: the reliability of all prompts together
	Range         Interval `json:"range_95"`       // 2.5 % to 97.5 % quantile of SpearmanBrown over splits
	Splits        int      `json:"splits"`
	Undefined     int      `json:"undefined_splits"` // splits in which a half does not vary over heads
	Exact         bool     `json:"exact"`            // every split was made
	Generator     string   `json:"generator"`
	Seed          Source   `json:"seed"`
}

// SplitHalf splits prompts into halves, averages each head over each half, and correlates the halves over heads. scores has a row a
// prompt and a column a head. Every split is made when there are at most s.B of them, else s.B random ones; of an odd number of
// prompts one is left out each time. Undefined for fewer than two prompts or heads, where no split varies, with a NaN or infinity. It
// panics where rows differ in length or s.B < 1.
func SplitHalf(scores [][]float64, s Sampling) SplitHalfResult {
	s.check()
	r := SplitHalfResult{Generator: Generator, Seed: s.Source}
	for _, row := range scores {
		sameLength(len(row), len(scores[0]))
	}
	why := checkData(scores...)
	if len(scores) < 2 || len(scores[0]) < 2 {
		why = ReasonTooFew
	}
	if why != "" {
		return r.without(why)
	}
	var pearson, spearman, brown []float64
	r.Exact = halves(len(scores), s, func(first, second []int) {
		r.Splits++
		a, b := columnMeans(scores, first), columnMeans(scores, second)
		p, ok := Pearson(a, b).R.Get()
		if !ok {
			r.Undefined++
			return
		}
		pearson, spearman = append(pearson, p), append(spearman, Spearman(a, b).R.Or(0))
		if p > -1+1e-12 {
			brown = append(brown, 2*p/(1+p))
		}
	})
	if len(pearson) == 0 {
		return r.without(ReasonNoVariation)
	}
	mean := Mean(pearson)
	r.Pearson, r.Spearman, r.SpearmanBrown = Number(mean), Number(Mean(spearman)), NoValue(ReasonOppositeHalves)
	r.Range = undefined(ReasonOppositeHalves)
	if mean > -1+1e-12 {
		r.SpearmanBrown = Number(2 * mean / (1 + mean))
	}
	if len(brown) > 0 {
		r.Range = percentile(brown, 0.95)
	}
	return r
}

func (r SplitHalfResult) without(why Undefined) SplitHalfResult {
	v := NoValue(why)
	r.Pearson, r.Spearman, r.SpearmanBrown, r.Range = v, v, v, undefined(why)
	return r
}

// halves calls fn with the two halves of 0 .. n-1, for every way to halve them or s.B random ones.
func halves(n int, s Sampling, fn func(first, second []int)) (exact bool) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	half := n / 2
	if n%2 == 0 && log10Choose(n-1, half-1) <= math.Log10(float64(min(s.B, MaxExact)))+1e-9 {
		// The last one is always in the second half: every split once.
		splits(order[:n-1], half-1, s, func(o []int) {
			fn(append([]int{n - 1}, o[:half-1]...), o[half-1:])
		})
		return true
	}
	rng := s.Rand()
	for range s.B {
		shuffle(order, rng)
		fn(order[:half], order[half:2*half])
	}
	return false
}

func shuffle(x []int, rng *rand.Rand) {
	rng.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
}

func columnMeans(rows [][]float64, which []int) []float64 {
	out := make([]float64, len(rows[0]))
	for _, i := range which {
		for j, v := range rows[i] {
			out[j] += v / float64(len(which))
		}
	}
	return out
}
