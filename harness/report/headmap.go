package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// headMap is one detector's scores, a layer a row and a head a column.
type headMap struct {
	Name, About string
	Top         cell // score of the deepest shade
	Small       bool
	Missing     bool // some heads have no score
	MaxWidth    int  // pixels
	Layers      figure
	Cells       figure
}

// Above so many heads a small map draws a shade at a time, and its values are in the large map and the result alone.
const manyHeads = 2048

var detectorAbout = map[string]string{
	"argmax_last": "share of prompts in which the last row's largest weight lies in the needle",
	"argmax_code": "the same, of the code's own tokens alone",
	"mass_last":   "mean weight of the last row on the needle",
	"copy_tf":     "share of the answer's tokens, fed one by one, whose row looks most at the same token in the needle",
	"write_norm":  "mean size of what the head adds to the residual stream; not a detector, controls are matched on it",
	"induction":   "repeated random tokens: weight on the token after the earlier copy",
	"duplicate":   "repeated random tokens: weight on the earlier copy itself",
	"prev_token":  "repeated random tokens: weight on the token before",
}

// headMaps draws argmax_last large and every other score small.
func headMaps(r *harness.Result) []headMap {
	var all []heads.Scores
	if r.Scores != nil {
		all = append(all, *r.Scores)
	}
	if r.Detection != nil {
		for _, s := range r.Detection.Scores {
			if r.Scores == nil || s.Detector != r.Scores.Detector {
				all = append(all, s)
			}
		}
	}
	var out []headMap
	for i, s := range all {
		if s.Layers == 0 || s.Heads == 0 {
			continue
		}
		d := drawing{scores: s, result: r, small: i > 0, top: largest(s)}
		out = append(out, d.headMap())
	}
	return out
}

func largest(s heads.Scores) float64 {
	top := 0.0
	for _, v := range s.Data {
		if v > top && !math.IsInf(v, 0) { // false for NaN
			top = v
		}
	}
	return top
}

// drawing is a head map in progress.
type drawing struct {
	scores heads.Scores
	result *harness.Result
	small  bool
	top    float64
	row    float64 // pixels
}

const tickRoom = 14 // pixels above the first layer

func (d *drawing) headMap() headMap {
	s := d.scores
	d.row = 16
	widest := 34 // pixels of a cell
	switch {
	case d.small:
		d.row, widest = max(3, min(7, math.Floor(240/float64(s.Layers)))), 16
	case s.Layers > 40:
		d.row, widest = 9, 16
	case s.Heads > 16:
		d.row, widest = 14, 22
	}
	height := int(math.Ceil(float64(s.Layers)*d.row)) + tickRoom + 2
	m := headMap{
		Name: s.Detector, About: aboutDetector(s.Detector), Small: d.small, MaxWidth: max(160, widest*s.Heads),
		Layers: figure{Class: "layers", Label: "layers", Height: height},
		Cells: figure{Class: "cells", Height: height, Label: fmt.Sprintf("%s of %d layers by %d heads; the largest value is %s",
			s.Detector, s.Layers, s.Heads, decimals(d.top, 3))},
	}
	m.Top = number(d.top, 2, "")
	if d.top >= 10 {
		m.Top = number(d.top, 0, "")
	}
	d.ticks(&m)
	for _, v := range s.Data {
		m.Missing = m.Missing || math.IsNaN(v)
	}
	if d.small && len(s.Data) > manyHeads {
		d.shadePaths(&m.Cells)
	} else {
		d.cells(&m.Cells)
	}
	d.rules(&m.Cells)
	d.outlines(&m.Cells)
	return m
}

// ticks numbers layers and heads as far as there is room at 400 pixels.
func (d *drawing) ticks(m *headMap) {
	every := 1
	for _, n := range []int{1, 2, 5, 10, 20} {
		every = n
		if float64(n)*d.row >= 11 {
			break
		}
	}
	for l := 0; l < d.scores.Layers; l += every {
		m.Layers.text(1, d.middle(l)+3.5, "end", "L"+strconv.Itoa(l))
	}
	room := 300.0
	if d.small {
		room = 150
	}
	every = 1
	for float64(every)*room/float64(d.scores.Heads) < 17 && every < d.scores.Heads {
		every *= 2
	}
	for h := 0; h < d.scores.Heads; h += every {
		m.Cells.text((float64(h)+0.5)/float64(d.scores.Heads), 10, "mid", strconv.Itoa(h))
	}
}

func (d *drawing) middle(layer int) float64 { return tickRoom + (float64(layer)+0.5)*d.row }

// class is the style of a cell. A mean weight is hardly ever 0: what is below a fiftieth of the largest is drawn as nothing. A share of
// prompts is drawn from the first hit on.
func (d *drawing) class(v float64) string {
	if v < d.top/50 && !strings.HasPrefix(d.scores.Detector, "argmax") {
		v = 0
	}
	return shadeClass("s", v, d.top)
}

func (d *drawing) cells(f *figure) {
	s := d.scores
	w := 1 / float64(s.Heads)
	numbers := !d.small && s.Heads <= 12
	for i, v := range s.Data {
		h := decoder.Head{Layer: i / s.Heads, Index: i % s.Heads}
		title := h.String() + ": no score"
		if !math.IsNaN(v) {
			title = h.String() + ": " + decimals(v, 3)
		}
		x, y := float64(h.Index)*w, tickRoom+float64(h.Layer)*d.row
		f.rect(box{x, y, w, d.row}, d.class(v), title)
		if sh := shade(v, d.top); numbers && sh > 0 && v >= 0.005 {
			class := "mid in"
			if sh >= 7 {
				class += " deep"
			}
			f.text(x+w/2, d.middle(h.Layer)+3.5, class, brief(v))
		}
	}
}

// brief is a share in three columns.
func brief(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	if s[0] == '0' {
		return s[1:]
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// shadePaths draws all cells of a shade as one path, in units of cells: a tenth of the bytes.
func (d *drawing) shadePaths(f *figure) {
	s := d.scores
	paths := map[string]*strings.Builder{}
	var order []string
	for l := range s.Layers {
		for h := 0; h < s.Heads; {
			class, from := d.class(s.Data[l*s.Heads+h]), h
			for h < s.Heads && d.class(s.Data[l*s.Heads+h]) == class {
				h++
			}
			if paths[class] == nil {
				paths[class] = &strings.Builder{}
				order = append(order, class)
			}
			fmt.Fprintf(paths[class], "M%d %dh%dv1h-%dz", from, l, h-from, h-from)
		}
	}
	nest := mark{Kind: "nest", Y: px(tickRoom), H: px(float64(s.Layers) * d.row), Text: fmt.Sprintf("0 0 %d %d", s.Heads, s.Layers)}
	for _, class := range order {
		nest.Inner = append(nest.Inner, mark{Kind: "path", Class: class, Text: paths[class].String()})
	}
	f.Marks = append(f.Marks, nest)
}

// rules separates the query heads of different key/value heads.
func (d *drawing) rules(f *figure) {
	s, kv := d.scores, d.result.Model.KVHeads
	if kv <= 1 || kv >= s.Heads || s.Heads%kv != 0 {
		return
	}
	group := s.Heads / kv
	for h := group; h < s.Heads; h += group {
		x := float64(h) / float64(s.Heads)
		f.line(x, tickRoom, x, tickRoom+float64(s.Layers)*d.row, "kv")
	}
}

// outlines marks the detected heads, those that may be there by chance with dashes.
func (d *drawing) outlines(f *figure) {
	s := d.scores
	w := 1 / float64(s.Heads)
	classes := headClasses(d.result)
	for _, h := range d.result.Heads {
		if h.Layer < 0 || h.Layer >= s.Layers || h.Index < 0 || h.Index >= s.Heads {
			continue
		}
		class := "found"
		if classes[h] == "likely" {
			class += " likely"
		}
		f.rect(box{float64(h.Index) * w, tickRoom + float64(h.Layer)*d.row, w, d.row}, class, "")
	}
}

// headClasses is what the cuts say of each head around the threshold.
func headClasses(r *harness.Result) map[decoder.Head]string {
	out := map[decoder.Head]string{}
	if r.Detection != nil {
		for _, c := range r.Detection.Cuts {
			out[c.Head] = c.Class
		}
	}
	return out
}
