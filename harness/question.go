package harness

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/headscope/headscope/loader/decoder"
)

// question is what several conditions ask the model alike: control sets of two pools may be the same, and it is computed once.
type question struct {
	decoder.Condition
	of []int // the conditions, by their places
}

// questionsOf lists what is to be computed, in the order of the conditions; last is the model's last layer. An answer is decoded where one
// of them wants it.
func questionsOf(conds []condition, last int) ([]question, error) {
	var out []question
	at := map[string]int{}
	for i := range conds {
		c := &conds[i]
		edits := c.edits
		if !c.probe {
			edits = effective(edits, last)
		}
		text, err := json.Marshal(decoder.Canonical(edits))
		if err != nil {
			return nil, fmt.Errorf("condition %s: %w", c.name, err)
		}
		key := fmt.Sprint(c.probe, string(text))
		k, there := at[key]
		if !there {
			k, at[key] = len(out), len(out)
			out = append(out, question{Condition: decoder.Condition{Edits: edits, Probe: c.probe, ScoreOnly: true}})
		}
		out[k].of = append(out[k].of, i)
		out[k].ScoreOnly = out[k].ScoreOnly && c.scoreOnly
	}
	return out, nil
}

// effective leaves out the heads of the last layer from edits of their outputs at haystack rows: nothing reads those rows any more, so
// the answer is, to the bit, that of the model without the edit.
func effective(edits []decoder.Edit, last int) []decoder.Edit {
	var out []decoder.Edit
	for _, e := range edits {
		switch e.Op {
		case decoder.OpZero, decoder.OpScale, decoder.OpMean, decoder.OpPatch:
			if e.Scope == decoder.ScopeHaystack {
				e.Heads = slices.DeleteFunc(slices.Clone(e.Heads), func(h decoder.Head) bool { return h.Layer == last })
			}
		}
		if len(e.Heads) > 0 {
			out = append(out, e)
		}
	}
	return out
}
