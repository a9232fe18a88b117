package harness

import (
	"fmt"
	"strconv"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

// PassageRequest says which text a model is put to: Text, or IDs, or the prompt named Prompt of the file Prompts, one of the three.
type PassageRequest struct {
	Text       string
	IDs        []int32 // not nil: these tokens in place of a text
	Prompts    string  // a file, or BuiltinPrompts
	Prompt     string  // its id there
	Question   *[2]int // bytes of Text, for edits with scope question or haystack
	NoSpecial  bool    // of Text: leave out what the tokenizer adds by default
	WithAnswer bool    // of a prompt: feed the answer after it
}

// Passage is a tokenised text with what is known of it.
type Passage struct {
	IDs      []int32     // [T]
	Answer   []int32     // fed after them; scopes and spans do not count it
	Tokens   []Token     // of both; Text is empty where the checkpoint has no tokenizer
	Question int         // first question row, 0 where it is not known
	Donor    []int32     // of a prompt that has one, as many as IDs
	Spans    []NamedSpan // what stands where
	Source   PassageSource
}

// NamedSpan is a range of rows.
type NamedSpan struct {
	Name string     `json:"name"` // needle, code, question, decoy, decoy1, ..., answer
	Rows heads.Span `json:"rows"` // [start, end)
}

// PassageSource says where a passage comes from.
type PassageSource struct {
	Kind          string `json:"kind"` // text, ids or prompt
	Prompts       string `json:"prompts,omitempty"`
	PromptsSHA256 string `json:"prompts_sha256,omitempty"`
	Prompt        string `json:"prompt,omitempty"`
}

// NewPassage tokenises what r asks for and checks that the model's window holds it.
func NewPassage(c *loader.Checkpoint, r *PassageRequest) (*Passage, error) {
	var p *Passage
	var err error
	switch {
	case r.Prompts != "":
		p, err = promptPassage(c, r)
	case r.IDs != nil:
		p, err = idsPassage(c, r.IDs)
	default:
		p, err = textPassage(c, r)
	}
	if err != nil {
		return nil, err
	}
	if len(p.IDs) == 0 {
		return nil, usagef("give at least one token of text", "the text is empty")
	}
	if err := (&Prompt{IDs: p.IDs, Answer: p.Answer}).fits(&c.Spec, 0); err != nil {
		return nil, err
	}
	return p, nil
}

// T is the number of tokens, the answer's included.
func (p *Passage) T() int { return len(p.IDs) + len(p.Answer) }

// ask is the passage in the decoder's terms.
func (p *Passage) ask() *decoder.Prompt {
	return &decoder.Prompt{IDs: p.IDs, Answer: p.Answer, Question: p.Question, Donor: p.Donor}
}

// checkEdits refuses edits that the model or the passage cannot take.
func (p *Passage) CheckEdits(s *loader.Spec, edits []decoder.Edit) error {
	if err := CheckEdits(s, edits); err != nil {
		return err
	}
	if err := checkDonors(edits, p.Donor); err != nil {
		return err
	}
	if err := checkMeans(edits); err != nil {
		return err
	}
	return checkRows(s, edits, len(p.IDs), p.Question)
}

// Label is what a token is called in a list: its text in quotes, the tokenizer's name of a token that is not in the text, or its id.
func (t *Token) Label() string {
	switch {
	case t.Text != "":
		return strconv.Quote(t.Text)
	case t.Token != "":
		return t.Token
	}
	return "#" + strconv.Itoa(int(t.ID))
}

func textPassage(c *loader.Checkpoint, r *PassageRequest) (*Passage, error) {
	tokens, err := Tokenize(c.Tokenizer, r.Text, !r.NoSpecial)
	if err != nil {
		return nil, err
	}
	p := &Passage{Tokens: tokens, IDs: idsOf(tokens), Source: PassageSource{Kind: "text"}}
	if r.Question == nil {
		return p, nil
	}
	spec := PromptSpec{Text: r.Text}
	if err := spec.checkSpan("question", *r.Question); err != nil {
		return nil, &UsageError{err, "spans are byte offsets [start, end) into the text"}
	}
	q, err := p.span("question", *r.Question)
	if err != nil {
		return nil, err
	}
	if p.Question = q.Rows[0]; p.Question == 0 {
		return nil, usagef("the question follows the text it is about: spans are byte offsets", "the question begins with the first token: nothing stands before it")
	}
	p.Spans = []NamedSpan{q}
	return p, nil
}

func idsOf(tokens []Token) []int32 {
	ids := make([]int32, len(tokens))
	for i, t := range tokens {
		ids[i] = t.ID
	}
	return ids
}

// span finds the tokens that cover bytes of the text.
func (p *Passage) span(name string, bytes [2]int) (NamedSpan, error) {
	e := tokenizer.Encoding{}
	end := 0
	for _, t := range p.Tokens {
		e.IDs, e.Special = append(e.IDs, t.ID), append(e.Special, t.Added)
		e.Start, e.End = append(e.Start, int32(t.Start)), append(e.End, int32(t.End))
		end = max(end, t.End)
	}
	lo, hi, ok := e.TokenSpan(bytes[0], bytes[1])
	if !ok {
		return NamedSpan{}, &hintError{fmt.Errorf("%s [%d, %d) is lost in tokenisation: no run of tokens covers it", name, bytes[0], bytes[1]),
			"the tokenizer drops or rewrites that text; choose another span"}
	}
	return NamedSpan{name, heads.Span{lo, hi}}, nil
}

func idsPassage(c *loader.Checkpoint, ids []int32) (*Passage, error) {
	p := &Passage{IDs: ids, Source: PassageSource{Kind: "ids"}}
	for _, id := range ids {
		if id < 0 || int(id) >= c.Spec.Vocab {
			return nil, usagef("`headscope tokenize MODEL TEXT` prints ids", "token id %d: the vocabulary has ids 0-%d", id, c.Spec.Vocab-1)
		}
		p.Tokens = append(p.Tokens, decoded(c.Tokenizer, id))
	}
	return p, nil
}

// decoded describes a token that stands in no text; tok may be nil.
func decoded(tok *tokenizer.Tokenizer, id int32) Token {
	t := Token{ID: id}
	if tok != nil {
		t.Token, _ = tok.Token(id)
		t.Text = tok.Decode([]int32{id}, false)
	}
	return t
}

func promptPassage(c *loader.Checkpoint, r *PassageRequest) (*Passage, error) {
	f, err := ReadPrompts(r.Prompts)
	if err != nil {
		return nil, err
	}
	spec, err := f.find(r.Prompt)
	if err != nil {
		return nil, err
	}
	return promptPassageOf(c, f, spec, r.WithAnswer)
}

// promptPassageOf is a prompt of a file as a passage, with its answer fed behind it or without.
func promptPassageOf(c *loader.Checkpoint, f *PromptFile, spec *PromptSpec, withAnswer bool) (*Passage, error) {
	one := *f
	one.Specs = []PromptSpec{*spec}
	prompts, err := one.Tokenize(&c.Spec, c.Tokenizer, 0)
	if err != nil {
		return nil, err
	}
	prompt := prompts[0]
	p := &Passage{IDs: prompt.IDs, Question: prompt.Question, Donor: prompt.Donor, Source: PassageSource{"prompt", f.Source, f.SHA256, spec.ID}}
	if p.Tokens, err = Tokenize(c.Tokenizer, spec.Text, spec.AddSpecial == nil || *spec.AddSpecial); err != nil {
		return nil, err
	}
	for _, s := range []NamedSpan{{"needle", prompt.Needle}, {"code", prompt.Code}} {
		if s.Rows.Len() > 0 { // a variant may lack them
			p.Spans = append(p.Spans, s)
		}
	}
	if spec.Question != nil {
		q, err := p.span("question", *spec.Question)
		if err != nil {
			return nil, err
		}
		p.Spans = append(p.Spans, q)
	}
	for i, d := range spec.Decoys {
		if spec.leavesDecoyOut() {
			break
		}
		name := "decoy"
		if i > 0 {
			name += strconv.Itoa(i)
		}
		s, err := p.span(name, d.Span)
		if err != nil {
			return nil, err
		}
		p.Spans = append(p.Spans, s)
	}
	if withAnswer {
		p.Answer = prompt.Answer
		for _, id := range p.Answer {
			p.Tokens = append(p.Tokens, decoded(c.Tokenizer, id))
		}
		p.Spans = append(p.Spans, NamedSpan{"answer", heads.Span{len(p.IDs), p.T()}})
	}
	return p, nil
}

// find returns the prompt of that id; an empty id stands for the only prompt of a file.
func (f *PromptFile) find(id string) (*PromptSpec, error) {
	if id == "" && len(f.Specs) == 1 {
		return &f.Specs[0], nil
	}
	for i := range f.Specs {
		if f.Specs[i].ID == id {
			return &f.Specs[i], nil
		}
	}
	first, last := f.Specs[0].ID, f.Specs[len(f.Specs)-1].ID
	advice := fmt.Sprintf("it has %d prompts, %q to %q", len(f.Specs), first, last)
	if id == "" {
		return nil, usagef(advice+": name one by its id", "%s: which prompt?", f.Source)
	}
	return nil, usagef(advice, "%s: no prompt has the id %q", f.Source, id)
}
