package patch

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

func h(layer, index int) decoder.Head { return decoder.Head{Layer: layer, Index: index} }

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func layerCounts(s heads.Set) map[int]int {
	out := map[int]int{}
	for _, x := range s {
		out[x.Layer]++
	}
	return out
}

func sameCounts(a, b heads.Set) bool {
	ca, cb := layerCounts(a), layerCounts(b)
	if len(ca) != len(cb) {
		return false
	}
	for l, n := range ca {
		if cb[l] != n {
			return false
		}
	}
	return true
}

// Random shapes, targets and pools: whatever is drawn keeps every promise, and what cannot be drawn is refused
// for the reason that a plain count gives.
func TestMatchedSetsLaws(t *testing.T) {
	rng := seeded(11)
	drawn, exhausted, tooFew := 0, 0, 0
	for trial := range 1500 {
		layers, width := 1+rng.IntN(6), 2+rng.IntN(7)
		var pool, target []decoder.Head
		for l := range layers {
			for i := range width {
				if rng.Float64() < .25 {
					target = append(target, h(l, i))
				}
				if rng.Float64() < .7 { // may overlap the target
					pool = append(pool, h(l, i))
				}
			}
		}
		if len(target) == 0 {
			continue
		}
		n := 1 + rng.IntN(12)
		p, tg := heads.NewSet(pool...), heads.NewSet(target...)
		sets, report, err := MatchedSets(p, tg, n, seeded(uint64(trial)))
		exist := countByEnumeration(p.Minus(tg), tg)
		if report.Possible.Cmp(big.NewInt(exist)) != 0 {
			t.Fatalf("pool %s target %s: possible %s, enumerated %d", p, tg, report.Possible, exist)
		}
		switch {
		case exist == 0:
			exhausted++
			if !errors.Is(err, ErrPoolExhausted) || sets != nil {
				t.Fatalf("pool %s target %s: got %v, %v", p, tg, sets, err)
			}
			continue
		case exist < int64(n):
			tooFew++
			if !errors.Is(err, ErrTooFewSets) || sets != nil {
				t.Fatalf("%d of %d: got %v, %v", n, exist, sets, err)
			}
			continue
		case err != nil:
			t.Fatal(err)
		}
		drawn++
		checkSets(t, sets, report, p, tg, n)
		again, _, err := MatchedSets(p, tg, n, seeded(uint64(trial)))
		if err != nil || !slices.EqualFunc(again, sets, heads.Set.Equal) {
			t.Fatalf("the same seed drew %v and %v", sets, again)
		}
		prefix, _, err := MatchedSets(p, tg, 1, seeded(uint64(trial)))
		if err != nil || !prefix[0].Equal(sets[0]) {
			t.Fatalf("a draw of one gave %v, the first of %d is %s", prefix, n, sets[0])
		}
	}
	if drawn < 200 || exhausted < 200 || tooFew < 50 {
		t.Errorf("tried too little: %d drawn, %d exhausted, %d too few", drawn, exhausted, tooFew)
	}
}

func checkSets(t *testing.T, sets []heads.Set, report Report, pool, target heads.Set, n int) {
	t.Helper()
	if len(sets) != n || report.Pairs != n*(n-1)/2 {
		t.Fatalf("asked for %d, got %d sets and %d pairs", n, len(sets), report.Pairs)
	}
	sum, largest := 0.0, 0.0
	for i, s := range sets {
		if len(s.Intersect(target)) > 0 || len(s.Minus(pool)) > 0 || !sameCounts(s, target) || !s.Equal(heads.NewSet(s...)) {
			t.Fatalf("set %s for target %s from pool %s", s, target, pool)
		}
		if len(report.Forced.Minus(s)) > 0 {
			t.Fatalf("set %s lacks a forced head of %s", s, report.Forced)
		}
		for _, o := range sets[:i] {
			if s.Equal(o) {
				t.Fatalf("set %s drawn twice", s)
			}
			both := 0
			for _, x := range s {
				if o.Contains(x) {
					both++
				}
			}
			share := float64(both) / float64(len(target))
			sum, largest = sum+share, max(largest, share)
		}
	}
	if report.MaxOverlap != largest || report.MaxOverlap >= 1 || math.Abs(report.MeanOverlap*float64(report.Pairs)-sum) > 1e-9 {
		t.Fatalf("overlap %+v, want mean of %v over %d pairs and at most %v", report, sum, report.Pairs, largest)
	}
}

// countByEnumeration counts layer-matched sets one by one: subsets of each layer as bit masks.
func countByEnumeration(free, target heads.Set) int64 {
	total := int64(1)
	for l, k := range layerCounts(target) {
		n, sets := len(free.ByLayer()[l]), int64(0)
		for mask := range 1 << n {
			bits := 0
			for b := mask; b > 0; b >>= 1 {
				bits += b & 1
			}
			if bits == k {
				sets++
			}
		}
		total *= sets
	}
	return total
}

// Each of the ten sets must come up equally often as the first draw: chi-squared with 9 degrees of freedom,
// 33.7 at p = 1e-4.
func TestMatchedSetsAreUniform(t *testing.T) {
	pool := heads.NewSet(h(3, 0), h(3, 1), h(3, 2), h(3, 4), h(3, 5))
	target := heads.NewSet(h(3, 3), h(3, 6))
	counts := map[string]int{}
	const runs = 10000
	rng := seeded(2)
	for range runs {
		sets, _, err := MatchedSets(pool, target, 1, rng)
		if err != nil {
			t.Fatal(err)
		}
		counts[sets[0].String()]++
	}
	chi := 0.0
	for _, c := range counts {
		chi += (float64(c) - runs/10.) * (float64(c) - runs/10.) / (runs / 10.)
	}
	if len(counts) != 10 || chi > 33.7 {
		t.Errorf("%d of 10 sets, chi-squared %.1f: %v", len(counts), chi, counts)
	}
	// All ten, and not an eleventh.
	sets, report, err := MatchedSets(pool, target, 10, rng)
	if err != nil || len(sets) != 10 || report.Possible.Int64() != 10 {
		t.Errorf("got %d sets, %v, %v", len(sets), report.Possible, err)
	}
	_, _, err = MatchedSets(pool, target, 11, rng)
	if !errors.Is(err, ErrTooFewSets) || !strings.Contains(err.Error(), "asked for 11, only 10 distinct") {
		t.Errorf("got %v", err)
	}
}

func TestMatchedSetsErrors(t *testing.T) {
	pool := heads.NewSet(h(0, 1), h(1, 0), h(2, 0), h(2, 1))
	target := heads.NewSet(h(0, 0), h(1, 1), h(1, 2), h(2, 5), h(7, 0))
	sets, report, err := MatchedSets(pool, target, 3, seeded(1))
	if !errors.Is(err, ErrPoolExhausted) || err.Error() != "pool exhausted in layers 1 (has 1, needs 2), 7 (has 0, needs 1)" {
		t.Errorf("got %v, %v", sets, err)
	}
	if len(report.Layers) != 4 || report.Layers[1] != (LayerDraw{1, 2, 1}) {
		t.Errorf("got %+v", report)
	}
	if _, _, err := MatchedSets(pool, nil, 1, seeded(1)); !errors.Is(err, ErrEmptyTarget) {
		t.Errorf("empty target: got %v", err)
	}
	if _, _, err := MatchedSets(pool, target, 0, seeded(1)); !errors.Is(err, ErrNoSets) {
		t.Errorf("no sets: got %v", err)
	}
	_, report, err = MatchedSets(pool, heads.NewSet(h(0, 0), h(2, 5)), 2, seeded(1))
	if err != nil || !report.Forced.Equal(heads.NewSet(h(0, 1))) || report.MaxOverlap != .5 {
		t.Errorf("got %+v, %v; want L0H1 in every set", report, err)
	}
}

// The number of sets outgrows 64 bits on real models: 40 layers with 5 of 30 heads each.
func TestPossibleIsExact(t *testing.T) {
	var pool, target []decoder.Head
	want := big.NewInt(1)
	for l := range 40 {
		for i := range 30 {
			pool = append(pool, h(l, i))
		}
		for i := 30; i < 35; i++ {
			target = append(target, h(l, i))
		}
		want.Mul(want, big.NewInt(142506)) // C(30, 5)
	}
	_, report, err := MatchedSets(heads.NewSet(pool...), heads.NewSet(target...), 99, seeded(4))
	if err != nil || report.Possible.Cmp(want) != 0 {
		t.Fatalf("got %s, %v; want %s", report.Possible, err, want)
	}
	b, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(b), `"possible":`+want.String()) {
		t.Errorf("JSON: %s, %v", b, err)
	}
}

func TestLayerPool(t *testing.T) {
	s := heads.Scores{Layers: 2, Heads: 4, N: 40, Data: []float64{0, .1, .0999, 1, math.NaN(), .05, 0, 0}}
	got := LayerPool(s, .1, heads.NewSet(h(1, 2)), heads.NewSet(h(0, 0), h(0, 3)))
	if want := heads.NewSet(h(0, 2), h(1, 1), h(1, 3)); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if all := LayerPool(s, .1).Union(s.AtLeast(.1)); len(all) != 7 || all.Contains(h(1, 0)) {
		t.Errorf("pool and detected heads make %s, want all but the one without a score", all)
	}
}

func TestEditsSayWhatTheyMean(t *testing.T) {
	set := heads.NewSet(h(20, 3), h(18, 6))
	planes := []int{24, 31}
	for want, got := range map[string][]decoder.Edit{
		"zero:L18H6,L20H3@question":             ZeroHeads(set, decoder.ScopeQuestion),
		"scale=0.5:L18H6,L20H3@all":             ScaleHeads(set, .5, decoder.ScopeAll),
		"uniform:L18H6,L20H3@answer":            UniformHeads(set, decoder.ScopeAnswer),
		"temperature=2:L18H6,L20H3@last":        Temperature(set, 2, decoder.ScopeLast),
		"length_scale=0.2+512:L18H6,L20H3@all":  LengthScale(set, .2, 512, decoder.ScopeAll),
		"keep_spread:L18H6,L20H3@question":      KeepSpread(set, decoder.ScopeQuestion),
		"zero_planes:L18H6,L20H3:24+31@all":     ZeroPlanes(set, planes, decoder.ScopeAll),
		"scale_planes=3:L18H6,L20H3:24+31@last": ScalePlanes(set, planes, 3, decoder.ScopeLast),
	} {
		if len(got) != 1 || got[0].String() != want {
			t.Errorf("got %v, want %s", got, want)
			continue
		}
		read, err := decoder.ParseEdit(want, nil)
		if err != nil || read.String() != want || read.Op != got[0].Op || read.Value != got[0].Value {
			t.Errorf("%s reads as %v, %v", want, read, err)
		}
		got[0].Heads[0] = h(9, 9)
		if len(got[0].Planes) > 0 {
			got[0].Planes[0] = 99
		}
	}
	if !set.Equal(heads.NewSet(h(18, 6), h(20, 3))) || planes[0] != 24 {
		t.Errorf("an edit shares memory with its arguments: %s, %v", set, planes)
	}
	for _, none := range [][]decoder.Edit{
		ZeroHeads(nil, decoder.ScopeAll), ScaleHeads(nil, 2, decoder.ScopeAll), UniformHeads(nil, decoder.ScopeAll), Temperature(nil, 2, decoder.ScopeAll),
		ZeroPlanes(nil, planes, decoder.ScopeAll), ZeroPlanes(set, nil, decoder.ScopeAll), ScalePlanes(set, nil, 0, decoder.ScopeAll),
	} {
		if len(none) != 0 {
			t.Errorf("got %v, want no edit", none)
		}
	}
}
