package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder is a stage of the way back from tokens to text.
type decoder interface {
	decode(tokens []string) []string
}

type decoders []decoder

func (ds decoders) decode(tokens []string) []string {
	for _, d := range ds {
		tokens = d.decode(tokens)
	}
	return tokens
}

// byteLevelDecoder reads the byte alphabet.
type byteLevelDecoder struct{}

func (byteLevelDecoder) decode(tokens []string) []string {
	var b []byte
	for _, t := range tokens {
		b = appendBytes(b, t)
	}
	return []string{lossy(string(b), nil)}
}

type replaceDecoder struct{ pattern, content string }

func (d replaceDecoder) decode(tokens []string) []string {
	out := make([]string, len(tokens))
	for i, t := range tokens {
		out[i] = strings.ReplaceAll(t, d.pattern, d.content)
	}
	return out
}

// byteFallbackDecoder turns runs of <0xXX> tokens into text; a run that is not valid UTF-8 becomes one U+FFFD per byte.
type byteFallbackDecoder struct{}

func (byteFallbackDecoder) decode(tokens []string) []string {
	out := make([]string, 0, len(tokens))
	var run []byte
	flush := func() {
		switch {
		case len(run) == 0:
		case utf8.Valid(run):
			out = append(out, string(run))
		default:
			out = append(out, strings.Repeat("\uFFFD", len(run)))
		}
		run = run[:0]
	}
	for _, t := range tokens {
		if len(t) == 6 && strings.HasPrefix(t, "<0x") && t[5] == '>' {
			if b, err := strconv.ParseUint(t[3:5], 16, 8); err == nil {
				run = append(run, byte(b))
				continue
			}
		}
		flush()
		out = append(out, t)
	}
	flush()
	return out
}

type fuseDecoder struct{}

func (fuseDecoder) decode(tokens []string) []string { return []string{strings.Join(tokens, "")} }

// stripDecoder takes up to start, stop copies of a character off the two ends of each token.
type stripDecoder struct {
	content     string // one character
	start, stop int
}

func (d stripDecoder) decode(tokens []string) []string {
	out := make([]string, len(tokens))
	for i, t := range tokens {
		for range min(d.start, len(t)) {
			t = strings.TrimPrefix(t, d.content)
		}
		for range min(d.stop, len(t)) {
			t = strings.TrimSuffix(t, d.content)
		}
		out[i] = t
	}
	return out
}
