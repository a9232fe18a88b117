package report

import (
	"fmt"
	"strconv"

	"github.com/headscope/headscope/harness"
)

// table is one of plain cells, its first column a name.
type table struct {
	Title, About string
	First        string // head of the first column
	Head         []cell
	Rows         []tableRow
	Notes        []string
}

type tableRow struct {
	Name  cell
	Cells []cell
}

// aboutDetector is what a detector measures.
func aboutDetector(name string) string {
	if about := detectorAbout[name]; about != "" {
		return about
	}
	for _, d := range harness.Detectors() {
		if d.Name == name {
			return d.About
		}
	}
	return ""
}

// detectorTables are the detectors side by side and, where it was measured, how well each finds what the causal map has.
func detectorTables(r *harness.Result) []table {
	var out []table
	if d := r.Detection; d != nil && len(d.Detectors) > 0 {
		out = append(out, detectorTable(d))
	}
	if r.Agreement != nil {
		a := r.Agreement
		out = append(out, agreementTable(&a.AgreementMap, a.Sizes, "Agreement with the causal map"))
		for i := range a.Kinds {
			out = append(out, agreementTable(&a.Kinds[i].AgreementMap, a.Sizes, "Agreement on needles of kind "+a.Kinds[i].Kind))
		}
	}
	return out
}

func detectorTable(d *harness.Detection) table {
	t := table{
		Title: "Detectors side by side", First: "detector",
		About: "Split-half: mean rank correlation over heads between the scores of two halves of the prompts. Shared: how many of the strongest twentieth of all heads are argmax_last's too, and the rank correlation with it.",
		Head:  []cell{textCell("prompts"), textCell("split-half"), textCell("Gini"), textCell("shared"), textCell("Spearman"), textCell("best heads")},
	}
	for i, x := range d.Detectors {
		row := tableRow{cell{x.Name, x.About}, []cell{textCell(strconv.Itoa(x.Prompts)), number(float64(x.SplitHalf), 2, "one prompt, or a score that is not of prompts"), number(float64(x.Gini), 2, "")}}
		shared, rho := cell{"-", "the same detector"}, cell{"-", "the same detector"}
		for _, p := range d.Pairs {
			if p.A == d.Detectors[0].Name && p.B == x.Name && i > 0 {
				shared, rho = textCell(fmt.Sprintf("%d of %d", p.Shared, len(x.Top))), number(float64(p.Spearman), 2, "a score that is the same for all heads")
			}
		}
		best := ""
		for _, h := range x.Top[:min(3, len(x.Top))] {
			best += fmt.Sprintf("%s %s  ", h.Head, decimals(float64(h.Score), 2))
		}
		if x.Prompts == 0 {
			shared, rho = cell{"-", x.Reason}, cell{"-", x.Reason}
		}
		row.Cells = append(row.Cells, shared, rho, textCell(best))
		t.Rows = append(t.Rows, row)
	}
	return t
}

func agreementTable(a *harness.AgreementMap, sizes []int, title string) table {
	t := table{
		Title: title, First: "detector",
		About: fmt.Sprintf("One head off at a time on %d other prompts, from the last prompt row on: %d heads are to be found, by chance with an area of %s. Area: mean drop of log p(code), in nats, without the detector's 1, 2, 4, ... best heads; of random rankings %s, at most %s.",
			a.Prompts, a.Relevant, decimals(float64(a.Random.Base), 2), decimals(float64(a.Random.Area), 2), decimals(float64(a.Random.Largest), 2)),
		Head: []cell{{"AUPRC", "area under the precision-recall curve"}, {"95 %", "prompts of the map resampled"},
			{"significant", fmt.Sprintf("AUPRC of the %d heads whose drop is significantly above 0", len(a.Significant))}, textCell("Spearman"), textCell("area")},
	}
	for _, k := range sizes {
		t.Head = append(t.Head, textCell(fmt.Sprintf("top %d", k)))
	}
	for _, d := range a.Detectors {
		row := tableRow{cell{d.Name, aboutDetector(d.Name)}, []cell{
			number(float64(d.AUPRC), 2, ""), textCell("[" + decimals(float64(d.AUPRCLow), 2) + ", " + decimals(float64(d.AUPRCHigh), 2) + "]"),
			number(float64(d.AUPRCSignificant), 2, "no head is significant"), number(float64(d.Spearman), 2, ""), number(float64(d.Area), 2, ""),
		}}
		for _, x := range d.Curve {
			row.Cells = append(row.Cells, number(float64(x), 2, ""))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
