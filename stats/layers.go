package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// LayerPermutation is a permutation test in which labels move inside layers only.
type LayerPermutation struct {
	Permutation
	N1 int `json:"n1"` // labelled heads
	N0 int `json:"n0"` // others

	// Layers is the number of layers, Uninformative of those in which no label can move the statistic's way: none or all of
	// their heads are labelled (or, where groups move, all groups are labelled alike).
	Layers        int `json:"layers"`
	Uninformative int `json:"uninformative_layers"`

	PNormal       Value `json:"p_normal_centred"` // of Z
	PNormalLegacy Value `json:"p_normal_legacy"`  // of |T*| >= |T| for a normal T* around E0
}

// Legacy returns the p that published head studies report: the share of |T*| >= |T|. It is two-sided around zero, but the mean of T*
// under shuffles inside layers is E0, not zero, wherever layers differ in their values and in their shares of labels. The p is then
// near 1 for real effects that point against E0, and near 0 for none. PCentred is the valid one.
func (r LayerPermutation) Legacy() Value { return r.PAbs }

// PermuteLayers tests whether labelled heads have other values than the other heads of their layers. T = mean(labelled) - mean(others)
// over all heads; labels are shuffled inside each layer, which keeps every layer's number of labels, so that differences between
// layers cannot make an effect. With k_l of the N_l heads of layer l labelled, m_l and s_l^2 (ddof 1) its mean and variance, S the
// sum of all values:
//
//	E0  = sum k_l m_l / n1 - (S - sum k_l m_l) / n0
//	Var = (1/n1 + 1/n0)^2 sum k_l (1 - k_l/N_l) s_l^2
//
// PCentred is the two-sided p. values, layers and labels have one entry a head; layers are any numbers, in any order.
// Undefined without labelled or other heads, or with a NaN or infinity. It panics if lengths differ or s.B < 1.
func PermuteLayers(values []float64, layers []int, labels []bool, s Sampling) LayerPermutation {
	sameLength(len(values), len(layers))
	sameLength(len(values), len(labels))
	s.check()
	r, why := newLayerPermutation(values, layers, labels)
	if why != "" {
		return r
	}
	var strata []stratum
	for _, ix := range groupsOf(layers) {
		c := &choice{values: pick(values, ix)}
		for _, i := range ix {
			if labels[i] {
				c.k++
			}
		}
		if c.k == 0 || c.k == len(ix) {
			r.Uninformative++
		}
		strata = append(strata, c)
	}
	r.finish(strata, values, labels, s)
	return r
}

// PermuteGroups is [PermuteLayers] one level up: the labels of whole groups, such as the query heads of one key/value head, move
// together. The label vectors of a layer's groups are dealt out again among them, a head keeping its place inside its group. With
// V_h and Y_h the sums of values and labels at place h over the G groups of a layer, the sum over its labelled heads has the mean
// sum_h V_h Y_h / G. With every group in one and the same layer it is the permutation of whole clusters.
//
// groups names each head's group; a group lies inside one layer, and the groups of a layer have the same size. Undefined as
// PermuteLayers is. It panics where lengths differ, a group is split over layers, sizes differ, or s.B < 1.
func PermuteGroups(values []float64, layers, groups []int, labels []bool, s Sampling) LayerPermutation {
	sameLength(len(values), len(layers))
	sameLength(len(values), len(groups))
	sameLength(len(values), len(labels))
	s.check()
	r, why := newLayerPermutation(values, layers, labels)
	if why != "" {
		return r
	}
	layerOf := map[int]int{}
	for i, g := range groups {
		if l, ok := layerOf[g]; ok && l != layers[i] {
			panic("stats: a group lies in two layers")
		}
		layerOf[g] = layers[i]
	}
	var strata []stratum
	for _, ix := range groupsOf(layers) {
		d := &deal{}
		members := map[int][]int{}
		var order []int
		for _, i := range ix {
			g := groups[i]
			if members[g] == nil {
				order = append(order, g)
			}
			members[g] = append(members[g], i)
		}
		for _, g := range order {
			if len(members[g]) != len(members[order[0]]) {
				panic("stats: groups of one layer differ in size")
			}
		}
		for _, a := range order {
			row := make([]float64, len(order))
			for j, b := range order {
				for h, i := range members[a] {
					if labels[members[b][h]] {
						row[j] += values[i]
					}
				}
			}
			d.sums = append(d.sums, row)
		}
		if d.fixed(func(j int) []bool { return pick(labels, members[order[j]]) }) {
			r.Uninformative++
		}
		strata = append(strata, d)
	}
	r.finish(strata, values, labels, s)
	return r
}

// pick returns the members of x at ix.
func pick[T any](x []T, ix []int) []T {
	out := make([]T, len(ix))
	for j, i := range ix {
		out[j] = x[i]
	}
	return out
}

func newLayerPermutation(values []float64, layers []int, labels []bool) (r LayerPermutation, why Undefined) {
	for _, y := range labels {
		if y {
			r.N1++
		}
	}
	r.N0, r.Layers = len(labels)-r.N1, len(groupsOf(layers))
	why = checkData(values)
	if r.N1 == 0 || r.N0 == 0 {
		why = ReasonEmptyGroup
	}
	if why != "" {
		r.Permutation = noPermutation(why)
		r.PNormal, r.PNormalLegacy = NoValue(why), NoValue(why)
	}
	return r, why
}

func (r *LayerPermutation) finish(strata []stratum, values []float64, labels []bool, s Sampling) {
	x1, x0 := byLabel(values, labels)
	r.Permutation = twoGroups(strata, values, r.N1, Mean(x1)-Mean(x0)).run(s)
	r.PNormal, r.PNormalLegacy = NoValue(ReasonNullConstant), NoValue(ReasonNullConstant)
	if z, ok := r.Z.Get(); ok {
		e0, sd, t := r.NullMean.Or(0), r.NullSD.Or(0), math.Abs(r.T.Or(0))
		r.PNormal = Number(2 * upperNormal(math.Abs(z)))
		r.PNormalLegacy = Number(distuv.UnitNormal.CDF((e0-t)/sd) + distuv.UnitNormal.CDF((-t-e0)/sd))
	}
}

func byLabel(values []float64, labels []bool) (x1, x0 []float64) {
	for i, y := range labels {
		if y {
			x1 = append(x1, values[i])
		} else {
			x0 = append(x0, values[i])
		}
	}
	return x1, x0
}

// groupsOf returns the members of each group, groups in ascending order.
func groupsOf(ids []int) [][]int {
	members := map[int][]int{}
	var order []int
	for i, id := range ids {
		if members[id] == nil {
			order = append(order, id)
		}
		members[id] = append(members[id], i)
	}
	slices.Sort(order)
	out := make([][]int, len(order))
	for i, id := range order {
		out[i] = members[id]
	}
	return out
}

// deal is a stratum in which label vectors are dealt out to groups: sums[i][j] is the sum of group i under the labels of group j.
type deal struct {
	sums  [][]float64
	order []int
}

// fixed tells whether all label vectors are the same.
func (d *deal) fixed(vector func(j int) []bool) bool {
	for j := range d.sums {
		if !slices.Equal(vector(j), vector(0)) {
			return false
		}
	}
	return true
}

func (d *deal) log10() float64 { return lgamma(float64(len(d.sums)+1)) / math.Ln10 }

func (d *deal) under(order []int) float64 {
	sum := 0.0
	for i, j := range order {
		sum += d.sums[i][j]
	}
	return sum
}

func (d *deal) all() []float64 {
	var out []float64
	each := combin.NewPermutationGenerator(len(d.sums), len(d.sums))
	order := make([]int, len(d.sums))
	for each.Next() {
		out = append(out, d.under(each.Permutation(order)))
	}
	return out
}

func (d *deal) draw(r *rand.Rand) float64 {
	if d.order == nil {
		for i := range d.sums {
			d.order = append(d.order, i)
		}
	}
	shuffle(d.order, r)
	return d.under(d.order)
}

// moments are Hoeffding's (1951) for sum_i a[i, pi(i)] under a random permutation pi: the mean is the sum of all entries over G, the
// variance sum d^2 / (G-1), d the entries less their row's and column's means plus the mean of all.
func (d *deal) moments() (mean, variance float64) {
	g := float64(len(d.sums))
	row, column, all := make([]float64, len(d.sums)), make([]float64, len(d.sums)), 0.0
	for i := range d.sums {
		for j, v := range d.sums[i] {
			row[i] += v / g
			column[j] += v / g
			all += v / g
		}
	}
	if g > 1 {
		for i := range d.sums {
			for j, v := range d.sums[i] {
				e := v - row[i] - column[j] + all/g
				variance += e * e / (g - 1)
			}
		}
	}
	return all, variance
}

// ClusterPermutation holds two permutation tests of treated against other clusters.
type ClusterPermutation struct {
	Pooled Permutation `json:"pooled"`        // T = mean over all heads of treated clusters - mean over the others'
	Means  Permutation `json:"cluster_means"` // T = mean of the treated clusters' means - mean of the others'
}

// PermuteClusters tests a treatment that was given to whole clusters: which k of them are the treated ones is shuffled. Clusters of
// unequal size make the two statistics differ; in the pooled one large clusters weigh more. values and clusters have one entry a
// value; treated lists clusters, repeated ones once. Undefined when no cluster or every cluster is treated, or with a NaN or
// infinity. It panics if lengths differ, a treated cluster does not occur, or s.B < 1.
func PermuteClusters(values []float64, clusters, treated []int, s Sampling) ClusterPermutation {
	sameLength(len(values), len(clusters))
	s.check()
	var first, rest [][]float64
	for _, ix := range groupsOf(clusters) {
		x := pick(values, ix)
		if slices.Contains(treated, clusters[ix[0]]) {
			first = append(first, x)
		} else {
			rest = append(rest, x)
		}
	}
	for _, c := range treated {
		if !slices.Contains(clusters, c) {
			panic("stats: a treated cluster does not occur")
		}
	}
	why := checkData(values)
	if len(first) == 0 || len(rest) == 0 {
		why = ReasonEmptyGroup
	}
	if why != "" {
		return ClusterPermutation{noPermutation(why), noPermutation(why)}
	}
	k := len(first)
	pool := append(slices.Clone(first), rest...)
	means := make([]float64, len(pool))
	for i, x := range pool {
		means[i] = Mean(x)
	}
	r := ClusterPermutation{Means: MeanDifference(means[:k], means[k:], s)}
	pooled := func(c [][]float64) float64 { return Mean(slices.Concat(c[:k]...)) - Mean(slices.Concat(c[k:]...)) }
	var drawn []float64
	d := splits(pool, k, s, func(c [][]float64) { drawn = append(drawn, pooled(c)) })
	count := tails{t: pooled(pool), centre: Mean(drawn), slack: tieTolerance * largestAbs(values)}
	for _, t := range drawn {
		count.add(t)
	}
	r.Pooled = count.result(d)
	variance := 0.0
	if len(drawn) > 1 {
		variance = SD(drawn) * SD(drawn) * float64(len(drawn)-1) / float64(len(drawn))
	}
	r.Pooled.moments(count.centre, variance, count.slack)
	return r
}
