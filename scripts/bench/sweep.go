package main

import (
	"fmt"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// sweepSets is how many control sets section g switches off at the question's rows, beside the retrieval heads.
const sweepSets = 99

// sweepDecoded is how many of them have their answers decoded.
const sweepDecoded = 3

// sweep is section g: a randomisation of 99 control sets on question rows against 5 conditions in whole passes.
func (b *bench) sweep() error {
	for _, dtype := range b.dtypeList() {
		if err := b.withModel(dtype, func(m *decoder.Model) error { return b.sweepOf(m, dtype) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) sweepOf(m *decoder.Model, dtype string) error {
	prompts := b.prompts[:min(b.o.pick(40, 4), len(b.prompts))]
	s := newStudy(b.ctx, m, b.ckpt, prompts)
	if err := s.detect(); err != nil {
		return err
	}
	if err := s.chooseSets(nil, 0, sweepSets); err != nil {
		return err
	}
	ask := func(scope decoder.Scope, matched []heads.Set) func() error {
		conds := append([]decoder.Condition{{}}, zeroed(append([]heads.Set{s.retrieval}, matched...), scope)...)
		for i := range conds { // as a study asks them: the first sets are decoded, all are scored
			conds[i].ScoreOnly = i >= 2+sweepDecoded
		}
		return func() error {
			_, err := s.ask(conds, nil)
			return err
		}
	}
	rounds := b.o.round(1, 1)
	t, err := race(rounds,
		contender{"99 sets on question rows", ask(decoder.ScopeQuestion, s.matched)},
		contender{"5 conditions on all rows", ask(decoder.ScopeAll, s.matched[:3])})
	if err != nil {
		return err
	}
	b.report.add(figure{
		Section: "g", What: fmt.Sprintf("%s %d sets on question rows against 5 conditions on all, %d prompts", dtype, sweepSets, len(prompts)),
		Ours: t[0].median(), Other: t[1].median(), Unit: "s", Spread: t[0].spread(), Rounds: rounds, Ratio: speedup(t[0], t[1]), Target: 1,
		Note: fmt.Sprintf("%.0f ms a set and prompt", 1000*t[0].median()/float64(len(prompts)*(sweepSets+1))),
	})
	return nil
}
