package needle

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/tokenizer"
)

func realised(t testing.TB, tok *tokenizer.Tokenizer, s []Spec, o RealiseOptions) *Set {
	t.Helper()
	set, err := Realise(context.Background(), tok, s, o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// eachTokenizer runs a test on the tiny tokenizers and, where it is in the cache, on SmolLM2's.
func eachTokenizer(t *testing.T, run func(t *testing.T, tok *tokenizer.Tokenizer, codeTokens int)) {
	for _, name := range tinyNames {
		t.Run("tiny_"+name, func(t *testing.T) { run(t, tiny(t, name, nil), tinyCodeTokens) })
	}
	t.Run("SmolLM2", func(t *testing.T) { run(t, smolLM2(t), defaultCodeTokens) })
}

// law reads a finished prompt as a user of the file would, with the tokenizer's public functions, and knows nothing of how it was made.
type law struct {
	t          *testing.T
	tok        *tokenizer.Tokenizer
	p          *Prompt
	enc        *tokenizer.Encoding
	codeTokens int
}

func (l *law) options() tokenizer.Options {
	return tokenizer.Options{AddSpecial: l.p.AddSpecial == nil || *l.p.AddSpecial}
}

func newLaw(t *testing.T, tok *tokenizer.Tokenizer, p *Prompt, codeTokens int) *law {
	t.Helper()
	l := &law{t: t, tok: tok, p: p, codeTokens: codeTokens}
	enc, err := tok.Encode(p.Text, l.options())
	if err != nil {
		t.Fatal(err)
	}
	l.enc = enc
	return l
}

func (l *law) errorf(format string, args ...any) {
	l.t.Helper()
	l.t.Errorf("%s: "+format, append([]any{l.p.ID}, args...)...)
}

// length: the measured number of tokens is what the prompt says and within the budget.
func (l *law) length(budget, tolerance int) {
	if n := len(l.enc.IDs); n != l.p.Tokens || n > budget || n < budget-tolerance {
		l.errorf("%d tokens, said to be %d, want %d less at most %d", n, l.p.Tokens, budget, tolerance)
	}
}

// code: a code has its tokens in the text, the same as an answer, and stands there once.
func (l *law) code(code string, span [2]int) []int32 {
	if l.p.Text[span[0]:span[1]] != code || strings.Count(l.p.Text, code) != 1 {
		l.errorf("%q at %v, %d times", l.p.Text[span[0]:span[1]], span, strings.Count(l.p.Text, code))
		return nil
	}
	lo, hi, ok := l.enc.TokenSpan(span[0]-1, span[1])
	after, err := l.tok.AnswerIDs(l.p.Text, code, l.options())
	if !ok || err != nil || hi-lo != l.codeTokens || !slices.Equal(l.enc.IDs[lo:hi], after) {
		l.errorf("code %s: tokens %v in the text, %v as an answer (%v), want %d", code, l.enc.IDs[lo:hi], after, err, l.codeTokens)
		return nil
	}
	return after
}

func (l *law) absent(code string) {
	if strings.Contains(l.p.Text, code) {
		l.errorf("%s stands in the text", code)
	}
}

// shape: question and answer prefix are whole and last, the needle span is a sentence, nothing special is inside.
func (l *law) shape() {
	p, text := l.p, l.p.Text
	question := text[p.Question[0]:p.Question[1]]
	if !strings.HasSuffix(question, "?") || p.Question[0] < p.Needle[1] {
		l.errorf("question %q at %v, needle at %v", question, p.Question, p.Needle)
	}
	if n := text[p.Needle[0]:p.Needle[1]]; !strings.HasSuffix(n, ".") || n[0] < 'A' || n[0] > 'Z' {
		l.errorf("needle %q is no sentence", n)
	}
	lo, _, ok := l.enc.TokenSpan(p.Needle[0], p.Needle[1])
	if !ok || float64(lo)/float64(p.Tokens) != p.Measured {
		l.errorf("measured depth %g, want %d of %d", p.Measured, lo, p.Tokens)
	}
	for i, special := range l.enc.Special {
		if special && i > 0 {
			l.errorf("token %d of %d was added by the tokenizer", i, len(l.enc.Special))
		}
	}
	if bos, ok := l.tok.ID(l.tok.BOS()); ok && len(l.enc.IDs) > 1 && l.enc.IDs[0] == bos && l.enc.IDs[1] == bos {
		l.errorf("two BOS")
	}
}

// donor: another code of the same size; every other token is the same.
func (l *law) donor(text, code string) {
	other, err := l.tok.Encode(text, l.options())
	if err != nil {
		l.t.Fatal(err)
	}
	span := *l.p.AnswerSpan
	if len(text) != len(l.p.Text) || text[span[0]:span[1]] != code || code == l.p.Answer {
		l.errorf("donor %s is not %s with another code", code, l.p.Answer)
	}
	lo, hi, _ := l.enc.TokenSpan(span[0]-1, span[1])
	if len(other.IDs) != len(l.enc.IDs) {
		l.errorf("the donor has %d tokens, the prompt %d", len(other.IDs), len(l.enc.IDs))
		return
	}
	if !slices.Equal(other.IDs[:lo], l.enc.IDs[:lo]) || !slices.Equal(other.IDs[hi:], l.enc.IDs[hi:]) || slices.Equal(other.IDs, l.enc.IDs) {
		l.errorf("the donor differs outside the code")
	}
	if !slices.Equal(other.Start[:lo], l.enc.Start[:lo]) || !slices.Equal(other.End[hi:], l.enc.End[hi:]) {
		l.errorf("the donor's spans differ outside the code")
	}
}

// sentences cuts the haystack of a generated prompt, where each sentence ends in the only full stops.
func sentences(p *Prompt) []string {
	from := max(0, strings.LastIndex(p.Text[:p.Needle[0]], "user\n")+len("user\n"))
	if p.Chat == string(Plain) {
		from = 0
	}
	var out []string
	for s := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(p.Text[from:p.Question[0]]), "."), ". ") {
		out = append(out, s+".")
	}
	return out
}

// Every promise of Realise, on every tokenizer, variant and depth.
func TestPromises(t *testing.T) {
	const budget = 500
	var all []Spec
	for split, depths := range map[Split][]float64{Detect: {0, 0.5, 0.9}, Test: {0.1, 0.75, 1}, Agreement: {0.25}} {
		all = append(all, specs(t, Options{Seed: 21, Split: split, N: len(depths) * 8, Depths: depths, Templates: TemplateNames()})...)
	}
	want := 0
	for i := range all {
		if want++; all[i].Kind != KindLiteral {
			want += len(Variants()) - 1
		}
	}
	eachTokenizer(t, func(t *testing.T, tok *tokenizer.Tokenizer, codeTokens int) {
		set := realised(t, tok, all, RealiseOptions{Tokens: budget, CodeTokens: codeTokens, Variants: Variants(), Donors: true})
		if len(set.Refusals) > 0 {
			t.Errorf("%d refusals, such as %s", len(set.Refusals), set.Refusals[0])
		}
		byID := map[string]*Prompt{}
		for i := range set.Prompts {
			byID[set.Prompts[i].ID] = &set.Prompts[i]
		}
		if len(byID) != want {
			t.Errorf("%d prompts, want %d", len(byID), want)
		}
		for i := range set.Prompts {
			l := newLaw(t, tok, &set.Prompts[i], codeTokens)
			l.length(budget, 5)
			l.shape()
			checkVariantLaws(l, byID[set.Prompts[i].SpecID])
			list := sentences(l.p)
			slices.Sort(list)
			if n := len(list); len(slices.Compact(list)) != n {
				l.errorf("a sentence stands twice")
			}
		}
		t.Logf("%d prompts: %d exact, at most %d short; %d decoys share the code's first token", set.Report.Prompts, set.Report.Exact, set.Report.MostShort, set.Report.SharedFirst)
	})
}

func checkVariantLaws(l *law, base *Prompt) {
	p := l.p
	if p.Kind == KindLiteral {
		if ids := l.code(p.Answer, *p.AnswerSpan); ids == nil || p.Decoys != nil || p.Variant != Base {
			l.errorf("a decoy %v, or no code", p.Decoys)
		}
		l.donor(p.Donor.Text, p.Donor.Answer)
		return
	}
	decoy := p.Decoys[0]
	if base == nil || p.Question != base.Question && len(p.Text) == len(base.Text) {
		l.errorf("no base prompt, or another question")
		return
	}
	switch p.Variant {
	case Base, Donor:
		ids, other := l.code(p.Answer, *p.AnswerSpan), l.code(decoy.Answer, *decoy.Span)
		if ids == nil || other == nil {
			return
		}
		if slices.Equal(ids, other) || len(p.Answer) != len(decoy.Answer) {
			l.errorf("decoy %s is not a code like %s", decoy.Answer, p.Answer)
		}
		if p.Variant == Base {
			if (ids[0] != other[0]) != p.DecoyFirst {
				l.errorf("code %v, decoy %v: decoy_first %t", ids, other, p.DecoyFirst)
			}
			l.donor(p.Donor.Text, p.Donor.Answer)
		} else {
			newLaw(l.t, l.tok, base, l.codeTokens).donor(p.Text, p.Answer)
		}
		if d := decoy.Span; d[0] < p.Needle[1] && d[1] > p.Needle[0] {
			l.errorf("the decoy stands in the needle")
		}
	case DecoyOnly:
		l.absent(p.Answer)
		l.code(decoy.Answer, *decoy.Span)
	case NoDecoy:
		l.absent(decoy.Answer)
		l.code(p.Answer, *p.AnswerSpan)
	case Absent:
		l.absent(p.Answer)
		l.absent(decoy.Answer)
	}
	if p.Variant == DecoyOnly || p.Variant == Absent {
		if p.AnswerSpan != nil {
			l.errorf("an answer span without an answer")
		}
	}
	if p.Answer != base.Answer && p.Variant != Donor {
		l.errorf("answer %s, the base prompt's is %s", p.Answer, base.Answer)
	}
	// All but needle and decoy is the base prompt's.
	a, b := sentences(p), sentences(base)
	shared := 0
	for _, s := range a {
		if slices.Contains(b, s) {
			shared++
		}
	}
	if missing := len(b) - shared; missing > 2 || missing < 1 && p.Variant != Base {
		l.errorf("%d of the base prompt's %d sentences are missing", missing, len(b))
	}
}

// The same spec is the same experiment for every tokenizer: subject, wording, depth and sentence order.
func TestPairing(t *testing.T) {
	s := specs(t, Options{Seed: 4, Split: Test, N: 40})
	type view struct{ question, before string }
	seen := map[string]view{}
	orders := map[string][]string{}
	eachTokenizer(t, func(t *testing.T, tok *tokenizer.Tokenizer, codeTokens int) {
		set := realised(t, tok, s, RealiseOptions{Tokens: 600, CodeTokens: codeTokens, Chat: Plain})
		for i := range set.Prompts {
			p := &set.Prompts[i]
			v := view{p.Text[p.Question[0]:], strings.ReplaceAll(p.Text[p.Needle[0]:p.Needle[1]], p.Answer, "CODE")}
			if old, ok := seen[p.SpecID]; ok && old != v {
				t.Errorf("%s: %v, for another tokenizer %v", p.ID, v, old)
			}
			seen[p.SpecID] = v
			if p.Depth != s[i].Depth || p.Template != s[i].Template || p.SpecID != s[i].ID {
				t.Errorf("%s: not the spec's depth and template", p.ID)
			}
			sameOrder(t, p, &s[i], orders)
		}
	})
}

// sameOrder: the prompt's full sentences are the first ones of the spec's stream, in its order.
func sameOrder(t *testing.T, p *Prompt, s *Spec, streams map[string][]string) {
	stream := streams[s.ID]
	if stream == nil {
		stream = first(*s, 100)
		streams[s.ID] = stream
	}
	at := 0
	for _, text := range sentences(p) {
		if i := slices.Index(stream, text); i >= 0 {
			if i != at {
				t.Errorf("%s: sentence %d of the stream stands where %d is due", p.ID, i, at)
				return
			}
			at++
		}
	}
	if at < 5 {
		t.Errorf("%s: only %d sentences of the stream", p.ID, at)
	}
}

// The needle stands where the depth says, as nearly as whole sentences allow; the decoy elsewhere.
func TestDepths(t *testing.T) {
	tok := tiny(t, "llama3", nil)
	set := realised(t, tok, specs(t, Options{Seed: 9, Split: Detect, N: 40, Depths: []float64{0, 0.25, 0.5, 0.75, 1}}), RealiseOptions{Tokens: 4000, CodeTokens: tinyCodeTokens, Chat: Plain})
	for i := range set.Prompts {
		p := &set.Prompts[i]
		whole := float64(p.Question[0] - 2 - (p.Needle[1] - p.Needle[0]))
		got := float64(p.Needle[0]) / whole
		if d := got - p.Depth; d < -0.03 || d > 0.03 {
			t.Errorf("%s: depth %.3f in bytes, want %g", p.ID, got, p.Depth)
		}
		if p.Depth == 0 && p.Needle[0] != 0 || p.Depth == 1 && p.Text[p.Needle[1]:p.Needle[1]+2] != "\n\n" {
			t.Errorf("%s: depth %g is not at the end", p.ID, p.Depth)
		}
		if d := float64(p.Decoys[0].Span[0]-p.Needle[0]) / whole; d < 0.1 && d > -0.1 {
			t.Errorf("%s: the decoy is %.3f from the needle", p.ID, d)
		}
	}
}

// The same options give the same bytes, on any number of goroutines.
func TestDeterminism(t *testing.T) {
	tok := tiny(t, "qwen2", nil)
	var files [3]bytes.Buffer
	for i, workers := range []int{1, 3, 8} {
		s := specs(t, Options{Seed: 6, Split: Test, N: 30})
		set := realised(t, tok, s, RealiseOptions{Tokens: 500, CodeTokens: tinyCodeTokens, Variants: Variants(), Donors: true, Workers: workers})
		if err := WriteJSONL(&files[i], set.Prompts); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) || !bytes.Equal(files[0].Bytes(), files[2].Bytes()) {
		t.Error("three runs wrote different files")
	}
}

// Any budget and any code length: a prompt is within the budget, or refused with a reason.
func TestBudgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	eachTokenizer(t, func(t *testing.T, tok *tokenizer.Tokenizer, codeTokens int) {
		refused := 0
		for range 20 {
			o := RealiseOptions{Tokens: 60 + rng.IntN(1500), CodeTokens: codeTokens - 1 + rng.IntN(3), Variants: Variants()}
			s := specs(t, Options{Seed: rng.Uint64(), Split: Detect, N: 1})
			set := realised(t, tok, s, o)
			refused += len(set.Refusals)
			accounted(t, set, s, o)
			for i := range set.Prompts {
				newLaw(t, tok, &set.Prompts[i], o.CodeTokens).length(o.Tokens, max(3, o.Tokens/100))
			}
		}
		t.Logf("%d refusals", refused)
	})
}

// accounted: each wanted prompt is there or refused; a refused base prompt stands for its variants.
func accounted(t testing.TB, set *Set, s []Spec, o RealiseOptions) {
	t.Helper()
	ids := map[string]int{}
	for i := range set.Prompts {
		ids[set.Prompts[i].ID]++
	}
	for _, r := range set.Refusals {
		if ids[r.ID]++; r.Reason == "" {
			t.Errorf("%s: refused without a reason", r.ID)
		}
	}
	for i := range s {
		for _, v := range append([]Variant{Base}, o.Variants...) {
			id := variantID(s[i].ID, v)
			if ids[id] > 1 || ids[id] == 0 && ids[s[i].ID] == 0 {
				t.Errorf("%s: counted %d times", id, ids[id])
			}
		}
	}
}

func FuzzRealise(f *testing.F) {
	f.Add(uint64(1), uint16(300), uint8(6), uint8(0))
	f.Add(uint64(2), uint16(5), uint8(1), uint8(5))
	f.Add(uint64(3), uint16(900), uint8(40), uint8(8))
	var toks []*tokenizer.Tokenizer
	for _, name := range tinyNames {
		toks = append(toks, tiny(f, name, nil))
	}
	f.Fuzz(func(t *testing.T, seed uint64, tokens uint16, codeTokens, which uint8) {
		tok := toks[int(which)%len(toks)]
		o := RealiseOptions{Tokens: 1 + int(tokens)%2000, CodeTokens: 1 + int(codeTokens)%12, Variants: Variants(), Donors: true}
		s := specs(t, Options{Seed: seed, Split: Test, N: 3})
		set := realised(t, tok, s, o)
		accounted(t, set, s, o)
		for i := range set.Prompts {
			l := newLaw(t, tok, &set.Prompts[i], o.CodeTokens)
			l.length(o.Tokens, max(3, o.Tokens/100))
			l.shape()
		}
	})
}

// What cannot be met says why.
func TestRefusals(t *testing.T) {
	tok := tiny(t, "llama2", nil)
	s := specs(t, Options{Split: Test, N: 8})
	for _, c := range []struct {
		o    RealiseOptions
		want string
	}{
		{RealiseOptions{Tokens: 40, CodeTokens: tinyCodeTokens}, "more than the 40 asked for"},
		{RealiseOptions{Tokens: 500, CodeTokens: 40}, "no candidate code has 40 tokens"},
	} {
		set := realised(t, tok, s, c.o)
		if len(set.Prompts) != 0 || len(set.Refusals) != len(s) || set.Report.Refused != len(s) {
			t.Errorf("%+v: %d prompts, %d refusals", c.o, len(set.Prompts), len(set.Refusals))
			continue
		}
		for i, r := range set.Refusals {
			if r.ID != s[i].ID || !strings.Contains(r.Reason, c.want) {
				t.Errorf("%v, want %q", r, c.want)
			}
		}
	}
}

func TestRealiseErrors(t *testing.T) {
	tok := tiny(t, "llama2", nil)
	s := specs(t, Options{Split: Test, N: 2})
	for want, o := range map[string]RealiseOptions{
		"0 tokens":         {},
		`variant "both"`:   {Tokens: 100, Variants: []Variant{"both"}},
		`chat "yes"`:       {Tokens: 100, Chat: "yes"},
		"no chat template": {Tokens: 100, Chat: Force},
	} {
		if _, err := Realise(context.Background(), tok, s, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", o, err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(fmt.Errorf("stopped by the user"))
	if _, err := Realise(ctx, tok, s, RealiseOptions{Tokens: 300}); err == nil || !strings.Contains(err.Error(), "stopped by the user") {
		t.Errorf("error %v of a cancelled context", err)
	}
}
