package needle

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Variant says which of the sentences with codes a prompt holds. All variants of a spec have the same haystack, question and
// length.
type Variant string

// The variants: which of needle and decoy a prompt holds. Base is always made.
const (
	Base      Variant = "base"       // needle and decoy
	Donor     Variant = "donor"      // another code in the needle's place; all other tokens are those of Base
	DecoyOnly Variant = "decoy_only" // the needle replaced by haystack: the asked code does not occur
	NoDecoy   Variant = "no_decoy"   // the decoy replaced by haystack
	Absent    Variant = "absent"     // both replaced by haystack
)

// Variants returns all variants.
func Variants() []Variant { return []Variant{Base, Donor, DecoyOnly, NoDecoy, Absent} }

// Prompt is a finished prompt. Spans are byte offsets [start, end) into Text.
type Prompt struct {
	ID       string  `json:"id"`      // the spec's, with "/variant" where that is not base
	SpecID   string  `json:"spec"`    // shared by the variants of a spec and by all tokenizers
	Split    Split   `json:"split"`   //
	Variant  Variant `json:"variant"` //
	Template string  `json:"template"`
	Kind     Kind    `json:"kind,omitempty"` // of Agreement's
	Literal  bool    `json:"literal"`        // the template's question repeats the needle's words
	Wording  int     `json:"wording"`
	Depth    float64 `json:"depth"`          // as asked: share of the haystack before the needle
	Measured float64 `json:"depth_measured"` // needle's first token / Tokens
	Chat     string  `json:"chat"`           // "chat" in the checkpoint's chat template, else "plain"
	Tokens   int     `json:"tokens"`         // of Text, special tokens included
	Text     string  `json:"text"`
	Needle   [2]int  `json:"needle"` // the needle sentence; where it is absent, the haystack that stands in its place
	Question [2]int  `json:"question"`

	Answer     string      `json:"answer"`                // the asked code, also where it does not occur
	AnswerSpan *[2]int     `json:"answer_span,omitempty"` // nil where it does not occur
	Decoys     []DecoyCode `json:"decoys,omitempty"`
	Donor      *DonorText  `json:"donor,omitempty"` // with RealiseOptions.Donors, in Base

	// The decoy's code has a first token of its own; false where no candidate had, and the two differ later.
	DecoyFirst bool `json:"decoy_first"`

	AddSpecial *bool `json:"add_special,omitempty"` // nil: as the tokenizer does by default
}

// DecoyCode is a code in a sentence like the needle about another subject.
type DecoyCode struct {
	Answer string  `json:"answer"`
	Span   *[2]int `json:"span,omitempty"` // nil where it does not occur (absent, no_decoy)
}

// DonorText is the same prompt with another code: same length in bytes and tokens, same spans, all other tokens equal.
type DonorText struct {
	Answer string `json:"answer"`
	Text   string `json:"text"`
}

// Refusal is a spec, or a variant of one, that could not be met.
type Refusal struct {
	ID     string `json:"id"` // as the prompt's would have been
	Reason string `json:"reason"`
}

func (r Refusal) String() string { return r.ID + ": " + r.Reason }

// WriteJSONL writes a prompt file: one object a line, in the order given.
func WriteJSONL(w io.Writer, prompts []Prompt) error {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	for i := range prompts {
		if err := enc.Encode(&prompts[i]); err != nil {
			return fmt.Errorf("prompt %s: %w", prompts[i].ID, err)
		}
	}
	return b.Flush()
}
