package stats

import (
	"cmp"
	"math"
	"slices"
)

// AveragePrecision is the area under the precision-recall curve of a score that is to find the relevant items: the mean, over relevant
// items, of the precision among all items that score as high or higher. Items of one score come together, so their order decides
// nothing. Base is what a score without information has on average: the share of relevant items.
type AveragePrecision struct {
	Value    Value `json:"auprc"`
	Base     Value `json:"by_chance"`
	Relevant int   `json:"relevant"`
	Of       int   `json:"of"`
}

// AUPRC computes it as the step-wise sum over distinct scores (Davis and Goadrich 2006; scikit-learn's average_precision_score). Items whose score
// is NaN come last, together. Undefined where no item is relevant. It panics if the lengths differ.
func AUPRC(scores []float64, relevant []bool) AveragePrecision {
	sameLength(len(scores), len(relevant))
	order := make([]int, len(scores))
	r := AveragePrecision{Of: len(scores)}
	for i := range order {
		order[i] = i
		if relevant[i] {
			r.Relevant++
		}
	}
	if r.Relevant == 0 {
		r.Value, r.Base = NoValue(ReasonNoData), NoValue(ReasonNoData)
		return r
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) }) // NaN last
	same := func(a, b int) bool { return cmp.Compare(scores[a], scores[b]) == 0 }
	area, found := 0.0, 0
	for i := 0; i < len(order); {
		j, more := i, 0
		for ; j < len(order) && same(order[i], order[j]); j++ {
			if relevant[order[j]] {
				more++
			}
		}
		found += more
		area += float64(more) * float64(found) / float64(j)
		i = j
	}
	r.Value, r.Base = Number(area/float64(r.Relevant)), Number(float64(r.Relevant)/float64(r.Of))
	return r
}

// PositiveMean is the one-sided p of Student's t test for a mean above 0. Without variation it is 0 for values above 0 and 1 for others;
// 1 with fewer than two values, NaN where one is NaN.
func PositiveMean(x []float64) float64 {
	if len(x) < 2 {
		return 1
	}
	mean, sd := Mean(x), SD(x)
	switch {
	case math.IsNaN(mean):
		return mean
	case sd == 0:
		if mean > 0 {
			return 0
		}
		return 1
	}
	return upperT(mean/(sd/math.Sqrt(float64(len(x)))), float64(len(x)-1))
}
