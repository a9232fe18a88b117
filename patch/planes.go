package patch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// PlaneSize is a size that sets of planes have: what is matched between a band and its control. With a share a of each plane's term taken
// away (1 = all of it) it is
//
//	a * sum over the planes of Linear + a^2 * sum over the pairs of planes of Pairs
//
// A mean contribution is linear; a variance has pairs, its own planes among them.
type PlaneSize struct {
	Linear []float64   // [planes]; nil = none
	Pairs  [][]float64 // [planes][planes], symmetric; nil = none
}

// Planes is the number of planes.
func (s PlaneSize) Planes() int { return max(len(s.Linear), len(s.Pairs)) }

// Of is the size of a set with a share of its planes' terms taken away.
func (s PlaneSize) Of(planes []int, share float64) float64 {
	linear, pairs := s.parts(planes)
	return share*linear + share*share*pairs
}

func (s PlaneSize) parts(planes []int) (linear, pairs float64) {
	for _, p := range planes {
		if s.Linear != nil {
			linear += s.Linear[p]
		}
		if s.Pairs != nil {
			for _, q := range planes {
				pairs += s.Pairs[p][q]
			}
		}
	}
	return linear, pairs
}

// Kinds of matches.
const (
	MatchedWhole   = "matched"   // as many whole planes, within the tolerance
	MatchedFewer   = "fewer"     // fewer whole planes, within the tolerance
	MatchedPartial = "partial"   // a share of some planes, exactly
	Unmatched      = "unmatched" // the nearest set there is; its ratio says how far off
)

// PlaneMatch is the control of a band in one head.
type PlaneMatch struct {
	Planes []int   `json:"planes"` // none of the band's
	Gain   float64 `json:"gain"`   // of these planes: 0 takes them away whole
	Ratio  float64 `json:"ratio"`  // what is taken away, over what the band's planes are
	Kind   string  `json:"kind"`
}

// planeStarts is how many random sets of a number of planes MatchPlanes starts from.
const planeStarts = 32

// MatchPlanes finds planes outside of band whose size is the band's: as many of them where some set is within tolerance (a share of the
// band's size), else fewer, else a share of the terms of the set that is next above; else the nearest set, marked [Unmatched]. From random
// sets it goes downhill by exchanging one plane at a time, so the same rng gives the same planes.
//
// A band without size, or planes that are not there, are errors.
func MatchPlanes(size PlaneSize, band []int, tolerance float64, rng *rand.Rand) (PlaneMatch, error) {
	n := size.Planes()
	var pool []int
	for p := range n {
		if !slices.Contains(band, p) {
			pool = append(pool, p)
		}
	}
	for _, p := range band {
		if p < 0 || p >= n {
			return PlaneMatch{}, fmt.Errorf("matched planes: plane %d does not exist: there are planes 0-%d", p, n-1)
		}
	}
	target := size.Of(band, 1)
	switch {
	case target == 0 || math.IsNaN(target) || math.IsInf(target, 0):
		return PlaneMatch{}, fmt.Errorf("matched planes: the band's size is %g: nothing to match", target)
	case len(band) > len(pool):
		return PlaneMatch{}, fmt.Errorf("matched planes: a band of %d of %d planes leaves too few others", len(band), n)
	}
	var first, above *PlaneMatch
	for count := len(band); count > 0; count-- {
		m := nearest(size, pool, count, target, rng)
		off := math.Abs(m.Ratio - 1)
		if off <= tolerance {
			m.Kind = map[bool]string{true: MatchedWhole, false: MatchedFewer}[count == len(band)]
			return m, nil
		}
		if first == nil {
			first = &m
		}
		if m.Ratio > 1 && (above == nil || m.Ratio < above.Ratio) {
			above = &m
		}
	}
	if above != nil {
		if share, ok := shareOf(size, above.Planes, target); ok {
			return PlaneMatch{above.Planes, 1 - share, 1, MatchedPartial}, nil
		}
	}
	first.Kind = Unmatched
	return *first, nil
}

// shareOf is the share of the planes' terms whose size is target: the root of a*linear + a^2*pairs = target between 0 and 1.
func shareOf(size PlaneSize, planes []int, target float64) (float64, bool) {
	linear, pairs := size.parts(planes)
	if pairs == 0 {
		return target / linear, true
	}
	under := linear*linear + 4*pairs*target
	if under < 0 {
		return 0, false
	}
	for _, root := range []float64{(-linear + math.Sqrt(under)) / (2 * pairs), (-linear - math.Sqrt(under)) / (2 * pairs)} {
		if root > 0 && root <= 1 {
			return root, true
		}
	}
	return 0, false
}

// nearest is the best set of count planes of pool that exchanging planes finds.
func nearest(size PlaneSize, pool []int, count int, target float64, rng *rand.Rand) PlaneMatch {
	best := PlaneMatch{Ratio: math.Inf(1)}
	for range planeStarts {
		set, value := exchange(size, randomSet(pool, count, rng), pool, target)
		if r := value / target; math.Abs(r-1) < math.Abs(best.Ratio-1) {
			slices.Sort(set)
			best.Planes, best.Ratio = set, r
		}
	}
	return best
}

// randomSet draws count of pool.
func randomSet(pool []int, count int, rng *rand.Rand) []int {
	from := slices.Clone(pool)
	for i := range count {
		j := i + rng.IntN(len(from)-i)
		from[i], from[j] = from[j], from[i]
	}
	return from[:count]
}

// exchange swaps one plane of set for one of pool, the best exchange first, while that brings the size nearer to target.
func exchange(size PlaneSize, set, pool []int, target float64) ([]int, float64) {
	n := size.Planes()
	linear, pairs := size.Linear, size.Pairs
	if linear == nil {
		linear = make([]float64, n)
	}
	in := make([]bool, n)
	for _, p := range set {
		in[p] = true
	}
	for {
		value := size.Of(set, 1)
		with := make([]float64, n) // pairs of each plane with the set
		if pairs != nil {
			for _, p := range pool {
				for _, q := range set {
					with[p] += pairs[p][q]
				}
			}
		}
		pair := func(p, q int) float64 {
			if pairs == nil {
				return 0
			}
			return pairs[p][q]
		}
		at, next, miss := -1, -1, math.Abs(value-target)
		for i, out := range set {
			without := value - linear[out] - 2*with[out] + pair(out, out)
			for _, p := range pool {
				if in[p] {
					continue
				}
				v := without + linear[p] + 2*(with[p]-pair(p, out)) + pair(p, p)
				if m := math.Abs(v - target); m < miss-1e-12*math.Abs(target) {
					at, next, miss = i, p, m
				}
			}
		}
		if at < 0 {
			return set, value
		}
		in[set[at]], in[next] = false, true
		set[at] = next
	}
}

// allSets is how many sets of planes MatchPlaneSets looks at one by one, where there are no more; matchTries is how many random ones it starts
// from for each set asked for, where there are.
const (
	allSets    = 50000
	matchTries = 40
)

// PlaneMatches are distinct controls of a band in one head, all of one kind.
type PlaneMatches struct {
	Sets  []PlaneMatch // the nearest first
	Exist int          // sets of as many whole planes within tolerance, these among them; 0 = more than were looked at
}

// MatchPlaneSets is [MatchPlanes] for up to n distinct sets: the one that it finds and, where that is of whole planes within tolerance, others
// of as many planes that are. A share of some planes, and the nearest set of none that fits, stand alone.
func MatchPlaneSets(size PlaneSize, band []int, tolerance float64, n int, rng *rand.Rand) (PlaneMatches, error) {
	first, err := MatchPlanes(size, band, tolerance, rng)
	if err != nil {
		return PlaneMatches{}, err
	}
	out := PlaneMatches{Sets: []PlaneMatch{first}}
	if first.Kind != MatchedWhole && first.Kind != MatchedFewer {
		return out, nil
	}
	var pool []int
	for p := range size.Planes() {
		if !slices.Contains(band, p) {
			pool = append(pool, p)
		}
	}
	target, count := size.Of(band, 1), len(first.Planes)
	fits := func(planes []int) (PlaneMatch, bool) {
		ratio := size.Of(planes, 1) / target
		return PlaneMatch{slices.Clone(planes), 0, ratio, first.Kind}, math.Abs(ratio-1) <= tolerance
	}
	if choose(len(pool), count) <= allSets {
		var others []PlaneMatch
		subsets(pool, count, func(planes []int) {
			if m, ok := fits(planes); ok && !slices.Equal(planes, first.Planes) {
				others = append(others, m)
			}
		})
		out.Exist = 1 + len(others)
		rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		out.Sets = append(out.Sets, others[:min(len(others), n-1)]...)
		return out, nil
	}
	seen := map[string]bool{fmt.Sprint(first.Planes): true}
	for tries := 0; len(out.Sets) < n && tries < matchTries*n; tries++ {
		planes := randomSet(pool, count, rng)
		if _, ok := fits(planes); !ok {
			planes, _ = exchange(size, planes, pool, target)
		}
		slices.Sort(planes)
		if m, ok := fits(planes); ok && !seen[fmt.Sprint(planes)] {
			seen[fmt.Sprint(planes)] = true
			out.Sets = append(out.Sets, m)
		}
	}
	return out, nil
}

// choose is the number of sets of k of n.
func choose(n, k int) float64 {
	c := 1.0
	for i := range min(k, n-k) {
		c *= float64(n-i) / float64(i+1)
	}
	return math.Round(c)
}

// subsets hands on every set of count of pool, ascending; the slice is used again.
func subsets(pool []int, count int, f func([]int)) {
	set := make([]int, count)
	var next func(at, from int)
	next = func(at, from int) {
		if at == count {
			f(set)
			return
		}
		for i := from; i <= len(pool)-(count-at); i++ {
			set[at] = pool[i]
			next(at+1, i+1)
		}
	}
	next(0, 0)
}
