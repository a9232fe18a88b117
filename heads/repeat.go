package heads

import (
	"fmt"
	"math"
)

// Repeat is what one sequence of n random tokens, written twice, showed of every head: the mean attention of the second copy's rows
// on three keys. Slices are [layers*heads], row-major.
type Repeat struct {
	Induction []float32 // the token after the same token's first occurrence
	Duplicate []float32 // the same token's first occurrence
	Previous  []float32 // the token before
}

// NewRepeat reduces attention rows: attention[layer] is [heads, n, keys], the rows of the second copy, whose first token stands at
// position start+n. It is how TransformerLens's head detector asks its questions, as a mean of weights ("mul", over rows).
func NewRepeat(attention [][]float32, heads, n, start int) (Repeat, error) {
	r := Repeat{}
	if n < 1 || start < 0 || heads < 1 {
		return r, fmt.Errorf("repeat: %d heads, %d tokens from position %d", heads, n, start)
	}
	for l, rows := range attention {
		keys := len(rows) / (heads * n)
		if len(rows) != heads*n*keys || keys < start+2*n {
			return r, fmt.Errorf("repeat: layer %d: %d weights for %d heads x %d rows x %d keys", l, len(rows), heads, n, start+2*n)
		}
		for h := range heads {
			var sum [3]float64
			for i := range n {
				row := rows[(h*n+i)*keys:][:keys]
				at := start + n + i
				for k, key := range [3]int{at - n + 1, at - n, at - 1} {
					sum[k] += float64(row[key])
				}
			}
			r.Induction = append(r.Induction, float32(sum[0]/float64(n)))
			r.Duplicate = append(r.Duplicate, float32(sum[1]/float64(n)))
			r.Previous = append(r.Previous, float32(sum[2]/float64(n)))
		}
	}
	return r, nil
}

// RepeatScores averages sequences into the scores induction, duplicate and prev_token. With n = 1 the previous token is also the
// one after the first occurrence, so use longer sequences.
func RepeatScores(layers, heads int, list []Repeat) ([]Scores, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("repeat: no sequence was observed")
	}
	out := []Scores{NewScores("induction", layers, heads), NewScores("duplicate", layers, heads), NewScores("prev_token", layers, heads)}
	for _, r := range list {
		for k, x := range [][]float32{r.Induction, r.Duplicate, r.Previous} {
			if len(x) != layers*heads {
				return nil, fmt.Errorf("repeat: %d values, want %d", len(x), layers*heads)
			}
			for i, v := range x {
				out[k].Data[i] += float64(v) / float64(len(list))
			}
		}
	}
	for k := range out {
		out[k].N = len(list)
	}
	return out, nil
}

// TopShare returns the strongest share of all heads, at least one: share 0.05 of 270 heads is 14 (rounded up). Ties at the cut are in.
func (s Scores) TopShare(share float64) Set {
	k := max(1, int(math.Ceil(float64(len(s.Data))*share-1e-9)))
	r := s.Ranking()
	return s.AtLeast(s.At(r[min(k, len(r))-1]))
}
