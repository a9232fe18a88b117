package needle

import (
	"math/rand/v2"
	"slices"
)

// fillers are short sentences by their number of tokens.
type fillers struct {
	byCount map[int][]string
	counts  []int // the numbers that occur, ascending
	fewest  []int // fewest[n]: sentences that n tokens take; 0 for impossible (and for n = 0)
}

const longestFill = 160 // tokens

func (r *realiser) fillersOf(s *Spec) (*fillers, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.fillers[s.Split]; f != nil {
		return f, nil
	}
	list := generatedFillers(s.Split)
	counts, err := r.countEach(list)
	if err != nil {
		return nil, err
	}
	f := &fillers{byCount: map[int][]string{}, fewest: make([]int, longestFill+1)}
	for i, c := range counts {
		f.byCount[c] = append(f.byCount[c], list[i])
	}
	for c := range f.byCount {
		if c > 0 {
			f.counts = append(f.counts, c)
		}
	}
	slices.Sort(f.counts)
	for n := 1; n <= longestFill; n++ {
		for _, c := range f.counts {
			if c > n || (n > c && f.fewest[n-c] == 0) {
				continue
			}
			if k := 1 + f.fewest[n-c]; f.fewest[n] == 0 || k < f.fewest[n] {
				f.fewest[n] = k
			}
		}
	}
	r.fillers[s.Split] = f
	return f, nil
}

// filling is a run of short sentences.
type filling struct {
	text   []string
	counts []int
}

// take returns as few sentences as add up to n tokens, drawn among those that are not used; ok is false where there are none.
func (f *fillers) take(n int, used map[string]bool, rng *rand.Rand) (out filling, ok bool) {
	if n < 0 || n > longestFill || (n > 0 && f.fewest[n] == 0) {
		return out, false
	}
	for n > 0 {
		var steps []int
		for _, c := range f.counts {
			if c == n || (c < n && f.fewest[n-c] > 0) {
				if rest := f.fewest[n-c]; rest+1 == f.fewest[n] {
					steps = append(steps, c)
				}
			}
		}
		c, text := f.draw(steps, used, rng)
		if text == "" {
			return filling{}, false
		}
		out.text, out.counts = append(out.text, text), append(out.counts, c)
		used[text] = true
		n -= c
	}
	return out, true
}

// draw returns an unused sentence of one of the given counts.
func (f *fillers) draw(steps []int, used map[string]bool, rng *rand.Rand) (count int, text string) {
	for _, i := range rng.Perm(len(steps)) {
		list := f.byCount[steps[i]]
		from := rng.IntN(len(list))
		for j := range list {
			if s := list[(from+j)%len(list)]; !used[s] {
				return steps[i], s
			}
		}
	}
	return 0, ""
}

// complete returns how many of the first sentences to take, and what short ones to add, to come to n tokens; where that cannot be
// met, to as few less as possible, up to slack.
func (f *fillers) complete(body []string, counts []int, n, slack int, rng *rand.Rand) (int, filling) {
	most, sum := 0, 0
	for most < len(counts) && sum+counts[most] <= n {
		sum += counts[most]
		most++
	}
	const back = 6 // sentences given up for a sum that fits
	for less := range slack + 1 {
		k, rest := most, n-less-sum
		for range back {
			if rest >= 0 {
				if out, ok := f.take(rest, setOf(body[:k]), rng); ok {
					return k, out
				}
			}
			if k == 0 {
				break
			}
			k--
			rest += counts[k]
		}
	}
	return most, filling{}
}

func setOf(list []string) map[string]bool {
	m := make(map[string]bool, len(list))
	for _, s := range list {
		m[s] = true
	}
	return m
}
