package stats_test

import (
	"fmt"

	"github.com/headscope/headscope/stats"
)

// Six seeds of an arm against six of another, in percent: the means do not differ, the spreads may.
func ExampleWelch() {
	hybrid := []float64{86, 88.5, 90, 90.5, 88, 99}
	standard := []float64{14, 98, 52, 88, 61, 67}
	w := stats.Welch(hybrid, standard)
	fmt.Printf("means: t = %.2f, df = %.1f, p = %.3f\n", w.T, w.DF, w.P)
	v := stats.LogVarianceRatio(hybrid, standard, stats.Sampling{B: 10000})
	fmt.Printf("spreads: ln VR = %.2f, p = %.4f of %d splits\n", v.T, v.PAbs, v.Draws.N)
	fmt.Printf("Brown-Forsythe: p = %.3f\n", stats.BrownForsythe(hybrid, standard).P)
	// Output:
	// means: t = 2.21, df = 5.2, p = 0.076
	// spreads: ln VR = -3.75, p = 0.0303 of 924 splits
	// Brown-Forsythe: p = 0.041
}

func ExampleCohenD() {
	e := stats.CohenD([]float64{2, 4, 3, 5}, []float64{1, 2, 3, 2})
	fmt.Printf("d = %.3f, Hedges' g = %.3f\n", e.CohenD, e.HedgesG)
	fmt.Println(stats.CohenD([]float64{3, 3}, []float64{3, 3}).CohenD)
	// Output:
	// d = 1.389, Hedges' g = 1.206
	// undefined: pooled variance is 0
}

func ExampleCompareRanks() {
	r := stats.CompareRanks([]float64{5, 6, 7}, []float64{1, 2, 6})
	fmt.Printf("delta = %.2f, AUROC = %.2f\n", r.CliffsDelta, r.AUROC)
	// Output: delta = 0.67, AUROC = 0.83
}

// Labelled heads have the lowest values of their layers, but sit in layers of high values: the difference of means is positive, and the
// published p, which takes the null mean for zero, sees nothing.
func ExamplePermuteLayers() {
	values := []float64{10, 11, 12, 13, 14, 0, 1, 2, 3, 4, 20, 21, 22, 23, 24}
	layers := []int{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}
	labels := []bool{true, false, false, false, false, false, false, false, false, false, true, true, false, false, false}
	r := stats.PermuteLayers(values, layers, labels, stats.Sampling{B: 10000, Source: stats.Source{Seed: 1}})
	fmt.Printf("T = %.2f, null mean %.2f\n", r.T, r.NullMean)
	fmt.Printf("centred p = %.2f, legacy p = %.2f (%d arrangements)\n", r.PCentred, r.Legacy(), r.Draws.N)
	// Output:
	// T = 6.25, null mean 8.33
	// centred p = 0.04, legacy p = 1.00 (50 arrangements)
}

func ExampleSignFlip() {
	r := stats.SignFlip([]float64{1, 2, 0.5, 3, 4, 1.5}, stats.Sampling{B: 10000})
	fmt.Printf("p = %v, exact: %v\n", r.PAbs, r.Draws.Exact)
	// Output: p = 0.03125, exact: true
}

func ExampleHolm() {
	p := []float64{.9998, .00029997, .00009999, .6475352}
	fmt.Println(stats.Holm(p).Reject(0.05), stats.BenjaminiHochberg(p).P[1])
	// Output: [false true true false] 0.00059994
}

func ExampleBootstrap() {
	x := []float64{0.2, 0.4, 0.1, 3.2, 0.9, 0.3, 1.1, 0.2}
	b := stats.Bootstrap([][]float64{x}, stats.MeanOf, stats.Resampling{N: 10000, Level: 0.95}, stats.Source{Seed: 42})
	fmt.Printf("%.2f, percentile %.2f to %.2f, BCa %.2f to %.2f\n", b.Estimate, b.Percentile.Lo, b.Percentile.Hi, b.BCa.Lo, b.BCa.Hi)
	// Output: 0.80, percentile 0.29 to 1.55, BCa 0.36 to 1.92
}

// Two lost and two gained of 120 prompts: no sign of a difference, and a difference of ten points is excluded.
func ExampleEquivalentProportions() {
	e := stats.EquivalentProportions(2, 2, 120, 0.1, 0.05)
	fmt.Printf("%.3f to %.3f, p = %.1g, equivalent: %v\n", e.Interval.Lo, e.Interval.Hi, e.P, e.Equivalent)
	// Output: -0.035 to 0.035, p = 0.0004, equivalent: true
}

func ExampleDetectableLoss() {
	fmt.Printf("%.3f of 40 prompts, %.3f of 200\n", stats.DetectableLoss(40, 0, 0.8, 0.05), stats.DetectableLoss(200, 0, 0.8, 0.05))
	fmt.Println(stats.DetectableLoss(5, 0, 0.8, 0.05))
	// Output:
	// 0.190 of 40 prompts, 0.039 of 200
	// undefined: no effect, however large, reaches that power
}

func ExampleTestRetest() {
	r := stats.TestRetest([]float64{.9, .4, .1, .7}, []float64{.8, .5, .1, .6})
	fmt.Printf("r = %.3f, ICC = %.3f\n", r.Pearson.R, r.ICC)
	// Output: r = 0.971, ICC = 0.964
}

func ExampleGini() {
	fmt.Println(stats.Gini([]float64{0, 0, 0, 5}), stats.Gini([]float64{2, 2, 2}))
	// Output: 0.75 0
}

func ExampleSpearmanByLayer() {
	x, y := []float64{1, 2, 11, 12}, []float64{2, 1, 12, 11}
	fmt.Printf("plain %.1f, inside layers %.1f\n", stats.Spearman(x, y).R, stats.SpearmanByLayer(x, y, []int{0, 0, 1, 1}).DemeanRank)
	// Output: plain 0.6, inside layers -1.0
}

// Three prompts of four are lost; of the three control sets that there are, none costs as much.
func ExampleCompareHeadSets() {
	r := stats.CompareHeadSets(stats.HeadSets{
		Baseline: []float64{1, 1, 1, 1}, Edited: []float64{0, 0, 0, 1},
		Controls: [][]float64{{1, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, 1, 1}}, Possible: 3,
	}, stats.Resampling{N: 10000, Level: 0.95}, stats.Source{Seed: 1})
	fmt.Printf("head sets p = %.2f (exact: %v), McNemar p = %.2f, excess drop %.2f\n", r.P, r.Exact, r.McNemarP, r.Excess)
	// Output: head sets p = 0.25 (exact: true), McNemar p = 0.25, excess drop 0.67
}

func ExampleRouge1() {
	r := stats.Rouge1("eat a sandwich in Dolores Park", "a sandwich in the park", false)
	fmt.Printf("recall %.2f, precision %.2f\n", r.Recall, r.Precision)
	// Output: recall 0.67, precision 0.80
}
