package main

import (
	"fmt"

	"github.com/headscope/headscope/stats"
)

// usualDraws leaves p = 0.05 with a standard error of 0.002.
const usualDraws = 10000

// The fields that inputs of seeded statistics end with.
type (
	seeded struct {
		Seed   uint64 `json:"seed" is:"an integer" opt:""`
		Stream uint64 `json:"stream" is:"an integer" opt:""`
	}
	drawing struct {
		Draws int `json:"draws" is:"arrangements to draw where there are more than 100000" opt:"" min:"1" max:"10000000"`
		seeded
	}
	resampled struct {
		Resamples int     `json:"resamples" is:"how many resamples" opt:"" min:"1" max:"10000000"`
		Level     float64 `json:"level" is:"a confidence level between 0 and 1" opt:""`
		seeded
	}
)

func (s seeded) source() stats.Source { return stats.Source{Seed: s.Seed, Stream: s.Stream} }

func (d drawing) sampling() stats.Sampling { return stats.Sampling{B: d.Draws, Source: d.source()} }

func (r resampled) resampling() stats.Resampling {
	return stats.Resampling{N: r.Resamples, Level: r.Level}
}

type signInput struct {
	D numbers `json:"d" is:"a list of paired differences"`
	drawing
}

type splitInput struct {
	X numbers `json:"x" is:"a list of numbers"`
	Y numbers `json:"y" is:"a list of numbers"`
	drawing
}

type layersInput struct {
	Values numbers `json:"values" is:"a list of numbers, one a head"`
	Layers []int   `json:"layers" is:"a list of integers, one a head"`
	Labels flags   `json:"labels" is:"a list of booleans (or 0 and 1), one a head"`
	drawing
}

type groupedInput struct {
	Values numbers `json:"values" is:"a list of numbers, one a head"`
	Layers []int   `json:"layers" is:"a list of integers, one a head"`
	Groups []int   `json:"groups" is:"a list of integers, one a head: its key/value head, numbered over all layers"`
	Labels flags   `json:"labels" is:"a list of booleans (or 0 and 1), one a head"`
	drawing
}

type clustersInput struct {
	Values   numbers `json:"values" is:"a list of numbers"`
	Clusters []int   `json:"clusters" is:"a list of integers, one for each value"`
	Treated  []int   `json:"treated" is:"a list of integers, the treated clusters"`
	drawing
}

type halvesInput struct {
	Scores []numbers `json:"scores" is:"a list of lists of numbers: a row a prompt, a column a head"`
	Draws  int       `json:"draws" is:"splits to make where there are more" opt:"" min:"1" max:"1000000"`
	seeded
}

type layerResult struct {
	stats.LayerPermutation
	PLegacy stats.Value `json:"p_legacy"`
}

func permutationStats() []statistic {
	usual := drawing{Draws: usualDraws}
	return []statistic{
		stat("sign-flip", "paired differences, exact or sampled sign flips", signInput{drawing: usual}, func(in signInput) any {
			return stats.SignFlip(in.D, in.sampling())
		}),
		stat("mean-difference", "two groups, permutation of mean(x) - mean(y)", splitInput{drawing: usual}, func(in splitInput) any {
			return stats.MeanDifference(in.X, in.Y, in.sampling())
		}),
		stat("log-variance-ratio", "two arms, permutation of ln(var x / var y)", splitInput{drawing: usual}, func(in splitInput) any {
			return stats.LogVarianceRatio(in.X, in.Y, in.sampling())
		}),
		stat("layer-permutation", "labelled heads inside layers; centred p, legacy p beside it", layersInput{drawing: usual}, func(in layersInput) any {
			r := stats.PermuteLayers(in.Values, in.Layers, in.Labels, in.sampling())
			return layerResult{r, r.Legacy()}
		}),
		stat("group-permutation", "the same, labels of whole key/value groups moving together", groupedInput{drawing: usual}, func(in groupedInput) any {
			r := stats.PermuteGroups(in.Values, in.Layers, in.Groups, in.Labels, in.sampling())
			return layerResult{r, r.Legacy()}
		}),
		stat("cluster-permutation", "treated against other clusters", clustersInput{drawing: usual}, func(in clustersInput) any {
			return stats.PermuteClusters(in.Values, in.Clusters, in.Treated, in.sampling())
		}),
		stat("split-half", "reliability of heads' scores over prompts", halvesInput{Draws: 1000}, func(in halvesInput) any {
			return stats.SplitHalf(lists(in.Scores), stats.Sampling{B: in.Draws, Source: in.source()})
		}),
	}
}

type bootstrapInput struct {
	X         numbers `json:"x" is:"a list of numbers"`
	Statistic string  `json:"statistic" is:"mean or median" opt:""`
	resampled
}

type bootstrapTwoInput struct {
	X1        numbers `json:"x1" is:"a list of numbers"`
	X0        numbers `json:"x0" is:"a list of numbers"`
	Statistic string  `json:"statistic" is:"mean_diff or cohen_d" opt:""`
	resampled
}

type bootstrapPairsInput struct {
	Before numbers `json:"before" is:"a list of numbers"`
	After  numbers `json:"after" is:"a list of numbers, one for each before"`
	resampled
}

type bootstrapClusterInput struct {
	Values    numbers `json:"values" is:"a list of numbers"`
	Layers    []int   `json:"layers" is:"a list of integers, one for each value: the clusters"`
	Labels    flags   `json:"labels" is:"a list of booleans (or 0 and 1), one for each value; for mean_diff and cohen_d" opt:""`
	X         numbers `json:"x" is:"a list of numbers, one for each value; for rank_demean and demean_rank" opt:""`
	Statistic string  `json:"statistic" is:"mean_diff, cohen_d, rank_demean or demean_rank" opt:""`
	resampled
}

// misuse is a panic that ends in a usage error, as those of package stats do.
func misuse(format string, args ...any) { panic("stats: " + fmt.Sprintf(format, args...)) }

func named(name string, from map[string]stats.Statistic, want string) stats.Statistic {
	s, ok := from[name]
	if !ok {
		misuse("statistic %q: want %s", name, want)
	}
	return s
}

func bootstrapStats() []statistic {
	usual := resampled{Resamples: usualDraws, Level: 0.95}
	one := map[string]stats.Statistic{"mean": stats.MeanOf, "median": stats.MedianOf}
	two := map[string]stats.Statistic{"mean_diff": stats.MeanDifferenceOf, "cohen_d": stats.CohenDOf}
	return []statistic{
		stat("bootstrap", "percentile and BCa intervals of one sample", bootstrapInput{Statistic: "mean", resampled: usual}, func(in bootstrapInput) any {
			s := named(in.Statistic, one, "mean or median")
			return stats.Bootstrap([][]float64{in.X}, s, in.resampling(), in.source())
		}),
		stat("bootstrap-two", "the same of x1 against x0, each resampled by itself", bootstrapTwoInput{Statistic: "mean_diff", resampled: usual}, func(in bootstrapTwoInput) any {
			s := named(in.Statistic, two, "mean_diff or cohen_d")
			return stats.Bootstrap([][]float64{in.X1, in.X0}, s, in.resampling(), in.source())
		}),
		stat("bootstrap-pairs", "the same of the mean of after - before, pairs resampled", bootstrapPairsInput{resampled: usual}, func(in bootstrapPairsInput) any {
			return stats.BootstrapPairs(in.Before, in.After, in.resampling(), in.source())
		}),
		stat("bootstrap-clusters", "the same, whole layers drawn", bootstrapClusterInput{Labels: flags{}, X: numbers{}, Statistic: "mean_diff", resampled: usual}, func(in bootstrapClusterInput) any {
			if len(in.Layers) != len(in.Values) {
				misuse("%d layers of %d values", len(in.Layers), len(in.Values))
			}
			var s stats.ClusterStatistic
			switch in.Statistic {
			case "mean_diff", "cohen_d":
				s = stats.LabelledEffect(in.Values, in.Labels, in.Statistic == "cohen_d")
			case "rank_demean", "demean_rank":
				s = stats.LayerSpearman(in.X, in.Values, in.Statistic == "demean_rank")
			default:
				misuse("statistic %q: want mean_diff, cohen_d, rank_demean or demean_rank", in.Statistic)
			}
			return stats.ClusterBootstrap(in.Layers, s, in.resampling(), in.source())
		}),
	}
}
