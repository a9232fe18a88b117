package report

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/headscope/headscope/harness"
)

// Kind is a figure for a paper or a slide.
type Kind string

// The figures.
const (
	Heads   Kind = "heads"   // argmax_last, a layer a row and a head a column
	Effects Kind = "effects" // change of the primary metric by condition, controls below
	Grid    Kind = "grid"    // recall of the unmodified model by template and depth
)

// Kinds lists the figures.
func Kinds() []Kind { return []Kind{Heads, Effects, Grid} }

// Format is a file format.
type Format string

// The formats. Both have the same bytes on every run.
const (
	PNG Format = "png" // 300 dots an inch
	SVG Format = "svg"
)

// Has tells whether a result has the numbers of a figure.
func Has(kind Kind, r *harness.Result) bool {
	switch kind {
	case Heads:
		return r.Scores != nil && len(r.Scores.Data) > 0
	case Effects:
		return newForest(r) != nil
	case Grid:
		return len(r.Grid) > 0
	}
	return false
}

// Plot writes one figure. It is an error where the result lacks its numbers.
func Plot(w io.Writer, r *harness.Result, kind Kind, format Format) error {
	if r.Plan == nil || !Has(kind, r) {
		return fmt.Errorf("figure %s: the result has no numbers for it", kind)
	}
	s, err := newSheet(r)
	if err != nil {
		return fmt.Errorf("figure %s: %w", kind, err)
	}
	switch kind {
	case Heads:
		err = s.heads()
	case Effects:
		err = s.effects()
	case Grid:
		err = s.grid()
	}
	if err != nil {
		return fmt.Errorf("figure %s: %w", kind, err)
	}
	if format != PNG && format != SVG {
		return fmt.Errorf("figure %s: format %q: want png or svg", kind, format)
	}
	var c interface {
		vg.CanvasSizer
		io.WriterTo
	} = vgsvg.New(s.width, s.height)
	if format == PNG {
		c = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(s.width, s.height), vgimg.UseDPI(300), vgimg.UseBackgroundColor(color.White))}
	}
	const margin = 0.3 * vg.Centimeter
	s.Draw(draw.Crop(draw.New(c), margin, -margin, margin, -margin))
	_, err = c.WriteTo(w)
	return err
}

// WriteFigure writes one figure into a file, whole or not at all.
func WriteFigure(path string, r *harness.Result, kind Kind, format Format) error {
	var buf bytes.Buffer
	if err := Plot(&buf, r, kind, format); err != nil {
		return err
	}
	return harness.WriteFile(path, buf.Bytes())
}

// sheet is a figure in progress.
type sheet struct {
	*plot.Plot
	result        *harness.Result
	width, height vg.Length
}

var (
	inkColor   = color.Gray{0x1d}
	faintColor = color.Gray{0x8c}
	ruleColor  = color.Gray{0xd0}
	dotColor   = color.RGBA{0x0a, 0x58, 0xca, 0xff}
)

func newSheet(r *harness.Result) (*sheet, error) {
	p := plot.New()
	p.Title.Text = title(r)
	p.Title.TextStyle.Font.Size, p.Title.TextStyle.Font.Variant = 10, "Sans"
	p.Title.Padding = 6
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font.Size, a.Label.TextStyle.Font.Variant = 9, "Sans"
		a.Tick.Label.Font.Size, a.Tick.Label.Font.Variant = 8, "Sans"
		a.Tick.Length = 3
	}
	return &sheet{Plot: p, result: r}, nil
}

// ramp is white to one colour, as the page's shades.
type ramp struct{ r, g, b float64 }

func (c ramp) Colors() []color.Color {
	out := make([]color.Color, shades+1)
	for i := range out {
		t := float64(i) / shades
		mix := func(x float64) uint8 { return uint8(math.Round(255 + t*(x-255))) }
		out[i] = color.RGBA{mix(c.r), mix(c.g), mix(c.b), 0xff}
	}
	out[0] = color.Gray{0xf3}
	return out
}

var (
	hotRamp  = ramp{214, 92, 0}
	coolRamp = ramp{10, 88, 202}
)

// field is a matrix as the heat map plotter asks for it, row 0 on top; its values are shades, so that both formats show the page's.
type field struct {
	cols, rows int
	at         func(c, r int) float64
	top        float64
}

func (f field) Dims() (c, r int) { return f.cols, f.rows }
func (f field) X(c int) float64  { return float64(c) }
func (f field) Y(r int) float64  { return float64(r) }
func (f field) Min() float64     { return 0 }
func (f field) Max() float64     { return shades }

// Z counts rows from below, as the plotter does.
func (f field) Z(c, r int) float64 {
	if s := shade(f.at(c, f.rows-1-r), f.top); s >= 0 {
		return float64(s)
	}
	return math.NaN()
}

func (s *sheet) heat(f field, p ramp) {
	h := plotter.NewHeatMap(f, p)
	h.NaN = faintColor
	s.Add(h)
}

func (s *sheet) lines(width vg.Length, c color.Color, pts ...plotter.XY) error {
	l, err := plotter.NewLine(plotter.XYs(pts))
	if err != nil {
		return err
	}
	l.Width, l.Color = width, c
	s.Add(l)
	return nil
}

func (s *sheet) heads() error {
	sc := s.result.Scores
	top := largest(*sc)
	s.heat(field{sc.Heads, sc.Layers, func(c, r int) float64 { return sc.Data[r*sc.Heads+c] }, top}, hotRamp)
	s.X.Label.Text, s.Y.Label.Text = "head", "layer"
	s.Title.Text += fmt.Sprintf("\n%s (n = %d); darkest %s; detected heads outlined", sc.Detector, sc.N, decimals(top, 2))
	s.X.Tick.Marker, s.Y.Tick.Marker = indices(sc.Heads, 1, 32), downward(sc.Layers, 1, 40)
	y := func(layer int) float64 { return float64(sc.Layers - 1 - layer) }
	if kv := s.result.Model.KVHeads; kv > 1 && kv < sc.Heads && sc.Heads%kv == 0 {
		for h := sc.Heads / kv; h < sc.Heads; h += sc.Heads / kv {
			x := float64(h) - 0.5
			if err := s.lines(0.4, faintColor, plotter.XY{X: x, Y: -0.5}, plotter.XY{X: x, Y: float64(sc.Layers) - 0.5}); err != nil {
				return err
			}
		}
	}
	for _, h := range s.result.Heads {
		x0, x1, y0, y1 := float64(h.Index)-0.5, float64(h.Index)+0.5, y(h.Layer)-0.5, y(h.Layer)+0.5
		if err := s.lines(1, inkColor, plotter.XY{X: x0, Y: y0}, plotter.XY{X: x1, Y: y0}, plotter.XY{X: x1, Y: y1}, plotter.XY{X: x0, Y: y1}, plotter.XY{X: x0, Y: y0}); err != nil {
			return err
		}
	}
	cell := min(0.55, max(0.2, 16/float64(max(sc.Layers, sc.Heads))))
	s.width = vg.Length(max(9, 2.5+cell*float64(sc.Heads))) * vg.Centimeter
	s.height = vg.Length(3+cell*float64(sc.Layers)) * vg.Centimeter
	return nil
}

// indices labels 0 to n-1, so few that most fit.
func indices(n, from, most int) plot.ConstantTicks {
	every := from
	for n/every > most {
		every *= 2
	}
	var out plot.ConstantTicks
	for i := 0; i < n; i += every {
		out = append(out, plot.Tick{Value: float64(i), Label: fmt.Sprint(i)})
	}
	return out
}

// downward labels n rows from the top.
func downward(n, from, most int) plot.ConstantTicks {
	out := indices(n, from, most)
	for i := range out {
		out[i].Value = float64(n-1) - out[i].Value
	}
	return out
}

func (s *sheet) effects() error {
	r := s.result
	var ticks plot.ConstantTicks
	y, widest := 0.0, 0
	row := func(name string) float64 {
		y--
		ticks = append(ticks, plot.Tick{Value: y, Label: name})
		widest = max(widest, len(name))
		return y
	}
	for i := range r.Conditions {
		c := &r.Conditions[i]
		m := primaryChange(r, c)
		if m == nil || c.ControlOf != "" {
			continue
		}
		if err := s.estimate(m, row(conditionName(r, c))); err != nil {
			return err
		}
		for _, pool := range poolsOf(r, c.Name) {
			if err := s.controls(c.Name, pool, row); err != nil {
				return err
			}
		}
	}
	if err := s.lines(0.7, faintColor, plotter.XY{X: 0, Y: y - 0.6}, plotter.XY{X: 0, Y: -0.4}); err != nil {
		return err
	}
	s.Y.Min, s.Y.Max = y-0.6, -0.4
	s.Y.Tick.Marker, s.Y.Tick.Length, s.Y.LineStyle.Width = ticks, 0, 0
	x := newAxis(s.X.Min, s.X.Max, 5)
	s.X.Min, s.X.Max = x.lo, x.hi
	var marks plot.ConstantTicks
	for _, t := range x.ticks() {
		marks = append(marks, plot.Tick{Value: t, Label: signed(t, x.digits())})
	}
	s.X.Tick.Marker = marks
	s.X.Label.Text = "change of the " + metricName(r.Plan.Primary.Metric) + ", nats"
	s.width = vg.Length(10+0.15*float64(widest)) * vg.Centimeter
	s.height = vg.Length(2.8-0.62*y) * vg.Centimeter
	return nil
}

// estimate is a value with its interval; what is undefined has an empty row.
func (s *sheet) estimate(m *harness.Metric, y float64) error {
	if !defined(*m) {
		return nil
	}
	if lo, hi := float64(m.Low), float64(m.High); !math.IsNaN(lo) && !math.IsNaN(hi) {
		if err := s.lines(1.2, inkColor, plotter.XY{X: lo, Y: y}, plotter.XY{X: hi, Y: y}); err != nil {
			return err
		}
	}
	return s.dots(plotter.XYs{{X: float64(m.Value), Y: y}}, 3, inkColor)
}

func (s *sheet) dots(at plotter.XYs, radius vg.Length, c color.Color) error {
	d, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	d.GlyphStyle = draw.GlyphStyle{Color: c, Radius: radius, Shape: draw.CircleGlyph{}}
	s.Add(d)
	return nil
}

func (s *sheet) controls(of, pool string, row func(string) float64) error {
	var at plotter.XYs
	sets := 0
	for i := range s.result.Conditions {
		c := &s.result.Conditions[i]
		if c.ControlOf != of || c.Pool != pool {
			continue
		}
		sets++
		if m := primaryChange(s.result, c); m != nil && defined(*m) {
			at = append(at, plotter.XY{X: float64(m.Value)})
		}
	}
	y := row(fmt.Sprintf("%s, pool %s", count(sets, "control set"), pool))
	if len(at) == 0 {
		return nil
	}
	for i := range at {
		at[i].Y = y + []float64{0, -0.2, 0.2, -0.1, 0.1}[i%5]
	}
	return s.dots(at, 1.6, dotColor)
}

func (s *sheet) grid() error {
	r := s.result
	depths, templates := gridDepths(r), gridTemplates(r)
	at := func(c, row int) *harness.GridCell {
		i := slices.IndexFunc(r.Grid, func(g harness.GridCell) bool {
			d := float64(g.Depth)
			return g.Template == templates[row] && (d == depths[c] || math.IsNaN(d) && math.IsNaN(depths[c]))
		})
		if i < 0 {
			return nil
		}
		return &r.Grid[i]
	}
	s.heat(field{len(depths), len(templates), func(c, row int) float64 {
		if g := at(c, row); g != nil && defined(g.Recall) {
			return float64(g.Recall.Value)
		}
		return 0
	}, 1}, coolRamp)
	var texts plotter.XYLabels
	for row := range templates {
		for c := range depths {
			y := float64(len(templates) - 1 - row)
			g := at(c, row)
			if g == nil {
				continue
			}
			if g.N.Failed > 0 {
				if err := s.hatch(float64(c), y); err != nil {
					return err
				}
			}
			text := "failed"
			if defined(g.Recall) {
				text = decimals(float64(g.Recall.Value), 2)
			}
			texts.XYs = append(texts.XYs, plotter.XY{X: float64(c), Y: y})
			texts.Labels = append(texts.Labels, text)
		}
	}
	return s.finishGrid(depths, templates, texts)
}

// hatch marks a cell with failed trials.
func (s *sheet) hatch(x, y float64) error {
	for _, t := range []float64{0.25, 0.5, 0.75, 1} {
		a := []plotter.XY{{X: x - 0.5, Y: y - 0.5 + t}, {X: x - 0.5 + t, Y: y - 0.5}}
		b := []plotter.XY{{X: x + 0.5 - t, Y: y + 0.5}, {X: x + 0.5, Y: y + 0.5 - t}}
		for _, pts := range [][]plotter.XY{a, b} {
			if err := s.lines(0.5, faintColor, pts...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sheet) finishGrid(depths []float64, templates []string, texts plotter.XYLabels) error {
	labels, err := plotter.NewLabels(texts)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		style := &labels.TextStyle[i]
		style.Font.Size, style.Font.Variant, style.XAlign, style.YAlign = 8, "Sans", -0.5, -0.4
		style.Color = inkColor
		if x := texts.Labels[i]; x != "failed" && x > "0.6" {
			style.Color = color.White
		}
	}
	s.Add(labels)
	var xs, ys plot.ConstantTicks
	widest := 0
	for c, d := range depths {
		xs = append(xs, plot.Tick{Value: float64(c), Label: depthCell(d).Text})
	}
	for i, t := range templates {
		ys = append(ys, plot.Tick{Value: float64(len(templates) - 1 - i), Label: t})
		widest = max(widest, len(t))
	}
	s.X.Tick.Marker, s.Y.Tick.Marker = xs, ys
	s.X.Label.Text = "depth of the needle"
	s.Title.Text += "\nrecall of the unmodified model; hatched: trials failed"
	s.width = vg.Length(4+0.16*float64(widest)+1.3*float64(len(depths))) * vg.Centimeter
	s.height = vg.Length(3+0.8*float64(len(templates))) * vg.Centimeter
	return nil
}
