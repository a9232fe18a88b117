package main

import (
	"slices"

	"github.com/headscope/headscope/stats"
)

// statistics is the table of `headscope stats`, by family.
func statistics() []statistic {
	return slices.Concat(sampleStats(), pairStats(), groupStats(), permutationStats(), bootstrapStats(), decisionStats(), protocolStats())
}

type sampleInput struct {
	X numbers `json:"x" is:"a list of numbers"`
}

type levelInput struct {
	K     int     `json:"k" is:"an integer, the successes" min:"0" max:"100000000"`
	N     int     `json:"n" is:"an integer, the trials" min:"0" max:"100000000"`
	Level float64 `json:"level" is:"a confidence level between 0 and 1" opt:""`
}

type quantileInput struct {
	X numbers `json:"x" is:"a list of numbers"`
	Q numbers `json:"q" is:"a list of shares between 0 and 1"`
}

type pInput struct {
	P     numbers `json:"p" is:"a list of p values, null where one is missing"`
	Alpha float64 `json:"alpha" is:"the level of the rejections" opt:""`
}

type adjustedResult struct {
	stats.Adjusted
	Reject []bool  `json:"reject"`
	Alpha  float64 `json:"alpha"`
}

type quantileResult struct {
	Quantiles []stats.Value `json:"quantiles"`
}

func sampleStats() []statistic {
	adjust := func(name, summary string, fn func([]float64) stats.Adjusted) statistic {
		return stat(name, summary, pInput{Alpha: 0.05}, func(in pInput) any {
			a := fn(in.P)
			return adjustedResult{a, a.Reject(in.Alpha), in.Alpha}
		})
	}
	interval := func(name, summary string, fn func(k, n int, level float64) stats.Interval) statistic {
		return stat(name, summary, levelInput{Level: 0.95}, func(in levelInput) any { return fn(in.K, in.N, in.Level) })
	}
	return []statistic{
		stat("describe", "n, mean, variances, smallest, median, largest", sampleInput{}, func(in sampleInput) any { return stats.Describe(in.X) }),
		stat("quantile", "type 7 quantiles", quantileInput{}, func(in quantileInput) any {
			return quantileResult{stats.QuantileValues(in.X, in.Q...)}
		}),
		stat("gini", "concentration", sampleInput{}, func(in sampleInput) any { return stats.Gini(in.X) }),
		interval("wilson", "score interval of a proportion", stats.Wilson),
		interval("clopper-pearson", "exact interval of a proportion", stats.ClopperPearson),
		adjust("holm", "p values adjusted for the chance of any false rejection", stats.Holm),
		adjust("bh", "p values adjusted for the share of false rejections (Benjamini-Hochberg)", stats.BenjaminiHochberg),
	}
}

type xyInput struct {
	X numbers `json:"x" is:"a list of numbers"`
	Y numbers `json:"y" is:"a list of numbers"`
}

type layerXYInput struct {
	X      numbers `json:"x" is:"a list of numbers"`
	Y      numbers `json:"y" is:"a list of numbers, one for each x"`
	Layers []int   `json:"layers" is:"a list of integers, one for each x"`
}

type mcnemarInput struct {
	B int `json:"b" is:"an integer, the pairs that changed from yes to no" min:"0" max:"10000000"`
	C int `json:"c" is:"an integer, the pairs that changed from no to yes" min:"0" max:"10000000"`
}

type outcomesInput struct {
	Before flags `json:"before" is:"a list of booleans (or 0 and 1)"`
	After  flags `json:"after" is:"a list of booleans (or 0 and 1), one for each before"`
}

type differencesInput struct {
	D numbers `json:"d" is:"a list of paired differences"`
}

type setsInput struct {
	A []string `json:"a" is:"a list of names"`
	B []string `json:"b" is:"a list of names"`
}

func pairStats() []statistic {
	return []statistic{
		stat("mcnemar", "exact test of discordant pairs, with mid-p", mcnemarInput{}, func(in mcnemarInput) any { return stats.McNemar(in.B, in.C) }),
		stat("mcnemar-outcomes", "the same from outcomes", outcomesInput{}, func(in outcomesInput) any {
			return stats.McNemar(stats.Discordant(in.Before, in.After))
		}),
		stat("matched-ranks", "matched-pairs rank-biserial correlation", differencesInput{}, func(in differencesInput) any { return stats.MatchedRankBiserial(in.D) }),
		stat("pearson", "product-moment correlation", xyInput{}, func(in xyInput) any { return stats.Pearson(in.X, in.Y) }),
		stat("spearman", "rank correlation, average ranks", xyInput{}, func(in xyInput) any { return stats.Spearman(in.X, in.Y) }),
		stat("kendall", "tau-b", xyInput{}, func(in xyInput) any { return stats.Kendall(in.X, in.Y) }),
		stat("partial-spearman", "rank correlation inside layers, both orders", layerXYInput{}, func(in layerXYInput) any {
			return stats.SpearmanByLayer(in.X, in.Y, in.Layers)
		}),
		stat("test-retest", "two measurements of the same: correlations, ICC, bias", xyInput{}, func(in xyInput) any { return stats.TestRetest(in.X, in.Y) }),
		stat("jaccard", "overlap of two sets", setsInput{}, func(in setsInput) any { return stats.Overlap(in.A, in.B) }),
	}
}

type groupsInput struct {
	Groups []numbers `json:"groups" is:"a list of lists of numbers, a list a group"`
}

type x1x0Input struct {
	X1 numbers `json:"x1" is:"a list of numbers"`
	X0 numbers `json:"x0" is:"a list of numbers"`
}

type labelledInput struct {
	Values numbers `json:"values" is:"a list of numbers"`
	Layers []int   `json:"layers" is:"a list of integers, one for each value"`
	Labels flags   `json:"labels" is:"a list of booleans (or 0 and 1), one for each value"`
}

type ratioInput struct {
	F   float64 `json:"f" is:"a ratio of variances" min:"0"`
	DF1 int     `json:"df1" is:"degrees of freedom of the numerator" min:"1"`
	DF2 int     `json:"df2" is:"degrees of freedom of the denominator" min:"1"`
}

type summaryInput struct {
	Mean1 float64 `json:"mean1" is:"a number"`
	SD1   float64 `json:"sd1" is:"a standard deviation (n-1)" min:"0"`
	N1    int     `json:"n1" is:"an integer" min:"0"`
	Mean2 float64 `json:"mean2" is:"a number"`
	SD2   float64 `json:"sd2" is:"a standard deviation (n-1)" min:"0"`
	N2    int     `json:"n2" is:"an integer" min:"0"`
}

func groupStats() []statistic {
	several := func(name, summary string, fn func(...[]float64) stats.Test) statistic {
		return stat(name, summary, groupsInput{}, func(in groupsInput) any { return fn(lists(in.Groups)...) })
	}
	return []statistic{
		stat("effects", "Cohen's d, Hedges' g of x1 against x0", x1x0Input{}, func(in x1x0Input) any { return stats.CohenD(in.X1, in.X0) }),
		stat("demeaned-effects", "the same after layer means are taken out", labelledInput{}, func(in labelledInput) any {
			return stats.LayerDemeanedD(in.Values, in.Layers, in.Labels)
		}),
		stat("ranks", "Cliff's delta, AUROC, Mann-Whitney of x against y", xyInput{}, func(in xyInput) any { return stats.CompareRanks(in.X, in.Y) }),
		stat("welch", "t test of two means, unequal variances", xyInput{}, func(in xyInput) any { return stats.Welch(in.X, in.Y) }),
		stat("welch-summary", "the same from means and deviations", summaryInput{}, func(in summaryInput) any {
			return stats.WelchSummary(stats.Summary{Mean: in.Mean1, SD: in.SD1, N: in.N1}, stats.Summary{Mean: in.Mean2, SD: in.SD2, N: in.N2})
		}),
		stat("f-test", "ratio of two variances", xyInput{}, func(in xyInput) any { return stats.FTest(in.X, in.Y) }),
		stat("f-ratio", "the same from the ratio", ratioInput{}, func(in ratioInput) any { return stats.FFromRatio(in.F, in.DF1, in.DF2) }),
		several("levene", "equal variances, deviations from means", stats.Levene),
		several("brown-forsythe", "equal variances, deviations from medians", stats.BrownForsythe),
		several("fligner", "equal variances, ranks (Fligner-Killeen)", stats.FlignerKilleen),
		several("bartlett", "equal variances of normal samples", stats.Bartlett),
		several("obrien", "equal variances, O'Brien's values", stats.OBrien),
	}
}

func lists(in []numbers) [][]float64 {
	out := make([][]float64, len(in))
	for i, x := range in {
		out[i] = x
	}
	return out
}
