package decoder

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestDecoy: a decoy's log-probabilities are those of the same tokens fed as the answer, on every path, and the rest of the reply
// does not notice it.
func TestDecoy(t *testing.T) {
	conds := []Condition{
		{}, {Edits: edits(t, "zero:L1H2@all")}, {Edits: edits(t, "uniform:L0H3@question")}, {Edits: edits(t, "zero:L2H1@question")},
		{Edits: edits(t, "zero:L0H1@answer")},
	}
	var with, without, asAnswer []*Prompt
	for i, n := range []int{4, 4, 1, 70} { // the last longer than the largest row bucket
		p := Prompt{IDs: tokens(uint64(600+i), 60-i), Question: 50, Answer: tokens(uint64(610+i), 3)}
		d, a := p, p
		d.Decoy, a.Answer = tokens(uint64(620+i), n), tokens(uint64(620+i), n)
		with, without, asAnswer = append(with, &d), append(without, &p), append(asAnswer, &a)
	}
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		options := []AskOptions{{Batch: 1, MaxNew: 4, DecodeBatch: 2}, {Batch: smallBatch(be), DecodeBatch: 2}}
		with, without, asAnswer := with, without, asAnswer
		if be.Kind != KindGo && !slow() { // fewer program shapes
			options, with, without, asAnswer = options[:1], with[:2], without[:2], asAnswer[:2]
		}
		for _, o := range options {
			got, plain := ask(t, m, with, conds, o), ask(t, m, without, conds, o)
			want := ask(t, m, asAnswer, conds, AskOptions{Batch: 1})
			for i, p := range with {
				for k := range conds {
					name := fmt.Sprintf("%+v, prompt %d, condition %d", o, i, k)
					r := got[i][k]
					if len(r.Decoy) != len(p.Decoy) {
						t.Fatalf("%s: %d log-probabilities for %d tokens", name, len(r.Decoy), len(p.Decoy))
					}
					for j, x := range r.Decoy {
						if d := math.Abs(x - want[i][k].LogProb[j]); !(d <= 2e-5) {
							t.Errorf("%s, token %d: %g, fed as the answer %g", name, j, x, want[i][k].LogProb[j])
						}
					}
					for j, x := range r.LogProb {
						if d := math.Abs(x - plain[i][k].LogProb[j]); !(d <= 2e-5) {
							t.Errorf("%s, answer token %d: %g, without a decoy %g", name, j, x, plain[i][k].LogProb[j])
						}
					}
					if !slices.Equal(r.Greedy, plain[i][k].Greedy) {
						t.Errorf("%s: greedy %v, without a decoy %v", name, r.Greedy, plain[i][k].Greedy)
					}
				}
			}
		}
	})
}
