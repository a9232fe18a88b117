package patch

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// everySet calls f with every set of count of pool.
func everySet(pool []int, count int, f func([]int)) {
	var walk func(from int, set []int)
	walk = func(from int, set []int) {
		if len(set) == count {
			f(set)
			return
		}
		for i := from; i < len(pool); i++ {
			walk(i+1, append(slices.Clone(set), pool[i]))
		}
	}
	walk(0, nil)
}

// randomSize has covariances of random terms, and signed contributions.
func randomSize(rng *rand.Rand, planes int, paired bool) PlaneSize {
	var s PlaneSize
	if !paired {
		for range planes {
			s.Linear = append(s.Linear, rng.NormFloat64())
		}
		return s
	}
	terms := make([][]float64, planes)
	for p := range terms {
		for range 20 {
			terms[p] = append(terms[p], rng.NormFloat64()*float64(1+p))
		}
	}
	for p := range terms {
		row := make([]float64, planes)
		for q := range terms {
			for i := range terms[p] {
				row[q] += terms[p][i] * terms[q][i] / 20
			}
		}
		s.Pairs = append(s.Pairs, row)
	}
	return s
}

// TestMatchPlanes: whatever is found has the size that is claimed, lies outside of the band, and is as near as the best of all sets comes
// to within the tolerance.
func TestMatchPlanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	kinds := map[string]int{}
	for trial := range 60 {
		size := randomSize(rng, 12, trial%2 == 0)
		band := rng.Perm(12)[:3]
		m, err := MatchPlanes(size, band, 0.1, rand.New(rand.NewPCG(1, 2)))
		if err != nil {
			t.Fatal(err)
		}
		kinds[m.Kind]++
		target := size.Of(band, 1)
		if got := size.Of(m.Planes, 1-m.Gain) / target; math.Abs(got-m.Ratio) > 1e-9 {
			t.Errorf("trial %d: ratio %g, the planes' is %g", trial, m.Ratio, got)
		}
		var pool []int
		for p := range 12 {
			if !slices.Contains(band, p) {
				pool = append(pool, p)
			} else if slices.Contains(m.Planes, p) {
				t.Errorf("trial %d: plane %d is the band's", trial, p)
			}
		}
		best := math.Inf(1)
		everySet(pool, 3, func(set []int) {
			v := 0.0 // by the definition, not by Of
			for _, p := range set {
				if size.Linear != nil {
					v += size.Linear[p]
				}
				for _, q := range set {
					if size.Pairs != nil {
						v += size.Pairs[p][q]
					}
				}
			}
			best = min(best, math.Abs(v/target-1))
		})
		if (best <= 0.1) != (m.Kind == MatchedWhole) {
			t.Errorf("trial %d: %s at ratio %g, the best of all sets is %g off", trial, m.Kind, m.Ratio, best)
		}
		again, _ := MatchPlanes(size, band, 0.1, rand.New(rand.NewPCG(1, 2)))
		if !slices.Equal(again.Planes, m.Planes) {
			t.Errorf("trial %d: another draw with the same seed", trial)
		}
	}
	if kinds[MatchedWhole] < 10 || len(kinds) < 3 {
		t.Errorf("kinds of matches: %v", kinds)
	}
}

// TestMatchPlanesPartial: too strong planes give a part of themselves, too weak ones are unmatched.
func TestMatchPlanesPartial(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m, err := MatchPlanes(PlaneSize{Linear: []float64{1, 1, 8, 8, 8}}, []int{0, 1}, 0.1, rng)
	if err != nil || m.Kind != MatchedPartial || len(m.Planes) != 1 || math.Abs(m.Gain-0.75) > 1e-12 {
		t.Errorf("got %+v, %v, want 3/4 of one plane left", m, err)
	}
	m, err = MatchPlanes(PlaneSize{Pairs: [][]float64{{1, 0, 0}, {0, 16, 0}, {0, 0, 16}}}, []int{0}, 0.1, rng)
	if err != nil || m.Kind != MatchedPartial || math.Abs(m.Gain-0.75) > 1e-12 {
		t.Errorf("got %+v, %v: a variance falls with the square", m, err)
	}
	m, err = MatchPlanes(PlaneSize{Linear: []float64{9, 9, 1, 1, 2}}, []int{0, 1}, 0.1, rng)
	if err != nil || m.Kind != Unmatched || math.Abs(m.Ratio-3.0/18) > 1e-12 {
		t.Errorf("got %+v, %v, want the nearest, at 1/6", m, err)
	}
	for _, bad := range [][]int{{0, 1, 2}, {7}, nil} {
		if m, err := MatchPlanes(PlaneSize{Linear: []float64{9, 9, 1, 1, 2}}, bad, 0.1, rng); err == nil {
			t.Errorf("band %v: got %+v, want an error", bad, m)
		}
	}
}

func TestMirror(t *testing.T) {
	set := heads.NewSet(decoder.Head{Layer: 1})
	e := Mirror(set, []float64{1, 0.5, 0.25}, []int{1, 2}, decoder.ScopeAll)
	if len(e) != 1 || !slices.Equal(e[0].InvFreq, []float64{1, -0.5, -0.25}) || e[0].Check() != nil {
		t.Errorf("got %+v", e)
	}
	if Mirror(set, []float64{1}, nil, decoder.ScopeAll) != nil || Band(nil, decoder.OpFreeze, "slow2", decoder.ScopeAll) != nil || LegacyPlanes(set, nil, decoder.ScopeAll) != nil {
		t.Error("nothing to edit is no edit")
	}
}

// TestMatchPlaneSets: all sets are distinct, outside of the band and of the size claimed; where few exist they are those that a plain search
// counts, where many do, as many as asked for are found.
func TestMatchPlaneSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 0))
	few, many := 0, 0
	for trial := range 60 {
		planes, count := 12, 3
		if trial%3 == 0 {
			planes, count = 40, 8 // 10 million sets
		}
		size := randomSize(rng, planes, trial%2 == 0)
		band := rng.Perm(planes)[:count]
		got, err := MatchPlaneSets(size, band, 0.1, 19, rand.New(rand.NewPCG(1, 2)))
		if err != nil {
			t.Fatal(err)
		}
		again, _ := MatchPlaneSets(size, band, 0.1, 19, rand.New(rand.NewPCG(1, 2)))
		target := size.Of(band, 1)
		for i, m := range got.Sets {
			if r := size.Of(m.Planes, 1-m.Gain) / target; math.Abs(r-m.Ratio) > 1e-9 || m.Kind != got.Sets[0].Kind || !slices.Equal(m.Planes, again.Sets[i].Planes) {
				t.Errorf("trial %d: set %d: %+v has ratio %g; again %v", trial, i, m, r, again.Sets[i].Planes)
			}
			if m.Kind == MatchedWhole && (len(m.Planes) != count || math.Abs(m.Ratio-1) > 0.1) {
				t.Errorf("trial %d: %+v", trial, m)
			}
			for _, o := range got.Sets[:i] {
				if slices.Equal(o.Planes, m.Planes) {
					t.Errorf("trial %d: %v twice", trial, m.Planes)
				}
			}
			if slices.ContainsFunc(m.Planes, func(p int) bool { return slices.Contains(band, p) }) {
				t.Errorf("trial %d: %v overlaps the band %v", trial, m.Planes, band)
			}
		}
		if got.Sets[0].Kind != MatchedWhole {
			if len(got.Sets) > 1 && got.Sets[0].Kind != MatchedFewer {
				t.Errorf("trial %d: %d sets of kind %s", trial, len(got.Sets), got.Sets[0].Kind)
			}
			continue
		}
		if planes == 40 {
			if many++; len(got.Sets) != 19 || got.Exist != 0 {
				t.Errorf("trial %d: %d sets of %d that exist", trial, len(got.Sets), got.Exist)
			}
			continue
		}
		exist := 0
		pool := slices.DeleteFunc(slices.Clone([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), func(p int) bool { return slices.Contains(band, p) })
		everySet(pool, count, func(set []int) {
			if math.Abs(size.Of(set, 1)/target-1) <= 0.1 {
				exist++
			}
		})
		if few++; got.Exist != exist || len(got.Sets) != min(19, exist) {
			t.Errorf("trial %d: %d sets of %d, want of %d", trial, len(got.Sets), got.Exist, exist)
		}
	}
	if few < 10 || many < 10 {
		t.Errorf("tried too little: %d with few sets, %d with many", few, many)
	}
}
