package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"
)

// contender is one way to do a piece of work.
type contender struct {
	name string
	run  func() error
}

// timing is what a contender took, in seconds. warm is the first call, which compiles.
type timing struct {
	warm   float64
	rounds []float64
}

// race lets the contenders take turns: each once to warm up, then rounds times A B A B.
func race(rounds int, cs ...contender) ([]timing, error) {
	out := make([]timing, len(cs))
	for i, c := range cs {
		s, err := seconds(c.run)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		out[i].warm = s
		fmt.Fprintf(os.Stderr, "bench:   %s: first call %.2f s\n", c.name, s)
	}
	for range rounds {
		for i, c := range cs {
			s, err := seconds(c.run)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			out[i].rounds = append(out[i].rounds, s)
			fmt.Fprintf(os.Stderr, "bench:   %s: %.2f s\n", c.name, s)
		}
	}
	return out, nil
}

func seconds(run func() error) (float64, error) {
	runtime.GC() // so that nobody pays for another's garbage
	start := time.Now()
	err := run()
	return time.Since(start).Seconds(), err
}

// compile is the part of the first call that later ones do not have.
func (t timing) compile() float64 { return max(0, t.warm-t.median()) }

func (t timing) median() float64 { return median(t.rounds) }

// spread is (largest - smallest) / median.
func (t timing) spread() float64 {
	return (slices.Max(t.rounds) - slices.Min(t.rounds)) / t.median()
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// interval is a median with the extremes.
type interval struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func intervalOf(x []float64) *interval {
	if len(x) == 0 {
		return nil
	}
	return &interval{median(x), slices.Min(x), slices.Max(x)}
}

// speedup is, round by round, how many times as long the other took.
func speedup(ours, other timing) *interval {
	n := min(len(ours.rounds), len(other.rounds))
	r := make([]float64, n)
	for i := range r {
		r[i] = other.rounds[i] / ours.rounds[i]
	}
	return intervalOf(r)
}
