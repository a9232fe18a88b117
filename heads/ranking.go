package heads

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/loader/decoder"
)

// Ranking is a list of heads whose order means something, best first, without repeats.
type Ranking []decoder.Head

// Top returns the set of the k best heads, or of all when there are fewer. It panics if k < 0.
func (r Ranking) Top(k int) Set { return NewSet(r[:min(k, len(r))]...) }

// Set returns the heads without their order.
func (r Ranking) Set() Set { return NewSet(r...) }

// Only returns the heads of r that are in s, in the order of r.
func (r Ranking) Only(s Set) Ranking { return Ranking(Set(r).filter(s.Contains)) }

// extent returns the smallest shape that has all heads of r, and whether r, without repeats, has every head of that shape.
func (r Ranking) extent() (layers, heads int, whole bool) {
	for _, h := range r {
		layers, heads = max(layers, h.Layer+1), max(heads, h.Index+1)
	}
	return layers, heads, layers <= len(r) && heads <= len(r) && layers*heads == len(r) // no product of large numbers wraps
}

// String returns "L3H4,L1H2" in order, or "none".
func (r Ranking) String() string { return join(r) }

// MarshalJSON writes [[layer, head], ...] in order.
func (r Ranking) MarshalJSON() ([]byte, error) { return marshalHeads(r) }

// UnmarshalJSON reads a list of heads and keeps its order. A head listed twice is an error.
func (r *Ranking) UnmarshalJSON(b []byte) error {
	var hs []decoder.Head
	if err := json.Unmarshal(b, &hs); err != nil {
		return err
	}
	if hs == nil {
		return errors.New("heads: got null, want a list")
	}
	if err := noRepeats(hs); err != nil {
		return err
	}
	*r = hs
	return nil
}

func noRepeats(hs []decoder.Head) error {
	seen := make(map[decoder.Head]bool, len(hs))
	for _, h := range hs {
		if seen[h] {
			return fmt.Errorf("head %s is listed twice", h)
		}
		seen[h] = true
	}
	return nil
}

// Ranking returns all heads by score, highest first; equal scores by each tie-breaker in turn, highest
// first; what is still equal by layer, then index. Heads without a score (NaN) come last. It panics if a
// tie-breaker has another shape.
func (s Scores) Ranking(tieBreakers ...Scores) Ranking {
	keys := append([]Scores{s}, tieBreakers...)
	for _, k := range keys {
		s.mustMatch(k)
	}
	order := make([]int, len(s.Data))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		for _, k := range keys {
			if c := cmp.Compare(k.Data[j], k.Data[i]); c != 0 { // cmp.Compare puts NaN below everything
				return c
			}
		}
		return 0 // stable: (layer, index) order
	})
	out := make(Ranking, len(order))
	for i, at := range order {
		out[i] = s.head(at)
	}
	return out
}

// TiesAt returns the heads that share one score across the cut after the k best: some are in, some are out,
// and only the tie-breaker told them apart. It is empty where the cut falls between two different scores.
func (s Scores) TiesAt(k int) Set {
	if k <= 0 || k >= len(s.Data) {
		return Set{}
	}
	r := s.Ranking()
	last, next := s.At(r[k-1]), s.At(r[k])
	if last != next {
		return Set{}
	}
	return s.where(func(v float64) bool { return v == last })
}

// Borderline returns the heads that one more or one fewer of the N observations would move across the
// threshold: threshold - 1/N <= score < threshold + 1/N. For shares of prompts and pooled tokens
// (argmax_last, argmax_code, copy_tf) that is one hit. It panics if N < 1.
func (s Scores) Borderline(threshold float64) Set {
	if s.N < 1 {
		panic(fmt.Sprintf("heads: %s: %d observations", s.Detector, s.N))
	}
	step := 1 / float64(s.N)
	const slack = 1e-12 // sums of shares are off by an ulp
	return s.where(func(v float64) bool { return v+step >= threshold-slack && v-step < threshold-slack })
}

// AtLeast returns the heads with a score of threshold or more (the threshold is inclusive, as in the
// published detectors).
func (s Scores) AtLeast(threshold float64) Set {
	return s.where(func(v float64) bool { return v >= threshold })
}

func (s Scores) where(ok func(float64) bool) Set {
	out := Set{}
	for i, v := range s.Data {
		if !math.IsNaN(v) && ok(v) {
			out = append(out, s.head(i)) // row-major order is set order
		}
	}
	return out
}
