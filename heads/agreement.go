package heads

import (
	"math"
	"slices"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// Drawing says how an interval resamples layers.
type Drawing struct {
	stats.Resampling
	stats.Source
}

func (d Drawing) layers(clusters []int, stat stats.ClusterStatistic) stats.Interval {
	return stats.ClusterBootstrap(clusters, stat, d.Resampling, d.Source).Percentile
}

// SetAgreement compares two sets of heads of one model.
type SetAgreement struct {
	NA           int            `json:"n_a"`
	NB           int            `json:"n_b"`
	Intersection int            `json:"intersection"`
	Union        int            `json:"union"`
	Jaccard      float64        `json:"jaccard"`    // intersection / union; of two empty sets 1
	Interval     stats.Interval `json:"jaccard_95"` // bootstrap over whole layers, percentile

	// Chance is the intersection that two sets with as many heads in each layer, drawn at random, have on average; P the share of such
	// draws with an intersection as large or larger. Both are exact (a sum of hypergeometric numbers, one a layer).
	Chance float64 `json:"intersection_by_chance"`
	P      float64 `json:"p_same_layers"`

	OnlyA     Set    `json:"only_a"`
	OnlyB     Set    `json:"only_b"`
	Undefined string `json:"undefined,omitempty"` // why there is no interval
}

// CompareSets compares sets of a model with so many layers and heads (query heads, or key/value heads). The interval resamples layers, since
// heads of one layer are not independent. It panics if a head of a or b is beyond the shape.
func CompareSets(a, b Set, layers, heads int, d Drawing) SetAgreement {
	o := stats.Overlap(a, b)
	out := SetAgreement{NA: len(a), NB: len(b), Intersection: o.Intersection, Union: o.Union, Jaccard: o.Jaccard, OnlyA: a.Minus(b), OnlyB: b.Minus(a)}
	inA, inB, both := make([]int, layers), make([]int, layers), make([]int, layers)
	for _, h := range a {
		inA[h.Layer]++
		if b.Contains(h) {
			both[h.Layer]++
		}
	}
	for _, h := range b {
		inB[h.Layer]++
	}
	clusters := make([]int, layers)
	for l := range clusters {
		clusters[l] = l
	}
	out.Interval = d.layers(clusters, func(members, _ []int) stats.Value {
		n, u := 0, 0
		for _, l := range members {
			n, u = n+both[l], u+inA[l]+inB[l]-both[l]
		}
		return share(float64(n), float64(u))
	})
	out.Undefined = string(out.Interval.Why)
	out.Chance, out.P = chance(inA, inB, heads, o.Intersection)
	return out
}

// chance returns the mean of the intersection of two random sets with the given numbers of heads in each layer, and the probability of
// one of at least observed heads.
func chance(inA, inB []int, heads, observed int) (mean, p float64) {
	dist := []float64{1} // of the intersection in the layers so far
	for l, k := range inA {
		m := inB[l]
		if k == 0 || m == 0 {
			continue
		}
		mean += float64(k) * float64(m) / float64(heads)
		most := min(k, m)
		next := make([]float64, len(dist)+most)
		for x := max(0, k+m-heads); x <= most; x++ {
			q := math.Exp(logChoose(m, x) + logChoose(heads-m, k-x) - logChoose(heads, k))
			for i, v := range dist {
				next[i+x] += v * q
			}
		}
		dist = next
	}
	for i := len(dist) - 1; i >= observed; i-- { // small terms first
		p += dist[i]
	}
	return mean, min(1, p)
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// ScoreAgreement compares two scores of the heads of one model.
type ScoreAgreement struct {
	N          int            `json:"n"` // heads with both scores
	Spearman   stats.Value    `json:"spearman"`
	Interval   stats.Interval `json:"spearman_95"` // bootstrap over whole layers, percentile
	InLayers   stats.Value    `json:"spearman_in_layers"`
	InInterval stats.Interval `json:"spearman_in_layers_95"` // ranks, layer means removed: the same heads of each layer, apart from which layers are strong
	Largest    stats.Value    `json:"largest_difference"`    // |a - b|
	At         *decoder.Head  `json:"largest_difference_at"` // the head; null without one
	Undefined  string         `json:"undefined,omitempty"`   // why the first number that is null is
}

// CompareScores compares scores of one shape. Heads without one of the scores are left out. It panics if the shapes differ.
func CompareScores(a, b Scores, d Drawing) ScoreAgreement {
	a.mustMatch(b)
	var x, y []float64
	var layers []int
	out := ScoreAgreement{Largest: stats.NoValue(stats.ReasonNoData)}
	worst := math.Inf(-1)
	for i, v := range a.Data {
		if math.IsNaN(v) || math.IsNaN(b.Data[i]) {
			continue
		}
		x, y, layers = append(x, v), append(y, b.Data[i]), append(layers, i/a.Heads)
		if gap := math.Abs(v - b.Data[i]); gap > worst {
			h := a.head(i)
			worst, out.Largest, out.At = gap, stats.Number(gap), &h
		}
	}
	out.N = len(x)
	rx, ry := newRanker(x), newRanker(y)
	out.Spearman = stats.Spearman(x, y).R
	out.InLayers = stats.SpearmanByLayer(x, y, layers).RankDemean
	out.Interval = d.layers(layers, func(members, _ []int) stats.Value {
		return stats.Pearson(rx.ranks(members), ry.ranks(members)).R
	})
	d.Stream++
	out.InInterval = d.layers(layers, func(members, ids []int) stats.Value {
		return stats.Pearson(lessMeans(rx.ranks(members), ids), lessMeans(ry.ranks(members), ids)).R
	})
	for _, why := range []stats.Undefined{out.Spearman.Why(), out.Interval.Why, out.InLayers.Why(), out.InInterval.Why} {
		if out.Undefined == "" {
			out.Undefined = string(why)
		}
	}
	return out
}

// ranker ranks any choice of the values that it was made of, without sorting them again.
type ranker struct {
	code     []int // of each value its place among the distinct values
	distinct int
}

func newRanker(x []float64) ranker {
	sorted := slices.Compact(slices.Sorted(slices.Values(x)))
	r := ranker{make([]int, len(x)), len(sorted)}
	for i, v := range x {
		r.code[i], _ = slices.BinarySearch(sorted, v)
	}
	return r
}

// ranks are those of stats.Ranks for the values at members, which may come twice.
func (r ranker) ranks(members []int) []float64 {
	count := make([]int, r.distinct)
	for _, m := range members {
		count[r.code[m]]++
	}
	rank, below := make([]float64, r.distinct), 0
	for c, n := range count {
		rank[c] = float64(below) + float64(n+1)/2
		below += n
	}
	out := make([]float64, len(members))
	for i, m := range members {
		out[i] = rank[r.code[m]]
	}
	return out
}

// lessMeans subtracts from each value the mean of its group; ids ascend, and the values of a group stand together.
func lessMeans(x []float64, ids []int) []float64 {
	for i := 0; i < len(x); {
		j, sum := i, 0.0
		for j < len(x) && ids[j] == ids[i] {
			sum += x[j]
			j++
		}
		mean := sum / float64(j-i)
		for ; i < j; i++ {
			x[i] -= mean
		}
	}
	return x
}
