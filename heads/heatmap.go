package heads

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/headscope/headscope/loader/decoder"
)

// HeatmapOptions says how a heat map is drawn. The zero value is a plain picture of at most 80 columns.
type HeatmapOptions struct {
	Marked Set     // heads to mark, such as the detected ones
	Top    float64 // score of a full block; 0 means the largest score
	Width  int     // columns at most; 0 means 80
	Color  bool    // ANSI colours
}

// shades are drawn for shares of the top score in (0, 1/4], (1/4, 1/2], (1/2, 3/4] and above.
var shades = [4]string{"░", "▒", "▓", "█"}

// ansi are 256-colour foregrounds, dark to bright, for the four shades.
var ansi = [4]int{60, 67, 73, 229}

// heatmap is one drawing in progress. A cell is cellWidth columns wide: 3 leaves room for brackets, 2 for a
// star behind a marked head, 1 shows a marked head as a star alone.
type heatmap struct {
	Scores
	opts      HeatmapOptions
	cellWidth int
	label     int // width of the layer names
	perPanel  int // heads side by side
}

// Heatmap draws the scores with a layer a line, from layer 0 down, and a head a cell, as shaded blocks; heads
// of opts.Marked are bracketed, or starred where there are too many heads for brackets. A model with more
// heads than fit is drawn in panels below each other. Every line is at most opts.Width columns wide.
// It returns the writer's error, and one if a marked head does not exist.
func (s Scores) Heatmap(w io.Writer, opts HeatmapOptions) error {
	if err := opts.Marked.Validate(s.Layers, s.Heads); err != nil {
		return err
	}
	if opts.Width == 0 {
		opts.Width = 80
	}
	if opts.Top == 0 {
		for _, v := range s.Data {
			if v > opts.Top { // false for NaN
				opts.Top = v
			}
		}
	}
	m := heatmap{Scores: s, opts: opts, label: len("L" + strconv.Itoa(max(0, s.Layers-1)))}
	room := opts.Width - m.label - 1
	if room < 1 {
		return fmt.Errorf("heat map: %d columns are too few", opts.Width)
	}
	m.cellWidth = min(3, max(1, room/max(1, s.Heads)))
	m.perPanel = max(1, min(s.Heads, room/m.cellWidth))

	out := bufio.NewWriter(w)
	m.legend(out)
	for from := 0; from < s.Heads; from += m.perPanel {
		m.panel(out, from, min(from+m.perPanel, s.Heads))
	}
	return out.Flush()
}

// legend breaks its line where the width asks for it.
func (m heatmap) legend(out *bufio.Writer) {
	parts := []string{fmt.Sprintf("%s (n=%d)", m.Detector, m.N), "· 0"}
	for i, sh := range shades {
		parts = append(parts, fmt.Sprintf("%s to %.3g", m.paint(sh, i), m.opts.Top*float64(i+1)/4))
	}
	for _, v := range m.Data {
		if math.IsNaN(v) {
			parts = append(parts, "? no score")
			break
		}
	}
	if len(m.opts.Marked) > 0 {
		sign := map[int]string{3: "[ ]", 2: "█*", 1: "*"}[m.cellWidth]
		parts = append(parts, fmt.Sprintf("%s marked (%d)", sign, len(m.opts.Marked)))
	}
	col := 0
	for _, p := range parts {
		n := columns(p)
		switch {
		case col == 0:
		case col+2+n > m.opts.Width:
			out.WriteByte('\n')
			col = 0
		default:
			out.WriteString("  ")
			col += 2
		}
		out.WriteString(p)
		col += n
	}
	out.WriteByte('\n')
}

func (m heatmap) panel(out *bufio.Writer, from, to int) {
	fmt.Fprintf(out, "%s\n", strings.TrimRight(strings.Repeat(" ", m.label+1)+m.ticks(from, to), " "))
	for l := range m.Layers {
		fmt.Fprintf(out, "%-*s ", m.label, "L"+strconv.Itoa(l))
		var line strings.Builder
		for h := from; h < to; h++ {
			line.WriteString(m.cell(decoder.Head{Layer: l, Index: h}))
		}
		fmt.Fprintf(out, "%s\n", strings.TrimRight(line.String(), " "))
	}
}

// ticks numbers every head, or every few where the cells are narrower than the numbers.
func (m heatmap) ticks(from, to int) string {
	step := 1
	for step*m.cellWidth <= len(strconv.Itoa(to-1)) {
		step++
	}
	if step > 1 {
		step = (step + 3) / 4 * 4
	}
	line := []byte(strings.Repeat(" ", (to-from)*m.cellWidth))
	for h := (from + step - 1) / step * step; h < to; h += step {
		at := (h - from) * m.cellWidth
		if m.cellWidth == 3 {
			at++ // under the bracket's inside
		}
		if s := strconv.Itoa(h); at+len(s) <= len(line) {
			copy(line[at:], s)
		}
	}
	return string(line)
}

func (m heatmap) cell(h decoder.Head) string {
	glyph, shade := "·", -1
	switch v := m.At(h); {
	case math.IsNaN(v):
		glyph = "?"
	case v > 0 && m.opts.Top > 0:
		shade = max(0, min(len(shades)-1, int(math.Ceil(4*v/m.opts.Top))-1))
		glyph = shades[shade]
	}
	marked := m.opts.Marked.Contains(h)
	switch {
	case m.cellWidth == 3 && marked:
		return "[" + m.paint(glyph, shade) + "]"
	case m.cellWidth == 3:
		return " " + m.paint(glyph, shade) + " "
	case m.cellWidth == 2 && marked:
		return m.paint(glyph, shade) + "*"
	case m.cellWidth == 2:
		return m.paint(glyph, shade) + " "
	case marked:
		return m.paint("*", shade)
	}
	return m.paint(glyph, shade)
}

func (m heatmap) paint(glyph string, shade int) string {
	if !m.opts.Color || shade < 0 {
		return glyph
	}
	return fmt.Sprintf("\x1b[38;5;%dm%s\x1b[0m", ansi[shade], glyph)
}

// columns counts what a terminal shows: runes, escape sequences left out.
func columns(s string) int {
	n, escape := 0, false
	for _, c := range s {
		switch {
		case c == '\x1b':
			escape = true
		case escape:
			escape = c != 'm'
		default:
			n++
		}
	}
	return n
}
