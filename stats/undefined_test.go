package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestReasons: what is undefined says why, in the same word for the same cause.
func TestReasons(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	s := Sampling{B: 10}
	r := Resampling{N: 10, Level: 0.95}
	two, holed, flat := []float64{1, 2}, []float64{1, nan, 3}, []float64{4, 4, 4}
	three := []float64{1, 2, 4}
	_, wilsonHi := Wilson(0, 0, 0.95).Ends()
	for _, c := range []struct {
		name string
		got  Value
		why  Undefined
	}{
		{"number", Number(nan), ReasonNotFinite},
		{"wilson", wilsonHi, ReasonNoData},
		{"pearson constant", Pearson(flat, three).R, ReasonConstant},
		{"pearson NaN", Pearson(holed, three).R, ReasonMissing},
		{"pearson infinite", Pearson([]float64{1, inf, 2}, three).R, ReasonNotFinite},
		{"pearson p of two", Pearson(two, two).P, ReasonNoDF},
		{"spearman of one", Spearman(two[:1], two[:1]).R, ReasonTooFew},
		{"kendall ties", Kendall([]float64{1, 1, 2}, three).PExact, ReasonTies},
		{"kendall long", Kendall(ramp(201), ramp(201)).PExact, ReasonTooMany},
		{"partial", SpearmanByLayer(three, three, []int{0, 1, 2}).DemeanRank, ReasonNoneInLayers},
		{"partial df", SpearmanByLayer(three, []float64{1, 3, 2}, []int{0, 0, 1}).PDemeanRankLayers, ReasonNoDF},
		{"effect of none", CohenD(nil, two).CohenD, ReasonEmptyGroup},
		{"effect of one and one", CohenD(two[:1], two[1:]).CohenD, ReasonNoDF},
		{"effect constant", CohenD(flat, flat).HedgesG, ReasonZeroVariance},
		{"effect of a constant layer", LayerDemeanedD([]float64{.1, .1, .1, .7, .7, .7}, []int{0, 0, 0, 1, 1, 1}, []bool{true, false, false, true, false, false}).CohenD, ReasonZeroVariance},
		{"ranks all tie", CompareRanks(flat, flat).PAsymptotic, ReasonAllTie},
		{"ranks long", CompareRanks(ramp(60), shifted(ramp(60), 0.5)).PExact, ReasonTooMany},
		{"matched zeros", MatchedRankBiserial([]float64{0, 0}).RankBiserial, ReasonAllZero},
		{"F second constant", FTest(three, flat).F, ReasonSecondConstant},
		{"F ratio infinite", FFromRatio(inf, 2, 2).PGreater, ReasonNotFinite},
		{"levene one group", Levene(three).P, ReasonOneGroup},
		{"levene constant", Levene(flat, flat).P, ReasonAllConstant},
		{"levene pairs", Levene([]float64{.1, .3}, []float64{.2, .9}).P, ReasonEqualDeviations},
		{"fligner", FlignerKilleen([]float64{.25, .5}, []float64{1, 1.25}).P, ReasonEqualDeviations},
		{"bartlett", Bartlett(flat, three).P, ReasonGroupConstant},
		{"obrien", OBrien(two, three).P, ReasonGroupOfTwo},
		{"welch", Welch(flat, flat).P, ReasonAllConstant},
		{"welch one", WelchSummary(Summary{1, 0, 1}, Summary{1, 1, 3}).P, ReasonGroupOfOne},
		{"flip", SignFlip(nil, s).PAbs, ReasonNoData},
		{"flip flat", SignFlip([]float64{0, 0}, s).Z, ReasonNullConstant},
		{"variance ratio", LogVarianceRatio(flat, three, s).PAbs, ReasonGroupConstant},
		{"layers", PermuteLayers(three, []int{0, 0, 1}, make([]bool, 3), s).PCentred, ReasonEmptyGroup},
		{"layers NaN", PermuteLayers(holed, []int{0, 0, 1}, []bool{true, false, false}, s).Legacy(), ReasonMissing},
		{"layers fixed", PermuteLayers(three, []int{0, 0, 1}, []bool{true, true, false}, s).Z, ReasonNullConstant},
		{"clusters", PermuteClusters(three, []int{0, 1, 2}, nil, s).Means.PAbs, ReasonEmptyGroup},
		{"holm", Holm([]float64{nan}).P[0], ReasonMissing},
		{"bootstrap none", Bootstrap([][]float64{{}}, MeanOf, r, Source{}).Estimate, ReasonNoData},
		{"bootstrap flat", Bootstrap([][]float64{flat}, MeanOf, r, Source{}).A, ReasonEqualJackknife},
		{"bootstrap one", Bootstrap([][]float64{{3}}, MeanOf, r, Source{}).A, ReasonJackknife},
		{"cluster bootstrap", ClusterBootstrap([]int{0, 0}, LabelledEffect(two, []bool{true, false}, false), r, Source{}).A, ReasonJackknife},
		{"tost", EquivalentMeans(flat, 1, 0.05).P, ReasonConstant},
		{"tost none", EquivalentProportions(0, 0, 0, 0.1, 0.05).P, ReasonNoData},
		{"power", PowerOfMean(1, 1, 0.05), ReasonTooFew},
		{"retest", TestRetest(flat, flat).ICC, ReasonNoVariation},
		{"split", SplitHalf([][]float64{{1, 1}, {1, 1}}, s).Pearson, ReasonNoVariation},
		{"split one head", SplitHalf([][]float64{{1}, {2}}, s).Pearson, ReasonTooFew},
		{"split opposite", SplitHalf([][]float64{{1, 2}, {2, 1}}, s).SpearmanBrown, ReasonOppositeHalves},
		{"paired bootstrap", PairedBootstrap(nil, nil, r, s.Rand()).Value, ReasonNoData},
		{"paired bootstrap NaN", PairedBootstrap(three, holed, r, s.Rand()).Value, ReasonMissing},
		{"paired bootstrap infinite", PairedBootstrap(two, []float64{1, inf}, r, s.Rand()).Value, ReasonNotFinite},
		{"variance ratio moments", LogVarianceRatio(two, three, s).NullMean, ReasonNoMoments},
		{"describe out of range", Describe([]float64{1e308, 1e308}).SD, ReasonNotFinite},
		{"head set", HeadSetTest(1, holed).P, ReasonMissing},
		{"head sets", CompareHeadSets(HeadSets{}, r, Source{}).P, ReasonNoData},
		{"gini", Gini(holed), ReasonMissing},
		{"signature", FrequencyCentre(two, two, 0).Centre, ReasonNoDrop},
		{"specificity", PerplexitySpecificity(0, 1, 1, 0).Ratio, ReasonZeroPerplexity},
	} {
		if c.got.Why() != c.why {
			t.Errorf("%s: got %v, want undefined: %s", c.name, c.got, c.why)
		}
		if b, err := json.Marshal(c.got); err != nil || string(b) != "null" {
			t.Errorf("%s: JSON %s, %v", c.name, b, err)
		}
	}
	if v := Number(2.5); v.Why() != "" || v.Or(1) != 2.5 || v.String() != "2.5" {
		t.Errorf("got %v", v)
	}
	if got := fmt.Sprintf("%.3f|%6.1f|%v|%s|%.2f", Number(2.5), Number(-1), Number(0.25), Number(3), NoValue(ReasonNoData)); got != "2.500|  -1.0|0.25|3|undefined: no data" {
		t.Errorf("got %s", got)
	}
	if !panics(func() { NoValue("") }) {
		t.Error("undefined without a reason")
	}
}

func ramp(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i)
	}
	return x
}

func shifted(x []float64, by float64) []float64 { return deviations(x, -by) }

func TestMisusePanics(t *testing.T) {
	s, r := Sampling{B: 10}, Resampling{N: 10, Level: 0.95}
	two, three := []float64{1, 2}, []float64{1, 2, 3}
	yes, ids := []bool{true, false, true}, []int{0, 0, 1}
	for name, fn := range map[string]func(){
		"pearson lengths":       func() { Pearson(two, three) },
		"kendall lengths":       func() { Kendall(two, three) },
		"partial lengths":       func() { SpearmanByLayer(two, two, ids) },
		"demeaned lengths":      func() { LayerDemeanedD(two, ids, yes) },
		"layers lengths":        func() { PermuteLayers(three, ids, yes[:2], s) },
		"layers draws":          func() { PermuteLayers(three, ids, yes, Sampling{}) },
		"groups over layers":    func() { PermuteGroups(three, ids, []int{1, 2, 1}, yes, s) },
		"groups of other sizes": func() { PermuteGroups(three, []int{0, 0, 0}, []int{1, 1, 2}, yes, s) },
		"no such cluster":       func() { PermuteClusters(three, ids, []int{7}, s) },
		"flip draws":            func() { SignFlip(two, Sampling{}) },
		"p above 1":             func() { Holm([]float64{1.5}) },
		"p below 0":             func() { BenjaminiHochberg([]float64{-0.1}) },
		"alpha":                 func() { Holm(two[:1]).Reject(1) },
		"alpha of power":        func() { PowerOfMean(3, 1, 0) },
		"F ratio":               func() { FFromRatio(-1, 2, 2) },
		"F df":                  func() { FFromRatio(1, 0, 2) },
		"welch summary":         func() { WelchSummary(Summary{0, -1, 3}, Summary{}) },
		"obrien transform":      func() { OBrienTransform(two) },
		"no samples":            func() { Bootstrap(nil, MeanOf, r, Source{}) },
		"bootstrap level":       func() { Bootstrap([][]float64{two}, MeanOf, Resampling{10, 1}, Source{}) },
		"margin":                func() { EquivalentMeans(three, 0, 0.05) },
		"tost alpha":            func() { EquivalentMeans(three, 1, 0.5) },
		"margin of rates":       func() { EquivalentProportions(1, 1, 4, 1, 0.05) },
		"more pairs than n":     func() { EquivalentProportions(3, 3, 5, 0.1, 0.05) },
		"power":                 func() { DetectableMean(10, 0.2, 0.05) },
		"gained":                func() { DetectableLoss(10, 0.6, 0.8, 0.05) },
		"shares":                func() { PowerOfLoss(10, 0.8, 0.6, 0.05) },
		"ragged scores":         func() { SplitHalf([][]float64{two, three}, s) },
		"control length":        func() { CompareHeadSets(HeadSets{two, two, [][]float64{three}, 0}, r, Source{}) },
		"too many controls":     func() { CompareHeadSets(HeadSets{two, two, [][]float64{two, two}, 1}, r, Source{}) },
		"windows":               func() { FrequencyWindows(1, 8, 8) },
		"coverage":              func() { CoverageCount(-1, 0.5, 3) },
		"top":                   func() { TopK(two, 0, -1) },
	} {
		if !panics(fn) {
			t.Errorf("%s: did not panic", name)
		}
	}
}

// FuzzNumbers holds every function to two laws on any data: it does not panic, and no number that it gives is NaN or infinite.
func FuzzNumbers(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 250, 251, 252, 253, 254, 255, 7, 7}, uint64(1))
	f.Add([]byte{}, uint64(2))
	f.Add([]byte{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, uint64(3))
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := make([]byte, rng.IntN(40))
		for i := range b {
			b[i] = byte(rng.IntN(256 >> (seed % 6)))
		}
		f.Add(b, seed)
	}
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-300, -1e300}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		if len(data) > 24 {
			data = data[:24]
		}
		var d table
		for i, v := range data {
			x := float64(v%16) / 8
			if v >= 248 {
				x = odd[v-248]
			}
			d.x, d.y = append(d.x, x), append(d.y, float64(v>>4)-3)
			d.layers, d.groups, d.labels = append(d.layers, int(v>>6)), append(d.groups, i), append(d.labels, v%3 == 0)
		}
		src := Source{Seed: seed}
		s, r := Sampling{B: 20, Source: src}, Resampling{N: 20, Level: 0.9}
		x1, x0 := byLabel(d.x, d.labels)
		results := d.everyFor(s)
		results["three groups"] = []Test{Levene(x1, x0, d.y), BrownForsythe(x1, x0, d.y), FlignerKilleen(x1, x0, d.y), Bartlett(x1, x0, d.y), OBrien(x1, x0, d.y)}
		results["bootstrap"] = []BootstrapResult{
			Bootstrap([][]float64{d.x}, MeanOf, r, src), Bootstrap([][]float64{d.x}, MedianOf, r, src),
			Bootstrap([][]float64{x1, x0}, MeanDifferenceOf, r, src), Bootstrap([][]float64{x1, x0}, CohenDOf, r, src),
			ClusterBootstrap(d.layers, LabelledEffect(d.x, d.labels, true), r, src), ClusterBootstrap(d.layers, LayerSpearman(d.x, d.y, true), r, src),
		}
		results["split"] = SplitHalf([][]float64{d.x, d.y, d.x}, s)
		results["sets"] = CompareHeadSets(HeadSets{d.x, d.y, [][]float64{d.y, d.x}, 0}, r, src)
		results["signature"] = FrequencyCentre(d.x, d.y, 1)
		b, c, n := int(seed%50), int(seed>>8%50), int(seed>>16%200)
		results["proportions"] = []any{McNemar(b, c).P, EquivalentProportions(b, c, b+c+n, 0.1, 0.05), Wilson(b, b+n, 0.95), ClopperPearson(b, b+n, 0.95)}
		results["power"] = []any{DetectableLoss(n, float64(c)/100, 0.8, 0.05), PowerOfMean(n, float64(b), 0.01)}
		for name, v := range results {
			if bad := notFinite(v); bad != "" {
				t.Errorf("%s: %s in %+v", name, bad, v)
			}
			if _, err := json.Marshal(v); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
