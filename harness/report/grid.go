package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/harness"
)

// needleGrid is the unmodified model by template and depth.
type needleGrid struct {
	Depths []cell
	Rows   []gridRow
	Failed bool // some cells have failed trials
}

type gridRow struct {
	Template string
	Cells    []gridCell
	All      gridCell
	Place    cell // ceiling or floor
}

type gridCell struct {
	Class  string
	Title  string
	Recall cell
	Margin cell
	Note   string
}

func newGrid(r *harness.Result) *needleGrid {
	if len(r.Grid) == 0 && len(r.Templates) == 0 {
		return nil
	}
	g := &needleGrid{}
	depths := gridDepths(r)
	for _, d := range depths {
		g.Depths = append(g.Depths, depthCell(d))
	}
	for _, name := range gridTemplates(r) {
		row := gridRow{Template: name, All: gridCell{Class: "none", Title: "not computed"}}
		if name == "" {
			row.Template = "(no template)"
		}
		for _, d := range depths {
			row.Cells = append(row.Cells, cellAt(r, name, d))
		}
		for _, t := range r.Templates {
			if t.Template == name {
				row.All = newGridCell(row.Template, t.N, t.Recall, t.Margin, t.SumLogProb)
				row.Place = placeCell(t.Place)
			}
		}
		for _, c := range append(row.Cells, row.All) {
			g.Failed = g.Failed || c.Note != ""
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func placeCell(place string) cell {
	switch place {
	case "ceiling":
		return cell{"ceiling", "recall above 0.95: read small effects off the margin"}
	case "floor":
		return cell{"floor", "recall below 0.2: the unmodified model hardly does this task, so a knock-out can lose little"}
	}
	return cell{}
}

func depthCell(d float64) cell {
	if math.IsNaN(d) {
		return cell{"-", "the needle's depth is not known"}
	}
	return cell{percent(d), "of the haystack stands before the needle"}
}

// gridDepths are the depths that occur, ascending, the unknown one last.
func gridDepths(r *harness.Result) []float64 {
	var out []float64
	unknown := false
	for _, c := range r.Grid {
		if d := float64(c.Depth); math.IsNaN(d) {
			unknown = true
		} else if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	if unknown {
		out = append(out, math.NaN())
	}
	return out
}

// gridTemplates are the templates in the order in which they come.
func gridTemplates(r *harness.Result) []string {
	var out []string
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, t := range r.Templates {
		add(t.Template)
	}
	for _, c := range r.Grid {
		add(c.Template)
	}
	return out
}

func cellAt(r *harness.Result, template string, depth float64) gridCell {
	for _, c := range r.Grid {
		d := float64(c.Depth)
		if c.Template == template && (d == depth || math.IsNaN(d) && math.IsNaN(depth)) {
			out := newGridCell(template+" at "+depthCell(depth).Text, c.N, c.Recall, c.Margin, c.SumLogProb)
			out.Title += fmt.Sprintf("; %d tokens", c.Tokens)
			return out
		}
	}
	return gridCell{Class: "none", Title: "no prompt has this template at this depth", Recall: textCell("\u00b7")}
}

func newGridCell(name string, n harness.Counts, recall, margin, sum harness.Metric) gridCell {
	g := gridCell{Class: shadeClass("b", float64(recall.Value), 1), Recall: value(recall, 2), Margin: change(margin, 1)}
	g.Recall.Title = "" // the cell's own title says it
	g.Title = fmt.Sprintf("%s: recall %s %s, %d hits of %d; margin %s %s; log-probability of the code %s", name,
		decimals(float64(recall.Value), 2), interval(recall, 2), n.Hit, n.Planned-n.Failed,
		g.Margin.Text, interval(margin, 2), decimals(float64(sum.Value), 2))
	if n.Failed > 0 {
		g.Note = fmt.Sprintf("%d failed", n.Failed)
		g.Class += " somefailed"
		g.Title += fmt.Sprintf("; %d of %d trials failed", n.Failed, n.Planned)
	}
	if n.Failed == n.Planned {
		g.Class, g.Recall, g.Margin = "hatched", textCell("failed"), cell{}
		g.Title = fmt.Sprintf("%s: all %d trials failed", name, n.Planned)
	}
	return g
}

// variantRow is the unmodified model where the needle is missing.
type variantRow struct {
	Name, About string
	N           int
	Recall      cell
	Margin      cell
	Sum         cell
}

var variantAbout = map[string]string{
	harness.VariantAbsent:    "neither needle nor decoy stands in the text: what is answered all the same is guessed, or known beforehand",
	harness.VariantDecoyOnly: "the decoy's sentence alone is there: the margin should turn to the decoy",
	harness.VariantNoDecoy:   "the needle alone is there: what the decoy costs is the difference to the prompts with both",
}

func variantRows(r *harness.Result) []variantRow {
	var out []variantRow
	for _, v := range r.Variants {
		row := variantRow{variantName(v.Variant), variantAbout[v.Variant], v.N.Planned, value(v.Recall, 2), change(v.Margin, 2), value(v.SumLogProb, 2)}
		for _, x := range []struct {
			to *cell
			m  harness.Metric
		}{{&row.Recall, v.Recall}, {&row.Margin, v.Margin}, {&row.Sum, v.SumLogProb}} {
			if defined(x.m) {
				x.to.Text += " " + interval(x.m, 2)
			}
		}
		out = append(out, row)
	}
	return out
}
