package tracing

import (
	"context"
	"fmt"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/decoder"
)

// PromptTrace is what one prompt showed. Effects are changes of logit(answer) - logit(donor's answer), by head in the order asked.
type PromptTrace struct {
	Prompt  string                      `json:"prompt"`
	Tokens  int                         `json:"tokens"`
	Answer  int32                       `json:"answer_id"` // the first token where the answers differ
	Other   int32                       `json:"other_id"`
	Plain   harness.Number              `json:"plain"` // the difference of logits in the plain run
	Donor   harness.Number              `json:"donor"` // and in the donor's
	Total   map[string][]harness.Number `json:"total"` // by group: the head patched
	First   map[string][]harness.Number `json:"first"` // by group: its first-order estimate
	Direct  []harness.Number            `json:"direct"`
	Paths   map[string][]harness.Number `json:"paths,omitempty"` // by group, in the order asked
	Seconds float64                     `json:"seconds"`
}

// PairTrace is what one prompt showed of pairs of heads.
type PairTrace struct {
	Prompt string           `json:"prompt"`
	Both   []harness.Number `json:"both"` // effect of both heads patched, in the order of pairsOf
}

// measure traces one prompt.
func (r *Request) measure(ctx context.Context, t *task, a *Asked) (*PromptTrace, error) {
	out := &PromptTrace{Prompt: t.id, Tokens: len(t.ids), Answer: t.answer, Other: t.other, Total: map[string][]harness.Number{}, First: map[string][]harness.Number{}}
	var edits []decoder.Edit
	for _, g := range a.Groups {
		for _, h := range a.Heads {
			edits = append(edits, t.patch(g, h))
		}
	}
	for _, g := range a.Groups {
		for _, p := range a.Paths {
			edits = append(edits, p.edit(t.scope(g)))
		}
	}
	plain, effects, err := r.effects(ctx, t, edits)
	if err != nil {
		return nil, err
	}
	take := func(n int) []harness.Number {
		var some []float64
		some, effects = effects[:n], effects[n:]
		return harness.Numbers(some)
	}
	for _, g := range a.Groups {
		out.Total[g] = take(len(a.Heads))
	}
	if len(a.Paths) > 0 {
		out.Paths = map[string][]harness.Number{}
		for _, g := range a.Groups {
			out.Paths[g] = take(len(a.Paths))
		}
	}
	donor, _, err := r.effects(ctx, &task{ids: t.donor, answer: t.answer, other: t.other}, nil)
	if err != nil {
		return nil, fmt.Errorf("donor: %w", err)
	}
	out.Plain, out.Donor = harness.Number(plain), harness.Number(donor)
	return out, r.estimate(ctx, t, a, out)
}

// effects returns the plain run's difference of logits and how each edit by itself changes it.
func (r *Request) effects(ctx context.Context, t *task, edits []decoder.Edit) (float64, []float64, error) {
	conds := []decoder.Condition{{ScoreOnly: true}}
	for _, e := range edits {
		conds = append(conds, decoder.Condition{Edits: []decoder.Edit{e}, ScoreOnly: true})
	}
	p := &decoder.Prompt{IDs: t.ids, Donor: t.donor, Question: t.question, Answer: []int32{t.answer}, Decoy: []int32{t.other}}
	got := make([]float64, len(conds))
	err := r.Model.Ask(ctx, []*decoder.Prompt{p}, conds, decoder.AskOptions{}, func(_, c int, reply *decoder.Reply) error {
		got[c] = reply.LogProb[0] - reply.Decoy[0] // of one row: the difference of the logits
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	for i := range got[1:] {
		got[i+1] -= got[0]
	}
	return got[0], got[1:], nil
}

// estimate adds direct effects and first-order estimates.
func (r *Request) estimate(ctx context.Context, t *task, a *Asked, out *PromptTrace) error {
	last := len(t.ids) - 1
	place := map[int]int{} // of a row among those kept
	var rows []int
	for _, g := range append([]string{Last}, a.Groups...) {
		lo, hi := t.rows(g)
		for row := lo; row < hi; row++ {
			if _, ok := place[row]; !ok {
				place[row] = len(rows)
				rows = append(rows, row)
			}
		}
	}
	plain, err := r.Model.Trace(ctx, &decoder.Prompt{IDs: t.ids}, nil, decoder.TraceOptions{Hidden: last, Heads: rows})
	if err != nil {
		return err
	}
	donor, err := r.Model.Trace(ctx, &decoder.Prompt{IDs: t.donor}, nil, decoder.TraceOptions{Hidden: -1, Heads: rows})
	if err != nil {
		return fmt.Errorf("donor: %w", err)
	}
	s := r.Model.Spec
	width := s.Heads * s.HeadDim
	request := &decoder.DirectRequest{Final: plain.Hidden[s.Layers-1], Token: t.answer, Other: t.other}
	at := place[last] * width
	for l := range s.Layers {
		request.Plain, request.Changed = append(request.Plain, plain.Heads[l][at:at+width]), append(request.Changed, donor.Heads[l][at:at+width])
	}
	direct, err := r.Model.DirectEffects(request)
	if err != nil {
		return err
	}
	g, err := r.Model.HeadGradient(ctx, t.ids, []decoder.Term{{Row: last, Token: t.answer, Weight: 1}, {Row: last, Token: t.other, Weight: -1}})
	if err != nil {
		return err
	}
	for _, h := range a.Heads {
		out.Direct = append(out.Direct, harness.Number(direct[h.Layer*s.Heads+h.Index]))
		for _, group := range a.Groups {
			lo, hi := t.rows(group)
			sum := 0.0
			for row := lo; row < hi; row++ {
				from, to := place[row]*width+h.Index*s.HeadDim, row*width+h.Index*s.HeadDim
				for d := range s.HeadDim {
					sum += float64(g.Z[h.Layer][to+d]) * float64(donor.Heads[h.Layer][from+d]-plain.Heads[h.Layer][from+d])
				}
			}
			out.First[group] = append(out.First[group], harness.Number(sum))
		}
	}
	return nil
}

// measurePairs patches pairs of heads.
func (r *Request) measurePairs(ctx context.Context, t *task, group string, top []decoder.Head) (*PairTrace, error) {
	var edits []decoder.Edit
	for _, p := range pairsOf(len(top)) {
		edits = append(edits, t.patch(group, top[p[0]], top[p[1]]))
	}
	_, both, err := r.effects(ctx, t, edits)
	return &PairTrace{t.id, harness.Numbers(both)}, err
}

// pairsOf lists the pairs of n things.
func pairsOf(n int) [][2]int {
	var out [][2]int
	for i := range n {
		for j := i + 1; j < n; j++ {
			out = append(out, [2]int{i, j})
		}
	}
	return out
}
