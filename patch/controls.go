package patch

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// Errors of [MatchedSets], wrapped with the particulars.
var (
	ErrPoolExhausted = errors.New("pool exhausted")            // a layer has fewer pool heads than target heads
	ErrTooFewSets    = errors.New("too few control sets")      // fewer distinct sets exist than were asked for
	ErrEmptyTarget   = errors.New("no heads to match")         // the target is empty
	ErrNoSets        = errors.New("no control sets asked for") // n < 1
)

// LayerPool returns the heads with a score below the threshold that are in none of the exclude sets: heads
// that may stand in for detected ones. Give each further detector's heads, or the strongest of a score that
// has no threshold, as a set to exclude. A head without a score (NaN) is not in the pool.
func LayerPool(scores heads.Scores, threshold float64, exclude ...heads.Set) heads.Set {
	pool := heads.Set{}
	for l := range scores.Layers {
		for i := range scores.Heads {
			h := decoder.Head{Layer: l, Index: i}
			if scores.At(h) < threshold {
				pool = append(pool, h)
			}
		}
	}
	for _, s := range exclude {
		pool = pool.Minus(s)
	}
	return pool
}

// DisjointKV returns the pool's heads that share no key/value head with target; group is how many query heads share one. Edits of
// keys reach the whole group, so their controls must not touch it.
func DisjointKV(pool, target heads.Set, group int) heads.Set {
	return pool.Minus(target.KVSiblings(group))
}

// LayerDraw says how many heads of a layer a control set takes, and out of how many.
type LayerDraw struct {
	Layer int `json:"layer"`
	Want  int `json:"want"` // heads of the target, so of each control set
	Pool  int `json:"pool"` // heads to draw from
}

// Report describes a drawing of control sets.
type Report struct {
	Layers      []LayerDraw `json:"layers"`
	Possible    *big.Int    `json:"possible"`     // distinct sets that exist: the product of C(pool, want) over layers
	Forced      heads.Set   `json:"forced"`       // heads that every set must hold, as their layer has no others
	Pairs       int         `json:"pairs"`        // pairs of drawn sets; with 0 pairs both overlaps are 0
	MeanOverlap float64     `json:"mean_overlap"` // mean over pairs of the share of heads in common
	MaxOverlap  float64     `json:"max_overlap"`  // the largest share; below 1 always, as sets are distinct
}

// MatchedSets draws n distinct control sets for target. Each has as many heads in every layer as target,
// drawn uniformly without replacement from the pool's heads of that layer; heads of target are never drawn,
// whether or not the pool holds them. The draw is uniform over sequences of distinct sets, and the first m
// sets of a larger draw are those of a draw of m with the same seed, so controls can be added later.
//
// Errors: [ErrPoolExhausted] names the layers that have too few heads, [ErrTooFewSets] says how many sets
// exist; [ErrEmptyTarget] and [ErrNoSets] for nothing to do. The report is filled as far as it is known also
// with an error. The sets share heads where pools are small: the report's overlap says how far they are from
// independent draws.
func MatchedSets(pool, target heads.Set, n int, rng *rand.Rand) ([]heads.Set, Report, error) {
	sets, report, err := drawSets(pool, target, n, rng)
	report.overlap(sets)
	return sets, report, err
}

// drawSets is MatchedSets without the overlap of the sets, which takes a look at every pair.
func drawSets(pool, target heads.Set, n int, rng *rand.Rand) ([]heads.Set, Report, error) {
	if len(target) == 0 {
		return nil, Report{}, ErrEmptyTarget
	}
	if n < 1 {
		return nil, Report{}, fmt.Errorf("%w: %d", ErrNoSets, n)
	}
	free := pool.Minus(target).ByLayer()
	report, err := plan(free, target)
	if err != nil {
		return nil, report, err
	}
	if report.Possible.Cmp(big.NewInt(int64(n))) < 0 {
		return nil, report, fmt.Errorf("%w: asked for %d, only %s distinct layer-matched sets of %d heads exist",
			ErrTooFewSets, n, report.Possible, len(target))
	}
	seen := make(map[string]bool, n)
	sets := make([]heads.Set, 0, n)
	// Drawing again after a repeat keeps the rest uniform; even n = Possible needs only n ln n draws or so.
	for len(sets) < n {
		set := draw(free, report.Layers, rng)
		if key := set.String(); !seen[key] {
			seen[key] = true
			sets = append(sets, set)
		}
	}
	return sets, report, nil
}

// plan counts what each layer needs and has.
func plan(free map[int]heads.Set, target heads.Set) (Report, error) {
	r := Report{Possible: big.NewInt(1), Forced: heads.Set{}}
	var short []string
	wanted := target.ByLayer()
	for _, l := range target.Layers() {
		d := LayerDraw{Layer: l, Want: len(wanted[l]), Pool: len(free[l])}
		r.Layers = append(r.Layers, d)
		if d.Pool < d.Want {
			short = append(short, fmt.Sprintf("%d (has %d, needs %d)", l, d.Pool, d.Want))
		}
		if d.Pool == d.Want {
			r.Forced = append(r.Forced, free[l]...)
		}
		r.Possible.Mul(r.Possible, new(big.Int).Binomial(int64(d.Pool), int64(d.Want)))
	}
	if len(short) > 0 {
		return r, fmt.Errorf("%w in layers %s", ErrPoolExhausted, strings.Join(short, ", "))
	}
	return r, nil
}

func draw(free map[int]heads.Set, layers []LayerDraw, rng *rand.Rand) heads.Set {
	var out []decoder.Head
	for _, d := range layers {
		from := slices.Clone(free[d.Layer])
		for i := range d.Want { // the first steps of a Fisher-Yates shuffle
			j := i + rng.IntN(len(from)-i)
			from[i], from[j] = from[j], from[i]
		}
		out = append(out, from[:d.Want]...)
	}
	return heads.NewSet(out...)
}

func (r *Report) overlap(sets []heads.Set) {
	var sum float64
	for i, a := range sets {
		for _, b := range sets[:i] {
			share := float64(len(a.Intersect(b))) / float64(len(a))
			sum += share
			r.MaxOverlap = max(r.MaxOverlap, share)
			r.Pairs++
		}
	}
	if r.Pairs > 0 {
		r.MeanOverlap = sum / float64(r.Pairs)
	}
}
