package report

import (
	"fmt"

	"github.com/headscope/headscope/harness"
)

// experimentTables are what experiments have beside their conditions, as the command prints them.
func experimentTables(r *harness.Result) []table {
	var out []table
	for _, x := range r.Tables() {
		t := table{Title: x.Title, About: x.About, Notes: x.Notes}
		for i, row := range x.Rows {
			if i == 0 {
				t.First = row[0]
				for _, c := range row[1:] {
					t.Head = append(t.Head, textCell(c))
				}
				continue
			}
			cells := tableRow{Name: textCell(row[0])}
			for _, c := range row[1:] {
				cells.Cells = append(cells.Cells, textCell(c))
			}
			t.Rows = append(t.Rows, cells)
		}
		out = append(out, t)
	}
	return out
}

// newCurve is the primary metric by the number of heads kept: a row a size, with the means of its control sets.
func newCurve(r *harness.Result) *forest {
	if r.Keep == nil || len(r.Keep.Points) == 0 {
		return nil
	}
	lo, hi, any := 0.0, 0.0, false
	widen := func(xs ...harness.Number) {
		for _, x := range xs {
			if finite(x) {
				lo, hi, any = min(lo, float64(x)), max(hi, float64(x)), true
			}
		}
	}
	for _, p := range r.Keep.Points {
		widen(p.Primary.Value, p.Primary.Low, p.Primary.High)
		for _, c := range p.Controls {
			widen(c.Primary)
		}
	}
	if !any {
		return nil
	}
	f := &forest{Metric: metricName(r.Plan.Primary.Metric)}
	plot := forestPlot{result: r, axis: newAxis(lo, hi, 5)}
	for _, p := range r.Keep.Points {
		row := forestRow{Kind: "main", Label: fmt.Sprintf("%s (%s)", p.Condition, percent(p.Share)), Number: value(p.Primary, 2), Comment: "recall " + decimals(float64(p.Recall.Value), 2)}
		row.Strip = plot.strip(row.Label)
		if finite(p.Primary.Low, p.Primary.High) {
			row.Strip.midLine(plot.axis.at(float64(p.Primary.Low)), plot.axis.at(float64(p.Primary.High)), "whisker")
		}
		if finite(p.Primary.Value) {
			row.Strip.midDot(plot.axis.at(float64(p.Primary.Value)), 5, "point", row.Number.Text)
		}
		for i, c := range p.Controls {
			if finite(c.Primary) {
				row.Strip.midDot(plot.axis.at(float64(c.Primary)), 3, fmt.Sprintf("control j%d", i+1), fmt.Sprintf("%s, pool %s: mean %s", count(c.Sets, "set"), c.Pool, decimals(float64(c.Primary), 2)))
			}
		}
		f.Rows = append(f.Rows, row)
	}
	f.Axis = plot.ticks()
	return f
}
