package heads

import "github.com/headscope/headscope/loader/decoder"

// Label says what a head's hits fall on.
type Label string

const (
	// LabelCode: most hits fall on the code, which is the answer.
	LabelCode Label = "code"
	// LabelRepeatedWord: most hits fall on a token equal to the prompt's last token. Such a head follows a
	// duplicate; argmax_last counts it all the same.
	LabelRepeatedWord Label = "repeated-word"
	// LabelBeforeCode: most hits fall on the token before the code.
	LabelBeforeCode Label = "before-code"
	// LabelNeedle: most hits fall on other tokens of the needle.
	LabelNeedle Label = "needle"
	// LabelOther: none of these holds for more than half of the hits, or there are none.
	LabelOther Label = "other"
)

// Hits says where in the needle the hits of one head fall: the prompts whose last row has its arg max there.
type Hits struct {
	Head         decoder.Head `json:"head"`
	Total        int          `json:"hits"`
	Offsets      []int        `json:"offsets"` // Offsets[i]: hits on the needle's token i
	Code         int          `json:"code"`    // hits on a token of the code
	RepeatedWord int          `json:"repeated_word"`
	BeforeCode   int          `json:"before_code"` // hits on the token before the code, whether or not it is a repeated word
	Elsewhere    int          `json:"elsewhere"`   // prompts whose arg max lies outside the needle on a token equal to the last one
	Label        Label        `json:"label"`

	rest int // hits on other tokens of the needle
}

// Hits returns one entry for each head of set, in set order. A hit on a code token counts as code even if that
// token also equals the last one. Offsets is as long as the longest needle. It panics if the model lacks a
// head of set.
func (o *Observations) Hits(set Set) []Hits {
	if err := set.Validate(o.layers, o.heads); err != nil {
		panic("heads: " + err.Error())
	}
	longest := 0
	for _, p := range o.list {
		longest = max(longest, p.Needle.Len())
	}
	out := make([]Hits, len(set))
	for i, h := range set {
		hits := Hits{Head: h, Offsets: make([]int, longest)}
		for _, p := range o.list {
			hits.add(p, int(p.Rows[0].Argmax[h.Layer*o.heads+h.Index]))
		}
		hits.Label = hits.label()
		out[i] = hits
	}
	return out
}

func (h *Hits) add(p Observation, at int) {
	repeated := p.Tokens[at] == p.Tokens[len(p.Tokens)-1]
	if !p.Needle.Contains(at) {
		if repeated && at != len(p.Tokens)-1 {
			h.Elsewhere++
		}
		return
	}
	h.Total++
	h.Offsets[at-p.Needle[0]]++
	if at == p.Code[0]-1 {
		h.BeforeCode++
	}
	switch {
	case p.Code.Contains(at):
		h.Code++
	case repeated:
		h.RepeatedWord++
	case at != p.Code[0]-1:
		h.rest++
	}
}

func (h *Hits) label() Label {
	switch {
	case 2*h.Code > h.Total:
		return LabelCode
	case 2*h.RepeatedWord > h.Total:
		return LabelRepeatedWord
	case 2*h.BeforeCode > h.Total:
		return LabelBeforeCode
	case 2*h.rest > h.Total:
		return LabelNeedle
	}
	return LabelOther
}
