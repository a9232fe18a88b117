package heads

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headscope/headscope/stats"
)

var drawn = Drawing{stats.Resampling{N: 200, Level: 0.95}, stats.Source{Seed: 1}}

// setOf draws k heads of a layer each.
func setOf(rng *rand.Rand, perLayer []int, heads int) Set {
	var s Set
	for l, k := range perLayer {
		for _, i := range rng.Perm(heads)[:k] {
			s = append(s, h(l, i))
		}
	}
	return NewSet(s...)
}

// TestChance holds the exact distribution against all pairs of sets with the same heads per layer, counted one by one.
func TestChance(t *testing.T) {
	inA, inB, heads := []int{2, 0, 1}, []int{1, 2, 3}, 4
	subsets := func(k int) (out []int) {
		for m := range 1 << heads {
			n := 0
			for i := range heads {
				n += m >> i & 1
			}
			if n == k {
				out = append(out, m)
			}
		}
		return out
	}
	counts, total := map[int]int{}, 0
	bits := func(m int) (n int) {
		for ; m > 0; m &= m - 1 {
			n++
		}
		return n
	}
	for _, a0 := range subsets(2) {
		for _, b0 := range subsets(1) {
			for _, a2 := range subsets(1) {
				for _, b2 := range subsets(3) {
					counts[bits(a0&b0)+bits(a2&b2)]++
					total++
				}
			}
		}
	}
	mean := 0.0
	for x, n := range counts {
		mean += float64(x) * float64(n) / float64(total)
	}
	for observed := range 4 {
		atLeast := 0
		for x, n := range counts {
			if x >= observed {
				atLeast += n
			}
		}
		m, p := chance(inA, inB, heads, observed)
		if want := float64(atLeast) / float64(total); math.Abs(p-want) > 1e-12 || math.Abs(m-mean) > 1e-12 {
			t.Errorf("%d shared: got mean %v, p %v, want %v, %v", observed, m, p, mean, want)
		}
	}
}

func TestCompareSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	per := make([]int, 20)
	for i := range per {
		per[i] = rng.IntN(4)
	}
	a, b := setOf(rng, per, 12), setOf(rng, per, 12)
	x, y := CompareSets(a, b, 20, 12, drawn), CompareSets(b, a, 20, 12, drawn)
	if x.Jaccard != y.Jaccard || x.Interval != y.Interval || x.P != y.P || !x.OnlyA.Equal(y.OnlyB) {
		t.Errorf("not symmetric: %+v, %+v", x, y)
	}
	if x.Union != x.NA+x.NB-x.Intersection || len(x.OnlyA) != x.NA-x.Intersection || !x.Interval.Contains(x.Jaccard) {
		t.Errorf("got %+v", x)
	}
	self := CompareSets(a, a, 20, 12, drawn)
	if lo, hi := self.Interval.Lo, self.Interval.Hi; self.Jaccard != 1 || lo != 1 || hi != 1 || self.P > 1e-6 {
		t.Errorf("with itself: %+v", self)
	}
	empty := CompareSets(nil, Set{}, 20, 12, drawn)
	if empty.Jaccard != 1 || empty.Interval.Why == "" || empty.Undefined == "" || empty.P != 1 {
		t.Errorf("two empty sets: %+v", empty)
	}
}

func TestCompareScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	a, b := NewScores("a", 6, 8), NewScores("b", 6, 8)
	for i := range a.Data {
		a.Data[i] = rng.Float64()
		b.Data[i] = math.Exp(a.Data[i]) // the same order
	}
	x := CompareScores(a, b, drawn)
	if r, ok := x.Spearman.Get(); !ok || math.Abs(r-1) > 1e-12 || x.N != 48 || math.Abs(x.Interval.Lo-1) > 1e-12 {
		t.Errorf("a monotone function: %+v", x)
	}
	// Only the layers differ: no agreement is left inside them.
	for i := range a.Data {
		a.Data[i], b.Data[i] = float64(i/8)+0.1*rng.Float64(), float64(i/8)+0.1*rng.Float64()
	}
	x = CompareScores(a, b, drawn)
	if x.Spearman.Or(0) < 0.9 || math.Abs(x.InLayers.Or(1)) > 0.4 || !x.InInterval.Contains(0) {
		t.Errorf("layers alone: %+v", x)
	}
	a.Data[3], b.Data[9] = math.NaN(), 99
	if x = CompareScores(a, b, drawn); x.N != 47 || x.At == nil || *x.At != h(1, 1) {
		t.Errorf("a head without a score: %+v", x)
	}
	for i := range a.Data {
		a.Data[i] = math.NaN()
	}
	if x = CompareScores(a, b, drawn); x.N != 0 || x.At != nil || x.Undefined == "" || x.Interval.Why == "" {
		t.Errorf("no scores: %+v", x)
	}
}

func TestProfilesOfSets(t *testing.T) {
	s := scoresOf(1, []float64{0, 0, .5, .5}, []float64{0, 1, 0, -1}, []float64{math.NaN(), 0, 0, .25})
	c := s.Concentration(0.3)
	for name, x := range map[string][2]float64{
		"zero": {c.ZeroFraction.Or(-1), 7.0 / 11}, "below": {c.BelowThreshold.Or(-1), 8.0 / 11}, "active": {float64(c.Active), 4},
		"mean": {c.MeanActive.Or(-1), 0.5625}, "top five": {c.TopFive.Or(-1), 2.25 / 1.25},
	} {
		if math.Abs(x[0]-x[1]) > 1e-12 {
			t.Errorf("%s: got %v, want %v", name, x[0], x[1])
		}
	}
	set := Set{h(0, 2), h(0, 3), h(1, 1)}
	l := set.LayerProfile(3, &s)
	if l.Counts[0] != 2 || l.Centre.Or(-1) != 0.5/3 || l.Weighted.Or(-1) != 0.25 || math.Abs(l.Early.Or(-1)-2.0/3) > 1e-12 || l.Late.Or(-1) != 0 {
		t.Errorf("got %+v", l)
	}
	if kv := set.KVProfile(2); kv.Active != 2 || kv.Full.Or(-1) != 0.5 || kv.Mean.Or(-1) != 1.5 {
		t.Errorf("got %+v", kv)
	}
	if l := (Set{}).LayerProfile(3, nil); l.Centre.Why() == "" || l.Weighted.Why() == "" {
		t.Errorf("no heads: %+v", l)
	}
	if x := set.Xor(Set{h(0, 2), h(2, 2)}); !x.Equal(Set{h(0, 3), h(1, 1), h(2, 2)}) {
		t.Errorf("got %s", x)
	}
}

// TestRanker holds the fast statistics of the bootstrap against package stats on resamples.
func TestRanker(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 50 {
		layers, width := 2+rng.IntN(6), 2+rng.IntN(6)
		x, y := make([]float64, layers*width), make([]float64, layers*width)
		for i := range x {
			x[i], y[i] = float64(rng.IntN(8))/8, float64(rng.IntN(8))/8
		}
		var members, ids []int
		for id := range layers {
			l := rng.IntN(layers)
			for h := range width {
				members, ids = append(members, l*width+h), append(ids, id)
			}
		}
		p, q := make([]float64, len(members)), make([]float64, len(members))
		for i, m := range members {
			p[i], q[i] = x[m], y[m]
		}
		rx, ry := newRanker(x), newRanker(y)
		if got, want := rx.ranks(members), stats.Ranks(p); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		got := stats.Pearson(lessMeans(rx.ranks(members), ids), lessMeans(ry.ranks(members), ids)).R
		want := stats.LayerSpearman(x, y, false)(members, ids)
		if g, ok := got.Get(); ok != (want.Why() == "") || ok && math.Abs(g-want.Or(9)) > 1e-12 {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}
