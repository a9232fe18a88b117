package harness

import (
	"math"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// Trial is one prompt under one condition: a line of the trials file.
type Trial struct {
	Stage     string      `json:"stage"`
	Unit      int         `json:"unit"`
	Prompt    string      `json:"prompt"`
	Condition string      `json:"condition"`
	Outcome   Outcome     `json:"outcome"`
	LogProb   []Number    `json:"logprob"`                 // of each token of the answer, natural logarithm
	Sum       Number      `json:"sum_logprob"`             // their sum; null where the trial failed
	Decoy     []Number    `json:"decoy_logprob,omitempty"` // of each token of the decoy in the answer's place
	Margin    Number      `json:"margin"`                  // sum_logprob minus the decoy's sum: the primary outcome; null without a decoy
	Greedy    []int32     `json:"greedy_ids"`
	Text      string      `json:"greedy_text"` // up to the end token
	MinGap    Number      `json:"min_gap"`     // smallest lead of a greedy token over the runner-up, in logits; null without any
	Fragile   bool        `json:"fragile"`     // such a lead is within the bound between program shapes
	Verified  bool        `json:"verified"`    // the greedy answer was read off the fed answer
	Scores    *TextScores `json:"scores,omitempty"`
	Error     string      `json:"error,omitempty"` // of a failed trial, or why its log-probabilities are null

	Attention *TrialAttention `json:"attention,omitempty"`
	Repeat    *TrialRepeat    `json:"repeat,omitempty"`
	Example   *Example        `json:"example,omitempty"`
	Means     *TrialMeans     `json:"means,omitempty"`
	Document  *TextTotals     `json:"document,omitempty"` // of stage texts, where Prompt is a document
	Planes    *TrialPlanes    `json:"planes,omitempty"`

	Ledger map[string]TrialPrediction `json:"ledger,omitempty"` // by condition: what it is predicted to change

	HeadScores map[string]floats `json:"head_scores,omitempty"` // by detector, [layers*heads]: this prompt's
	Curves     map[string]floats `json:"curves,omitempty"`      // by ranking: drop of sum_logprob without its best heads, by their number
	Unscored   map[string]string `json:"unscored,omitempty"`    // by detector: why it has no score of this prompt
}

// TrialRepeat is what a sequence of random tokens, written twice, showed: mean attention of the second copy's rows, [layers*heads].
type TrialRepeat struct {
	Induction floats `json:"induction"`
	Duplicate floats `json:"duplicate"`
	Previous  floats `json:"prev_token"`
}

// Example is one prompt as some heads see it from its last row.
type Example struct {
	Prompt   string        `json:"prompt"`
	Tokens   []string      `json:"tokens"`
	Needle   heads.Span    `json:"needle"`
	Code     heads.Span    `json:"code"`
	Question int           `json:"question"`
	Heads    []ExampleHead `json:"heads"`
}

// ExampleHead is one head's attention, a weight a token.
type ExampleHead struct {
	Head    decoder.Head `json:"head"`
	Weights floats       `json:"weights"`
}

// TrialAttention is what the probes saw, rows T-1 .. T-2+len(answer): each slice is [rows][layers*heads], row-major.
type TrialAttention struct {
	Argmax [][]int32 `json:"argmax"`
	Gap    []floats  `json:"gap"`
	Mass   []floats  `json:"needle_mass"`
	Write  floats    `json:"write_norm"` // [layers*heads], mean over the rows of the norm of what the head adds to the residual
}

// condition is one condition of a stage, ready to be asked.
type condition struct {
	name      string
	edits     []decoder.Edit
	probe     bool
	scoreOnly bool // no greedy answer is decoded
	heads     heads.Set
	scope     decoder.Scope
	controlOf string // name of the condition that it is a control of
	pool      string // that the control was drawn from
	texts     bool   // texts are scored under it too

	looksAtScores bool // the ledger stage measures the scores that it predicts

	compared []comparison // with controls of these pools, by the randomisation test
}

// comparison is one of a condition with its controls of a pool.
type comparison struct {
	pool   string
	reason string // why there are fewer controls than asked for, or none
	of     string // what the controls are other draws of; empty: head-set
	with   string // the condition whose controls these are; empty: this one's
	noP    string // why the drops are not ranked, however many controls there are
}

func newTrial(stage string, unit int, p *Prompt, c *condition) Trial {
	return Trial{Stage: stage, Unit: unit, Prompt: p.Spec.ID, Condition: c.name}
}

// fill takes over what the model replied.
func (t *Trial) fill(r *decoder.Reply) {
	t.LogProb, t.Greedy = Numbers(r.LogProb), r.Greedy
	for _, x := range t.LogProb {
		t.Sum += x
	}
	t.Margin = Number(math.NaN())
	if len(r.Decoy) > 0 { // else nil, as it is read back
		t.Decoy, t.Margin = Numbers(r.Decoy), t.Sum
		for _, x := range t.Decoy {
			t.Margin -= x
		}
	}
	if overflowed(r.LogProb) || overflowed(r.Decoy) { // nothing can be said: not even how much of it is a number
		t.Error, t.Sum, t.Margin = overflow, nan, nan
		for _, list := range [][]Number{t.LogProb, t.Decoy} {
			for i := range list {
				list[i] = nan
			}
		}
	}
	t.MinGap, t.Fragile, t.Verified = Number(r.MinGap()), r.Fragile, r.Verified
	if r.Attention != nil {
		t.Attention = regroup(r.Attention)
	}
}

// scored marks the trial as one that was only scored: where another condition asked the same, its answer may have been decoded.
func (t *Trial) scored() {
	t.Outcome, t.MinGap, t.Fragile = Scored, nan, false
	if !t.Verified {
		t.Greedy = nil
	}
}

// fail marks the trial as not carried out.
func (t *Trial) fail(err error) {
	t.Outcome, t.Error = Failed, err.Error()
	t.Sum, t.Margin, t.MinGap = Number(math.NaN()), Number(math.NaN()), Number(math.NaN())
}

// regroup turns [layers, heads, rows] into [rows][layers*heads].
func regroup(a *decoder.Attention) *TrialAttention {
	t := &TrialAttention{}
	n := a.Layers * a.Heads
	t.Write = make(floats, n)
	for i := range n {
		sum := 0.0
		for r := range a.Rows {
			sum += float64(a.Write[i*a.Rows+r])
		}
		t.Write[i] = float32(sum / float64(a.Rows))
	}
	for r := range a.Rows {
		argmax, gap, mass := make([]int32, n), make(floats, n), make(floats, n)
		for i := range n {
			k := i*a.Rows + r
			argmax[i], gap[i], mass[i] = a.Argmax[k], a.Gap[k], a.Mass[k*a.Spans]
		}
		t.Argmax, t.Gap, t.Mass = append(t.Argmax, argmax), append(t.Gap, gap), append(t.Mass, mass)
	}
	return t
}

// rows is the attention in the terms of package heads.
func (t *TrialAttention) rows() []heads.Row {
	out := make([]heads.Row, len(t.Argmax))
	for i := range out {
		out[i] = heads.Row{Argmax: t.Argmax[i], Gap: t.Gap[i], SpanMass: t.Mass[i]}
	}
	return out
}
