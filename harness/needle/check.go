package needle

import (
	"fmt"
	"slices"
	"strings"
)

// check makes the base prompt of a page, after it has read everything that Realise promises from the encoding of the whole text. A
// reason is returned where something does not hold.
func (r *realiser) check(d *draft, g *page) (*Prompt, string, error) {
	text := g.enc.Text
	p := r.prompt(d, g, Base)
	p.DecoyFirst = d.decoyFirst
	if why := r.sound(g); why != "" {
		return nil, why, nil
	}
	answer, decoy := codeSpan(g.needle, text, d.code), codeSpan(g.dec, text, d.decoy)
	p.AnswerSpan = &answer
	p.Decoys = []DecoyCode{{d.decoy, &decoy}}
	for _, code := range []string{d.code, d.decoy} {
		if n := strings.Count(text, code); n != 1 {
			return nil, fmt.Sprintf("the code %s stands %d times in the text", code, n), nil
		}
	}
	if strings.Contains(text, d.donor) {
		return nil, fmt.Sprintf("the donor's code %s stands in the text", d.donor), nil
	}
	var ids [2][]int32
	for i, c := range []struct {
		code string
		span [2]int
	}{{d.code, answer}, {d.decoy, decoy}} {
		ids[i] = codeTokens(g.enc, c.span[0], len(c.code))
		after, err := r.continuation(g.enc, c.code, r.enc)
		if err != nil {
			return nil, "", err
		}
		if why := r.sameTokens(c.code, ids[i], after); why != "" {
			return nil, why, nil
		}
	}
	if slices.Equal(ids[0], ids[1]) || (ids[0][0] == ids[1][0]) == d.decoyFirst {
		return nil, fmt.Sprintf("code %s and decoy %s have other tokens in the whole text", d.code, d.decoy), nil
	}
	why, err := r.checkDonor(d, g, answer)
	if err != nil || why != "" {
		return nil, why, err
	}
	if r.o.Donors {
		p.Donor = &DonorText{d.donor, donorText(text, answer, d.donor)}
	}
	return p, "", nil
}

// sound checks what holds for every variant: spans that are not lost, no special tokens in the haystack, one BOS, nothing appended.
func (r *realiser) sound(g *page) string {
	e := g.enc
	for _, s := range []struct {
		name string
		span [2]int
	}{{"needle", g.needle}, {"question", g.question}, {"decoy", g.dec}} {
		if s.span[1] == 0 {
			continue // not in this variant
		}
		lo, _, ok := e.TokenSpan(s.span[0], s.span[1])
		if !ok {
			return fmt.Sprintf("%s [%d, %d) is lost in tokenisation", s.name, s.span[0], s.span[1])
		}
		if s.name == "question" && int(e.Start[lo]) < g.haystack[1] {
			return "the question's first token also covers the end of the haystack"
		}
	}
	if n := len(e.IDs); e.Special[n-1] {
		return "the tokenizer appends a special token after the prompt"
	}
	if len(e.IDs) > 1 && e.IDs[0] == r.bos && e.IDs[1] == r.bos {
		return "the prompt begins with two BOS tokens"
	}
	for i, id := range e.IDs {
		if r.special[id] && int(e.Start[i]) >= g.haystack[0] && int(e.End[i]) <= g.haystack[1] && !e.Special[i] {
			return fmt.Sprintf("the haystack holds the special token %q", e.Text[e.Start[i]:e.End[i]])
		}
	}
	return ""
}

func (r *realiser) sameTokens(code string, in, after []int32) string {
	if len(in) != r.o.CodeTokens || !slices.Equal(in, after) {
		return fmt.Sprintf("the code %s has the tokens %v in the text and %v as an answer, want the same %d", code, in, after, r.o.CodeTokens)
	}
	return ""
}

// checkDonor compares the prompt with the one that holds the donor's code: all tokens but the code's are the same.
func (r *realiser) checkDonor(d *draft, g *page, answer [2]int) (string, error) {
	other, err := r.encode(donorText(g.enc.Text, answer, d.donor))
	if err != nil {
		return "", err
	}
	lo, hi, ok := g.enc.TokenSpan(answer[0]-1, answer[1])
	same := ok && len(other.IDs) == len(g.enc.IDs)
	for i := 0; same && i < len(other.IDs); i++ {
		in := i >= lo && i < hi
		same = in || (other.IDs[i] == g.enc.IDs[i] && other.Start[i] == g.enc.Start[i] && other.End[i] == g.enc.End[i])
	}
	if !same {
		return fmt.Sprintf("the donor's code %s changes tokens outside the code %s", d.donor, d.code), nil
	}
	ids := codeTokens(other, answer[0], len(d.donor))
	after, err := r.continuation(other, d.donor, r.enc)
	if err != nil {
		return "", err
	}
	if why := r.sameTokens(d.donor, ids, after); why != "" {
		return why, nil
	}
	return "", nil
}

func donorText(text string, answer [2]int, donor string) string {
	return text[:answer[0]] + donor + text[answer[1]:]
}

// codeSpan places a code inside its sentence.
func codeSpan(sentence [2]int, text, code string) [2]int {
	at := sentence[0] + strings.Index(text[sentence[0]:sentence[1]], code)
	return [2]int{at, at + len(code)}
}

// prompt fills in what needs no check.
func (r *realiser) prompt(d *draft, g *page, v Variant) *Prompt {
	p := &Prompt{
		ID: variantID(d.ID, v), SpecID: d.ID, Split: d.Split, Variant: v, Template: d.Template, Wording: d.Wording,
		Depth: d.Depth, Chat: r.frame.name, Tokens: g.tokens(), Text: g.enc.Text, Needle: g.needle, Question: g.question,
		Answer: d.code, AddSpecial: r.frame.addSpecial,
	}
	if lo, _, ok := g.enc.TokenSpan(g.needle[0], g.needle[1]); ok {
		p.Measured = float64(lo) / float64(g.tokens())
	}
	return p
}

func variantID(id string, v Variant) string {
	if v == Base {
		return id
	}
	return id + "/" + string(v)
}
