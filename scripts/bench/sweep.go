package main

import (
	"fmt"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// sweepSets is how many control sets section g switches off at the question's rows, beside the retrieval heads.
const sweepSets = 99

// sweepPrefills is how many whole passes a prompt the sets are held against.
const sweepPrefills = 5

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
	conds := func(scope decoder.Scope, decoded int, matched []heads.Set) []decoder.Condition {
		out := append([]decoder.Condition{{}}, zeroed(append([]heads.Set{s.retrieval}, matched...), scope)...)
		for i := range out {
			out[i].ScoreOnly = i >= decoded
		}
		return out
	}
	ask := func(conds []decoder.Condition) func() error {
		return func() error {
			_, err := s.ask(conds, nil)
			return err
		}
	}
	prefills := func() error { // asked one by one, so that nothing is shared
		for range sweepPrefills {
			if err := ask([]decoder.Condition{{ScoreOnly: true}})(); err != nil {
				return err
			}
		}
		return nil
	}
	rounds := b.o.round(2, 1)
	t, err := race(rounds,
		contender{"99 sets on question rows, scored", ask(conds(decoder.ScopeQuestion, 0, s.matched))},
		contender{"5 prefills of all rows", prefills},
		contender{"99 sets on question rows, 5 answers decoded", ask(conds(decoder.ScopeQuestion, sweepPrefills, s.matched))},
		contender{"5 conditions on all rows, decoded", ask(conds(decoder.ScopeAll, sweepPrefills, s.matched[:sweepPrefills-2]))})
	if err != nil {
		return err
	}
	for i, f := range []figure{
		{What: fmt.Sprintf("%s %d sets scored on question rows against %d prefills of all, %d prompts", dtype, sweepSets, sweepPrefills, len(prompts)), Target: 1},
		{What: fmt.Sprintf("%s the same as a study asks: %d answers decoded, layers of whole passes shared", dtype, sweepPrefills)},
	} {
		ours, other := t[2*i], t[2*i+1]
		f.Section, f.Unit, f.Rounds = "g", "s", rounds
		f.Ours, f.Other, f.Spread, f.Ratio = ours.median(), other.median(), ours.spread(), speedup(ours, other)
		f.Note = fmt.Sprintf("%.0f ms a set and prompt", 1000*ours.median()/float64(len(prompts)*(sweepSets+1)))
		b.report.add(f)
	}
	return nil
}
