package harness

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// ShowView says how attention is shown as text.
type ShowView struct {
	Width int  // columns; 0 means 80
	Color bool // ANSI colours, else a line of shades below the text
	Full  bool // also lines of text on which nothing falls
}

// WriteText shows each row's largest weights and the text, shaded by weight.
func (a *Attended) WriteText(w io.Writer, v ShowView) error {
	if v.Width < 20 {
		v.Width = 80
	}
	out := &printer{w: w}
	out.line("%s  %s  %s  %d tokens%s", lastPart(a.Model), a.DType, a.Device, len(a.Tokens), a.edited())
	for i := range a.Rows {
		r := &a.Rows[i]
		out.line("")
		out.line("%s at row %d, %s: what it looks at, of %d keys effectively %.1f", r.Head, r.Row, clean(a.Tokens[r.Row].Label()), len(r.Weights), float64(r.Keys))
		mass := make([]string, len(r.Mass))
		for j, m := range r.Mass {
			mass[j] = fmt.Sprintf("%s %.4f", m.Name, float64(m.Weight))
		}
		out.line("mass: %s", strings.Join(mass, "  "))
		if len(r.Top) > 0 && out.err == nil {
			out.line("")
			out.err = r.writeTop(out.w)
		}
		out.line("")
		p := picture{a: a, row: r, v: v}
		p.write(out)
		out.line("%s", p.legend())
	}
	return out.err
}

func (a *Attended) edited() string {
	if len(a.Edits) == 0 {
		return ""
	}
	s := make([]string, len(a.Edits))
	for i, e := range a.Edits {
		s[i] = e.String()
	}
	return "  with " + strings.Join(s, " ")
}

func (r *AttendedRow) writeTop(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "weight\trow\tin\ttoken\n")
	for _, k := range r.Top {
		in := strings.Join(k.In, ",")
		if in == "" {
			in = "-"
		}
		fmt.Fprintf(t, "%.4f\t%d\t%s\t%s\n", float64(k.Weight), k.Row, in, clean(k.Label))
	}
	return t.Flush()
}

// shades are the glyphs of rising weight; shadeFrom the weights from which they hold.
const shades = "░▒▓█"

func shadeFrom() [4]float64 { return [4]float64{0.01, 0.05, 0.2, 0.5} }

// shadeOf is 0 for a weight too small to shade, else 1 to 4.
func shadeOf(w float32) int {
	n := 0
	for _, from := range shadeFrom() {
		if float64(w) >= from {
			n++
		}
	}
	return n
}

// mark is how the tokens of a span are marked, 0 for spans that are not.
func mark(name string) rune {
	switch {
	case name == "code":
		return '='
	case name == "needle":
		return '-'
	case name == "answer":
		return '+'
	case strings.HasPrefix(name, "decoy"):
		return '~'
	}
	return 0
}

// picture is the text of a passage shaded by one row's weights.
type picture struct {
	a    *Attended
	row  *AttendedRow
	v    ShowView
	used map[rune]bool // marks that were drawn
}

// cell is one token, or a part of a long one, on a line.
type cell struct {
	token, width int
	text         string
}

func (p *picture) write(out *printer) {
	p.used = map[rune]bool{}
	var dull [][]cell
	for _, line := range p.lines() {
		if p.dull(line) && !p.v.Full {
			dull = append(dull, line)
			continue
		}
		p.skip(out, dull)
		dull = nil
		p.line(out, line)
	}
	p.skip(out, dull)
}

// skip stands for lines on which nothing falls; one or two are shown after all.
func (p *picture) skip(out *printer, lines [][]cell) {
	if len(lines) <= 2 {
		for _, l := range lines {
			p.line(out, l)
		}
		return
	}
	seen, sum := map[int]bool{}, 0.0
	for _, l := range lines {
		for _, c := range l {
			if !seen[c.token] && c.token <= p.row.Row {
				sum += float64(p.row.Weights[c.token])
			}
			seen[c.token] = true
		}
	}
	out.line("  ... %d lines, %d tokens, together %.4f ...", len(lines), len(seen), sum)
}

// dull tells whether a line has neither weight nor a mark.
func (p *picture) dull(line []cell) bool {
	for _, c := range line {
		if p.shadeOf(c.token) > 0 || p.markOf(c.token) != 0 {
			return false
		}
	}
	return true
}

func (p *picture) shadeOf(token int) int {
	if token > p.row.Row {
		return 0
	}
	return shadeOf(p.row.Weights[token])
}

func (p *picture) markOf(token int) rune {
	if token == p.row.Row {
		return '^'
	}
	best := rune(0)
	for _, s := range p.a.Spans {
		if m := mark(s.Name); m != 0 && s.Rows.Contains(token) && best != '=' {
			best = m
		}
	}
	return best
}

func (p *picture) line(out *printer, line []cell) {
	var text, below strings.Builder
	for _, c := range line {
		n, m := p.shadeOf(c.token), p.markOf(c.token)
		if m != 0 && (n == 0 || p.v.Color) {
			p.used[m] = true
		}
		if p.v.Color {
			text.WriteString(paint(c.text, n, m))
			continue
		}
		text.WriteString(c.text)
		glyph := " "
		switch {
		case n > 0:
			glyph = string([]rune(shades)[n-1])
		case m != 0:
			glyph = string(m)
		}
		below.WriteString(strings.Repeat(glyph, c.width))
	}
	out.line("%s", strings.TrimRight(text.String(), " "))
	if b := strings.TrimRight(below.String(), " "); b != "" {
		out.line("%s", b)
	}
}

// paint colours one cell: the background by weight, underlined in a span, bold the code, reversed the row's own token.
func paint(s string, shadeOf int, mark rune) string {
	var codes []string
	if shadeOf > 0 {
		codes = append(codes, "38;5;16", "48;5;"+[4]string{"230", "222", "214", "208"}[shadeOf-1])
	}
	switch mark {
	case '^':
		codes = append(codes, "7")
	case '=':
		codes = append(codes, "1", "4")
	case '-', '~', '+':
		codes = append(codes, "4")
	}
	if codes == nil {
		return s
	}
	return "\x1b[" + strings.Join(codes, ";") + "m" + s + "\x1b[0m"
}

func (p *picture) legend() string {
	var b strings.Builder
	b.WriteString("weights from")
	for i, from := range shadeFrom() {
		if p.v.Color {
			fmt.Fprintf(&b, " %s", paint(fmt.Sprintf(" %g ", from), i+1, 0))
		} else {
			fmt.Fprintf(&b, " %c %g", []rune(shades)[i], from)
		}
	}
	for _, m := range []struct {
		mark rune
		name string
	}{{'=', "code"}, {'-', "needle"}, {'~', "decoy"}, {'+', "answer"}, {'^', "the row itself"}} {
		if !p.used[m.mark] {
			continue
		}
		if p.v.Color {
			b.WriteString("  " + paint(m.name, 0, m.mark))
		} else {
			fmt.Fprintf(&b, "  %c %s", m.mark, m.name)
		}
	}
	return b.String()
}

// lines breaks the text into lines: after a token with a line feed, and where the width ends.
func (p *picture) lines() [][]cell {
	var out [][]cell
	var line []cell
	used := 0
	flush := func() {
		if len(line) > 0 {
			out = append(out, line)
		}
		line, used = nil, 0
	}
	for i := range p.a.Tokens {
		s := displayed(p.a.Tokens, i)
		if used+columnsOf(s) > p.v.Width {
			flush()
		}
		for s != "" {
			head, rest := cutColumns(s, p.v.Width-used)
			line = append(line, cell{i, columnsOf(head), head})
			used += columnsOf(head)
			if s = rest; s != "" {
				flush()
			}
		}
		if strings.HasSuffix(p.a.Tokens[i].Text, "\n") {
			flush()
		}
	}
	flush()
	return out
}

// displayed is a token as it stands in a picture: its text on one line, or its name. Of the tokens that share a character the first
// shows it.
func displayed(tokens []Token, i int) string {
	t := &tokens[i]
	if t.Text == "" || t.Added {
		return clean("[" + t.Label() + "]")
	}
	if i > 0 && t.End > t.Start && !tokens[i-1].Added && tokens[i-1].Start == t.Start && tokens[i-1].End == t.End {
		return "·"
	}
	return clean(t.Text)
}

// clean shows control and format characters, which would steer a terminal, as something visible.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return '⏎'
		case r == '\t':
			return '⇥'
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// cutColumns splits s after at most n columns, and after one character at least.
func cutColumns(s string, n int) (head, rest string) {
	used := 0
	for i, r := range s {
		if used += columnsOfRune(r); used > n && i > 0 {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

func columnsOf(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOfRune(r)
	}
	return n
}

// columnsOfRune is 2 for East Asian wide characters and emoji, 0 for combining marks.
func columnsOfRune(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf && r != 0x303f, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}
