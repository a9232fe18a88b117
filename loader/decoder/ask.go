package decoder

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
)

// Prompt is one tokenised question put to the model.
type Prompt struct {
	IDs      []int32    // the prompt's tokens; its length is T
	Question int        // first question row; 0 = not known, scopes haystack and question are then refused
	Answer   []int32    // tokens fed after the prompt and scored; may be empty
	Decoy    []int32    // tokens scored in the answer's place, after the prompt alone; may be empty
	Draft    []int32    // a guess at the greedy answer, such as the unmodified model's; saves decoding, changes no token
	Needle   [2]int     // token span [start, end) of the needle, a class of rows for Means
	Means    *Means     // mean head outputs, which a mean edit puts in; may be nil
	Donor    []int32    // another prompt, whose head outputs a patch edit puts in; may be empty
	Spans    [][2]int32 // token spans [start, end) whose attention mass a probe reports

	scopeT int // T as scopes count it where IDs hold a part of the answer already; 0 = len(IDs)
}

// Condition is what is done to the model while a prompt is processed. No edits = the unmodified model.
type Condition struct {
	Edits []Edit
	// Only the fed answer and the decoy are scored. A greedy answer is given where the fed one provably is it (as with Verify), else none.
	ScoreOnly bool

	Probe bool // report attention at rows T-1 .. T-2+max(1, len(Answer)), 64 of them at most
}

// AskOptions says how much of the answer is wanted and in which batches. Batch shapes decide the last bits of a number, so they
// belong to a run's plan.
type AskOptions struct {
	MaxNew      int     // longest greedy answer; 0 = none, only the fed answer is scored
	Verify      bool    // a fed answer that greedy decoding provably gives needs no decoding: Greedy is then that answer
	Attention   bool    // carry the probe in every whole pass, so that runs with and without probed conditions are one program
	EOS         []int32 // ends a greedy answer; part of it
	Batch       int     // sequences in a prefill batch; 0 = 1
	DecodeBatch int     // most answers decoded together; 0 = 32
	Sweep       bool    // rows over a kept cache are of hundreds of conditions that only score: larger batches of no more rows than that needs
	CacheBytes  int64   // keys and values of the prompts in work together, beside those of answers that wait to be decoded; 0 = 512 MiB
}

// Reply is what the model says to one prompt under one condition.
type Reply struct {
	LogProb   []float64  // of each fed answer token, natural logarithm
	Decoy     []float64  // log-probability of each decoy token
	Argmax    []int32    // at rows T-1 .. T-1+len(Answer), but in a sweep's conditions not at the last one
	Gap       []float32  // between the two largest logits at those rows
	Greedy    []int32    // greedy answer, nil when MaxNew is 0
	GreedyGap []float32  // between the two largest logits at each step of Greedy
	Verified  bool       // Greedy was read off the fed answer
	Fragile   bool       // a step was closer than the bound between program shapes
	Attention *Attention // nil unless probed
}

// Attention is what a probe saw of one prompt's rows.
type Attention struct {
	Layers, Heads, Rows, Spans int
	Argmax                     []int32   // [layers, heads, rows], lowest index on ties; every key competes
	Gap                        []float32 // [layers, heads, rows], between the two largest weights
	Mass                       []float32 // [layers, heads, rows, spans]
	Write                      []float32 // [layers, heads, rows], norm of what the head adds to the residual
}

// fragileFactor times shapeBound a layer, times the largest logit, is how large a gap between two logits has to be for the
// choice not to depend on the shape of the program: the observed bound between shapes is 2e-6 of the scale a layer in float32.
const (
	fragileFactor = 10
	shapeBound    = 2e-6
)

// closeCall tells whether a gap is too small for the argmax to be the same on every program shape.
func (m *Model) closeCall(s rowScore) bool { return float64(s.gap) <= m.FragileGap(float64(s.scale)) }

// FragileGap is the gap between the two largest logits below which an argmax counts as fragile, for logits of the given scale.
// In float32 it is 10 x 2e-6 x layers x scale. In bfloat16 it is scale x sqrt(layers) / 1024: a quarter of one rounding, 2^-8, growing
// with the square root of the layers. Section f of scripts/bench holds both against the differences that it observes.
func (m *Model) FragileGap(scale float64) float64 {
	if m.cfg.dtype == dtypes.BFloat16 {
		return scale / 256 * math.Sqrt(float64(m.Spec.Layers)) / 4
	}
	return fragileFactor * shapeBound * float64(m.Spec.Layers) * scale
}

// DefaultCacheBytes is AskOptions.CacheBytes where that is 0.
const DefaultCacheBytes = 512 << 20

func (o *AskOptions) fill() {
	if o.Batch < 1 {
		o.Batch = 1
	}
	if o.DecodeBatch < 1 {
		o.DecodeBatch = 32
	}
	if o.CacheBytes < 1 {
		o.CacheBytes = DefaultCacheBytes
	}
}

// check reports what is wrong with a prompt before anything is computed.
func (m *Model) check(i int, p *Prompt, o *AskOptions) error {
	if len(p.IDs) == 0 {
		return fmt.Errorf("prompt %d: empty", i)
	}
	if n := len(p.IDs) + max(len(p.Answer), len(p.Decoy), o.MaxNew); n > m.Spec.Longest() {
		return fmt.Errorf("prompt %d: %d tokens with the answer, the model's window is %d", i, n, m.Spec.MaxPositions)
	}
	if p.Question < 0 || p.Question >= len(p.IDs) {
		return fmt.Errorf("prompt %d: question row %d outside the prompt of %d tokens", i, p.Question, len(p.IDs))
	}
	for _, ids := range [][]int32{p.IDs, p.Answer, p.Decoy, p.Draft} {
		for _, id := range ids {
			if id < 0 || int(id) >= m.Spec.Vocab {
				return fmt.Errorf("prompt %d: token id %d, the vocabulary has %d tokens", i, id, m.Spec.Vocab)
			}
		}
	}
	for _, s := range p.Spans {
		if s[0] < 0 || s[1] < s[0] || int(s[1]) > len(p.IDs) {
			return fmt.Errorf("prompt %d: span %v outside the prompt of %d tokens", i, s, len(p.IDs))
		}
	}
	return nil
}

func isEOS(id int32, eos []int32) bool {
	for _, e := range eos {
		if id == e {
			return true
		}
	}
	return false
}
