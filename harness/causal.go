package harness

import (
	"context"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// causal switches every head off alone, from the last prompt row on, and scores the fed answer: rows over the prompt's kept cache.
func (r *runner) causal(ctx context.Context, prompts []*Prompt) ([]Trial, error) {
	spec := &r.o.Checkpoint.Spec
	// The drop is from rows of the same program: a head's output times 1.
	same := decoder.Edit{Op: decoder.OpScale, Value: 1, Heads: []decoder.Head{{}}, Scope: decoder.ScopeAnswer}
	conds := []decoder.Condition{{Edits: []decoder.Edit{same}, ScoreOnly: true}}
	for l := range spec.Layers {
		for h := range spec.Heads {
			off := patch.ZeroHeads(heads.NewSet(decoder.Head{Layer: l, Index: h}), decoder.ScopeAnswer)
			conds = append(conds, decoder.Condition{Edits: off, ScoreOnly: true})
		}
	}
	return r.alone(ctx, StageCausal, prompts, func(ctx context.Context, p *Prompt, t *Trial) error {
		o := r.askOptions()
		o.Batch = 1
		drop := make(floats, len(conds)-1)
		base := 0.0
		err := r.ask(ctx, []*decoder.Prompt{p.ask()}, conds, o, func(_, c int, reply *decoder.Reply) error {
			if c == 0 {
				t.Sum = 0
				t.fill(reply)
				t.Outcome, t.MinGap, t.Greedy, t.Fragile = Observed, nan, nil, false
				base = float64(t.Sum)
				return nil
			}
			sum := 0.0
			for _, x := range reply.LogProb {
				sum += x
			}
			if drop[c-1] = float32(base - sum); base-sum != base-sum {
				return errNotFinite("log-probabilities without one head are")
			}
			return nil
		})
		t.HeadScores = map[string]floats{"causal": drop}
		return err
	})
}
