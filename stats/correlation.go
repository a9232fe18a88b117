package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// Correlation is a correlation coefficient with the p of its t test.
type Correlation struct {
	R  Value `json:"r"`
	P  Value `json:"p"` // two-sided, t with DF degrees of freedom; takes the pairs to be independent, which heads of a layer are not
	DF int   `json:"df"`
}

func noCorrelation(why Undefined) Correlation { return Correlation{R: NoValue(why), P: NoValue(why)} }

// Pearson returns the product-moment correlation of x and y. Undefined for fewer than two pairs, a constant input, a NaN or infinity;
// its p also for two pairs. It panics if the lengths differ.
func Pearson(x, y []float64) Correlation {
	if why := checkPairs(x, y); why != "" {
		return noCorrelation(why)
	}
	return correlation(product(x, y), len(x)-2)
}

// Spearman returns the rank correlation of x and y: Pearson's r of the ranks, ties given their average rank. Undefined as Pearson's.
// It panics if the lengths differ.
func Spearman(x, y []float64) Correlation {
	if why := checkPairs(x, y); why != "" {
		return noCorrelation(why)
	}
	return correlation(product(Ranks(x), Ranks(y)), len(x)-2)
}

func checkPairs(x, y []float64) Undefined {
	sameLength(len(x), len(y))
	if why := checkData(x, y); why != "" {
		return why
	}
	switch {
	case len(x) < 2:
		return ReasonTooFew
	case constant(x) || constant(y):
		return ReasonConstant
	}
	return ""
}

// product is Pearson's r; NaN where an input does not vary.
func product(x, y []float64) float64 {
	dx, dy := scaledDeviations(x), scaledDeviations(y)
	xy, xx, yy := make([]float64, len(x)), make([]float64, len(x)), make([]float64, len(x))
	for i := range dx {
		xy[i], xx[i], yy[i] = dx[i]*dy[i], dx[i]*dx[i], dy[i]*dy[i]
	}
	return max(-1, min(1, sum(xy)/math.Sqrt(sum(xx)*sum(yy))))
}

// scaledDeviations are deviations from the mean over a power of two, so that no square leaves float64's range and no digit is lost.
func scaledDeviations(x []float64) []float64 {
	d := deviations(x, Mean(x))
	_, exponent := math.Frexp(largestAbs(d))
	for i, v := range d {
		d[i] = math.Ldexp(v, -exponent)
	}
	return d
}

// correlation adds the p of r: of t = r sqrt(df / (1-r^2)), Student with df degrees of freedom, which is I_{1-r^2}(df/2, 1/2).
func correlation(r float64, df int) Correlation {
	if math.IsNaN(r) {
		return noCorrelation(ReasonConstant)
	}
	c := Correlation{R: Number(r), P: NoValue(ReasonNoDF), DF: max(df, 0)}
	if df >= 1 {
		c.P = Number(mathext.RegIncBeta(float64(df)/2, 0.5, (1-r)*(1+r)))
	}
	return c
}

// CorrelationP returns the two-sided p of a correlation that is stored without its data: of a t with df degrees of freedom. It is
// undefined without degrees of freedom and outside [-1, 1].
func CorrelationP(r float64, df int) Value {
	if !(math.Abs(r) <= 1) {
		return NoValue(ReasonNotFinite)
	}
	return correlation(r, df).P
}

// PartialSpearman is the rank correlation inside layers, in both orders of ranking and demeaning. They are two statistics.
type PartialSpearman struct {
	DemeanRank Value `json:"rho_demean_rank"` // subtract layer means, rank the residuals, correlate: the published order
	RankDemean Value `json:"rho_rank_demean"` // rank, subtract layer means of the ranks, correlate

	// DemeanRankFloat is DemeanRank with residuals that tie only where they are the same float64, layer means added up in numpy's
	// order. It is what published tables hold; DemeanRank is what their authors meant.
	DemeanRankFloat Value `json:"rho_demean_rank_numpy_route"`

	// The p of each, of a t with n-2 degrees of freedom (published; it ignores that layer means were fitted) and with n-L-1.
	PDemeanRank       Value `json:"p_demean_rank_df_n_minus_2"`
	PDemeanRankLayers Value `json:"p_demean_rank_df_n_minus_l_minus_1"`
	PRankDemean       Value `json:"p_rank_demean_df_n_minus_2"`
	PRankDemeanLayers Value `json:"p_rank_demean_df_n_minus_l_minus_1"`
	N                 int   `json:"n"`
	Layers            int   `json:"layers"`
}

// SpearmanByLayer returns the rank correlation of x and y with the layers' means taken out. Residuals that agree within 1e-12 of the
// largest absolute value tie: x - mean(x) of equal distances differs in the last digit from layer to layer, and ranks would make a
// whole rank of it. Undefined where nothing varies inside the layers, for fewer than two values, with a NaN or infinity. It panics if
// lengths differ.
func SpearmanByLayer(x, y []float64, layers []int) PartialSpearman {
	sameLength(len(x), len(y))
	sameLength(len(x), len(layers))
	groups := groupsOf(layers)
	r := PartialSpearman{N: len(x), Layers: len(groups)}
	why := checkData(x, y)
	if len(x) < 2 {
		why = ReasonTooFew
	}
	if why != "" {
		v := NoValue(why)
		r.DemeanRank, r.PDemeanRank, r.PDemeanRankLayers, r.DemeanRankFloat = v, v, v, v
		r.RankDemean, r.PRankDemean, r.PRankDemeanLayers = v, v, v
		return r
	}
	ex, ey := demean(x, groups), demean(y, groups)
	rx, ry := ranksWithin(ex, tieTolerance*largestAbs(x)), ranksWithin(ey, tieTolerance*largestAbs(y))
	r.DemeanRankFloat, _, _ = insideLayers(Ranks(ex), Ranks(ey), len(groups))
	r.DemeanRank, r.PDemeanRank, r.PDemeanRankLayers = insideLayers(rx, ry, len(groups))
	qx, qy := demean(Ranks(x), groups), demean(Ranks(y), groups)
	r.RankDemean, r.PRankDemean, r.PRankDemeanLayers = insideLayers(qx, qy, len(groups))
	return r
}

func insideLayers(x, y []float64, layers int) (rho, p, pLayers Value) {
	n := len(x)
	slack := tieTolerance * float64(n) // ranks, and residuals of ranks
	if spread(x) <= slack || spread(y) <= slack {
		v := NoValue(ReasonNoneInLayers)
		return v, v, v
	}
	r := product(x, y)
	return Number(r), correlation(r, n-2).P, correlation(r, n-layers-1).P
}

func spread(x []float64) float64 { return slices.Max(x) - slices.Min(x) }

// demean subtracts from each value the mean of its group.
func demean(x []float64, groups [][]int) []float64 {
	out := make([]float64, len(x))
	for _, ix := range groups {
		m := Mean(pick(x, ix))
		for _, i := range ix {
			out[i] = x[i] - m
		}
	}
	return out
}

// KendallTau is Kendall's rank correlation.
type KendallTau struct {
	TauB        Value `json:"tau_b"`
	PAsymptotic Value `json:"p_asymptotic"` // normal, variance corrected for ties (Kendall 1970)
	PExact      Value `json:"p_exact"`      // over all n! orders; without ties and up to n = 200 only
	Concordant  int   `json:"concordant_minus_discordant"`
}

// mostKendall bounds the work of the exact p, which grows with the cube of n.
const mostKendall = 200

// Kendall returns tau-b of x and y,
//
//	(C - D) / sqrt( (n(n-1)/2 - ties of x) (n(n-1)/2 - ties of y) )
//
// Undefined as Pearson's; the asymptotic p also for two pairs. It panics if the lengths differ.
func Kendall(x, y []float64) KendallTau {
	if why := checkPairs(x, y); why != "" {
		v := NoValue(why)
		return KendallTau{TauB: v, PAsymptotic: v, PExact: v}
	}
	n := len(x)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(cmp.Compare(x[i], x[j]), cmp.Compare(y[i], y[j])) })
	tx, ty, both := tieSizes(x), tieSizes(y), 0
	for i, run := 1, 1; i <= n; i++ {
		if i < n && x[order[i]] == x[order[i-1]] && y[order[i]] == y[order[i-1]] {
			run++
			continue
		}
		both += run * (run - 1) / 2
		run = 1
	}
	discordant := inversions(pick(y, order), make([]float64, n))
	all, pairsX, pairsY := n*(n-1)/2, tiedPairs(tx), tiedPairs(ty)
	k := KendallTau{Concordant: all - pairsX - pairsY + both - 2*discordant}
	k.TauB = Number(max(-1, min(1, float64(k.Concordant)/math.Sqrt(float64(all-pairsX))/math.Sqrt(float64(all-pairsY)))))
	k.PAsymptotic = kendallNormal(k.Concordant, n, tx, ty)
	switch {
	case pairsX > 0 || pairsY > 0:
		k.PExact = NoValue(ReasonTies)
	case n > mostKendall:
		k.PExact = NoValue(ReasonTooMany)
	default:
		k.PExact = Number(kendallExact(n, min(discordant, all-discordant)))
	}
	return k
}

// tieSizes returns the sizes of the groups of equal values, those of one value left out.
func tieSizes(x []float64) []int {
	sorted := slices.Sorted(slices.Values(x))
	var out []int
	for i, run := 1, 1; i <= len(sorted); i++ {
		if i < len(sorted) && sorted[i] == sorted[i-1] {
			run++
			continue
		}
		if run > 1 {
			out = append(out, run)
		}
		run = 1
	}
	return out
}

func tiedPairs(sizes []int) int {
	n := 0
	for _, t := range sizes {
		n += t * (t - 1) / 2
	}
	return n
}

// inversions counts the pairs i < j with x[i] > x[j] and sorts x (Knight 1966).
func inversions(x, buffer []float64) int {
	if len(x) < 2 {
		return 0
	}
	m := len(x) / 2
	n := inversions(x[:m], buffer) + inversions(x[m:], buffer)
	i, j := 0, m
	for k := range x {
		if j == len(x) || i < m && x[i] <= x[j] {
			buffer[k] = x[i]
			i++
		} else {
			buffer[k] = x[j]
			j++
			n += m - i
		}
	}
	copy(x, buffer[:len(x)])
	return n
}

// kendallNormal is the p of C - D over its standard deviation under the null given the sizes of ties (Kendall 1970, chapter 4).
func kendallNormal(s, n int, tx, ty []int) Value {
	if n < 3 {
		return NoValue(ReasonNoDF)
	}
	sums := func(sizes []int) (v2, v3, v5 float64) {
		for _, size := range sizes {
			t := float64(size)
			v2, v3, v5 = v2+t*(t-1), v3+t*(t-1)*(t-2), v5+t*(t-1)*(2*t+5)
		}
		return v2, v3, v5
	}
	x2, x3, x5 := sums(tx)
	y2, y3, y5 := sums(ty)
	nn := float64(n)
	m := nn * (nn - 1)
	variance := (m*(2*nn+5)-x5-y5)/18 + x2*y2/(2*m) + x3*y3/(9*m*(nn-2))
	if variance <= 0 {
		return NoValue(ReasonNullConstant)
	}
	return Number(2 * upperNormal(math.Abs(float64(s))/math.Sqrt(variance)))
}

// kendallExact is twice the share of the n! orders with at most c discordant pairs. Adding the k-th value to an order of k-1 makes 0
// to k-1 discordant pairs, each as likely as the others.
func kendallExact(n, c int) float64 {
	if 4*c == n*(n-1) {
		return 1
	}
	p := make([]float64, c+1)
	p[0] = 1
	for k := 2; k <= n; k++ {
		next := make([]float64, c+1)
		window := 0.0
		for i := range next {
			window += p[i]
			if i >= k {
				window -= p[i-k]
			}
			next[i] = window / float64(k)
		}
		p = next
	}
	sum := 0.0
	for _, v := range p {
		sum += v
	}
	return min(1, 2*sum)
}
