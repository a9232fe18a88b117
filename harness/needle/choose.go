package needle

import (
	"slices"
	"strings"

	"github.com/headscope/headscope/loader/tokenizer"
)

// choice is the codes that a tokenizer takes from a spec's candidates.
type choice struct {
	code, decoy, donor string
	decoyFirst         bool // code and decoy differ in their first token
	next               int  // the candidate code to begin with when this choice does not hold
}

// choose takes the first code from d.next on that fits, with the first decoy and donor that match it.
func (r *realiser) choose(d *draft) (bool, error) {
	for i := d.next; i < len(d.Codes); i++ {
		code := d.Codes[i]
		ids, err := r.codeIDs(d, d.Subject, code)
		if err != nil {
			return false, err
		}
		if ids == nil {
			continue
		}
		c := choice{code: code, next: i + 1}
		if c.decoy, c.decoyFirst, err = r.match(d, d.DecoySubject, d.Decoys, ids, code); err != nil {
			return false, err
		}
		if c.donor, _, err = r.match(d, d.Subject, d.Donors, ids, code); err != nil {
			return false, err
		}
		if c.decoy != "" && c.donor != "" {
			d.choice = c
			return true, nil
		}
	}
	return false, nil
}

// match returns the first candidate as long as code, in bytes and tokens, that differs from it in the first token; where there is
// none, the first that differs in any. "" means there is none at all.
func (r *realiser) match(d *draft, subject string, candidates []string, ids []int32, code string) (string, bool, error) {
	second := ""
	for _, c := range candidates {
		if len(c) != len(code) {
			continue
		}
		other, err := r.codeIDs(d, subject, c)
		if err != nil {
			return "", false, err
		}
		if other == nil || slices.Equal(other, ids) {
			continue
		}
		if other[0] != ids[0] {
			return c, true, nil
		}
		if second == "" {
			second = c
		}
	}
	return second, false, nil
}

// codeIDs returns the tokens of a code in its needle sentence, its leading space included, if they are CodeTokens many and also what
// the code adds to the answer prefix; else nil.
func (r *realiser) codeIDs(d *draft, subject, code string) ([]int32, error) {
	sentence := d.w.sentence(subject, code)
	in, err := r.tok.Encode(sentence, tokenizer.Options{})
	if err != nil {
		return nil, err
	}
	ids := codeTokens(in, strings.Index(sentence, code), len(code))
	if len(ids) != r.o.CodeTokens {
		return nil, nil
	}
	prefix, err := r.tok.Encode(d.prefix, tokenizer.Options{})
	if err != nil {
		return nil, err
	}
	answer, err := r.continuation(prefix, code, tokenizer.Options{})
	if err != nil || !slices.Equal(ids, answer) {
		return nil, err
	}
	return ids, nil
}

// codeTokens returns the ids of a code of n bytes at a byte offset, with the space before it.
func codeTokens(e *tokenizer.Encoding, at, n int) []int32 {
	lo, hi, ok := e.TokenSpan(at-1, at+n)
	if !ok {
		return nil
	}
	return e.IDs[lo:hi]
}

// continuation is tokenizer.AnswerIDs for a prompt that is already encoded; nil where the answer changes the prompt's tokens.
func (r *realiser) continuation(prompt *tokenizer.Encoding, answer string, o tokenizer.Options) ([]int32, error) {
	whole, err := r.tok.Encode(prompt.Text+" "+answer, o)
	if err != nil {
		return nil, err
	}
	before, after := ownTokens(prompt), ownTokens(whole)
	if len(after) < len(before) || !slices.Equal(before, after[:len(before)]) {
		return nil, nil
	}
	return after[len(before):], nil
}

// ownTokens leaves out what the post-processor appends.
func ownTokens(e *tokenizer.Encoding) []int32 {
	n := len(e.IDs)
	for n > 0 && e.Special[n-1] && e.End[n-1] == 0 {
		n--
	}
	return e.IDs[:n]
}
