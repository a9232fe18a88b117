package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// preTokenizer cuts a piece into smaller ones, appended to out.
type preTokenizer interface {
	cut(p piece, sc *scratch, out []piece) ([]piece, error)
}

// capture is a stretch of a piece: what a pattern matched, or what lies between two matches.
type capture struct {
	start, end int
	match      bool
}

// pattern divides a text into captures that cover it without gaps; empty matches are left out.
type pattern interface {
	captures(text string, out []capture) ([]capture, error)
}

// appendCapture adds the match [s, e) and the text between it and the capture before it.
func appendCapture(out []capture, s, e int) []capture {
	done := 0
	if len(out) > 0 {
		done = out[len(out)-1].end
	}
	if s > done {
		out = append(out, capture{done, s, false})
	}
	if e > s {
		out = append(out, capture{s, e, true})
	}
	return out
}

type literal string

func (l literal) captures(text string, out []capture) ([]capture, error) {
	for pos := 0; ; {
		i := strings.Index(text[pos:], string(l))
		if i < 0 {
			return appendCapture(out, len(text), len(text)), nil
		}
		out = appendCapture(out, pos+i, pos+i+len(l))
		pos += i + len(l)
	}
}

// runeClass matches single characters.
type runeClass func(rune) bool

func (in runeClass) captures(text string, out []capture) ([]capture, error) {
	for i, r := range text {
		if in(r) {
			out = appendCapture(out, i, i+utf8.RuneLen(r))
		}
	}
	return appendCapture(out, len(text), len(text)), nil
}

type regex struct{ re *regexp2.Regexp }

// newRegex compiles an Oniguruma pattern. Negative lookahead, which all the patterns in use need, rules out package regexp.
func newRegex(expr string) (regex, error) {
	re, err := regexp2.Compile(expr, regexp2.None)
	if err != nil {
		return regex{}, fmt.Errorf("regular expression %q: %v: %w", expr, err, ErrUnsupported)
	}
	return regex{re}, nil
}

func (x regex) captures(text string, out []capture) ([]capture, error) {
	runes, pos := 0, 0
	advance := func(to int) int { // regexp2 counts runes; walk along once
		for ; runes < to; runes++ {
			_, n := utf8.DecodeRuneInString(text[pos:])
			pos += n
		}
		return pos
	}
	m, err := x.re.FindStringMatch(text)
	for m != nil && err == nil {
		s := advance(m.Index)
		out = appendCapture(out, s, advance(m.Index+m.Length))
		m, err = x.re.FindNextMatch(m)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: split pattern: %w", err)
	}
	return appendCapture(out, len(text), len(text)), nil
}

// behavior says what becomes of the matches of a split.
type behavior string

const (
	removed            behavior = "Removed"
	isolated           behavior = "Isolated"
	mergedWithPrevious behavior = "MergedWithPrevious"
	mergedWithNext     behavior = "MergedWithNext"
	contiguous         behavior = "Contiguous"
)

// split cuts along a pattern.
type split struct {
	pattern  pattern
	behavior behavior
	invert   bool // what lies between the matches is the match
}

func (s split) cut(p piece, sc *scratch, out []piece) ([]piece, error) {
	caps, err := s.pattern.captures(p.text, sc.captures[:0])
	if err != nil {
		return nil, err
	}
	sc.captures = caps
	if s.invert {
		for i := range caps {
			caps[i].match = !caps[i].match
		}
	}
	sc.cuts = s.behavior.join(caps, sc.cuts[:0])
	for _, c := range sc.cuts {
		out = append(out, p.slice(c.start, c.end))
	}
	return out, nil
}

// join applies the behaviour to captures that cover a text.
func (b behavior) join(caps, out []capture) []capture {
	for i, c := range caps {
		joined := false
		switch n := len(out); b {
		case removed:
			joined = c.match
		case mergedWithPrevious:
			joined = i > 0 && c.match && !caps[i-1].match
			if joined {
				out[n-1].end = c.end
			}
		case mergedWithNext:
			joined = i > 0 && !c.match && caps[i-1].match
			if joined {
				out[n-1].end = c.end
			}
		case contiguous:
			joined = i > 0 && c.match == caps[i-1].match
			if joined {
				out[n-1].end = c.end
			}
		}
		if !joined {
			out = append(out, c)
		}
	}
	return out
}

// digits cuts at numbers: each character its own piece, or each run.
func digits(individual bool) split {
	if individual {
		return split{pattern: runeClass(unicode.IsNumber), behavior: isolated}
	}
	return split{pattern: runeClass(unicode.IsNumber), behavior: contiguous}
}

// leadingSpace is ByteLevel's add_prefix_space.
type leadingSpace struct{}

func (leadingSpace) cut(p piece, _ *scratch, out []piece) ([]piece, error) {
	if !strings.HasPrefix(p.text, " ") {
		p = prepend{" "}.normalize(p)
	}
	return append(out, p), nil
}

// metaspace writes spaces as a visible character, with one before the text according to scheme.
type metaspace struct {
	replacement string
	scheme      string // "always", "first" (only where the text begins), "never"
	split       bool   // cut before each replacement
}

func (m metaspace) cut(p piece, sc *scratch, out []piece) ([]piece, error) {
	p = replace{" ", m.replacement}.normalize(p)
	wanted := m.scheme == "always" || m.scheme == "first" && p.origin() == 0
	if wanted && !strings.HasPrefix(p.text, m.replacement) {
		p = prepend{m.replacement}.normalize(p)
	}
	if !m.split {
		return append(out, p), nil
	}
	return split{pattern: literal(m.replacement), behavior: mergedWithNext}.cut(p, sc, out)
}
