package harness

import (
	"fmt"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
)

// closeAttention is the lead of an attention weight below which another machine may see another arg max (float32).
const closeAttention = 1e-4

// Detection is what the detect stage found.
type Detection struct {
	Threshold  float64         `json:"threshold"`
	Heads      heads.Ranking   `json:"heads"` // argmax_last >= threshold, best first, ties by mass_last
	Borderline heads.Set       `json:"borderline"`
	Hits       []heads.Hits    `json:"hits"` // where the hits of each detected head fall
	Scores     []heads.Scores  `json:"scores"`
	CloseCalls int             `json:"close_calls"` // arg maxes of the last row within 1e-4 of another key, over all heads and prompts
	CopyTFOf   int             `json:"copy_tf_of"`  // prompts that copy_tf could be asked of
	NoCopyTF   []PromptFailure `json:"no_copy_tf"`  // those it could not, and why

	ranking heads.Ranking // all heads
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

// detect turns the probed trials into scores. Failed trials are left out; trials[i] belongs to prompts[i].
func detect(spec *loader.Spec, prompts []*Prompt, trials []Trial, threshold float64) (*Detection, error) {
	d := &Detection{Threshold: threshold, NoCopyTF: []PromptFailure{}}
	var all, copying []heads.Observation
	for i, t := range trials {
		if t.Outcome == Failed {
			continue
		}
		if t.Attention == nil {
			return nil, fmt.Errorf("trial of prompt %s holds no attention", t.Prompt)
		}
		for _, row := range t.Attention.Mass {
			if slices.ContainsFunc(row, func(x float32) bool { return x != x }) {
				return nil, fmt.Errorf("detect: prompt %s: %w", t.Prompt, errNotFinite("attention weights are"))
			}
		}
		p := prompts[i]
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
	if len(all) == 0 {
		return nil, &hintError{fmt.Errorf("detect: all %d prompts failed", len(trials)), "lower --batch, or free memory on the device"}
	}
	obs, err := heads.NewObservations(spec.Layers, spec.Heads, all)
	if err != nil {
		return nil, fmt.Errorf("detect: %w", err)
	}
	argmax, mass := obs.ArgmaxLast(), obs.MassLast()
	d.Scores = []heads.Scores{argmax, mass, obs.ArgmaxCode()}
	if len(copying) > 0 {
		co, err := heads.NewObservations(spec.Layers, spec.Heads, copying)
		if err != nil {
			return nil, fmt.Errorf("detect: %w", err)
		}
		s, err := co.CopyTF()
		if err != nil {
			return nil, fmt.Errorf("detect: %w", err)
		}
		d.Scores = append(d.Scores, s)
	}
	d.CopyTFOf = len(copying)
	d.ranking = argmax.Ranking(mass)
	found := argmax.AtLeast(threshold)
	d.Heads, d.Hits = d.ranking.Only(found), obs.Hits(found)
	d.Borderline = argmax.Borderline(threshold)
	for _, c := range obs.CloseCalls(closeAttention) {
		if c.Row == 0 {
			d.CloseCalls++
		}
	}
	return d, nil
}
