package main

import (
	"math"

	"github.com/headscope/headscope/stats"
)

type headSetInput struct {
	Observed float64 `json:"observed" is:"a number, the drop of the set under test"`
	Controls numbers `json:"controls" is:"a list of numbers, the drop of each control set"`
}

type headSetsInput struct {
	Baseline  numbers   `json:"baseline" is:"a list of numbers, one a prompt"`
	Edited    numbers   `json:"edited" is:"a list of numbers, one a prompt"`
	Controls  []numbers `json:"controls" is:"a list of lists of numbers: a row a control set, a column a prompt"`
	Possible  int       `json:"possible" is:"an integer, how many control sets there are; 0 where not known" opt:"" min:"0"`
	Resamples int       `json:"resamples" is:"how many resamples" opt:"" min:"1" max:"1000000"`
	Level     float64   `json:"level" is:"a confidence level between 0 and 1" opt:""`
	seeded
}

type tostMeansInput struct {
	D      numbers `json:"d" is:"a list of paired differences"`
	Margin float64 `json:"margin" is:"a positive number, the largest difference that counts as none"`
	Alpha  float64 `json:"alpha" is:"the level of each one-sided test" opt:""`
}

type tostRatesInput struct {
	B      int     `json:"b" is:"an integer, prompts that succeed in the first run only" min:"0"`
	C      int     `json:"c" is:"an integer, prompts that succeed in the second run only" min:"0"`
	N      int     `json:"n" is:"an integer, all prompts" min:"0"`
	Margin float64 `json:"margin" is:"a number between 0 and 1, the largest difference of rates that counts as none"`
	Alpha  float64 `json:"alpha" is:"the level of each one-sided test" opt:""`
}

type mdeMeansInput struct {
	N     int     `json:"n" is:"an integer, paired differences" min:"0" max:"1000000000"`
	Power float64 `json:"power" is:"a number from 0.5 to below 1" opt:""`
	Alpha float64 `json:"alpha" is:"the level of the two-sided test" opt:""`
}

type mdeRatesInput struct {
	N      int     `json:"n" is:"an integer, prompts" min:"0" max:"20000"`
	Gained float64 `json:"gained" is:"a number from 0 to below 0.5, the share of prompts that the edit gains" opt:""`
	Power  float64 `json:"power" is:"a number from 0.5 to below 1" opt:""`
	Alpha  float64 `json:"alpha" is:"the level of the two-sided test" opt:""`
}

type detectable struct {
	Detectable stats.Value `json:"detectable"`
	Unit       string      `json:"unit"`
}

func decisionStats() []statistic {
	return []statistic{
		stat("head-set", "randomisation test of a drop among those of control sets", headSetInput{}, func(in headSetInput) any {
			return stats.HeadSetTest(in.Observed, in.Controls)
		}),
		stat("head-sets", "the same from outcomes, beside McNemar's and a prompt x control-set bootstrap", headSetsInput{Resamples: usualDraws, Level: 0.95}, func(in headSetsInput) any {
			h := stats.HeadSets{Baseline: in.Baseline, Edited: in.Edited, Controls: lists(in.Controls), Possible: in.Possible}
			return stats.CompareHeadSets(h, stats.Resampling{N: in.Resamples, Level: in.Level}, in.source())
		}),
		stat("tost-means", "equivalence of paired means", tostMeansInput{Alpha: 0.05}, func(in tostMeansInput) any { return stats.EquivalentMeans(in.D, in.Margin, in.Alpha) }),
		stat("tost-proportions", "equivalence of paired success rates", tostRatesInput{Alpha: 0.05}, func(in tostRatesInput) any {
			return stats.EquivalentProportions(in.B, in.C, in.N, in.Margin, in.Alpha)
		}),
		stat("mde-means", "smallest mean of n paired differences that a t test finds", mdeMeansInput{Power: 0.8, Alpha: 0.05}, func(in mdeMeansInput) any {
			return detectable{stats.DetectableMean(in.N, in.Power, in.Alpha), "standard deviations of the differences"}
		}),
		stat("mde-proportions", "smallest lost - gained share of n prompts that McNemar's test finds", mdeRatesInput{Power: 0.8, Alpha: 0.05}, func(in mdeRatesInput) any {
			return detectable{stats.DetectableLoss(in.N, in.Gained, in.Power, in.Alpha), "share of the prompts"}
		}),
	}
}

type signatureInput struct {
	Centers  numbers `json:"centers" is:"a list of numbers, the windows' centres"`
	Recall   numbers `json:"recall" is:"a list of numbers, one a window"`
	Baseline float64 `json:"baseline" is:"a number"`
}

type windowsInput struct {
	HeadDim int `json:"head_dim" is:"an integer" min:"2" max:"1000000"`
	Windows int `json:"n_windows" is:"an integer" opt:"" min:"1" max:"10000"`
	Divisor int `json:"divisor" is:"an integer" opt:"" min:"1"`
}

type specificityInput struct {
	PPLBase float64 `json:"ppl_base" is:"a number"`
	PPLLow  float64 `json:"ppl_low" is:"a number"`
	AccBase float64 `json:"acc_base" is:"a number"`
	AccLow  float64 `json:"acc_low" is:"a number"`
}

type coverageInput struct {
	Detected int     `json:"n_detected" is:"an integer" min:"0"`
	Coverage float64 `json:"coverage" is:"a share" min:"0"`
	Cap      int     `json:"cap" is:"an integer, the most heads" opt:"" min:"0"`
}

type topInput struct {
	Scores    numbers `json:"scores" is:"a list of numbers"`
	Threshold float64 `json:"threshold" is:"a number"`
	K         int     `json:"k" is:"an integer" min:"0"`
}

type rougeInput struct {
	Reference  string `json:"reference" is:"a text"`
	Prediction string `json:"prediction" is:"a text"`
	Stem       bool   `json:"stem" is:"a boolean: reduce words to stems" opt:""`
}

type headCount struct {
	Heads int `json:"n_heads"`
}

type topResult struct {
	Top []int `json:"top"`
}

func protocolStats() []statistic {
	return []statistic{
		stat("frequency-signature", "centre and width of the windows that lower recall", signatureInput{}, func(in signatureInput) any {
			return stats.FrequencyCentre(in.Centers, in.Recall, in.Baseline)
		}),
		stat("windows", "published windows over the dimensions of a head", windowsInput{Windows: 8, Divisor: 8}, func(in windowsInput) any {
			return stats.FrequencyWindows(in.HeadDim, in.Windows, in.Divisor)
		}),
		stat("specificity", "published ratio of perplexity's rise to accuracy's drop", specificityInput{}, func(in specificityInput) any {
			return stats.PerplexitySpecificity(in.PPLBase, in.PPLLow, in.AccBase, in.AccLow)
		}),
		stat("coverage", "heads that a coverage stands for, half to even", coverageInput{Cap: math.MaxInt32}, func(in coverageInput) any {
			return headCount{stats.CoverageCount(in.Detected, in.Coverage, in.Cap)}
		}),
		stat("top-k", "indices of the largest scores, ties in order", topInput{}, func(in topInput) any {
			return topResult{stats.TopK(in.Scores, in.Threshold, in.K)}
		}),
		stat("rouge1", "ROUGE-1 of two texts", rougeInput{}, func(in rougeInput) any { return stats.Rouge1(in.Reference, in.Prediction, in.Stem) }),
	}
}
