package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// checkGroups returns why groups of at least n values cannot be compared.
func checkGroups(groups [][]float64, n int) Undefined {
	if len(groups) < 2 {
		return ReasonOneGroup
	}
	for _, g := range groups {
		if len(g) < n && n == 3 {
			return ReasonGroupOfTwo
		}
		if len(g) < n {
			return ReasonGroupOfOne
		}
	}
	if why := checkData(groups...); why != "" {
		return why
	}
	if !slices.ContainsFunc(groups, func(g []float64) bool { return !constant(g) }) {
		return ReasonAllConstant
	}
	return ""
}

// Levene tests whether groups spread alike (Levene 1960): the one-way F of |x - mean of its group|. It keeps its level for
// distributions that are nearly symmetric; see [BrownForsythe]. Libraries disagree on the default: scipy's levene is Brown and
// Forsythe's. Undefined for a group of fewer than two values, where every group is constant, where the deviations are equal inside
// every group (with two values they always are), with a NaN or infinity.
func Levene(groups ...[]float64) Test { return levene(groups, Mean) }

// BrownForsythe is [Levene] with deviations from the median (Brown and Forsythe 1974), which keeps its level for skewed data too.
func BrownForsythe(groups ...[]float64) Test { return levene(groups, median) }

func levene(groups [][]float64, centre func([]float64) float64) Test {
	if why := checkGroups(groups, 2); why != "" {
		return noTest(why)
	}
	return oneWayF(absDeviations(groups, centre), ReasonEqualDeviations)
}

func absDeviations(groups [][]float64, centre func([]float64) float64) [][]float64 {
	out := make([][]float64, len(groups))
	for i, g := range groups {
		out[i] = deviations(g, centre(g))
		for j, v := range out[i] {
			out[i][j] = math.Abs(v)
		}
	}
	return out
}

// oneWayF is the F test of the groups' means. A sum of squares inside the groups that is rounding alone makes it undefined.
func oneWayF(groups [][]float64, none Undefined) Test {
	all := slices.Concat(groups...)
	grand := Mean(all)
	var between, within float64
	for _, g := range groups {
		d := Mean(g) - grand
		between += float64(len(g)) * d * d
		within += squares(g)
	}
	d1, d2 := float64(len(groups)-1), float64(len(all)-len(groups))
	scale := largestAbs(all)
	if within <= float64(len(all))*64*epsilon*epsilon*scale*scale {
		return noTest(none)
	}
	f := between / d1 / (within / d2)
	return Test{Number(f), Number(upperF(f, d1, d2)), []float64{d1, d2}}
}

// FlignerKilleen tests whether groups spread alike by normal scores of the ranks of |x - median| (Fligner and Killeen 1976, in the
// form of Conover, Johnson and Johnson 1981): the least sensitive to the shape of the distribution. Undefined as [Levene] is.
func FlignerKilleen(groups ...[]float64) Test {
	if why := checkGroups(groups, 2); why != "" {
		return noTest(why)
	}
	all := slices.Concat(absDeviations(groups, median)...)
	n := float64(len(all))
	scores := Ranks(all)
	for i, r := range scores {
		scores[i] = distuv.UnitNormal.Quantile(0.5 + r/(2*(n+1)))
	}
	sd, grand := SD(scores), Mean(scores)
	if constant(scores) {
		return noTest(ReasonEqualDeviations)
	}
	stat, at := 0.0, 0
	for _, g := range groups {
		d := Mean(scores[at:at+len(g)]) - grand
		stat += float64(len(g)) * d * d
		at += len(g)
	}
	stat /= sd * sd
	df := float64(len(groups) - 1)
	return Test{Number(stat), Number(upperChi2(stat, df)), []float64{df}}
}

// Bartlett tests whether groups spread alike by the likelihood ratio of normal samples (Bartlett 1937): the most powerful for normal
// data, and wrong for others. Undefined for a group of fewer than two values, a constant group, a NaN or infinity.
func Bartlett(groups ...[]float64) Test {
	if why := checkGroups(groups, 2); why != "" {
		return noTest(why)
	}
	k := float64(len(groups))
	var df, pooled, logs, inverse float64
	for _, g := range groups {
		if constant(g) {
			return noTest(ReasonGroupConstant)
		}
		d := float64(len(g) - 1)
		df, pooled, inverse = df+d, pooled+squares(g), inverse+1/d
		logs += d * math.Log(squares(g)/d)
	}
	stat := (df*math.Log(pooled/df) - logs) / (1 + (inverse-1/df)/(3*(k-1)))
	return Test{Number(stat), Number(upperChi2(max(stat, 0), k-1)), []float64{k - 1}}
}

// OBrien tests whether groups spread alike by the one-way F of O'Brien's (1979) values, whose mean in a group is its variance:
//
//	r = ( (n - 1.5) n (x - m)^2 - 0.5 s^2 (n - 1) ) / ( (n-1)(n-2) )
//
// Undefined for a group of fewer than three values, where nothing varies, with a NaN or infinity.
func OBrien(groups ...[]float64) Test {
	why := checkGroups(groups, 3)
	if why == ReasonAllConstant {
		why = ReasonNoVariation
	}
	if why != "" {
		return noTest(why)
	}
	return oneWayF(OBrienTransform(groups...), ReasonNoVariation)
}

// OBrienTransform returns the values that [OBrien] compares. It panics for a group of fewer than three values.
func OBrienTransform(groups ...[]float64) [][]float64 {
	out := make([][]float64, len(groups))
	for i, g := range groups {
		n := float64(len(g))
		if n < 3 {
			panic("stats: O'Brien's transform of fewer than three values")
		}
		ss := squares(g)
		for _, d := range deviations(g, Mean(g)) {
			out[i] = append(out[i], ((n-1.5)*n*d*d-0.5*ss)/((n-1)*(n-2)))
		}
	}
	return out
}
