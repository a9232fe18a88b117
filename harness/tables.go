package harness

import (
	"fmt"
	"strings"
)

// writePredictions shows what the score ledger predicts of an experiment's conditions beside what they did. Controls are in the result.
func (r *Result) writePredictions(out *printer, stage string, v View) {
	about, rows, notes := r.predictionRows(stage)
	if len(rows) > 1 {
		for _, line := range about {
			out.line("%s", line)
		}
		out.grid(rows, v.Markdown)
	}
	for _, line := range notes {
		out.line("%s", line)
	}
	if len(rows) > 1 || len(notes) > 0 {
		out.line("")
	}
}

// predictionRows is that table, what it is about, and what is not predicted.
func (r *Result) predictionRows(stage string) (about []string, rows [][]string, notes []string) {
	rows = [][]string{{"condition", "score predicted", "measured", "drop predicted", "measured"}}
	said := map[string][]string{}
	var order []string
	for i := range r.Conditions {
		c := &r.Conditions[i]
		if c.Stage != stage || c.ControlOf != "" {
			continue
		}
		if c.Unpredicted != "" {
			if said[c.Unpredicted] == nil {
				order = append(order, c.Unpredicted)
			}
			said[c.Unpredicted] = append(said[c.Unpredicted], c.Name)
		}
		if p := c.Predicted; p != nil && p.N > 0 {
			name := c.Name
			if p.N < c.Metrics.Change.Of {
				name += fmt.Sprintf(" (predicted: %d of %d prompts)", p.N, c.Metrics.Change.Of)
			}
			rows = append(rows, []string{name, fixed(float64(p.Score), 3), fixed(float64(p.Measured), 3), fixed(float64(p.Drop), 3), fixed(r.Plan.drop(c), 3)})
		}
	}
	for _, why := range order {
		notes = append(notes, fmt.Sprintf("Not predicted, as %s: %s.", why, strings.Join(said[why], ", ")))
	}
	return []string{
		fmt.Sprintf("Score ledger: what the unmodified model alone predicts, beside the measured drop of %s. score: change of the mean score, at the last", r.Plan.Primary.Metric),
		"row, of the code's tokens less that of the keys outside of the needle, mean over the heads, exact where no edited head feeds another; drop: to",
		"first order, nats.",
	}, rows, notes
}

// Table is a part of a result in cells; the first row is the head.
type Table struct {
	Title string
	About string
	Rows  [][]string
	Notes []string
}

// Tables are what a result has beside its conditions and effects: bands, tables in place of the model's, heads that are kept, plain texts.
func (r *Result) Tables() []Table {
	var out []Table
	add := func(t Table) {
		if len(t.Rows) > 1 || len(t.Notes) > 0 {
			out = append(out, t)
		}
	}
	ledger := func(stage string) {
		about, rows, notes := r.predictionRows(stage)
		add(Table{"Predicted and measured", strings.Join(about, " "), rows, notes})
	}
	if r.Bands != nil {
		about, rows := r.bandRows()
		add(Table{"Bands of planes", strings.Join(about, " "), rows, r.bandNotes()})
		ledger(StageBands)
	}
	if s := r.Plan.Swap; s != nil && len(r.Depths) > 0 {
		if s.Against != nil {
			add(Table{"The same table in other heads", "Drop in nats; p: head-set randomisation, one-sided.", r.swapRows(), nil})
		}
		if len(r.Depths[0].Depths) > 0 {
			add(Table{"By depth of the needle", "", r.depthRows(), nil})
		}
		ledger(StageSwap)
		add(Table{"Tables", "", nil, r.swapNotes()})
	}
	if r.Keep != nil {
		add(Table{"Heads that are kept", "", r.keepRows(), r.keepNotes()})
	}
	if len(r.Texts) > 0 {
		shown := r.shownTexts()
		add(Table{"Plain texts", r.Plan.Texts.describe(), textRows(shown), textNotes(r.Plan.Texts, shown)})
	}
	return out
}
