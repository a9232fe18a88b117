package stats

import (
	"math/rand/v2"
	"testing"
)

// 1,024 heads in 32 layers, half of them labelled: the most that a permutation has to draw.
func benchHeads() (values []float64, layers []int, labels []bool) {
	rng := rand.New(rand.NewPCG(41, 0))
	for i := range 1024 {
		values, layers, labels = append(values, rng.NormFloat64()), append(layers, i/32), append(labels, rng.IntN(2) == 0)
	}
	return values, layers, labels
}

// BenchmarkPermuteLayers is 10,000 permutations of 1,024 heads; the bound is 0.2 s.
func BenchmarkPermuteLayers(b *testing.B) {
	values, layers, labels := benchHeads()
	for b.Loop() {
		PermuteLayers(values, layers, labels, Sampling{B: 10000, Source: Source{Seed: 1}})
	}
}

// BenchmarkPermuteGroups moves the labels of 256 key/value groups of four heads.
func BenchmarkPermuteGroups(b *testing.B) {
	values, layers, labels := benchHeads()
	groups := make([]int, len(values))
	for i := range groups {
		groups[i] = i / 4
	}
	for b.Loop() {
		PermuteGroups(values, layers, groups, labels, Sampling{B: 10000, Source: Source{Seed: 1}})
	}
}

// BenchmarkBCa is 10,000 BCa resamples of 1,000 paired outcomes; the bound is 1 s.
func BenchmarkBCa(b *testing.B) {
	rng := rand.New(rand.NewPCG(42, 0))
	x := make([]float64, 1000)
	for i := range x {
		x[i] = float64(rng.IntN(3) - 1)
	}
	for b.Loop() {
		if r := Bootstrap([][]float64{x}, MeanOf, Resampling{N: 10000, Level: 0.95}, Source{Seed: 1}); r.BCa.Why != "" {
			b.Fatal(r.BCa.Why)
		}
	}
}

// BenchmarkCompareHeadSets is 99 control sets of 200 prompts with 10,000 mixed resamples.
func BenchmarkCompareHeadSets(b *testing.B) {
	rng := rand.New(rand.NewPCG(43, 0))
	outcomes := func() []float64 {
		x := make([]float64, 200)
		for i := range x {
			x[i] = float64(rng.IntN(2))
		}
		return x
	}
	h := HeadSets{Baseline: outcomes(), Edited: outcomes()}
	for range 99 {
		h.Controls = append(h.Controls, outcomes())
	}
	for b.Loop() {
		CompareHeadSets(h, Resampling{N: 10000, Level: 0.95}, Source{Seed: 1})
	}
}

func BenchmarkKendall(b *testing.B) {
	values, _, _ := benchHeads()
	other, _, _ := benchHeads()
	for b.Loop() {
		Kendall(values, other)
	}
}
