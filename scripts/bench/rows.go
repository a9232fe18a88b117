package main

import (
	"fmt"

	"github.com/headscope/headscope/loader/decoder"
)

const (
	rowPromptTokens = 500
	questionTokens  = 25
)

// rowPrograms measures what a condition on the question's rows costs on top of the plain pass.
func (b *bench) rowPrograms() error {
	for _, dtype := range b.dtypeList() {
		if err := b.withModel(dtype, func(m *decoder.Model) error { return b.rowsOf(m, dtype) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) rowsOf(m *decoder.Model, dtype string) error {
	p := &decoder.Prompt{IDs: b.sequences(1, rowPromptTokens)[0], Question: rowPromptTokens - questionTokens}
	ask := func(extra int) contender {
		conds := append([]decoder.Condition{{}}, b.questionEdits(extra)...)
		return contender{fmt.Sprintf("%d conditions", extra), func() error {
			return m.Ask(b.ctx, []*decoder.Prompt{p}, conds, decoder.AskOptions{}, func(int, int, *decoder.Reply) error { return nil })
		}}
	}
	counts := []int{4, 16}
	rounds := b.o.round(7, 3)
	t, err := race(rounds, ask(0), ask(counts[0]), ask(counts[1]))
	if err != nil {
		return err
	}
	for i, n := range counts {
		var cost []float64 // of all n conditions
		var ratio []float64
		for r, plain := range t[0].rounds {
			c := t[i+1].rounds[r] - plain
			cost, ratio = append(cost, 1000*c/float64(n)), append(ratio, float64(n)*plain/c)
		}
		b.report.add(figure{
			Section: "b", What: fmt.Sprintf("%s %d conditions on %d rows over %d", dtype, n, questionTokens, rowPromptTokens),
			Ours: median(cost), Other: 1000 * t[0].median(), Unit: "ms a condition | a full pass", Spread: t[i+1].spread(), Rounds: rounds,
			Ratio: intervalOf(ratio),
			Note:  fmt.Sprintf("rows alone would allow %d; compile %.1f s", rowPromptTokens/questionTokens, t[i+1].compile()),
		})
	}
	return nil
}

// questionEdits switches one head off each, at the question's rows.
func (b *bench) questionEdits(n int) []decoder.Condition {
	s := &b.ckpt.Spec
	var out []decoder.Condition
	for i := range n {
		h := decoder.Head{Layer: (7 * i) % s.Layers, Index: i % s.Heads}
		out = append(out, decoder.Condition{Edits: []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{h}, Scope: decoder.ScopeQuestion}}})
	}
	return out
}
