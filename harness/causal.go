package harness

import (
	"context"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// causalConditions switch every head off alone in a scope, and before that none. The first one is what drops are counted from: a head's
// output times 1 in rows of the same program.
func causalConditions(s Shape, scope decoder.Scope) []decoder.Condition {
	same := decoder.Edit{Op: decoder.OpScale, Value: 1, Heads: []decoder.Head{{}}, Scope: scope}
	conds := []decoder.Condition{{Edits: []decoder.Edit{same}, ScoreOnly: true}}
	for l := range s.Layers {
		for h := range s.Heads {
			off := patch.ZeroHeads(heads.NewSet(decoder.Head{Layer: l, Index: h}), scope)
			conds = append(conds, decoder.Condition{Edits: off, ScoreOnly: true})
		}
	}
	return conds
}

// causal switches every head off alone, from the last prompt row on, and scores the fed answer: rows over the prompt's kept cache.
func (r *runner) causal(ctx context.Context, e *evidence, prompts []*Prompt) ([]Trial, error) {
	conds := causalConditions(e.shape, decoder.ScopeAnswer)
	return r.alone(ctx, StageCausal, prompts, func(ctx context.Context, p *Prompt, t *Trial) error {
		drop, err := r.drops(ctx, p, t, conds)
		t.HeadScores = map[string]floats{"causal": drop}
		return err
	})
}

// drops is by how much the answer's log-probability under the conditions but the first is below that under the first, nats. The trial
// takes the first one's scores.
func (r *runner) drops(ctx context.Context, p *Prompt, t *Trial, conds []decoder.Condition) (floats, error) {
	o := r.askOptions()
	o.Batch, o.Sweep = 1, true
	asked := p.ask()
	asked.Decoy = nil // nobody reads its scores, and each of its rows costs hundreds
	drop, base := make(floats, len(conds)-1), 0.0
	err := r.ask(ctx, []*decoder.Prompt{asked}, conds, o, func(_, c int, reply *decoder.Reply) error {
		sum := 0.0
		for _, x := range reply.LogProb {
			sum += x
		}
		if overflowed(reply.LogProb) {
			return errNotFinite("log-probabilities are")
		}
		if c == 0 {
			t.Sum = 0
			t.fill(reply)
			t.Outcome, t.MinGap, t.Greedy, t.Fragile, t.Verified = Observed, nan, nil, false, false
			base = sum
			return nil
		}
		drop[c-1] = float32(base - sum)
		return nil
	})
	return drop, err
}
