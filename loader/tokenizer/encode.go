package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Options say how a text is encoded. The zero value is HF's encode with add_special_tokens=False: special tokens that are
// written out in the text are recognised, none is added.
type Options struct {
	AddSpecial       bool // add what the post-processor adds (BOS, EOS)
	AllowInvalidUTF8 bool // read each ill-formed stretch as U+FFFD instead of failing
	LiteralSpecial   bool // special tokens written in the text ("<|eot_id|>") are plain text
}

// ErrInvalidUTF8 is wrapped by the error of Encode for a text that is not valid UTF-8.
var ErrInvalidUTF8 = errors.New("invalid UTF-8")

// ErrPrefixChanged is wrapped by the error of AnswerIDs when the answer changes the tokens of the prompt.
var ErrPrefixChanged = errors.New("the answer changes the tokens of the prompt")

// Encode returns the tokens of text. It is safe for concurrent use. It fails on invalid UTF-8 (unless allowed) and on texts
// of 2 GiB or more.
func (t *Tokenizer) Encode(text string, o Options) (*Encoding, error) {
	e, err := t.encode(text, o)
	if err != nil {
		return nil, err
	}
	if o.AddSpecial {
		for _, id := range t.post.suffix {
			e.add(id, span{}, true)
		}
	}
	return e, nil
}

// encode is Encode without the post-processor's suffix.
func (t *Tokenizer) encode(text string, o Options) (*Encoding, error) {
	if len(text) > math.MaxInt32 {
		return nil, fmt.Errorf("tokenizer: text of %d bytes: got more than %d", len(text), math.MaxInt32)
	}
	e := &Encoding{Text: text}
	clean := text
	var back []int32
	if at := firstInvalid(text); at >= 0 {
		if !o.AllowInvalidUTF8 {
			return nil, fmt.Errorf("tokenizer: text: %w at byte %d", ErrInvalidUTF8, at)
		}
		clean = lossy(text, &back)
	}
	e.grow(len(clean)/4 + 8)
	if o.AddSpecial {
		for _, id := range t.post.prefix {
			e.add(id, span{}, true)
		}
	}
	first := len(e.IDs)
	r := run{Tokenizer: t, literal: o.LiteralSpecial, out: e, scratch: t.pool.Get().(*scratch)}
	r.text(clean)
	r.scratch.release()
	t.pool.Put(r.scratch)
	if r.err != nil {
		return nil, r.err
	}
	if t.post.trim {
		for i := first; i < len(e.IDs); i++ {
			at := t.post.trimSpan(clean, t.names[e.IDs[i]], i == first, span{e.Start[i], e.End[i]})
			e.Start[i], e.End[i] = at.start, at.end
		}
	}
	if back != nil {
		for i := range e.IDs {
			e.Start[i], e.End[i] = back[e.Start[i]], back[e.End[i]]
		}
	}
	return e, nil
}

// run is one pass of a text through the pipeline.
type run struct {
	*Tokenizer
	*scratch
	literal bool
	out     *Encoding
	err     error
}

// text cuts out the added tokens of the raw text and normalizes what is left between them.
func (r *run) text(s string) {
	r.raw.split(s, r.literal, func(start, end int) {
		p := r.normalizer.normalize(piece{text: s[start:end], base: int32(start)})
		r.normalized.split(p.text, r.literal, func(start, end int) {
			r.words(p.slice(start, end))
		}, func(id int32, start, end int) {
			r.out.add(id, p.span(start, end), false)
		})
	}, func(id int32, start, end int) {
		r.out.add(id, span{int32(start), int32(end)}, false)
	})
}

// words cuts a piece into words and adds the tokens of each.
func (r *run) words(p piece) {
	if r.err != nil {
		return
	}
	cur := append(r.pieces[0][:0], p)
	next := r.pieces[1][:0]
	for _, pt := range r.preTokenizers {
		next = next[:0]
		for _, q := range cur {
			if next, r.err = pt.cut(q, r.scratch, next); r.err != nil {
				return
			}
		}
		cur, next = next, cur
	}
	r.pieces = [2][]piece{cur, next}
	for _, w := range cur {
		tokens, in := r.model.word(w, r.scratch)
		pos := 0
		for _, k := range tokens {
			r.out.add(k.id, in.span(pos, pos+int(k.width)), false)
			pos += int(k.width)
		}
	}
}

// AnswerIDs returns the tokens that answer adds after prompt: those of prompt+sep+answer less those of prompt, where sep is
// one space unless prompt ends in white space. An answer that changes the prompt's tokens is an error that wraps
// [ErrPrefixChanged]: such an answer is not a continuation of that prompt.
func (t *Tokenizer) AnswerIDs(prompt, answer string, o Options) ([]int32, error) {
	before, err := t.encode(prompt, o)
	if err != nil {
		return nil, fmt.Errorf("prompt: %w", err)
	}
	sep := " "
	if last, _ := utf8.DecodeLastRuneInString(prompt); unicode.IsSpace(last) {
		sep = ""
	}
	whole, err := t.encode(prompt+sep+answer, o)
	if err != nil {
		return nil, fmt.Errorf("prompt with answer %q: %w", answer, err)
	}
	n := len(before.IDs)
	for i, id := range before.IDs {
		if i >= len(whole.IDs) || whole.IDs[i] != id {
			return nil, fmt.Errorf("tokenizer: answer %q: %w from token %d of %d on", answer, ErrPrefixChanged, i, n)
		}
	}
	return whole.IDs[n:len(whole.IDs):len(whole.IDs)], nil
}

// Decode returns the text of ids, with the file's decoder; invalid UTF-8 becomes U+FFFD as in the reference. Ids that the
// tokenizer does not know are left out. skipSpecial leaves out special tokens. The text of a slice of ids need not be a
// slice of the text: use offsets for that.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		if tok, ok := t.Token(id); ok && !(skipSpecial && t.special[tok]) {
			tokens = append(tokens, tok)
		}
	}
	if t.decoder == nil {
		return strings.Join(tokens, " ")
	}
	return strings.Join(t.decoder.decode(tokens), "")
}
