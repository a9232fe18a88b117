package harness

import (
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/stats"
)

// closeAttention is the lead of an attention weight below which another machine may see another arg max (float32).
const closeAttention = 1e-4

// Detection is what the detect stage found.
type Detection struct {
	Threshold  float64         `json:"threshold"`
	Heads      heads.Ranking   `json:"heads"`      // argmax_last >= threshold, best first, ties by mass_last
	Borderline heads.Set       `json:"borderline"` // one hit from the threshold, on either side
	Cuts       []Cut           `json:"cuts"`       // detected heads, best first, and those one hit short, with intervals
	Ties       heads.Set       `json:"ties"`       // of the heads asked for with --top: those that only the tie-breaker told from others
	Hits       []heads.Hits    `json:"hits"`       // where the hits of each detected head fall
	Scores     []heads.Scores  `json:"scores"`
	CloseCalls int             `json:"close_calls"` // arg maxes of the last row within 1e-4 of another key, over all heads and prompts
	CopyTFOf   int             `json:"copy_tf_of"`  // prompts that copy_tf could be asked of
	NoCopyTF   []PromptFailure `json:"no_copy_tf"`  // those it could not, and why

	Detectors []DetectorResult `json:"detectors,omitempty"` // all of them, where more than the basic ones were asked for
	Pairs     []DetectorPair   `json:"pairs,omitempty"`

	ranking   heads.Ranking // all heads
	perPrompt map[string]*heads.PerPrompt
}

// PromptFailure says why a prompt was left out.
type PromptFailure struct {
	Prompt string `json:"prompt"`
	Reason string `json:"reason"`
}

// Score returns the named scores, ok false where the detector was not run.
func (d *Detection) Score(name string) (heads.Scores, bool) {
	for _, s := range d.Scores {
		if s.Detector == name {
			return s, true
		}
	}
	return heads.Scores{}, false
}

// detect turns the probed trials into scores. Failed trials are left out.
func detect(e *evidence) (*Detection, error) {
	d := &Detection{Threshold: e.plan.Detect.Threshold, NoCopyTF: []PromptFailure{}, Cuts: []Cut{}, Ties: heads.Set{}}
	all, copying, err := d.observe(e)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, &hintError{fmt.Errorf("detect: all %d prompts failed", len(e.trials[StageDetect])), "lower --batch, or free memory on the device"}
	}
	obs, err := heads.NewObservations(e.shape.Layers, e.shape.Heads, all)
	if err != nil {
		return nil, fmt.Errorf("detect: %w", err)
	}
	argmax, mass := obs.ArgmaxLast(), obs.MassLast()
	d.Scores = []heads.Scores{argmax, mass, obs.ArgmaxCode()}
	var co *heads.Observations
	if d.CopyTFOf = len(copying); d.CopyTFOf > 0 {
		if co, err = heads.NewObservations(e.shape.Layers, e.shape.Heads, copying); err != nil {
			return nil, fmt.Errorf("detect: %w", err)
		}
		s, err := co.CopyTF()
		if err != nil {
			return nil, fmt.Errorf("detect: %w", err)
		}
		d.Scores = append(d.Scores, s)
	}
	write, err := writeNorms(e)
	if err != nil {
		return nil, err
	}
	d.Scores = append(d.Scores, write)
	if err := d.addRepeat(e); err != nil {
		return nil, err
	}
	if err := d.further(e, obs, co); err != nil {
		return nil, fmt.Errorf("detect: %w", err)
	}
	d.ranking = argmax.Ranking(mass)
	found := argmax.AtLeast(d.Threshold)
	d.Heads, d.Hits = d.ranking.Only(found), obs.Hits(found)
	d.Borderline = argmax.Borderline(d.Threshold)
	d.cut(argmax)
	for _, x := range e.plan.experiments() {
		if about, _ := x.about(); about.Top > 0 {
			d.Ties = argmax.TiesAt(about.Top)
		}
	}
	for _, c := range obs.CloseCalls(closeAttention) {
		if c.Row == 0 {
			d.CloseCalls++
		}
	}
	return d, nil
}

// observe lists what was seen of each prompt, and of those that copy_tf can be asked of.
func (d *Detection) observe(e *evidence) (all, copying []heads.Observation, err error) {
	for i, t := range e.trials[StageDetect] {
		if t.Outcome == Failed {
			continue
		}
		if t.Attention == nil {
			return nil, nil, fmt.Errorf("trial of prompt %s holds no attention", t.Prompt)
		}
		if slices.ContainsFunc(t.Attention.Write, func(x float32) bool { return x-x != 0 }) {
			return nil, nil, fmt.Errorf("detect: prompt %s: %w", t.Prompt, errNotFinite("norms of heads' writes are"))
		}
		for _, row := range t.Attention.Mass {
			if slices.ContainsFunc(row, func(x float32) bool { return x != x }) {
				return nil, nil, fmt.Errorf("detect: prompt %s: %w", t.Prompt, errNotFinite("attention weights are"))
			}
		}
		p := &e.detects[i]
		o := heads.Observation{Prompt: i, Needle: p.Needle, Code: p.Code, Rows: t.Attention.rows()}
		for _, id := range p.IDs {
			o.Tokens = append(o.Tokens, int(id))
		}
		all = append(all, o)
		switch {
		case p.NoCopy != "":
			d.NoCopyTF = append(d.NoCopyTF, PromptFailure{t.Prompt, p.NoCopy})
		case len(o.Rows) < p.Code.Len():
			d.NoCopyTF = append(d.NoCopyTF, PromptFailure{t.Prompt, fmt.Sprintf("the answer has %d tokens, %d rows were probed", p.Code.Len(), len(o.Rows))})
		default:
			copying = append(copying, o)
		}
	}
	return all, copying, nil
}

// writeNorms is the mean over prompts of the norm of what each head adds to the residual at the answer's rows.
func writeNorms(e *evidence) (heads.Scores, error) {
	s := heads.NewScores("write_norm", e.shape.Layers, e.shape.Heads)
	for _, t := range e.trials[StageDetect] {
		if t.Outcome == Failed {
			continue
		}
		if len(t.Attention.Write) != len(s.Data) {
			return s, fmt.Errorf("trial of prompt %s: %d write norms, want %d", t.Prompt, len(t.Attention.Write), len(s.Data))
		}
		for k, w := range t.Attention.Write {
			s.Data[k] += float64(w)
		}
		s.N++
	}
	for i := range s.Data {
		s.Data[i] /= float64(s.N)
	}
	return s, nil
}

// addRepeat adds the scores of the repeated random sequences, where they were asked for.
func (d *Detection) addRepeat(e *evidence) error {
	var list []heads.Repeat
	for _, t := range e.trials[StageRepeat] {
		if t.Repeat != nil {
			list = append(list, heads.Repeat{Induction: t.Repeat.Induction, Duplicate: t.Repeat.Duplicate, Previous: t.Repeat.Previous})
		}
	}
	if len(list) == 0 {
		return nil
	}
	scores, err := heads.RepeatScores(e.shape.Layers, e.shape.Heads, list)
	if err != nil {
		return fmt.Errorf("detect: %w", err)
	}
	d.Scores = append(d.Scores, scores...)
	return nil
}

// cut lists the heads around the threshold with their intervals.
func (d *Detection) cut(argmax heads.Scores) {
	near := d.Borderline.Minus(d.Heads.Set())
	if 1/float64(argmax.N) >= d.Threshold {
		near = nil // with so few prompts every head without a hit is one hit short
	}
	for _, h := range append(slices.Clone(d.Heads), d.ranking.Only(near)...) {
		v := argmax.At(h)
		iv := stats.Wilson(int(math.Round(v*float64(argmax.N))), argmax.N, level)
		c := Cut{h, Number(v), Number(iv.Lo), Number(iv.Hi), cutLikely}
		switch {
		case near.Contains(h):
			c.Class = cutNear
		case iv.Lo >= d.Threshold:
			c.Class = cutSure
		}
		d.Cuts = append(d.Cuts, c)
	}
}
