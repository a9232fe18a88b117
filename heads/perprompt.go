package heads

import (
	"fmt"
	"math"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// PerPrompt holds the score of every head in every prompt under one detector: what means, intervals and reliability are computed from.
type PerPrompt struct {
	Detector      string
	Layers, Heads int
	Values        [][]float64 // [prompts][layers*heads]
	Weights       []float64   // of the prompts in the mean: copy_tf pools tokens; nil = all alike
}

// Add appends one prompt's values. It panics if there are not as many as heads.
func (p *PerPrompt) Add(values []float64) {
	if len(values) != p.Layers*p.Heads {
		panic(fmt.Sprintf("heads: %s: %d values, want %d", p.Detector, len(values), p.Layers*p.Heads))
	}
	p.Values = append(p.Values, values)
}

// Mean is the score of each head over the prompts, NaN without any.
func (p *PerPrompt) Mean() Scores {
	s := NewScores(p.Detector, p.Layers, p.Heads)
	s.N = len(p.Values)
	for i := range s.Data {
		total := 0.0
		for k, v := range p.Values {
			w := 1.0
			if p.Weights != nil {
				w = p.Weights[k]
			}
			s.Data[i] += w * v[i]
			total += w
		}
		s.Data[i] /= total // NaN of 0/0
	}
	return s
}

// Of lists one head's values by prompt. It panics if the model lacks the head.
func (p *PerPrompt) Of(h decoder.Head) []float64 {
	if h.Layer < 0 || h.Layer >= p.Layers || h.Index < 0 || h.Index >= p.Heads {
		panic(fmt.Sprintf("heads: %s: no head %s in %d layers of %d heads", p.Detector, h, p.Layers, p.Heads))
	}
	out := make([]float64, len(p.Values))
	for k, v := range p.Values {
		out[k] = v[h.Layer*p.Heads+h.Index]
	}
	return out
}

// Interval is a percentile bootstrap over prompts of a head's unweighted mean.
func (p *PerPrompt) Interval(h decoder.Head, r stats.Resampling, src stats.Source) stats.Interval {
	return stats.Bootstrap([][]float64{p.Of(h)}, stats.MeanOf, r, src).Percentile
}

// SplitHalf correlates the scores of two halves of the prompts over heads: see [stats.SplitHalf].
func (p *PerPrompt) SplitHalf(s stats.Sampling) stats.SplitHalfResult {
	return stats.SplitHalf(p.Values, s)
}

// PositiveP tests for every head whether its values lie above 0: the one-sided p of a t test over prompts; 1 where a head's values are all
// 0 or fewer than two prompts are there, 0 or 1 where they are all alike.
func (p *PerPrompt) PositiveP() []float64 {
	out := make([]float64, p.Layers*p.Heads)
	for i := range out {
		x := make([]float64, len(p.Values))
		for k, v := range p.Values {
			x[k] = v[i]
		}
		out[i] = stats.PositiveMean(x)
	}
	return out
}

// PerPrompt lists the scores of argmax_last, mass_last, argmax_code and copy_tf by prompt. copy_tf has the prompts alone that have a row
// for every token of their code, weighted by these.
func (o *Observations) PerPrompt() []*PerPrompt {
	out := []*PerPrompt{o.perPrompt("argmax_last"), o.perPrompt("mass_last"), o.perPrompt("argmax_code"), o.perPrompt("copy_tf")}
	for _, p := range o.list {
		v := make([][]float64, len(out))
		for d := range v {
			v[d] = make([]float64, o.layers*o.heads)
		}
		for i, at := range p.Rows[0].Argmax {
			v[0][i], v[1][i], v[2][i] = count(p.Needle.Contains(int(at))), float64(p.Rows[0].SpanMass[i]), count(p.Code.Contains(int(at)))
		}
		for d := range 3 {
			out[d].Add(v[d])
		}
		if n := p.Code.Len(); len(p.Rows) >= n {
			for j := range n {
				for i, at := range p.Rows[j].Argmax {
					v[3][i] += count(int(at) == p.Code[0]+j) / float64(n)
				}
			}
			out[3].Add(v[3])
			out[3].Weights = append(out[3].Weights, float64(n))
		}
	}
	return out
}

func (o *Observations) perPrompt(name string) *PerPrompt {
	return &PerPrompt{Detector: name, Layers: o.layers, Heads: o.heads}
}

// Top returns the k highest heads, and of the heads that tie at that cut those that only their place told apart. Heads without a score
// are never in.
func (s Scores) Top(k int) (set, ties Set) {
	r := s.Ranking()
	n := 0
	for n < min(k, len(r)) && !math.IsNaN(s.At(r[n])) {
		n++
	}
	return r.Top(n), s.TiesAt(n)
}
