package harness

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headscope/headscope/loader/decoder"
)

// writeExperiments shows what the swap and keep stages and texts have beside their conditions.
func (r *Result) writeExperiments(out *printer, v View) {
	if s := r.Plan.Swap; s != nil {
		if s.Against != nil {
			out.grid(r.swapRows(), v.Markdown)
			out.line("")
		}
		r.writePredictions(out, StageSwap, v)
	}
	if len(r.Depths) > 0 && len(r.Depths[0].Depths) > 0 {
		out.grid(r.depthRows(), v.Markdown)
		out.line("")
	}
	if r.Keep != nil {
		out.grid(r.keepRows(), v.Markdown)
		out.line("")
	}
	if len(r.Texts) > 0 {
		out.line("%s", r.Plan.Texts.describe())
		out.grid(textRows(r.shownTexts()), v.Markdown)
		out.line("")
	}
}

// swapRows is each table's drop beside that of the same table in other heads.
func (r *Result) swapRows() [][]string {
	rows := [][]string{{"drop of " + r.Plan.Primary.Metric, "heads", "drop", "controls", "mean", "largest", "as much", "p"}}
	for _, t := range r.Plan.Swap.Tables {
		for _, e := range r.Effects {
			if e.Condition != t.Name {
				continue
			}
			row := []string{t.Name + ", " + e.Pool, strconv.Itoa(t.Heads), fixed(float64(e.Drop), 3), strconv.Itoa(e.Controls), fixed(float64(e.ControlDrop), 3), fixed(float64(e.LargestControl), 3), "-", "-"}
			if e.Controls > 0 {
				row[6] = strconv.Itoa(e.AtLeast)
			}
			if e.P != nil {
				row[7] = strconv.FormatFloat(float64(*e.P), 'g', 2, 64)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// shownTexts leaves out control sets, which the table of sizes sums up.
func (r *Result) shownTexts() []TextResult {
	control := map[string]bool{}
	for _, c := range r.Conditions {
		control[c.Name] = c.ControlOf != ""
	}
	var out []TextResult
	for _, t := range r.Texts {
		if !control[t.Name] {
			out = append(out, t)
		}
	}
	return out
}

// primary is the metric that the plan declares.
func (p *Plan) primary(margin, sum Metric) (name string, m Metric) {
	if p.Primary.Metric == metricMargin {
		return "margin", margin
	}
	return "log p(answer)", sum
}

// depthRows is the table of recall by depth, with the far and the near group.
func (r *Result) depthRows() [][]string {
	name, _ := r.Plan.primary(Metric{}, Metric{})
	head := []string{"recall at depth"}
	for _, d := range r.Depths[0].Depths {
		head = append(head, strconv.FormatFloat(float64(d.From), 'g', 3, 64))
	}
	head = append(head, "far", "near", "far - near", "95 %", name+" far", "near", "far - near", "95 %")
	rows := [][]string{head}
	for _, d := range r.Depths {
		row := []string{d.Condition}
		for _, g := range d.Depths {
			row = append(row, show(g.Recall, 2))
		}
		_, far := r.Plan.primary(d.Far.Margin, d.Far.SumLogProb)
		_, near := r.Plan.primary(d.Near.Margin, d.Near.SumLogProb)
		_, difference := r.Plan.primary(d.Margin, d.SumLogProb)
		row = append(row, show(d.Far.Recall, 2), show(d.Near.Recall, 2), signed(d.Recall, 2), interval(d.Recall, 2),
			show(far, 3), show(near, 3), signed(difference, 3), interval(difference, 3))
		rows = append(rows, row)
	}
	return rows
}

// swapNotes say what the tables are.
func (r *Result) swapNotes() []string {
	s := r.Plan.Swap
	if s == nil {
		return nil
	}
	n := []string{fmt.Sprintf("far: needle at depth %g to %g, early in the text and so far from the question; near: %g to %g. far - near: bootstrap over prompts of each group.", farFrom, farTo, nearFrom, nearTo)}
	if len(r.Depths) > 0 && len(r.Depths[0].Depths) == 0 {
		n = []string{"The prompts do not say at which depth their needles stand: there is no far and near (generated prompts do)."}
	}
	for _, t := range s.Tables {
		n = append(n, t.note())
	}
	if s.NoControls != "" {
		n = append(n, "No controls: "+s.NoControls+".")
	}
	if h := s.Hybrid; h != nil {
		which := "the first ones"
		if h.Seed != nil {
			which = fmt.Sprintf("drawn with seed %d", *h.Seed)
		}
		n = append(n, fmt.Sprintf("Hybrid %g: %d of %d key/value groups of every layer, %s: %.3g of the heads.", h.Share, h.Groups, r.Model.KVHeads, which, float64(h.Groups)/float64(r.Model.KVHeads)))
	}
	if len(s.Skipped) > 0 {
		n = append(n, fmt.Sprintf("%d layers do not rotate and keep what they have: %s.", len(s.Skipped), joined(s.Skipped)))
	}
	return n
}

func (t *SwapTable) note() string {
	var parts []string
	for _, c := range t.Changes {
		largest := "one stood still before"
		if c.Largest != nil {
			largest = fmt.Sprintf("by up to %.3g of the frequency", *c.Largest)
		}
		part := fmt.Sprintf("%d of %d planes change in %d layers, %s", c.Planes, c.Of, len(c.Layers), largest)
		if c.Planes == 0 {
			part = fmt.Sprintf("no plane of %d changes in %d layers", c.Of, len(c.Layers))
		}
		if c.Factor != 1 {
			part += fmt.Sprintf(", cosine and sine times %.6g", c.Factor)
		}
		parts = append(parts, part)
	}
	line := fmt.Sprintf("%s: %d heads, %s", t.Name, t.Heads, strings.Join(parts, "; "))
	if t.Edits[0].Scope != decoder.ScopeAll {
		line += fmt.Sprintf(", rows @%s", t.Edits[0].Scope)
	}
	if t.NoOp {
		line += ": a no-op, the tables are the model's own"
	}
	return line + "."
}

func joined(list []int) string {
	s := make([]string, len(list))
	for i, x := range list {
		s[i] = strconv.Itoa(x)
	}
	return strings.Join(s, ",")
}

// keepRows is the table of sizes, with the control sets of each pool below.
func (r *Result) keepRows() [][]string {
	name, _ := r.Plan.primary(Metric{}, Metric{})
	rows := [][]string{{"kept", "share", "recall", name, "95 %", "best control", "p", "perplexity", "tax %"}}
	for _, pt := range r.Keep.Points {
		row := []string{strings.TrimPrefix(pt.Condition, "keep "), fixed(pt.Share, 3), show(pt.Recall, 2), show(pt.Primary, 3), interval(pt.Primary, 3), "", "", "", ""}
		if t := r.textOf(pt.Condition); t != nil {
			row[7] = significant(t.Perplexity)
			if t.Tax != nil {
				row[8] = signed(*t.Tax, 2)
			}
		}
		rows = append(rows, row)
		for _, c := range pt.Controls {
			p := "-"
			if c.P != nil {
				p = strconv.FormatFloat(float64(*c.P), 'g', 2, 64)
			}
			ppl, tax := r.controlTexts(pt.Condition, c.Pool)
			rows = append(rows, []string{fmt.Sprintf("  %d sets, pool %s, mean", c.Sets, c.Pool), "", fixed(float64(c.Recall), 2), fixed(float64(c.Primary), 3), "",
				fixed(float64(c.Highest), 3), p, ppl, tax})
		}
	}
	for _, a := range r.Keep.Areas {
		label := "area, pool " + a.Pool
		if a.Pool == "set" {
			label = "area"
		}
		rows = append(rows, []string{label, "", fixed(float64(a.Recall), 2), fixed(float64(a.Primary), 3), "", "", "", "", ""})
	}
	return rows
}

// controlTexts is the mean perplexity and tax of the control sets whose texts are scored.
func (r *Result) controlTexts(of, pool string) (perplexity, tax string) {
	n, p, x := 0, 0.0, 0.0
	for i := range r.Conditions {
		c := &r.Conditions[i]
		if t := r.textOf(c.Name); c.ControlOf == of && c.Pool == pool && t != nil && t.Tax != nil {
			n, p, x = n+1, p+float64(t.Perplexity.Value), x+float64(t.Tax.Value)
		}
	}
	if n == 0 {
		return "", ""
	}
	return strconv.FormatFloat(p/float64(n), 'g', 5, 64), fixed(x/float64(n), 2)
}

func (r *Result) keepNotes() []string {
	k := r.Plan.Keep
	if k == nil || r.Keep == nil {
		return nil
	}
	n := []string{
		fmt.Sprintf("kept: these see every key, all others the first %d and the last %d. share: of the model's %d %s. area: mean height of the curve over the share kept.", k.Sink, k.Recent, r.Keep.Units, k.unit()),
		"Controls: random sets of as many; pool layer: as many in every layer, none of the set; pool random: of all, the set's own not left out.",
		"p: share of sets, the tested one counted, that keep at least as much of the primary outcome (head-set randomisation).",
	}
	for _, pt := range r.Keep.Points {
		for _, c := range pt.Controls {
			if c.Reason != "" {
				n = append(n, fmt.Sprintf("%s, pool %s: %s.", pt.Condition, c.Pool, c.Reason))
			}
		}
	}
	return n
}
