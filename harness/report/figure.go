package report

import (
	"math"
	"strconv"
	"strings"
)

// figure is a drawing as data. Horizontal positions are shares of its width, in percent; vertical ones are pixels.
type figure struct {
	Class  string
	Label  string // what it shows, for those who do not see it
	Height int    // pixels; 0: that of its row, and vertical positions are shares too
	Marks  []mark
}

// mark is one element of a figure. A rect has X, Y, W, H; a line goes from X, Y to W, H; a dot has its centre in X, Y and a radius H; a
// text stands at X, Y. A nest stretches the inner marks, whose units its Text gives as a view box, over the width and from Y down by H; a
// path in it has its data in Text.
type mark struct {
	Kind       string
	X, Y, W, H string
	Class      string
	Title      string
	Text       string
	Inner      []mark
}

// box is where a rect lies: shares of the width, pixels of the height.
type box struct{ x, y, w, h float64 }

func (f *figure) rect(b box, class, title string) {
	f.Marks = append(f.Marks, mark{Kind: "rect", X: pct(b.x), Y: px(b.y), W: pct(b.w), H: px(b.h), Class: class, Title: title})
}

func (f *figure) line(x1, y1, x2, y2 float64, class string) {
	f.Marks = append(f.Marks, mark{Kind: "line", X: pct(x1), Y: px(y1), W: pct(x2), H: px(y2), Class: class})
}

// fullLine goes from the top to the bottom of a row's figure.
func (f *figure) fullLine(x float64, class string) {
	f.Marks = append(f.Marks, mark{Kind: "line", X: pct(x), Y: "0", W: pct(x), H: "100%", Class: class})
}

func (f *figure) fullRect(x, w float64, class string) {
	f.Marks = append(f.Marks, mark{Kind: "rect", X: pct(x), Y: "0", W: pct(w), H: "100%", Class: class})
}

// midLine and midDot lie half way down a row's figure.
func (f *figure) midLine(x1, x2 float64, class string) {
	f.Marks = append(f.Marks, mark{Kind: "line", X: pct(x1), Y: "50%", W: pct(x2), H: "50%", Class: class})
}

func (f *figure) midDot(x, radius float64, class, title string) {
	f.Marks = append(f.Marks, mark{Kind: "dot", X: pct(x), Y: "50%", H: px(radius), Class: class, Title: title})
}

func (f *figure) text(x, y float64, class, text string) {
	f.Marks = append(f.Marks, mark{Kind: "text", X: pct(x), Y: px(y), Class: class, Text: text})
}

// pct writes a share of 1 as a percentage with three decimals at most.
func pct(x float64) string { return short(100*x) + "%" }

func px(x float64) string { return short(x) }

func short(x float64) string {
	s := strconv.FormatFloat(x, 'f', 3, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// shades is the number of steps of the sequential palettes above zero.
const shades = 10

// shade is the step of v on a scale from 0 to top: 0 for nothing, then 1 to shades; -1 for what is not a number.
func shade(v, top float64) int {
	switch {
	case math.IsNaN(v):
		return -1
	case v <= 0 || top <= 0:
		return 0
	}
	return max(1, min(shades, int(math.Ceil(shades*v/top))))
}

// shadeClass is the style of a shade of the palette that prefix names.
func shadeClass(prefix string, v, top float64) string {
	if s := shade(v, top); s >= 0 {
		return prefix + strconv.Itoa(s)
	}
	return "hatch"
}

// axis maps numbers to shares of a width.
type axis struct{ lo, hi, step float64 }

// newAxis covers lo to hi and a little more, with round ticks.
func newAxis(lo, hi float64, ticks int) axis {
	if !(hi > lo) {
		lo, hi = lo-1, hi+1
	}
	pad := (hi - lo) * 0.05
	a := axis{lo: lo - pad, hi: hi + pad}
	raw := (hi - lo) / float64(ticks)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	a.step = 10 * unit
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= raw {
			a.step = m * unit
			break
		}
	}
	return a
}

func (a axis) at(x float64) float64 { return (x - a.lo) / (a.hi - a.lo) }

func (a axis) ticks() []float64 {
	var out []float64
	for k := math.Ceil(a.lo / a.step); k*a.step <= a.hi; k++ {
		out = append(out, k*a.step)
	}
	return out
}

// digits is how many decimals the ticks need.
func (a axis) digits() int { return max(0, int(-math.Floor(math.Log10(a.step)+1e-9))) }
