package needle

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/headscope/headscope/loader/tokenizer"
)

// variants adds the other variants to a base prompt. The same sentences replace the needle in DecoyOnly and Absent, and the decoy in
// NoDecoy and Absent, so that the four are a cross of two factors.
func (r *realiser) variants(d *draft, base *page, p *Prompt) (outcome, error) {
	out := outcome{prompts: []Prompt{*p}}
	if r.wants(Donor) {
		q := *p
		q.ID, q.Variant, q.Donor = variantID(d.ID, Donor), Donor, nil
		q.Text, q.Answer = donorText(p.Text, *p.AnswerSpan, d.donor), d.donor
		out.prompts = append(out.prompts, q)
	}
	if !r.wants(DecoyOnly) && !r.wants(NoDecoy) && !r.wants(Absent) {
		return out, nil
	}
	rng := d.stream("replacements")
	used := setOf(base.body)
	noNeedle, why1, err := r.replace(d, base, &swap{slot: needleSlot, used: used, rng: rng})
	if err != nil {
		return outcome{}, err
	}
	noDecoy, why2, err := r.replace(d, base, &swap{slot: decoySlot, used: used, rng: rng})
	if err != nil {
		return outcome{}, err
	}
	var neither *page
	why3 := why1 + why2
	if why3 == "" && r.wants(Absent) {
		both := base.layout
		both.needle, both.decoy = noNeedle.layout.needle, noDecoy.layout.decoy
		if neither, err = r.compose(d, both); err != nil {
			return outcome{}, err
		}
		if short := r.o.Tokens - neither.tokens(); short < 0 || short > r.o.Tolerance {
			// Tokens that reach over the end of a sentence: other short sentences then replace the decoy.
			if neither, why3, err = r.replace(d, noNeedle, &swap{slot: decoySlot, used: used, rng: rng}); err != nil {
				return outcome{}, err
			}
		}
	}
	for _, v := range []struct {
		variant Variant
		page    *page
		why     string
	}{{DecoyOnly, noNeedle, why1}, {NoDecoy, noDecoy, why2}, {Absent, neither, why3}} {
		if !r.wants(v.variant) {
			continue
		}
		if v.why == "" {
			v.why = r.checkVariant(d, v.page, v.variant)
		}
		if v.why != "" {
			out.refusals = append(out.refusals, Refusal{variantID(d.ID, v.variant), v.why})
			continue
		}
		out.prompts = append(out.prompts, *r.variantPrompt(d, v.page, v.variant))
	}
	return out, nil
}

// withoutDecoy is a prompt of KindLiteral: short sentences stand where the decoy stood. It has no other variants.
func (r *realiser) withoutDecoy(d *draft, base *page, p *Prompt) (outcome, error) {
	g, why, err := r.replace(d, base, &swap{slot: decoySlot, used: setOf(base.body), rng: d.stream("replacements")})
	if err != nil {
		return outcome{}, err
	}
	if why == "" {
		why = r.checkVariant(d, g, NoDecoy)
	}
	if why != "" {
		return outcome{refusals: []Refusal{{d.ID, why}}}, nil
	}
	q := r.prompt(d, g, Base)
	q.Literal, q.Kind = p.Literal, p.Kind
	span := codeSpan(g.needle, g.enc.Text, d.code)
	q.AnswerSpan = &span
	if r.o.Donors {
		q.Donor = &DonorText{d.donor, donorText(g.enc.Text, span, d.donor)}
	}
	return outcome{prompts: []Prompt{*q}}, nil
}

type slotName int

const (
	needleSlot slotName = iota
	decoySlot
)

// swap is the replacement of one sentence by short ones.
type swap struct {
	slot slotName
	used map[string]bool // sentences of the prompt, and then those of the replacement
	rng  *rand.Rand
}

// replace puts short sentences in the place of needle or decoy such that the whole keeps its length.
func (r *realiser) replace(d *draft, base *page, s *swap) (*page, string, error) {
	f, err := r.fillersOf(d.Spec)
	if err != nil {
		return nil, "", err
	}
	span := base.needle
	if s.slot == decoySlot {
		span = base.dec
	}
	room := slotTokens(base.enc, span) + r.o.Tokens - base.tokens()
	var taken []string
	g, why, err := r.approach(func(off int) (*page, error) {
		for _, t := range taken {
			delete(s.used, t)
		}
		var fill filling
		for less := range r.o.Tolerance + 1 {
			var ok bool
			if fill, ok = f.take(room-off-less, s.used, s.rng); ok {
				break
			}
		}
		taken = fill.text
		l := base.layout
		if s.slot == decoySlot {
			l.decoy = strings.Join(fill.text, " ")
		} else {
			l.needle = strings.Join(fill.text, " ")
		}
		return r.compose(d, l)
	})
	return g, why, err
}

// slotTokens counts the tokens that begin in a sentence or in the space before it.
func slotTokens(e *tokenizer.Encoding, span [2]int) int {
	n := 0
	for i, s := range e.Start {
		if int(s) >= span[0]-1 && int(s) < span[1] && !e.Special[i] {
			n++
		}
	}
	return n
}

// checkVariant checks a page that lacks the needle, the decoy or both.
func (r *realiser) checkVariant(d *draft, g *page, v Variant) string {
	if why := r.sound(g); why != "" {
		return why
	}
	text := g.enc.Text
	for _, c := range []struct {
		code string
		in   bool
	}{{d.code, v == NoDecoy}, {d.decoy, v == DecoyOnly}, {d.donor, false}} {
		if n := strings.Count(text, c.code); (n == 1) != c.in || n > 1 {
			return fmt.Sprintf("the code %s stands %d times in the text", c.code, n)
		}
	}
	return ""
}

func (r *realiser) variantPrompt(d *draft, g *page, v Variant) *Prompt {
	p := r.prompt(d, g, v)
	p.DecoyFirst = d.decoyFirst
	p.Literal, _ = Literal(d.Template)
	p.Decoys = []DecoyCode{{Answer: d.decoy}}
	if v == DecoyOnly {
		span := codeSpan(g.dec, g.enc.Text, d.decoy)
		p.Decoys[0].Span = &span
	}
	if v == NoDecoy {
		span := codeSpan(g.needle, g.enc.Text, d.code)
		p.AnswerSpan = &span
	}
	return p
}
