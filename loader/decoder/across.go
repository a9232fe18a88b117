package decoder

import (
	"context"
	"slices"
)

// Some rotary tables vary with the length of a pass. A fed answer is scored in one pass with its prompt, a greedy one goes on from a pass of
// the prompt alone: where these two have other tables, they are computed apart. And where a family starts anew once a sequence has outgrown
// its table (Phi-3), answers that do so are continued from a new prompt that ends with their last token.

func (p *Prompt) scopeLength() int {
	if p.scopeT > 0 {
		return p.scopeT
	}
	return len(p.IDs)
}

// crosses tells whether an answer to the prompt, fed or greedy, may need another rotary table than its prompt.
func (m *Model) crosses(p *Prompt, o *AskOptions) bool {
	t, limit := len(p.IDs), switchLength(m.Spec)
	if o.MaxNew == 0 {
		return false
	}
	return passOf(m.Spec, t) != passOf(m.Spec, t+len(p.Answer)) || t <= limit && t+o.MaxNew > limit
}

// askAcross scores the fed answer and the decoy in passes of their own length, as one forward call would, and decodes each answer apart
// from them: first the tokens of passes that the prompt's table is for, then the others.
func (m *Model) askAcross(ctx context.Context, p *Prompt, conds []Condition, o AskOptions, emit func(cond int, r *Reply) error) error {
	replies := make([]*Reply, len(conds))
	take := func(_, c int, r *Reply) error { replies[c] = r; return nil }
	scores := o
	scores.MaxNew = 0
	if err := m.ask(ctx, []*Prompt{p}, conds, scores, take); err != nil {
		return err
	}
	first := o
	if limit := switchLength(m.Spec); len(p.IDs) <= limit {
		first.MaxNew = min(o.MaxNew, limit-len(p.IDs)+1)
	}
	start := &Prompt{IDs: p.IDs, Question: p.Question, Donor: p.Donor, Needle: p.Needle, Means: p.Means, scopeT: p.scopeLength()}
	for c, cond := range conds {
		if cond.ScoreOnly {
			continue
		}
		cond.Probe = false
		var got *Reply
		keep := func(_, _ int, r *Reply) error { got = r; return nil }
		if err := m.ask(ctx, []*Prompt{start}, []Condition{cond}, first, keep); err != nil {
			return err
		}
		replies[c].addGreedy(got)
		rest := o
		if rest.MaxNew -= len(got.Greedy); rest.MaxNew == 0 || isEOS(got.Greedy[len(got.Greedy)-1], o.EOS) {
			continue
		}
		next := *start
		next.IDs = slices.Concat(p.IDs, got.Greedy)
		if err := m.ask(ctx, []*Prompt{&next}, []Condition{cond}, rest, keep); err != nil {
			return err
		}
		replies[c].addGreedy(got)
	}
	for c, r := range replies {
		if err := emit(c, r); err != nil {
			return err
		}
	}
	return nil
}

// addGreedy appends a part of the greedy answer.
func (r *Reply) addGreedy(part *Reply) {
	r.Greedy, r.GreedyGap = append(r.Greedy, part.Greedy...), append(r.GreedyGap, part.GreedyGap...)
	r.Fragile = r.Fragile || part.Fragile
}
