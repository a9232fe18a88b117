package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
	"github.com/headscope/headscope/stats"
)

// decodedRows are the rows that produced the greedy answer, as they stand among those looked at.
type decodedRows struct {
	wu    int // the first of all steps; -1: not looked at
	locos int // the first of the steps that spell the answer
}

// wantsDecoded tells whether a detector counts the decoded answer, and leaves out those that do not.
func (o *observer) wantsDecoded() bool {
	o.copies = o.asks("wu_step", "wu_set") && len(o.greedy) > 0 && o.kept(o.text, "wu_step", "wu_set")
	if !o.asks("locos") {
		return o.copies
	}
	steps, text := answerSteps(o.r.o.Checkpoint, o.greedy, o.p.Spec.Answer)
	if !o.kept(text, "locos") {
		return o.copies
	}
	if len(steps) == 0 {
		o.leaveOut("the decoded answer does not hold the right one", "locos")
		return o.copies
	}
	o.steps = steps
	return true
}

// kept tells whether a detection that decodes counts the answer; else it leaves the detectors out.
func (o *observer) kept(text string, names ...string) bool {
	recall := stats.Rouge1(o.p.Spec.Answer, text, true).Recall
	if recall > fewestRouge {
		return true
	}
	o.leaveOut(fmt.Sprintf("the decoded answer has a ROUGE-1 recall of %.2g, want more than %g", recall, fewestRouge), names...)
	return false
}

// answerSteps lists the decoding steps that spell the answer, as the code of Gema et al. 2026 does: those whose tokens are the answer's
// own, else those whose texts, put together, hold it in any case of letters. Decoding ends there at the first newline or end token: text is
// what was said by then. No steps where the answer was not said.
func answerSteps(c *loader.Checkpoint, greedy []int32, answer string) (steps []int, text string) {
	tok := c.Tokenizer
	end := slices.IndexFunc(greedy, func(id int32) bool {
		name, _ := tok.Token(id)
		return slices.Contains(c.Spec.EOS, id) || name == "<0x0A>" || tok.Decode([]int32{id}, false) == "\n"
	})
	if end >= 0 {
		greedy = greedy[:end]
	}
	text = strings.TrimSpace(tok.Decode(greedy, true))
	if own, err := tok.Encode(answer, tokenizer.Options{}); err == nil && len(own.IDs) > 0 {
		for i := 0; i+len(own.IDs) <= len(greedy); i++ {
			if slices.Equal(greedy[i:i+len(own.IDs)], own.IDs) {
				for j := range own.IDs {
					steps = append(steps, i+j)
				}
				return steps, text
			}
		}
	}
	var said strings.Builder
	var ends []int
	for _, id := range greedy {
		said.WriteString(strings.ToLower(tok.Decode([]int32{id}, false)))
		ends = append(ends, said.Len())
	}
	want := strings.ToLower(answer)
	from, start := strings.Index(said.String(), want), 0
	if from < 0 {
		return nil, text
	}
	for i, e := range ends {
		if e > from && start < from+len(want) {
			steps = append(steps, i)
		}
		start = e
	}
	return steps, text
}

// lookDecoded adds the rows that produced the greedy answer.
func (o *observer) lookDecoded() *decodedRows {
	t, d := len(o.p.IDs), &decodedRows{wu: -1}
	if o.copies {
		d.wu = o.look(t-1, t-1+len(o.greedy), nil)
	}
	d.locos = len(o.rows)
	for _, s := range o.steps {
		o.rows = append(o.rows, decoder.LookAt{Row: t - 1 + s, Contrast: &decoder.Contrast{Token: o.greedy[s], Bare: true}})
	}
	return d
}

// keys is how many keys the rows of n steps of an answer see, all of the first n or those listed.
func (o *observer) keys(n int, steps []int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = len(o.p.IDs) + i
		if steps != nil {
			out[i] = len(o.p.IDs) + steps[i]
		}
	}
	return out
}

func (o *observer) scoreDecoded(v heads.View, d *decodedRows) {
	if len(o.steps) > 0 {
		o.score("locos", v.Locos(d.locos, o.keys(len(o.steps), o.steps), o.p.Needle))
	}
	if d.wu < 0 {
		return
	}
	step, set := v.Wu(d.wu, o.greedy, o.p.IDs, o.p.Needle)
	o.score("wu_step", step)
	o.score("wu_set", set)
	for j, id := range o.greedy {
		if v.Next[d.wu+j] != id || v.Fragile[d.wu+j] {
			o.t.Fragile = true
		}
	}
}

// decodeAgain looks at the rows of a decoded answer that is not the fed one.
func (o *observer) decodeAgain(ctx context.Context) error {
	o.rows = nil
	d := o.lookDecoded()
	v, err := o.observe(ctx, o.p.IDs, o.greedy[:len(o.greedy)-1], o.p.needleTokens(len(o.p.IDs))[:1])
	if err == nil {
		o.scoreDecoded(v, d)
	}
	return err
}
