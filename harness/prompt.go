package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

// Prompt is a tokenised prompt. Spans are token ranges [start, end).
type Prompt struct {
	Spec     *PromptSpec
	IDs      []int32
	Needle   heads.Span // tokens whose text overlaps the needle
	Code     heads.Span // tokens whose text overlaps the answer in the needle, its leading space included
	Question int        // first question row, 0 where the file has no question span
	Answer   []int32    // what the right answer adds after the prompt
	Donor    []int32    // tokens of the prompt with another code, as many as IDs; nil where the file gives none
	Decoy    []int32    // what the first decoy would add, as many tokens as Answer; nil where NoDecoy says why

	DecoyAt heads.Span // tokens of the first decoy in the text, its leading space included; empty where it does not stand there

	NoCopy  string // why copy_tf cannot be asked of this prompt; empty where it can
	NoDecoy string // why there is no decoy to compare with

	means *decoder.Means // for mode mean, once known
	draft []int32        // what the unmodified model answers, once known: the decoder's guess at an edited model's answer
}

// Tokenize encodes each prompt whole and once, and finds its spans from the tokens' byte offsets. maxNew is the longest greedy
// answer: prompt and answer have to fit the model's window. Errors name file, line and prompt.
func (f *PromptFile) Tokenize(spec *loader.Spec, tok *tokenizer.Tokenizer, maxNew int) ([]*Prompt, error) {
	if tok == nil {
		return nil, errNoTokenizer()
	}
	out := make([]*Prompt, len(f.Specs))
	for i := range f.Specs {
		p, err := tokenizePrompt(&f.Specs[i], tok)
		if err == nil {
			err = p.fits(spec, maxNew)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: prompt %s: %w", f.Source, f.Specs[i].ID, err)
		}
		out[i] = p
	}
	return out, nil
}

func tokenizePrompt(s *PromptSpec, tok *tokenizer.Tokenizer) (*Prompt, error) {
	o := tokenizer.Options{AddSpecial: s.AddSpecial == nil || *s.AddSpecial}
	enc, err := tok.Encode(s.Text, o)
	if err != nil {
		return nil, err
	}
	p := &Prompt{Spec: s, IDs: enc.IDs}
	if s.Variant == "" {
		if err := p.place(enc); err != nil {
			return nil, err
		}
	}
	if s.Question != nil {
		q, err := tokenSpan(enc, "question", *s.Question)
		if err != nil {
			return nil, err
		}
		if q[0] == 0 {
			return nil, &hintError{fmt.Errorf("question [%d, %d) begins with the first token: nothing stands before it", s.Question[0], s.Question[1]),
				"the question follows the text it is about: spans are byte offsets"}
		}
		p.Question = q[0]
	}
	for i, d := range s.Decoys {
		if s.leavesDecoyOut() {
			break
		}
		span := withSpace(s.Text, d.Span)
		at, err := tokenSpan(enc, fmt.Sprintf("span of decoy %d", i), span)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			p.DecoyAt = at
		}
	}
	if p.Answer, err = tok.AnswerIDs(s.Text, s.Answer, o); err != nil {
		return nil, fmt.Errorf("answer %q: %w", s.Answer, err)
	}
	if len(p.Answer) == 0 {
		return nil, fmt.Errorf("answer %q has no tokens", s.Answer)
	}
	if in := p.IDs[p.Code[0]:p.Code[1]]; !slices.Equal(in, p.Answer) {
		p.NoCopy = fmt.Sprintf("the answer's tokens %v are not those in the text, %v", p.Answer, in)
	}
	if d := s.Donor; d != nil {
		enc, err := tok.Encode(d.Text, o)
		if err != nil {
			return nil, fmt.Errorf("donor: %w", err)
		}
		if p.Donor = enc.IDs; len(p.Donor) != len(p.IDs) {
			return nil, fmt.Errorf("donor: got %d tokens, want the prompt's %d", len(p.Donor), len(p.IDs))
		}
	}
	return p, p.addDecoy(tok, o)
}

// place finds needle and answer among the tokens.
func (p *Prompt) place(enc *tokenizer.Encoding) (err error) {
	s := p.Spec
	if p.Needle, err = tokenSpan(enc, "needle", s.Needle); err != nil {
		return err
	}
	p.Code, err = tokenSpan(enc, "answer_span", withSpace(s.Text, s.AnswerSpan))
	return err
}

// withSpace adds the space before a span of text to it: it belongs to the first token.
func withSpace(text string, span [2]int) [2]int {
	if span[0] > 0 && text[span[0]-1] == ' ' {
		span[0]--
	}
	return span
}

// addDecoy takes the first decoy as the answer's rival. Only one with as many tokens compares: each token costs log-probability.
func (p *Prompt) addDecoy(tok *tokenizer.Tokenizer, o tokenizer.Options) error {
	if len(p.Spec.Decoys) == 0 {
		p.NoDecoy = "the prompt has no decoy"
		return nil
	}
	name := p.Spec.Decoys[0].Answer
	ids, err := tok.AnswerIDs(p.Spec.Text, name, o)
	if err != nil {
		return fmt.Errorf("decoy %q: %w", name, err)
	}
	if len(ids) != len(p.Answer) {
		p.NoDecoy = fmt.Sprintf("decoy %q has %d tokens, the answer %d", name, len(ids), len(p.Answer))
		return nil
	}
	p.Decoy = ids
	return nil
}

func tokenSpan(enc *tokenizer.Encoding, what string, bytes [2]int) (heads.Span, error) {
	lo, hi, ok := enc.TokenSpan(bytes[0], bytes[1])
	if !ok {
		return heads.Span{}, &hintError{
			fmt.Errorf("%s [%d, %d) is lost in tokenisation: no run of tokens covers %q", what, bytes[0], bytes[1], enc.Text[bytes[0]:bytes[1]]),
			"the tokenizer drops or rewrites that text; choose another span",
		}
	}
	return heads.Span{lo, hi}, nil
}

func (p *Prompt) fits(spec *loader.Spec, maxNew int) error {
	if n := len(p.IDs) + max(len(p.Answer), maxNew); n > spec.Longest() {
		return &hintError{
			fmt.Errorf("%d tokens, %d with the answer: longer than the model's window of %d", len(p.IDs), n, spec.MaxPositions),
			"shorten the prompt, or lower --max-new",
		}
	}
	return nil
}

// ask is the prompt in the decoder's terms; the needle is its only span.
func (p *Prompt) ask() *decoder.Prompt {
	return &decoder.Prompt{
		IDs: p.IDs, Question: p.Question, Answer: p.Answer, Decoy: p.Decoy, Draft: p.draft, Donor: p.Donor, Needle: p.Needle, Means: p.means,
		Spans: [][2]int32{{int32(p.Needle[0]), int32(p.Needle[1])}},
	}
}

// byVariant returns the prompts with a needle, and the others.
func byVariant(all []*Prompt) (needle, variants []*Prompt) {
	for _, p := range all {
		if p.Spec.Variant == "" {
			needle = append(needle, p)
		} else {
			variants = append(variants, p)
		}
	}
	return needle, variants
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
