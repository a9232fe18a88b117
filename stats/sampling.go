package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Generator names the generator that every seeded function of this package draws from.
const Generator = "PCG-DXSM (Go math/rand/v2 NewPCG)"

// MaxExact is the largest number of arrangements that a permutation test enumerates; beyond it samples. 100,000 is a second's work at
// most, and includes 16 paired differences (65,536 signs) and two groups of nine (48,620 splits).
const MaxExact = 100_000

// Source is a seeded stream of [Generator].
type Source struct {
	Seed   uint64 `json:"seed"`
	Stream uint64 `json:"stream"`
}

// Rand starts the stream.
func (s Source) Rand() *rand.Rand { return rand.New(rand.NewPCG(s.Seed, s.Stream)) }

// Sampling says how a permutation test samples when there are more than [MaxExact] arrangements.
type Sampling struct {
	B int // arrangements drawn; 10000 is usual: the standard error of p = 0.05 is then 0.002
	Source
}

func (s Sampling) check() {
	if s.B < 1 {
		panic(fmt.Sprintf("stats: %d draws", s.B))
	}
}

// Draws says how the null distribution of a test was found.
type Draws struct {
	Exact        bool    `json:"exact"`               // every arrangement was enumerated: p = count/N
	N            int     `json:"n"`                   // arrangements counted; sampled: p = (count+1)/(N+1)
	Arrangements Value   `json:"arrangements"`        // how many there are, the observed one included
	Log10        float64 `json:"log10_arrangements"`  // its logarithm, also where the number is out of range
	Generator    string  `json:"generator,omitempty"` // of a sampled test
	Seed         *Source `json:"seed,omitempty"`
}

func enumerated(n int) Draws {
	return Draws{Exact: true, N: n, Arrangements: Number(float64(n)), Log10: math.Log10(float64(n))}
}

func sampled(s Sampling, log10 float64) Draws {
	d := Draws{N: s.B, Log10: log10, Generator: Generator, Seed: &s.Source}
	d.Arrangements = Number(math.Round(math.Pow(10, log10)))
	return d
}

// p is the share of arrangements as extreme as the observed one.
func (d Draws) p(count int) float64 {
	if d.Exact {
		return float64(count) / float64(d.N)
	}
	return float64(count+1) / float64(d.N+1)
}

// se is the standard error that sampling leaves in p.
func (d Draws) se(p Value) Value {
	x, ok := p.Get()
	switch {
	case !ok:
		return p
	case d.Exact:
		return NoValue(ReasonExact)
	}
	return Number(math.Sqrt(x * (1 - x) / float64(d.N)))
}

// log10Choose is log10 of C(n, k).
func log10Choose(n, k int) float64 {
	return (lgamma(float64(n+1)) - lgamma(float64(k+1)) - lgamma(float64(n-k+1))) / math.Ln10
}

func lgamma(x float64) float64 {
	y, _ := math.Lgamma(x)
	return y
}

// fewEnough tells whether a number of arrangements, given by its logarithm, is to be enumerated.
func fewEnough(log10 float64) bool { return log10 <= math.Log10(MaxExact)+1e-9 }

// tieTolerance is the share of the largest value within which two values of a statistic count as equal: sums of the same numbers in
// another order differ by some 1e-16 of it for each term, and distinct data of ten digits by more.
const tieTolerance = 1e-12
