package report

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/headscope/headscope/harness"
)

// example is what the best heads look at in one prompt, from its last row.
type example struct {
	Prompt string
	Tokens int
	Heads  []exampleHead
	Scale  []string // classes of the shades
}

type exampleHead struct {
	Head   string
	Shares string // of the weight
	Text   []piece
}

// piece is a token, or the tokens left out between two.
type piece struct {
	Text   string
	Class  string
	Title  string
	Hidden bool // tokens left out
	Break  bool // a line ends here
}

const (
	needleContext = 12   // tokens shown on either side of the needle
	shownWeight   = 0.02 // tokens outside of needle and question that are shown
)

func newExample(r *harness.Result) *example {
	ex := r.Example
	if ex == nil || len(ex.Tokens) == 0 || len(ex.Heads) == 0 {
		return nil
	}
	out := &example{Prompt: ex.Prompt, Tokens: len(ex.Tokens)}
	for i := range shades {
		out.Scale = append(out.Scale, fmt.Sprint("w", i+1))
	}
	for i := range ex.Heads {
		h := &ex.Heads[i]
		if len(h.Weights) != len(ex.Tokens) {
			continue
		}
		out.Heads = append(out.Heads, exampleHead{h.Head.String(), shares(ex, h), pieces(ex, h)})
	}
	return out
}

// shares says how the head's weight is spread.
func shares(ex *harness.Example, h *harness.ExampleHead) string {
	var code, needle, question, first, rest float64
	for i, w32 := range h.Weights {
		switch w := float64(w32); {
		case ex.Code.Contains(i):
			code += w
		case ex.Needle.Contains(i):
			needle += w
		case i == 0:
			first += w
		case ex.Question > 0 && i >= ex.Question:
			question += w
		default:
			rest += w
		}
	}
	return fmt.Sprintf("code %s, rest of the needle %s, first token %s, question %s, elsewhere %s",
		decimals(code, 2), decimals(needle, 2), decimals(first, 2), decimals(question, 2), decimals(rest, 2))
}

// pieces is the prompt with what the head does not look at left out, outside of needle and question.
func pieces(ex *harness.Example, h *harness.ExampleHead) []piece {
	n := len(ex.Tokens)
	show := make([]bool, n)
	for i := range show {
		show[i] = i < 2 || i == n-1 || ex.Needle[0]-needleContext <= i && i < ex.Needle[1]+needleContext ||
			ex.Question > 0 && i >= ex.Question || float64(h.Weights[i]) >= shownWeight
	}
	var out []piece
	for i := 0; i < n; {
		if !show[i] {
			from, sum := i, 0.0
			for i < n && !show[i] {
				sum += float64(h.Weights[i])
				i++
			}
			out = append(out, piece{
				Text: fmt.Sprintf("\u2026 %s, %s \u2026", count(i-from, "token"), decimals(sum, 3)), Class: "gap", Hidden: true,
				Title: fmt.Sprintf("tokens %d to %d, left out: weight %s together", from, i-1, decimals(sum, 4)),
			})
			continue
		}
		out = append(out, tokenPiece(ex, h, i))
		i++
	}
	return out
}

func tokenPiece(ex *harness.Example, h *harness.ExampleHead, i int) piece {
	w := float64(h.Weights[i])
	p := piece{Text: visible(ex.Tokens[i]), Class: "t", Break: strings.HasSuffix(ex.Tokens[i], "\n")}
	if s := shade(w, 1); s > 0 && w >= 0.005 {
		p.Class += fmt.Sprint(" w", s)
	}
	place := ""
	switch {
	case ex.Code.Contains(i):
		p.Class += " code"
		place = ", code"
	case ex.Needle.Contains(i):
		p.Class += " needle"
		place = ", needle"
	case ex.Question > 0 && i >= ex.Question:
		p.Class += " asked"
		place = ", question"
	}
	weight := "no number"
	if !math.IsNaN(w) {
		weight = decimals(w, 4)
	}
	p.Title = fmt.Sprintf("token %d%s: %s", i, place, weight)
	return p
}

// visible shows a line's end as a sign, and other control and direction characters as the replacement character.
func visible(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n':
			return '\u21b5'
		case c == '\t':
			return '\u21e5'
		case unicode.IsControl(c), unicode.In(c, unicode.Cf) && c != '\u200d':
			return unicode.ReplacementChar
		}
		return c
	}, s)
}
