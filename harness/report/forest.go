package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headscope/headscope/harness"
)

// forest is how far each condition moves the primary metric, with intervals, and its controls below it.
type forest struct {
	Metric string
	Rows   []forestRow
	Axis   figure
	Band   string // the equivalence margin, drawn as a band; empty where there is none
}

type forestRow struct {
	Kind    string // head, main, controls, other
	Label   string
	Title   string
	Strip   figure
	Number  cell
	Comment string
}

func newForest(r *harness.Result) *forest {
	lo, hi, any := 0.0, 0.0, false
	widen := func(x float64) {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			lo, hi, any = min(lo, x), max(hi, x), true
		}
	}
	var margin float64
	for i := range r.Conditions {
		if m := primaryChange(r, &r.Conditions[i]); m != nil {
			widen(float64(m.Value))
			if r.Conditions[i].ControlOf == "" {
				widen(float64(m.Low))
				widen(float64(m.High))
			}
		}
		if e := r.Conditions[i].Metrics.Equivalence; e != nil {
			margin = float64(e.Margin)
		}
	}
	if !any {
		return nil
	}
	f := &forest{Metric: metricName(r.Plan.Primary.Metric)}
	p := forestPlot{result: r, axis: newAxis(lo, hi, 5), margin: margin}
	if margin > 0 {
		f.Band = decimals(margin, 2)
	}
	for i := range r.Conditions {
		c := &r.Conditions[i]
		if c.ControlOf != "" || primaryChange(r, c) == nil {
			continue
		}
		f.Rows = append(f.Rows, p.condition(c))
		if c.Stage == harness.StageBands && c.Name != r.Plan.Primary.Condition {
			continue // the table of bands has all controls
		}
		for _, pool := range poolsOf(r, c.Name) {
			f.Rows = append(f.Rows, p.controls(c, pool))
		}
	}
	f.Axis = p.ticks()
	return f
}

// poolsOf lists the pools that a condition has controls of, in the order in which they come.
func poolsOf(r *harness.Result, condition string) []string {
	var out []string
	seen := map[string]bool{}
	for i := range r.Conditions {
		if c := &r.Conditions[i]; c.ControlOf == condition && !seen[c.Pool] {
			seen[c.Pool] = true
			out = append(out, c.Pool)
		}
	}
	return out
}

// forestPlot is what the rows of a forest share.
type forestPlot struct {
	result *harness.Result
	axis   axis
	margin float64
}

// strip is an empty row: the grid, the equivalence band, the line of no change.
func (p *forestPlot) strip(label string) figure {
	f := figure{Class: "strip", Label: label}
	if p.margin > 0 {
		a, b := max(0, p.axis.at(-p.margin)), min(1, p.axis.at(p.margin))
		f.fullRect(a, b-a, "band")
	}
	for _, t := range p.axis.ticks() {
		f.fullLine(p.axis.at(t), "tick")
	}
	f.fullLine(p.axis.at(0), "zero")
	return f
}

func (p *forestPlot) condition(c *harness.ConditionResult) forestRow {
	m := *primaryChange(p.result, c)
	row := forestRow{Kind: rowKind(c), Label: conditionName(p.result, c), Title: headsTitle(c), Number: change(m, 2)}
	row.Strip = p.strip(fmt.Sprintf("%s: %s %s", row.Label, row.Number.Text, interval(m, 2)))
	if !defined(m) {
		row.Comment = row.Number.Title
		return row
	}
	if low, high := float64(m.Low), float64(m.High); !math.IsNaN(low) && !math.IsNaN(high) {
		row.Strip.midLine(p.axis.at(low), p.axis.at(high), "whisker")
	}
	row.Strip.midDot(p.axis.at(float64(m.Value)), 5, "point", row.Number.Text+" "+interval(m, 2))
	row.Number.Text += " " + interval(m, 2)
	if e := c.Metrics.Equivalence; e != nil && e.Equivalent {
		row.Comment = fmt.Sprintf("equivalent to no effect within %s", decimals(float64(e.Margin), 2))
	}
	return row
}

// otherKinds are the names of knock-outs beside the main one: other cuts, other modes.
var otherKinds = []string{"sure", "wide", harness.ModeMean, harness.ModeResample}

// rowKind sets off what depends on another cut or mode.
func rowKind(c *harness.ConditionResult) string {
	if kind, _, _ := strings.Cut(c.Name, "@"); slices.Contains(otherKinds, kind) {
		return "other"
	}
	return "main"
}

// controls is one row for all control sets of a pool: a dot a set, those of a value beside each other.
func (p *forestPlot) controls(of *harness.ConditionResult, pool string) forestRow {
	row := forestRow{Kind: "controls"}
	var values []float64
	undefined := 0
	var dots []func(*figure)
	for i := range p.result.Conditions {
		c := &p.result.Conditions[i]
		if c.ControlOf != of.Name || c.Pool != pool {
			continue
		}
		m := primaryChange(p.result, c)
		if m == nil || !defined(*m) {
			undefined++
			continue
		}
		v, k := float64(m.Value), len(values)
		title := fmt.Sprintf("%s (%s): %s", c.Name, c.Heads, signed(v, 2))
		dots = append(dots, func(f *figure) {
			f.midDot(p.axis.at(v), 3, fmt.Sprintf("control j%d", k%5), title)
		})
		values = append(values, v)
	}
	row.Label = count(len(values)+undefined, "control set") + ", pool " + pool
	row.Strip = p.strip(row.Label)
	if m := primaryChange(p.result, of); m != nil && defined(*m) {
		x := p.axis.at(float64(m.Value))
		row.Strip.fullLine(x, "target")
	}
	for _, d := range dots {
		d(&row.Strip)
	}
	if undefined > 0 {
		row.Comment = count(undefined, "set") + " undefined"
	}
	row.Number = controlNumber(p.result, of.Name, pool, values)
	return row
}

// controlNumber is the mean of the controls, how many did as much, and p.
func controlNumber(r *harness.Result, condition, pool string, values []float64) cell {
	if len(values) == 0 {
		return cell{"-", "no control has a value"}
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	text := "mean " + signed(sum/float64(len(values)), 2)
	for _, e := range r.Effects {
		if e.Condition != condition || e.Pool != pool {
			continue
		}
		text += fmt.Sprintf("; %d of %d as low; ", e.AtLeast, e.Controls)
		if e.P != nil {
			return cell{text + "p = " + probability(float64(*e.P)), e.Method}
		}
		return cell{text + "p -", "p " + orUnknown(e.Reason)}
	}
	return textCell(text)
}

func (p *forestPlot) ticks() figure {
	f := figure{Class: "strip", Label: "scale", Height: 18}
	for _, t := range p.axis.ticks() {
		f.text(p.axis.at(t), 12, "mid", signed(t, p.axis.digits()))
	}
	return f
}

// conditionName says a condition in words.
func conditionName(r *harness.Result, c *harness.ConditionResult) string {
	kind, scope, own := strings.Cut(c.Name, "@")
	if c.Scope == "" || !own || scope != string(c.Scope) {
		if c.Stage == harness.StageDetect && r.Plan.DetectPrompts != nil {
			return c.Name + " (detect prompts)"
		}
		return c.Name
	}
	n := count(len(c.Heads), "head")
	switch kind {
	case "without":
		return "without " + n + " @" + scope
	case "sure":
		return "without the " + n + " that " + verb(len(c.Heads), "is", "are") + " sure @" + scope
	case "wide":
		return "without " + n + ", those one hit short included @" + scope
	case harness.ModeMean:
		return n + " at their mean @" + scope
	case harness.ModeResample:
		return n + " resampled @" + scope
	}
	return c.Name
}

func headsTitle(c *harness.ConditionResult) string {
	if len(c.Heads) == 0 {
		return ""
	}
	return some(c.Heads, 40)
}
