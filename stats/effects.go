package stats

import "math"

// Effects are standardised differences of two groups; the sign is group 1 minus group 0.
type Effects struct {
	MeanDiff     Value `json:"mean_diff"`
	SDPooled     Value `json:"sd_pooled"`
	CohenD       Value `json:"cohen_d"`
	JExact       Value `json:"j_exact"`         // Gamma(df/2) / (sqrt(df/2) Gamma((df-1)/2)), df = n1+n0-2; 0 at df = 1
	JApprox      Value `json:"j_approx"`        // 1 - 3/(4(n1+n0) - 9)
	HedgesG      Value `json:"hedges_g_exact"`  // d JExact
	HedgesApprox Value `json:"hedges_g_approx"` // d JApprox
	N1           int   `json:"n1"`
	N0           int   `json:"n0"`
}

func noEffects(why Undefined, n1, n0 int) Effects {
	v := NoValue(why)
	return Effects{v, v, v, v, v, v, v, n1, n0}
}

// CohenD returns the effect sizes of x1 against x0 (Cohen 1988; the corrections J are Hedges', 1981):
//
//	d = ( mean(x1) - mean(x0) ) / sqrt( ((n1-1) v1 + (n0-1) v0) / (n1+n0-2) ),  ddof 1
//
// A group of one value adds nothing to the pooled variance. Undefined for an empty group, for one value each, where no group varies,
// with a NaN or infinity.
func CohenD(x1, x0 []float64) Effects {
	return effects(x1, x0, max(largestAbs(x1), largestAbs(x0)))
}

// effects takes a pooled deviation in the last digits of scale for none.
func effects(x1, x0 []float64, scale float64) Effects {
	n1, n0 := len(x1), len(x0)
	why := checkData(x1, x0)
	if n1 == 0 || n0 == 0 {
		why = ReasonEmptyGroup
	}
	if why != "" {
		return noEffects(why, n1, n0)
	}
	diff := Mean(x1) - Mean(x0)
	df := n1 + n0 - 2
	if df < 1 {
		e := noEffects(ReasonNoDF, n1, n0)
		e.MeanDiff = Number(diff)
		return e
	}
	sd := math.Sqrt((squares(x1) + squares(x0)) / float64(df))
	if sd <= 8*epsilon*scale {
		e := noEffects(ReasonZeroVariance, n1, n0)
		e.MeanDiff, e.SDPooled = Number(diff), Number(0)
		return e
	}
	d, half := diff/sd, float64(df)/2
	exact := 0.0
	if df > 1 {
		exact = math.Exp(lgamma(half)-lgamma(half-0.5)) / math.Sqrt(half)
	}
	approx := 1 - 3/(4*float64(n1+n0)-9)
	return Effects{Number(diff), Number(sd), Number(d), Number(exact), Number(approx), Number(d * exact), Number(d * approx), n1, n0}
}

// epsilon is the distance from 1 to the next float64.
const epsilon = 0x1p-52

// LayerDemeanedD returns the effect sizes of labelled against other heads after each layer's mean, over all its heads, was
// subtracted. Degrees of freedom stay n1+n0-2. It panics if lengths differ.
func LayerDemeanedD(values []float64, layers []int, labels []bool) Effects {
	sameLength(len(values), len(layers))
	sameLength(len(values), len(labels))
	x1, x0 := byLabel(demean(values, groupsOf(layers)), labels)
	return effects(x1, x0, largestAbs(values))
}

// RankEffects compare two groups by order alone.
type RankEffects struct {
	U            Value `json:"u"`             // pairs with x > y, ties half
	CliffsDelta  Value `json:"cliffs_delta"`  // P(x > y) - P(x < y) (Cliff 1993)
	AUROC        Value `json:"auroc"`         // P(x > y) + P(tie)/2
	RankBiserial Value `json:"rank_biserial"` // 2 AUROC - 1, equal to Cliff's delta

	// The two-sided p of Mann and Whitney's test: normal with the variance corrected for ties, with and without the continuity
	// correction of 1/2, and exact, which needs a sample without ties and n1 n0 <= 2500.
	PContinuity Value `json:"p_asymptotic_continuity"`
	PAsymptotic Value `json:"p_asymptotic_no_continuity"`
	PExact      Value `json:"p_exact"`
}

// mostMannWhitney bounds n1 n0 in the exact p, whose work grows with its square.
const mostMannWhitney = 2500

// CompareRanks returns the rank effects of x against y. Undefined for an empty group, with a NaN or infinity.
func CompareRanks(x, y []float64) RankEffects {
	why := checkData(x, y)
	if len(x) == 0 || len(y) == 0 {
		why = ReasonEmptyGroup
	}
	if why != "" {
		v := NoValue(why)
		return RankEffects{v, v, v, v, v, v, v}
	}
	n1, n0 := float64(len(x)), float64(len(y))
	pool := append(append([]float64(nil), x...), y...)
	sum := 0.0
	for _, r := range Ranks(pool)[:len(x)] {
		sum += r
	}
	u := sum - n1*(n1+1)/2
	delta := 2*u/(n1*n0) - 1
	e := RankEffects{U: Number(u), CliffsDelta: Number(delta), AUROC: Number(u / (n1 * n0)), RankBiserial: Number(delta)}

	ties, n := tieSizes(pool), n1+n0
	correction := 0.0
	for _, size := range ties {
		t := float64(size)
		correction += t * (t*t - 1)
	}
	sd := math.Sqrt(n1 * n0 / 12 * (n + 1 - correction/(n*(n-1))))
	distance := math.Abs(u - n1*n0/2)
	if len(ties) > 0 && ties[0] == len(pool) {
		e.PContinuity, e.PAsymptotic = Number(1), NoValue(ReasonAllTie) // the correction exceeds the distance: no evidence at all
	} else {
		e.PContinuity = Number(min(1, 2*upperNormal((distance-0.5)/sd)))
		e.PAsymptotic = Number(min(1, 2*upperNormal(distance/sd)))
	}
	switch {
	case len(ties) > 0:
		e.PExact = NoValue(ReasonTies)
	case len(x)*len(y) > mostMannWhitney:
		e.PExact = NoValue(ReasonTooMany)
	default:
		e.PExact = Number(mannWhitneyExact(len(x), len(y), int(math.Round(min(u, n1*n0-u)))))
	}
	return e
}

// mannWhitneyExact is twice the probability of U <= u. The largest of the values belongs to x with probability m/(m+n), and then adds n.
func mannWhitneyExact(m, n, u int) float64 {
	dist := make([][]float64, n+1) // of U for the current m and each n
	for j := range dist {
		dist[j] = make([]float64, u+1)
		dist[j][0] = 1 // m = 0
	}
	for i := 1; i <= m; i++ {
		next := make([][]float64, n+1)
		next[0] = make([]float64, u+1)
		next[0][0] = 1
		for j := 1; j <= n; j++ {
			next[j] = make([]float64, u+1)
			fromX := float64(i) / float64(i+j)
			for k := range next[j] {
				next[j][k] = (1 - fromX) * next[j-1][k]
				if k >= j {
					next[j][k] += fromX * dist[j][k-j]
				}
			}
		}
		dist = next
	}
	sum := 0.0
	for _, p := range dist[n] {
		sum += p
	}
	return min(1, 2*sum)
}

// MatchedRanks is the matched-pairs rank-biserial correlation.
type MatchedRanks struct {
	TPlus        Value `json:"t_plus"` // sum of the ranks of |d| over positive d
	TMinus       Value `json:"t_minus"`
	RankBiserial Value `json:"matched_rank_biserial"` // (T+ - T-) / (T+ + T-) (Kerby 2014)
}

// MatchedRankBiserial returns the rank effect of paired differences; zeros are dropped before ranking. Undefined where no difference
// is left, with a NaN or infinity.
func MatchedRankBiserial(d []float64) MatchedRanks {
	why := checkData(d)
	var size, signed []float64
	for _, v := range d {
		if v != 0 {
			size, signed = append(size, math.Abs(v)), append(signed, v)
		}
	}
	if why == "" && len(size) == 0 {
		why = ReasonAllZero
	}
	if why != "" {
		return MatchedRanks{NoValue(why), NoValue(why), NoValue(why)}
	}
	var plus, minus float64
	for i, r := range Ranks(size) {
		if signed[i] > 0 {
			plus += r
		} else {
			minus += r
		}
	}
	return MatchedRanks{Number(plus), Number(minus), Number((plus - minus) / (plus + minus))}
}
