package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
)

// Bounds from which on a doubt is said.
const (
	fewPrompts  = 20   // below: an interval over prompts says little
	bigOverlap  = 0.5  // share of heads in common
	bigMismatch = 0.22 // |ln| of the ratio of write norms: a fifth
	manyFragile = 0.1  // share of the trials that are fragile
)

// doubts lists what would overturn the result or weakens it, the gravest first.
func doubts(r *harness.Result) []string {
	var out []string
	out = append(out, promptDoubts(r)...)
	out = append(out, effectDoubts(r)...)
	out = append(out, controlDoubts(r)...)
	out = append(out, detectionDoubts(r)...)
	return append(out, trialDoubts(r)...)
}

func promptDoubts(r *harness.Result) []string {
	var out []string
	if r.InSample != nil && *r.InSample {
		out = append(out, "The heads were detected on prompts that they are tested on: the effect is in-sample and likely too large. Other prompts for detection decide that.")
	}
	if r.Prompts.N < fewPrompts {
		text := fmt.Sprintf("Few prompts: %d. Intervals over so few are rough, and another %d may differ.", r.Prompts.N, r.Prompts.N)
		if r.Prompts.Limit > 0 {
			text += " The run was limited to them: it is partial."
		}
		out = append(out, text)
	} else if r.Prompts.Limit > 0 {
		out = append(out, fmt.Sprintf("Partial: limited to %d prompts of the set.", r.Prompts.Limit))
	}
	if n := len(r.Refused); n > 0 {
		out = append(out, fmt.Sprintf("%s could not be made for this tokenizer and %s left out.", count(n, "prompt"), verb(n, "is", "are")))
	}
	var floor, ceiling []string
	for _, t := range r.Templates {
		switch t.Place {
		case "floor":
			floor = append(floor, t.Template)
		case "ceiling":
			ceiling = append(ceiling, t.Template)
		}
	}
	if len(floor) > 0 {
		out = append(out, fmt.Sprintf("At the floor without any edit: %s. A drop there cannot be seen in recall.", strings.Join(floor, ", ")))
	}
	if len(ceiling) > 0 && len(ceiling) < len(r.Templates) {
		out = append(out, fmt.Sprintf("At the ceiling: %s. Small effects there do not show in recall.", strings.Join(ceiling, ", ")))
	}
	for _, v := range r.Variants {
		if v.Variant != harness.VariantNoDecoy && v.N.Hit > 0 {
			out = append(out, fmt.Sprintf("With %s the code is answered all the same in %d of %d prompts: recall is not retrieval alone.", variantName(v.Variant), v.N.Hit, v.N.Planned-v.N.Failed))
		}
	}
	return out
}

func effectDoubts(r *harness.Result) []string {
	var out []string
	for i := range r.Conditions {
		c := &r.Conditions[i]
		m := primaryChange(r, c)
		if m == nil || c.ControlOf != "" || !defined(*m) {
			continue
		}
		kind, scope, _ := strings.Cut(c.Name, "@")
		switch e := c.Metrics.Equivalence; {
		case kind == harness.ModeMean || kind == harness.ModeResample:
		case kind == "sure" || kind == "wide":
			if text := otherCut(r, c, m, scope); text != "" {
				out = append(out, text)
			}
		case float64(m.Low) <= 0 && float64(m.High) >= 0 && e != nil && !e.Equivalent:
			out = append(out, fmt.Sprintf("%s: that no change is shown is not that there is none: equivalence within \u00b1%s is not shown either.",
				conditionName(r, c), decimals(float64(e.Margin), 2)))
		}
	}
	for _, m := range r.Modes {
		if d := m.AgainstZero; d != nil && m.Verdict == "differs" {
			out = append(out, fmt.Sprintf("What takes the heads' place matters: %s @%s gives %s more than zero, %s.", m.Mode, m.Scope, signed(float64(d.Value), 2), interval(*d, 2)))
		}
	}
	return out
}

// otherCut says where the effect depends on which heads count as detected.
func otherCut(r *harness.Result, c *harness.ConditionResult, m *harness.Metric, scope string) string {
	for i := range r.Conditions {
		main := &r.Conditions[i]
		if main.Name != "without@"+scope {
			continue
		}
		of := primaryChange(r, main)
		if of == nil || !defined(*of) || inside(*m, float64(of.Value)) || inside(*of, float64(m.Value)) {
			return ""
		}
		return fmt.Sprintf("Where the cut lies matters: %s gives %s, not %s.", conditionName(r, c), signed(float64(m.Value), 2), signed(float64(of.Value), 2))
	}
	return ""
}

func inside(m harness.Metric, x float64) bool { return float64(m.Low) <= x && x <= float64(m.High) }

func controlDoubts(r *harness.Result) []string {
	var out []string
	for i := range r.Effects {
		if e := &r.Effects[i]; e.P == nil && e.Primary {
			out = append(out, fmt.Sprintf("The primary test has no p: it %s.", orUnknown(e.Reason)))
		}
	}
	for i := range r.Controls {
		c := &r.Controls[i]
		if c.Reason != "" {
			out = append(out, fmt.Sprintf("Controls of pool %s: %s.", c.Pool, c.Reason))
		}
		if len(c.Sets) == 0 {
			continue
		}
		if c.Report.MeanOverlap > bigOverlap {
			out = append(out, fmt.Sprintf("The control sets of pool %s share %s of their heads on average: they are far from independent.", c.Pool, percent(c.Report.MeanOverlap)))
		}
		if n := len(c.Report.Forced); n > 0 {
			out = append(out, fmt.Sprintf("Every control set of pool %s must hold %s: their layers have no others.", c.Pool, some(c.Report.Forced, 8)))
		}
		if c.Match != nil && math.Abs(c.Match.Mismatch) > bigMismatch {
			out = append(out, fmt.Sprintf("The controls of pool %s write less or more than the heads do (mean norm %s against %s): part of the difference may be size.",
				c.Pool, decimals(c.Match.Mean, 1), decimals(c.Match.Target, 1)))
		}
	}
	return out
}

func detectionDoubts(r *harness.Result) []string {
	d := r.Detection
	if d == nil {
		return nil
	}
	var out []string
	n := promptsOf(r)
	if one := 1 / float64(max(1, n)); n > 0 && one >= d.Threshold {
		out = append(out, fmt.Sprintf("One hit in %s is over the threshold of %g: a single prompt makes a head a detected one.", count(n, "prompt"), d.Threshold))
	} else if near := len(d.Borderline.Minus(d.Heads.Set())); near > 0 {
		out = append(out, fmt.Sprintf("%s one hit short of the threshold.", countIs(near, "head")))
	}
	repeated := 0
	for _, h := range d.Hits {
		if h.Label == heads.LabelRepeatedWord {
			repeated++
		}
	}
	if repeated > 0 {
		out = append(out, fmt.Sprintf("%s counted that %s a repeated word, not the code: other wording may drop %s.",
			countIs(repeated, "head"), verb(repeated, "follows", "follow"), verb(repeated, "it", "them")))
	}
	if len(d.Ties) > 0 {
		out = append(out, fmt.Sprintf("Only the tie-breaker chose among %s.", some(d.Ties, 8)))
	}
	if d.CloseCalls > 0 {
		out = append(out, fmt.Sprintf("%s of the last row %s by less than 0.0001 of weight: another machine may see another one.", count(d.CloseCalls, "largest weight"), verb(d.CloseCalls, "leads", "lead")))
	}
	return out
}

func countIs(n int, one string) string { return count(n, one) + " " + verb(n, "is", "are") }

func trialDoubts(r *harness.Result) []string {
	var out []string
	if r.N.Failed > 0 {
		out = append(out, fmt.Sprintf("%d of %d trials failed and are left out: they are not counted as misses.", r.N.Failed, r.N.Planned))
	}
	done := r.N.Planned - r.N.Failed
	if done > 0 && float64(r.N.Fragile) > manyFragile*float64(done) {
		out = append(out, fmt.Sprintf("%d of %d trials are fragile: a greedy token led by less than the bound between program shapes. Recall could differ on another machine; the log-probabilities hardly.", r.N.Fragile, done))
	}
	return out
}
