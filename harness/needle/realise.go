package needle

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/headscope/headscope/loader/tokenizer"
)

// RealiseOptions say what the specs become for one tokenizer. Only Tokens has to be given.
type RealiseOptions struct {
	Tokens     int       `json:"tokens"`              // of a prompt, special tokens and chat format included; never exceeded
	CodeTokens int       `json:"code_tokens"`         // of every code, in the text as in the answer; 0 = 4
	Tolerance  int       `json:"tolerance,omitempty"` // how many tokens a prompt may be short of Tokens; 0 = 1 %, at least 3
	Chat       Chat      `json:"chat"`                // "" = Auto
	Variants   []Variant `json:"variants,omitempty"`  // nil = Base; Base is always made
	Donors     bool      `json:"donors,omitempty"`    // fill Prompt.Donor
	Workers    int       `json:"-"`                   // 0 = one a processor; does not change the result
}

// Set is what became of a list of specs.
type Set struct {
	Prompts  []Prompt  // in the specs' order, the variants of one together, in the order of Variants()
	Refusals []Refusal // in the specs' order
	Report   Report
}

// Report sums a set up.
type Report struct {
	Specs       int       `json:"specs"`
	Prompts     int       `json:"prompts"`
	Refused     int       `json:"refused"`      // refusals
	Exact       int       `json:"exact"`        // prompts of exactly Tokens tokens
	MostShort   int       `json:"most_short"`   // largest Tokens less measured tokens
	SharedFirst int       `json:"shared_first"` // base prompts whose decoy has the code's first token
	Chat        string    `json:"chat"`         // "chat" or "plain"
	Haystack    *Haystack `json:"haystack,omitempty"`
}

const defaultCodeTokens = 4

// Realise writes the prompts of the specs for a tokenizer. It fails on options that cannot be met by any spec, and on a chat template
// that is not known; what one spec cannot meet is a Refusal.
func Realise(ctx context.Context, tok *tokenizer.Tokenizer, specs []Spec, o RealiseOptions) (*Set, error) {
	r, err := newRealiser(tok, o)
	if err != nil {
		return nil, err
	}
	outcomes := make([]outcome, len(specs))
	if err := r.all(ctx, specs, outcomes); err != nil {
		return nil, err
	}
	set := &Set{Report: Report{Specs: len(specs), Chat: r.frame.name}}
	for i := range outcomes {
		set.Prompts = append(set.Prompts, outcomes[i].prompts...)
		set.Refusals = append(set.Refusals, outcomes[i].refusals...)
		set.Report.Haystack = specs[i].haystack
	}
	set.Report.count(set, o.Tokens)
	return set, nil
}

func (rep *Report) count(s *Set, tokens int) {
	rep.Prompts, rep.Refused = len(s.Prompts), len(s.Refusals)
	for i := range s.Prompts {
		p := &s.Prompts[i]
		if p.Tokens == tokens {
			rep.Exact++
		}
		rep.MostShort = max(rep.MostShort, tokens-p.Tokens)
		if p.Variant == Base && !p.DecoyFirst {
			rep.SharedFirst++
		}
	}
}

// all runs one over the specs on several goroutines; the order of outcomes is that of specs.
func (r *realiser) all(ctx context.Context, specs []Spec, outcomes []outcome) error {
	workers := r.o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(workers, len(specs)) {
		wg.Go(func() {
			for i := range next {
				out, err := r.one(&specs[i])
				if err != nil {
					cancel(fmt.Errorf("needle: %s: %w", specs[i].ID, err))
					return
				}
				outcomes[i] = out
			}
		})
	}
feed:
	for i := range specs {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// realiser holds what all specs share; it does not change after newRealiser but for the fillers, which are locked.
type realiser struct {
	tok     *tokenizer.Tokenizer
	o       RealiseOptions
	enc     tokenizer.Options
	frame   frame
	special map[int32]bool
	bos     int32 // -1 without one

	mu      sync.Mutex
	fillers map[Split]*fillers
}

func newRealiser(tok *tokenizer.Tokenizer, o RealiseOptions) (*realiser, error) {
	if tok == nil {
		return nil, fmt.Errorf("needle: no tokenizer")
	}
	if o.CodeTokens == 0 {
		o.CodeTokens = defaultCodeTokens
	}
	if o.Tolerance == 0 {
		o.Tolerance = max(3, o.Tokens/100)
	}
	if o.Tokens <= 0 || o.CodeTokens < 0 || o.Tolerance < 0 {
		return nil, fmt.Errorf("needle: %d tokens, codes of %d, tolerance %d: want positive numbers", o.Tokens, o.CodeTokens, o.Tolerance)
	}
	for _, v := range o.Variants {
		if !slices.Contains(Variants(), v) {
			return nil, fmt.Errorf("needle: variant %q: want one of %v", v, Variants())
		}
	}
	r := &realiser{tok: tok, o: o, special: map[int32]bool{}, bos: -1, fillers: map[Split]*fillers{}}
	var err error
	switch {
	case o.Chat == Plain, (o.Chat == "" || o.Chat == Auto) && tok.ChatTemplate() == "":
		r.frame = plainFrame()
	case o.Chat == "", o.Chat == Auto, o.Chat == Force:
		if r.frame, err = chatFrame(tok); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("needle: chat %q: want %s, %s or %s", o.Chat, Auto, Plain, Force)
	}
	r.enc.AddSpecial = r.frame.addSpecial == nil || *r.frame.addSpecial
	for _, a := range tok.AddedTokens() {
		if a.Special {
			r.special[a.ID] = true
		}
	}
	if id, ok := tok.ID(tok.BOS()); ok && tok.BOS() != "" {
		r.bos = id
	}
	return r, nil
}

func (r *realiser) encode(text string) (*tokenizer.Encoding, error) {
	return r.tok.Encode(text, r.enc)
}

// wants says whether a variant is to be made.
func (r *realiser) wants(v Variant) bool {
	return v == Base || slices.Contains(r.o.Variants, v)
}

// outcome is what became of one spec.
type outcome struct {
	prompts  []Prompt
	refusals []Refusal
}

// draft is a spec on its way to a prompt.
type draft struct {
	*Spec
	w                wording
	question, prefix string
	choice
}

// one realises a spec. Candidates are chosen on their sentences alone; should the whole text say otherwise, the next one is tried.
func (r *realiser) one(s *Spec) (outcome, error) {
	const attempts = 4
	t := templateByName(s.Template)
	if t == nil || !s.Split.valid() || s.Wording < 0 || s.Wording >= len(t.wordings(s.Split)) {
		return outcome{}, fmt.Errorf("no wording %d of template %q in split %q", s.Wording, s.Template, s.Split)
	}
	d := &draft{Spec: s, w: t.wordings(s.Split)[s.Wording]}
	d.question, d.prefix = d.w.ask(s.Subject)
	reason := ""
	for range attempts {
		ok, err := r.choose(d)
		if err != nil {
			return outcome{}, err
		}
		if !ok {
			if reason == "" {
				reason = fmt.Sprintf("no candidate code has %d tokens that are the same in the text and as an answer, with a decoy and a donor to match", r.o.CodeTokens)
			}
			break
		}
		page, why, err := r.fit(d)
		if err != nil {
			return outcome{}, err
		}
		if why != "" {
			reason = why
			break
		}
		p, why, err := r.check(d, page)
		if err != nil {
			return outcome{}, err
		}
		if why == "" {
			p.Literal, p.Kind = t.kind == KindDecoy, s.Kind
			if s.Kind == KindLiteral {
				return r.withoutDecoy(d, page, p)
			}
			return r.variants(d, page, p)
		}
		reason = why
	}
	return outcome{refusals: []Refusal{{s.ID, reason}}}, nil
}
