package rope

import (
	"math"
	"slices"
)

// plain is a table of these frequencies with no factor on cosine and sine.
func plain(w []float64) *Table { return &Table{InvFreq: w, Scale: 1, RotaryDim: 2 * len(w)} }

// NoPE is the table that turns nothing: cosine 1 and sine 0 at every position.
func NoPE(planes int) *Table { return plain(make([]float64, planes)) }

// Moebius is the anti-periodic ladder pi(2i+1)/n of Bae (arXiv 2607.21405): every plane is turned by half a turn over n tokens, so
// the rotation over n is -1, and over 2n it is +1.
func Moebius(planes int, n float64) *Table {
	w := make([]float64, planes)
	for i := range w {
		w[i] = math.Pi * float64(2*i+1) / n
	}
	return plain(w)
}

// Periodic is the ladder 2pi(i+first)/n, control of [Moebius] with its spacing: the rotation over n is +1. With first 0 (P0) plane 0 does
// not turn; with first 1 (P1) the band is the closest to that of Moebius.
func Periodic(planes int, n float64, first int) *Table {
	w := make([]float64, planes)
	for i := range w {
		w[i] = 2 * math.Pi * float64(i+first) / n
	}
	return plain(w)
}

// Geometric has the ends of [Moebius] and a constant ratio between them, (pi/n)(d-1)^(i/(planes-1)) with d = 2 planes: another holonomy, but
// another density of planes too.
func Geometric(planes int, n float64) *Table {
	w := make([]float64, planes)
	for i := range w {
		w[i] = math.Pi / n * math.Pow(float64(2*planes-1), float64(i)/float64(max(planes-1, 1)))
	}
	return plain(w)
}

// Uniform has a plane for each of draws, numbers in [0, 1), spread over the band of [Moebius] and sorted.
func Uniform(n float64, draws []float64) *Table {
	low, high := math.Pi/n, math.Pi*float64(2*len(draws)-1)/n
	w := make([]float64, len(draws))
	for i, u := range draws {
		w[i] = low + (high-low)*u
	}
	slices.Sort(w)
	return plain(w)
}

// Jitter is [Moebius] with each plane moved by (2u-1)pi/n, u of draws, numbers in [0, 1): the density stays, the holonomy does not.
func Jitter(n float64, draws []float64) *Table {
	t := Moebius(len(draws), n)
	for i, u := range draws {
		t.InvFreq[i] += (2*u - 1) * math.Pi / n
	}
	return t
}

// Moved is a copy of the table with one plane's frequency set to pi/n, the largest whose cosine tells all distances up to n apart.
func (t *Table) Moved(plane int, n float64) *Table {
	out := t.derived(slices.Clone(t.InvFreq))
	out.InvFreq[plane] = math.Pi / n
	return out
}

// Nearest is the plane whose frequency is closest to w in ratio, of equals the first; -1 where nothing turns.
func (t *Table) Nearest(w float64) int {
	best, distance := -1, math.Inf(1)
	for i, have := range t.InvFreq {
		if have == 0 {
			continue
		}
		if d := math.Abs(math.Log(have / w)); d < distance {
			best, distance = i, d
		}
	}
	return best
}

// Times is a copy with all frequencies times f. Position interpolation (linear scaling) by a factor is f = 1/factor.
func (t *Table) Times(f float64) *Table {
	out := t.derived(slices.Clone(t.InvFreq))
	for i := range out.InvFreq {
		out.InvFreq[i] *= f
	}
	return out
}

// Tilted is a copy with plane i times m^(-2i/R): the base times m after everything that was done to the ladder. [Config.Rebase] is the same
// before it, and the two differ wherever a method treats planes by their wavelength.
func (t *Table) Tilted(m float64) *Table {
	out := t.derived(ladder(m, t.RotaryDim))
	for i, w := range t.InvFreq {
		out.InvFreq[i] *= w
	}
	return out
}

// derived is a table of other frequencies with the same factor on cosine and sine.
func (t *Table) derived(w []float64) *Table {
	return &Table{InvFreq: w, Scale: t.Scale, RotaryDim: t.RotaryDim}
}

// Rebase is the config with its base times m, to be scaled anew by whatever its type is.
func (c Config) Rebase(m float64) Config {
	c.Theta *= m
	return c
}

// NTK is the config with the base of static NTK scaling, Theta*factor^(R/(R-2)) for R rotated dimensions (transformers 4's
// "ntk", gone in 5): the slowest plane's wavelength grows by the factor, the fastest stays.
func (c Config) NTK(factor float64, rotaryDim int) Config {
	r := float64(rotaryDim)
	c.Theta *= math.Pow(factor, r/(r-2))
	return c
}
