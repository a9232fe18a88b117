package harness

import "strings"

// writePredictions shows what the score ledger predicts of an experiment's conditions beside what they did. Controls are in the result.
func (r *Result) writePredictions(out *printer, stage string, v View) {
	rows := [][]string{{"condition", "score", "predicted drop", "measured"}}
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
			rows = append(rows, []string{c.Name, fixed(float64(p.Score), 3), fixed(float64(p.Drop), 3), fixed(r.Plan.drop(c), 3)})
		}
	}
	if len(rows) > 1 {
		out.line("Score ledger: what the unmodified model alone predicts, beside the measured drop of %s. score: change of the mean score, at the last row, of the", r.Plan.Primary.Metric)
		out.line("code's tokens less that of the keys outside of the needle, mean over the heads; predicted drop: to first order, nats.")
		out.grid(rows, v.Markdown)
	}
	for _, why := range order {
		out.line("Not predicted, as %s: %s.", why, strings.Join(said[why], ", "))
	}
	if len(rows) > 1 || len(order) > 0 {
		out.line("")
	}
}
