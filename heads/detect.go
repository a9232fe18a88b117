package heads

import (
	"errors"
	"fmt"

	"github.com/headscope/headscope/loader/decoder"
)

// Span is a half-open range of token positions, [start, end).
type Span [2]int

// Contains reports whether position i lies in the span.
func (s Span) Contains(i int) bool { return s[0] <= i && i < s[1] }

// Len returns the number of tokens.
func (s Span) Len() int { return s[1] - s[0] }

// Row is what one query row of one prompt showed, for every head: slices are [layers*heads], row-major.
// The weights are post-softmax and all keys compete, the first token too.
type Row struct {
	Argmax   []int32   // key position of the largest weight; ties to the lowest position
	Gap      []float32 // largest weight minus second largest
	SpanMass []float32 // sum of the weights on the needle
}

// Observation is what was seen of one prompt of T tokens.
type Observation struct {
	Prompt int   // the prompt's number or id, repeated in reports
	Needle Span  // tokens that overlap the needle's text
	Code   Span  // tokens of the code inside the prompt, its leading space included
	Tokens []int // ids of the T prompt tokens
	Rows   []Row // Rows[j] is query row T-1+j: the last prompt row, then rows of the fed-in code
}

// Observations is a checked list of observations of one model. Detectors are its methods.
type Observations struct {
	layers, heads int
	list          []Observation
}

// NewObservations checks the list against the model's shape: at least one observation, spans inside the
// prompt, and rows of layers*heads values.
func NewObservations(layers, heads int, list []Observation) (*Observations, error) {
	if layers < 1 || heads < 1 {
		return nil, fmt.Errorf("a model of %d layers of %d heads", layers, heads)
	}
	if len(list) == 0 {
		return nil, errors.New("no prompt was observed")
	}
	for _, o := range list {
		if err := o.check(layers * heads); err != nil {
			return nil, fmt.Errorf("prompt %d: %w", o.Prompt, err)
		}
	}
	return &Observations{layers, heads, list}, nil
}

func (o Observation) check(n int) error {
	for name, s := range map[string]Span{"needle": o.Needle, "code": o.Code} {
		if s[0] < 0 || s[1] <= s[0] || s[1] > len(o.Tokens) {
			return fmt.Errorf("%s span [%d, %d) in a prompt of %d tokens", name, s[0], s[1], len(o.Tokens))
		}
	}
	if len(o.Rows) == 0 {
		return errors.New("no row was observed")
	}
	for j, r := range o.Rows {
		if len(r.Argmax) != n || len(r.Gap) != n || len(r.SpanMass) != n {
			return fmt.Errorf("row %d: got %d arg maxes, %d gaps and %d masses, want %d of each",
				j, len(r.Argmax), len(r.Gap), len(r.SpanMass), n)
		}
	}
	return nil
}

// ArgmaxLast scores each head with the share of prompts whose last row has its arg max in the needle
// (the static detector of the published retrieval-head profiles; they call a head with 0.1 or more a
// retrieval head).
func (o *Observations) ArgmaxLast() Scores {
	return o.share("argmax_last", func(p Observation) Span { return p.Needle })
}

// ArgmaxCode is [Observations.ArgmaxLast] for the code's own tokens in place of the whole needle.
func (o *Observations) ArgmaxCode() Scores {
	return o.share("argmax_code", func(p Observation) Span { return p.Code })
}

func (o *Observations) share(name string, target func(Observation) Span) Scores {
	hits := make([]int, o.layers*o.heads)
	for _, p := range o.list {
		span := target(p)
		for i, at := range p.Rows[0].Argmax {
			if span.Contains(int(at)) {
				hits[i]++
			}
		}
	}
	return o.ratio(name, hits, len(o.list))
}

// ratio divides whole counts once: a sum of 1/n would miss thresholds by an ulp.
func (o *Observations) ratio(name string, hits []int, n int) Scores {
	s := NewScores(name, o.layers, o.heads)
	s.N = n
	for i, k := range hits {
		s.Data[i] = float64(k) / float64(n)
	}
	return s
}

// MassLast scores each head with the mean over prompts of the last row's attention mass on the needle.
func (o *Observations) MassLast() Scores {
	s := NewScores("mass_last", o.layers, o.heads)
	s.N = len(o.list)
	for _, p := range o.list {
		for i, m := range p.Rows[0].SpanMass {
			s.Data[i] += float64(m)
		}
	}
	for i := range s.Data {
		s.Data[i] /= float64(s.N)
	}
	return s
}

// CopyTF scores each head with the share of answer tokens that it would have copied: the code's tokens are fed
// in after the prompt, and token j is a hit if the arg max of row T-1+j is the position of that same token
// in the code, Code[0]+j, exactly. An equal token elsewhere is a miss. Hits are pooled over tokens and prompts
// (teacher-forced copy score of the published profiles), so N counts tokens.
//
// It needs a row for each token of the code and returns an error where one is missing.
func (o *Observations) CopyTF() (Scores, error) {
	hits := make([]int, o.layers*o.heads)
	n := 0
	for _, p := range o.list {
		if len(p.Rows) < p.Code.Len() {
			return Scores{}, fmt.Errorf("copy_tf: prompt %d: %d rows for a code of %d tokens", p.Prompt, len(p.Rows), p.Code.Len())
		}
		for j := range p.Code.Len() {
			n++
			for i, at := range p.Rows[j].Argmax {
				if int(at) == p.Code[0]+j {
					hits[i]++
				}
			}
		}
	}
	return o.ratio("copy_tf", hits, n), nil
}

// CloseCall is an arg max that another rounding could have moved.
type CloseCall struct {
	Prompt int          `json:"prompt"`
	Row    int          `json:"row"` // 0 is the last prompt row, j the row after the code's j-th token
	Head   decoder.Head `json:"head"`
	Gap    float64      `json:"gap"` // largest weight minus second largest
}

// CloseCalls lists the arg maxes whose lead over the runner-up is below limit (1e-4 is usual in float32), by
// observation, row, layer and head. Scores that rest on them may differ between machines.
func (o *Observations) CloseCalls(limit float64) []CloseCall {
	var out []CloseCall
	shape := Scores{Heads: o.heads}
	for _, p := range o.list {
		for j, r := range p.Rows {
			for i, g := range r.Gap {
				if float64(g) < limit {
					out = append(out, CloseCall{p.Prompt, j, shape.head(i), float64(g)})
				}
			}
		}
	}
	return out
}
