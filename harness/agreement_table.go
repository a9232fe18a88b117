package harness

import "fmt"

// writeAgreement is the tables: of all prompts, then of those of each kind.
func (r *Result) writeAgreement(out *printer, v View) {
	a := r.Agreement
	if a == nil {
		return
	}
	out.line("Agreement with the causal map of %d other prompts: one head off at a time, from the last prompt row on; its %d strongest heads are to be found", a.Prompts, a.Relevant)
	out.grid(a.table(a.Sizes, true), v.Markdown)
	out.line("AUPRC: area under the precision-recall curve, by chance %s; its interval resamples the map's prompts. significant: the same of the %d heads whose", fixed(float64(a.Random.Base), 2), len(a.Significant))
	out.line("drop is above 0 (t tests over prompts, Benjamini-Hochberg at %g). top k: drop of log p(answer) without the detector's k best heads, nats; area: its mean over sizes.", falseDiscovery)
	out.line("Heads without a score above 0 are left on: there the curve of a detector that finds fewer heads stays as it is.")
	out.line("The map's own split-half correlation is %s; the largest area of a random ranking %s.", fixed(float64(a.SplitHalf), 2), fixed(float64(a.Random.Largest), 2))
	out.line("")
	for _, k := range a.Kinds {
		out.line("Needles of kind %s: %d prompts, mean log p(answer) %s; %d significant heads; the map's split-half correlation is %s, the largest area of a random ranking %s",
			k.Kind, k.Prompts, fixed(float64(k.LogProb), 2), len(k.Significant), fixed(float64(k.SplitHalf), 2), fixed(float64(k.Random.Largest), 2))
		out.grid(k.table(a.Sizes, false), v.Markdown)
		out.line("")
	}
}

// table has a row a detector. Its split-half correlation is of its own prompts, whatever the map's are: own adds it.
func (a *AgreementMap) table(sizes []int, own bool) [][]string {
	head := []string{"detector", "AUPRC", "95 %", "significant", "Spearman", "area"}
	if own {
		head = append(head[:5:5], "split-half", "area")
	}
	for _, k := range sizes {
		head = append(head, fmt.Sprintf("top %d", k))
	}
	rows := [][]string{head}
	add := func(row []string, curve []Number) {
		for _, x := range curve {
			row = append(row, fixed(float64(x), 2))
		}
		rows = append(rows, row)
	}
	for _, d := range a.Detectors {
		row := []string{d.Name, fixed(float64(d.AUPRC), 2), "[" + fixed(float64(d.AUPRCLow), 2) + ", " + fixed(float64(d.AUPRCHigh), 2) + "]", fixed(float64(d.AUPRCSignificant), 2), fixed(float64(d.Spearman), 2)}
		if own {
			row = append(row, fixed(float64(d.SplitHalf), 2))
		}
		add(append(row, fixed(float64(d.Area), 2)), d.Curve)
	}
	row := make([]string, len(head)-len(sizes)-1)
	row[0], row[1] = fmt.Sprintf("random (%d)", a.Random.Rankings), fixed(float64(a.Random.Base), 2)
	add(append(row, fixed(float64(a.Random.Area), 2)), a.Random.Curve)
	return rows
}
