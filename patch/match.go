package patch

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/headscope/headscope/heads"
)

// Candidates is how many sets are drawn for each one kept, where as many exist.
const Candidates = 10

// Match says how well the control sets match the target in a size, such as the norm of what a head writes into the residual. The
// size of a set is the sum over its heads; a mismatch is |ln(size of a set / size of the target)|.
type Match struct {
	Size       string  `json:"size"`       // what was matched
	Target     float64 `json:"target"`     // the target's size
	Mean       float64 `json:"mean"`       // mean size of the sets that were kept
	Candidates int     `json:"candidates"` // sets drawn, of which the closest were kept
	Unmatched  float64 `json:"mismatch_of_candidates"`
	Mismatch   float64 `json:"mismatch"`         // mean over the kept sets: what matching left
	Largest    float64 `json:"largest_mismatch"` // the worst kept set's
}

// SizeMatchedSets is [MatchedSets], matched on a size too: ten times as many distinct sets are drawn, if as many exist, and the n
// whose size is closest to the target's are kept, in the order in which they were drawn. Matching is as good as the pool allows: the
// report says what is left.
func SizeMatchedSets(pool, target heads.Set, n int, size heads.Scores, rng *rand.Rand) ([]heads.Set, Report, Match, error) {
	m := Match{Size: size.Detector, Target: total(size, target)}
	draw := n * Candidates
	sets, report, err := drawSets(pool, target, draw, rng)
	if errors.Is(err, ErrTooFewSets) && report.Possible.IsInt64() && report.Possible.Int64() >= int64(n) {
		draw = int(report.Possible.Int64())
		sets, report, err = drawSets(pool, target, draw, rng)
	}
	if errors.Is(err, ErrTooFewSets) {
		_, report, err = drawSets(pool, target, n, rng) // says how many were asked for
	}
	if err != nil {
		return nil, report, m, err
	}
	m.Candidates = draw
	off := make([]float64, len(sets))
	for i, s := range sets {
		off[i] = mismatch(total(size, s), m.Target)
		m.Unmatched += off[i] / float64(len(sets))
	}
	order := make([]int, len(sets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case off[a] < off[b]:
			return -1
		case off[a] > off[b]:
			return 1
		}
		return 0
	})
	order = order[:n]
	slices.Sort(order)
	kept := make([]heads.Set, n)
	for i, at := range order {
		kept[i] = sets[at]
		m.Mean += total(size, kept[i]) / float64(n)
		m.Mismatch += off[at] / float64(n)
		m.Largest = max(m.Largest, off[at])
	}
	report.overlap(kept)
	return kept, report, m, nil
}

func total(size heads.Scores, s heads.Set) float64 {
	sum := 0.0
	for _, h := range s {
		sum += size.At(h)
	}
	return sum
}

// Apart is the mismatch of a size of 0 and another: more than any two positive float64 have, 1455.
const Apart = 1500.0

// mismatch is |ln(a/b)|; two sizes of 0 match, and 0 against another is the largest mismatch there is.
func mismatch(a, b float64) float64 {
	if a == b {
		return 0
	}
	return min(math.Abs(math.Log(a/b)), Apart)
}
