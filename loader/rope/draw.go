package rope

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// bandStream is the stream of random bands.
const bandStream = 0x62616e64 // "band"

// RandomPlanes draws count of the planes 0 to planes-1, ascending.
func RandomPlanes(rng *rand.Rand, planes, count int) []int { return draw(rng, upTo(planes), count) }

// RandomDims draws count of the rotated dimensions 0 to rotaryDim-1, ascending: the published control of a band. It is matched in dimensions, not
// in planes; [Layout.Touched] counts what it hits.
func RandomDims(rng *rand.Rand, rotaryDim, count int) []int {
	return draw(rng, upTo(rotaryDim), count)
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// draw takes count of pool, which it reorders, and returns them ascending.
func draw(rng *rand.Rand, pool []int, count int) []int {
	for i := range count {
		j := i + rng.IntN(len(pool)-i)
		pool[i], pool[j] = pool[j], pool[i]
	}
	out := slices.Clone(pool[:count])
	slices.Sort(out)
	return out
}

// matchStarts is how many random sets Matched starts from; the best end is kept.
const matchStarts = 64

// Matched finds as many planes as band has, none of them in it, whose energy adds up to nearly that of the band: the control of a band
// edit that takes away the same amount. energy, [planes], is whatever is to be matched, such as mean |q||k|, each >= 0. From random sets it goes
// downhill by exchanging one plane at a time, so the same rng gives the same planes.
//
// ratio is the energy of the planes over that of the band: how good the match is stays for the caller to judge. Too few planes outside of
// the band, and a band without energy, are errors.
func Matched(rng *rand.Rand, energy []float64, band []int) (planes []int, ratio float64, err error) {
	var pool []int
	target := 0.0
	for p, e := range energy {
		if !nonNegative(e) {
			return nil, 0, fmt.Errorf("rope: matched planes: plane %d: got energy %v, want a finite number >= 0", p, e)
		}
		if !slices.Contains(band, p) {
			pool = append(pool, p)
		}
	}
	for _, p := range band {
		if p < 0 || p >= len(energy) {
			return nil, 0, fmt.Errorf("rope: matched planes: plane %d does not exist: there are planes 0-%d", p, len(energy)-1)
		}
		target += energy[p]
	}
	if len(band) == 0 || len(band) > len(pool) {
		return nil, 0, fmt.Errorf("rope: matched planes: got a band of %d, want 1 to %d: as many others of %d planes have to be left", len(band), len(energy)/2, len(energy))
	}
	if target == 0 {
		return nil, 0, fmt.Errorf("rope: matched planes: the band has no energy to match")
	}
	miss := math.Inf(1)
	for range matchStarts {
		set, sum := descend(energy, draw(rng, slices.Clone(pool), len(band)), pool, target)
		if m := math.Abs(sum - target); m < miss {
			planes, ratio, miss = set, sum/target, m
		}
	}
	return planes, ratio, nil
}

// descend exchanges one plane of set for one of pool, the best exchange first, while that brings the sum nearer to target.
func descend(energy []float64, set, pool []int, target float64) ([]int, float64) {
	sum := 0.0
	for _, p := range set {
		sum += energy[p]
	}
	for {
		at, with, miss := -1, -1, math.Abs(sum-target)
		for i, out := range set {
			for _, in := range pool {
				if m := math.Abs(sum - energy[out] + energy[in] - target); m < miss && !slices.Contains(set, in) {
					at, with, miss = i, in, m
				}
			}
		}
		if at < 0 {
			slices.Sort(set)
			return set, sum
		}
		sum += energy[with] - energy[set[at]]
		set[at] = with
	}
}
