package report

import (
	"fmt"

	"github.com/headscope/headscope/harness"
)

// outcomes is how the trials of each condition ended.
type outcomes struct {
	Kinds []string // that occur
	Rows  []outcomeRow
}

type outcomeRow struct {
	Kind   string // main, controls, other
	Label  string
	Title  string
	Bar    figure
	Number cell
	Note   string
}

// outcomeKinds in the order in which they are stacked.
var outcomeKinds = []string{"hit", "decoy", "other", "refusal", "broken", "failed"}

func outcomeCount(n harness.Counts, kind string) int {
	switch kind {
	case "hit":
		return n.Hit
	case "decoy":
		return n.Decoy
	case "other":
		return n.Other
	case "refusal":
		return n.Refusal
	case "broken":
		return n.Broken
	}
	return n.Failed
}

func newOutcomes(r *harness.Result) *outcomes {
	o := &outcomes{}
	seen := map[string]bool{}
	add := func(row outcomeRow, n harness.Counts) {
		row.Bar = outcomeBar(row.Label, n)
		o.Rows = append(o.Rows, row)
		for _, k := range outcomeKinds {
			seen[k] = seen[k] || outcomeCount(n, k) > 0
		}
	}
	for i := range r.Conditions {
		c := &r.Conditions[i]
		if c.ControlOf != "" {
			continue
		}
		add(outcomeRow{Kind: rowKind(c), Label: conditionName(r, c), Title: headsTitle(c), Number: recallCell(c.Metrics.Recall), Note: flips(c)}, c.N)
		for _, pool := range poolsOf(r, c.Name) {
			sum, sets, scored := harness.Counts{}, 0, 0
			for j := range r.Conditions {
				switch k := &r.Conditions[j]; {
				case k.ControlOf != c.Name || k.Pool != pool:
				case k.N.Scored > 0: // no outcome: their answers were not decoded
					scored++
				default:
					addCounts(&sum, k.N)
					sets++
				}
			}
			if sets == 0 {
				continue
			}
			row := outcomeRow{Kind: "controls", Label: count(sets, "control set") + ", pool " + pool}
			if scored > 0 {
				row.Title = fmt.Sprintf("%d other sets were scored and not decoded", scored)
			}
			row.Number = cell{"-", "every trial failed"}
			if done := sum.Planned - sum.Failed; done > 0 {
				row.Number = cell{"recall " + decimals(float64(sum.Hit)/float64(done), 2) + " (mean)", fmt.Sprintf("%d of %d trials of all sets together", sum.Hit, done)}
			}
			add(row, sum)
		}
	}
	for _, v := range r.Variants {
		add(outcomeRow{Kind: "other", Label: "unmodified, " + variantName(v.Variant), Number: recallCell(v.Recall)}, v.N)
	}
	for _, k := range outcomeKinds {
		if seen[k] {
			o.Kinds = append(o.Kinds, k)
		}
	}
	if len(o.Rows) == 0 {
		return nil
	}
	return o
}

func addCounts(to *harness.Counts, n harness.Counts) {
	to.Planned += n.Planned
	to.Hit += n.Hit
	to.Decoy += n.Decoy
	to.Other += n.Other
	to.Refusal += n.Refusal
	to.Broken += n.Broken
	to.Failed += n.Failed
	to.Fragile += n.Fragile
}

func recallCell(m harness.Metric) cell {
	c := value(m, 2)
	if defined(m) {
		c.Text += " " + interval(m, 2)
	}
	c.Text = "recall " + c.Text
	return c
}

// flips says how far fragile trials could move the hits.
func flips(c *harness.ConditionResult) string {
	f := c.Metrics.Flipped
	if f == nil || f[0] == f[1] {
		return ""
	}
	return fmt.Sprintf("%d to %d hits were the %d fragile to flip", f[0], f[1], c.N.Fragile)
}

// outcomeBar stacks the outcomes; a part wide enough says its number.
func outcomeBar(label string, n harness.Counts) figure {
	f := figure{Class: "bar", Height: 20, Label: label}
	total := 0
	for _, k := range outcomeKinds {
		total += outcomeCount(n, k)
	}
	if total == 0 {
		return f
	}
	x := 0.0
	for _, k := range outcomeKinds {
		part := outcomeCount(n, k)
		if part == 0 {
			continue
		}
		w := float64(part) / float64(total)
		f.rect(box{x, 0, w, 20}, "o-"+k, fmt.Sprintf("%s: %d of %d", k, part, total))
		if w >= 0.08 {
			f.text(x+w/2, 14, "mid t-"+k, fmt.Sprint(part))
		}
		x += w
		f.Label += fmt.Sprintf(", %s %d", k, part)
	}
	return f
}

func variantName(v string) string {
	switch v {
	case harness.VariantAbsent:
		return "needle and decoy absent"
	case harness.VariantDecoyOnly:
		return "decoy alone"
	case harness.VariantNoDecoy:
		return "needle without decoy"
	}
	return v
}
