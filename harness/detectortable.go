package harness

import (
	"fmt"
	"strconv"
	"strings"
)

// writeDetectors is the table of all detectors, where more than the basic ones were asked for.
func (r *Result) writeDetectors(out *printer, v View) {
	d := r.Detection
	if len(d.Detectors) == 0 {
		return
	}
	out.line("%d detectors; best heads with their scores (= shares a score with a head left out), split-half: mean Spearman correlation over heads of two halves of the prompts", len(d.Detectors))
	rows := [][]string{{"detector", "n", "split-half", "gini", "top", "depth", "best heads"}}
	for _, x := range d.Detectors {
		row := []string{x.Name, strconv.Itoa(x.Prompts), fixed(float64(x.SplitHalf), 2), fixed(float64(x.Gini), 2), strconv.Itoa(len(x.Top)), fixed(float64(x.Centre), 2)}
		var best []string
		for _, h := range x.Top[:min(4, len(x.Top))] {
			tie := ""
			if x.Ties.Contains(h.Head) {
				tie = "="
			}
			best = append(best, fmt.Sprintf("%s %s%s", h.Head, fixed(float64(h.Score), 3), tie))
		}
		rows = append(rows, append(row, strings.Join(best, " ")))
	}
	out.grid(rows, v.Markdown)
	for _, x := range d.Detectors {
		if x.Unscored > 0 {
			out.line("%s is of %d prompts; %d left out, the first because %s.", x.Name, x.Prompts, x.Unscored, x.Reason)
		}
	}
	out.line("")
	out.line("Agreement: Spearman over all heads above, Jaccard of the top heads below the diagonal")
	out.grid(d.pairRows(), v.Markdown)
	out.line("")
}

// pairRows is the matrix of pairs.
func (d *Detection) pairRows() [][]string {
	head := []string{""}
	at := map[[2]string]DetectorPair{}
	for _, p := range d.Pairs {
		at[[2]string{p.A, p.B}] = p
	}
	for i := range d.Detectors {
		head = append(head, strconv.Itoa(i+1))
	}
	rows := [][]string{head}
	for i, a := range d.Detectors {
		row := []string{fmt.Sprintf("%d %s", i+1, a.Name)}
		for j, b := range d.Detectors {
			p, upper := at[[2]string{a.Name, b.Name}], j > i
			if j < i {
				p = at[[2]string{b.Name, a.Name}]
			}
			cell := "-"
			if p.A != "" && upper {
				cell = fixed(float64(p.Spearman), 2)
			} else if p.A != "" {
				cell = fixed(float64(p.Jaccard), 2)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}
