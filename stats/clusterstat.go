package stats

// LabelledEffect is the statistic of a [ClusterBootstrap] that compares labelled values with the others: the difference of means, or
// Cohen's d. values and labels have one entry a member. It panics if lengths differ.
func LabelledEffect(values []float64, labels []bool, cohen bool) ClusterStatistic {
	sameLength(len(values), len(labels))
	return func(members, _ []int) Value {
		x1, x0 := byLabel(pick(values, members), pick(labels, members))
		if cohen {
			return CohenD(x1, x0).CohenD
		}
		if len(x1) == 0 || len(x0) == 0 {
			return NoValue(ReasonEmptyGroup)
		}
		return Number(Mean(x1) - Mean(x0))
	}
}

// LayerSpearman is the statistic of a [ClusterBootstrap] that correlates x and y inside layers, the clusters: see [SpearmanByLayer],
// of which it takes DemeanRank or RankDemean. A layer drawn twice is two layers; one of twice the size has the same mean and gives the
// same value. x and y have one entry a member. It panics if lengths differ.
func LayerSpearman(x, y []float64, demeanFirst bool) ClusterStatistic {
	sameLength(len(x), len(y))
	return func(members, ids []int) Value {
		r := SpearmanByLayer(pick(x, members), pick(y, members), ids)
		if demeanFirst {
			return r.DemeanRank
		}
		return r.RankDemean
	}
}
