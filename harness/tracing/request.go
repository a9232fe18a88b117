package tracing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

// Groups of rows at which heads are patched.
const (
	Last     = "last"     // the row that predicts the answer
	Question = "question" // from the question's first row to that row
	Needle   = "needle"   // the rows of the needle
)

// Groups lists them, cheapest first: all rows from a patch on are computed anew.
func Groups() []string { return []string{Last, Question, Needle} }

// Path is a way from one head to an input of a later one.
type Path struct {
	Source      decoder.Head `json:"source"`
	Destination decoder.Head `json:"destination"`
	Input       string       `json:"input"` // q, k or v
}

// ParsePath reads "L12H3->L18H6.q".
func ParsePath(s string) (Path, error) {
	from, to, found := strings.Cut(s, "->")
	head, input, dot := strings.Cut(to, ".")
	fail := func(err error) (Path, error) {
		return Path{}, &harness.UsageError{Err: err, Advice: "the form is L12H3->L18H6.q, with q, k or v"}
	}
	if !found || !dot {
		return fail(fmt.Errorf("path %q: want SOURCE->DESTINATION.INPUT", s))
	}
	src, err := decoder.ParseHead(strings.TrimSpace(from))
	if err != nil {
		return fail(fmt.Errorf("path %q: %w", s, err))
	}
	dst, err := decoder.ParseHead(strings.TrimSpace(head))
	if err != nil {
		return fail(fmt.Errorf("path %q: %w", s, err))
	}
	p := Path{src, dst, input}
	if err := p.edit(decoder.ScopeLast).Check(); err != nil {
		return fail(fmt.Errorf("path %q: %w", s, err))
	}
	return p, nil
}

func (p Path) String() string { return fmt.Sprintf("%s->%s.%s", p.Source, p.Destination, p.Input) }

func (p Path) edit(scope decoder.Scope) decoder.Edit {
	return decoder.Edit{Op: decoder.OpPath, Source: &p.Source, Input: p.Input, Heads: []decoder.Head{p.Destination}, Scope: scope}
}

// Request asks for a trace.
type Request struct {
	Checkpoint *loader.Checkpoint
	Model      *decoder.Model
	Prompts    *harness.PromptFile // each with a donor
	Heads      []decoder.Head      // nil: all
	Groups     []string            // of Groups
	Pairs      int                 // of so many of the largest heads; 0 = none
	Paths      []Path
	Out        string // folder of the results
	Command    []string
	Done       func(done, of int) // steps, two a prompt where there are pairs; nil: nobody asks
}

// Asked is what decides a trace beside model and prompts.
type Asked struct {
	Heads  []decoder.Head `json:"heads"`
	Groups []string       `json:"groups"`
	Pairs  int            `json:"pairs"`
	Paths  []Path         `json:"paths"`
}

// Check refuses what the model does not have and what makes no sense, before there are prompts.
func (r *Request) Check() error {
	_, err := r.asked()
	return err
}

// asked checks the request and fills in what it leaves open.
func (r *Request) asked() (*Asked, error) {
	s := &r.Checkpoint.Spec
	a := &Asked{Pairs: r.Pairs, Paths: append([]Path{}, r.Paths...)}
	if err := heads.NewSet(r.Heads...).Validate(s.Layers, s.Heads); err != nil {
		return nil, err
	}
	if a.Heads = heads.NewSet(r.Heads...); len(a.Heads) == 0 {
		for l := range s.Layers {
			for h := range s.Heads {
				a.Heads = append(a.Heads, decoder.Head{Layer: l, Index: h})
			}
		}
	}
	for _, g := range r.Groups {
		if !slices.Contains(Groups(), g) {
			return nil, &harness.UsageError{Err: fmt.Errorf("rows %q", g), Advice: "choose from " + strings.Join(Groups(), ", ")}
		}
	}
	for _, g := range Groups() {
		if slices.Contains(r.Groups, g) {
			a.Groups = append(a.Groups, g)
		}
	}
	if len(a.Groups) == 0 || r.Pairs < 0 {
		return nil, &harness.UsageError{Err: fmt.Errorf("%d groups of rows, pairs of %d heads", len(a.Groups), r.Pairs), Advice: "name at least one group; 0 pairs are none"}
	}
	for _, p := range a.Paths {
		if err := heads.NewSet(p.Source, p.Destination).Validate(s.Layers, s.Heads); err != nil {
			return nil, fmt.Errorf("path %s: %w", p, err)
		}
	}
	return a, nil
}

// task is one prompt made ready: up to the first token where answer and donor's answer differ.
type task struct {
	id            string
	ids, donor    []int32 // of equal length; the last row predicts that token
	question      int
	needle        heads.Span
	answer, other int32 // the token here and in the donor
}

// tasks tokenises the prompts and their donors.
func (r *Request) tasks() ([]task, error) {
	prompts, err := r.Prompts.Tokenize(&r.Checkpoint.Spec, r.Checkpoint.Tokenizer, 0)
	if err != nil {
		return nil, err
	}
	var out []task
	for _, p := range prompts {
		t, err := newTask(p, r.Checkpoint.Tokenizer)
		if err != nil {
			return nil, fmt.Errorf("prompt %s: %w", p.Spec.ID, err)
		}
		if slices.Contains(r.Groups, Question) && p.Question == 0 {
			return nil, &harness.UsageError{Err: fmt.Errorf("prompt %s has no question span", p.Spec.ID), Advice: "leave out --rows question"}
		}
		out = append(out, *t)
	}
	return out, nil
}

func newTask(p *harness.Prompt, tok *tokenizer.Tokenizer) (*task, error) {
	s := p.Spec
	if s.Donor == nil {
		return nil, &harness.UsageError{Err: fmt.Errorf("no donor"), Advice: "`headscope prompts MODEL --donors` writes prompts that have one: the same prompt with another code"}
	}
	other, err := tok.AnswerIDs(s.Donor.Text, s.Donor.Answer, tokenizer.Options{AddSpecial: s.AddSpecial == nil || *s.AddSpecial})
	if err != nil {
		return nil, fmt.Errorf("donor's answer %q: %w", s.Donor.Answer, err)
	}
	same := 0
	for same < min(len(p.Answer), len(other)) && p.Answer[same] == other[same] {
		same++
	}
	if same == min(len(p.Answer), len(other)) {
		return nil, fmt.Errorf("answer %q and the donor's %q: no token tells them apart", s.Answer, s.Donor.Answer)
	}
	return &task{
		id: s.ID, ids: slices.Concat(p.IDs, p.Answer[:same]), donor: slices.Concat(p.Donor, other[:same]),
		question: p.Question, needle: p.Needle, answer: p.Answer[same], other: other[same],
	}, nil
}

// rows of a group.
func (t *task) rows(group string) (lo, hi int) {
	switch group {
	case Last:
		return len(t.ids) - 1, len(t.ids)
	case Question:
		return t.question, len(t.ids)
	}
	return t.needle[0], t.needle[1]
}

func (t *task) scope(group string) decoder.Scope {
	return decoder.ScopeRows(t.rows(group))
}

func (t *task) patch(group string, hs ...decoder.Head) decoder.Edit {
	return decoder.Edit{Op: decoder.OpPatch, Heads: hs, Scope: t.scope(group)}
}
