package decoder

import (
	"math"
	"slices"
	"testing"
)

// TestTablesOfPrompts: prompts on both sides of the length at which a rotary table changes, asked together, each have the table of their own
// length. Their continuations are transformers', through the switch where they cross it; scores are those of the float64 reference with the
// table of prompt and answer.
func TestTablesOfPrompts(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		for _, name := range []string{"llama_dynamic", "llama_longrope", "phi3_longrope"} {
			if be.Kind == KindGo || slow() {
				t.Run(name, func(t *testing.T) { tablesOfPrompts(t, be, name) })
			}
		}
	})
}

func tablesOfPrompts(t *testing.T, be *Backend, name string) {
	m, c := parityModel(t, be, name, "float32")
	limit := m.Spec.Tables[0].VariesBeyond()
	var prompts []*Prompt
	below := 0
	golden := paritySequences(t, name)
	for _, s := range golden {
		prompts = append(prompts, &Prompt{IDs: s.IDs, Question: len(s.IDs) - 2, Donor: s.IDs})
		if len(s.IDs) <= limit {
			below++
		}
	}
	if below == 0 || below == len(prompts) {
		t.Fatalf("%d of %d prompts are within %d tokens: nothing changes", below, len(prompts), limit)
	}
	conds := []Condition{{}, {Edits: edits(t, "zero:L0H1@question")}, {Edits: edits(t, "scale=-1.5:L1H0@all")}}
	o := AskOptions{Batch: 2, MaxNew: len(golden[0].Greedy), DecodeBatch: 2}
	together := ask(t, m, prompts, append(conds[:2:2], Condition{Edits: edits(t, "patch:L0H1@last")}), o)
	for i, p := range prompts {
		if got := together[i][0].Greedy; !slices.Equal(got, golden[i].Greedy) {
			t.Errorf("prompt %d: got %v, want %v", i, got, golden[i].Greedy)
		}
		// The prompt is its own donor, which changes nothing as long as its table does not.
		same := golden[i].Greedy
		if m.crosses(p, &o) {
			same = same[:limit-len(p.IDs)+1]
		}
		if got := together[i][2].Greedy; len(got) != o.MaxNew || !slices.Equal(got[:len(same)], same) {
			t.Errorf("prompt %d, its own donor: got %v, want %v first", i, got, same)
		}
	}
	// A fed answer is scored in a pass of its own length with the prompt, longer ones than the switch too. The greedy one stays what it is
	// without it.
	ref := reference(t, c)
	for i, p := range prompts {
		p.Answer = golden[i].Greedy[:10]
	}
	for i, rs := range ask(t, m, prompts, conds, o) {
		if !slices.Equal(rs[0].Greedy, golden[i].Greedy) {
			t.Errorf("prompt %d beside a fed answer: got %v, want %v", i, rs[0].Greedy, golden[i].Greedy)
		}
		for k, r := range rs {
			p := prompts[i]
			tr, err := ref.Forward(slices.Concat(p.IDs, p.Answer), gainsOf(conds[k].Edits, p))
			if err != nil {
				t.Fatal(err)
			}
			for j, id := range p.Answer {
				want := summarise(tr.Logits[len(p.IDs)-1+j]).logProb[id]
				if d := math.Abs(r.LogProb[j] - want); !(d <= tolState) {
					t.Errorf("prompt %d, condition %d, token %d: log-probability %g, want %g", i, k, j, r.LogProb[j], want)
				}
			}
		}
	}
}
