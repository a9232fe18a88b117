package harness

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/stats"
)

// View says how a result is shown.
type View struct {
	Markdown bool
	Width    int  // columns of the heat map; 0 means 80
	Color    bool // ANSI colours in the heat map
}

// Write shows a result as text: heat map, detected heads, table of conditions, and what a reader has to know of them.
func (r *Result) Write(w io.Writer, v View) error {
	out := &printer{w: w}
	out.line("%s  %s  %s  %s  key %s", lastPart(r.Model.Ref), r.Model, r.Plan.Run.DType, r.Environment.Hardware.About, r.Key)
	out.line("%d prompts of %s, %d-%d tokens%s", r.Prompts.N, r.Prompts.Source, r.Prompts.Shortest, r.Prompts.Longest, partial(r.Prompts.Limit))
	out.line("")
	if r.Detection != nil {
		r.writeDetection(out, v)
	}
	if len(r.Conditions) > 0 {
		out.grid(r.conditionRows(), v.Markdown)
		out.line("")
	}
	r.writeModes(out, v.Markdown)
	r.writeBands(out, v)
	r.writePredictions(out, StageBands, v)
	r.writeExperiments(out, v)
	for _, n := range r.notes() {
		out.line("%s", n)
	}
	return out.err
}

func lastPart(ref string) string {
	ref = strings.TrimRight(ref, "/")
	return ref[strings.LastIndexByte(ref, '/')+1:]
}

func partial(limit int) string {
	if limit == 0 {
		return ""
	}
	return fmt.Sprintf("  (partial: --limit %d)", limit)
}

func (r *Result) writeDetection(out *printer, v View) {
	d := r.Detection
	out.line("argmax_last: share of %d prompts in which the last row's largest weight lies in the needle", r.Scores.N)
	out.fence(v.Markdown)
	if out.err == nil {
		out.err = r.Scores.Heatmap(out.w, heads.HeatmapOptions{Marked: d.Heads.Set(), Width: v.Width, Color: v.Color})
	}
	out.fence(v.Markdown)
	out.line("")
	out.line("%d heads with argmax_last >= %g (n = %d; where their hits in the needle fall)", len(d.Heads), d.Threshold, r.Scores.N)
	rows := [][]string{{"head", "argmax_last", "mass_last", "copy_tf", "hits on"}}
	for _, h := range d.Heads {
		row := []string{h.String()}
		for _, name := range []string{"argmax_last", "mass_last", "copy_tf"} {
			s, ok := d.Score(name)
			row = append(row, "-")
			if ok {
				row[len(row)-1] = fixed(s.At(h), 3)
			}
		}
		for _, hits := range d.Hits {
			if hits.Head == h {
				row = append(row, string(hits.Label))
			}
		}
		rows = append(rows, row)
	}
	if len(d.Heads) > 0 {
		out.grid(rows, v.Markdown)
	}
	out.line("")
	r.writeDetectors(out, v)
	r.writeAgreement(out, v)
}

// conditionRows is the table of conditions, by the plan's primary outcome.
func (r *Result) conditionRows() [][]string {
	margin, equivalence := r.Plan.Primary.Metric == metricMargin, r.Plan.Statistics.Equivalence
	name := "log p(answer)"
	if margin {
		name = "margin"
	}
	head := []string{"condition", "n", "recall", "95 %", name, "change", "95 %", "McNemar p"}
	if equivalence > 0 {
		head = append(head, fmt.Sprintf("within %g", equivalence))
	}
	rows := [][]string{head}
	more := map[string][]float64{} // drops of the controls that have no line of their own, by condition and pool
	for i := range r.Conditions {
		c := &r.Conditions[i]
		m := &c.Metrics
		if (c.Stage == StageBands || c.Stage == StageSwap) && c.ControlOf != "" {
			continue // tables of their own have their means
		}
		if key := c.ControlOf + " " + c.Pool; c.ControlOf != "" {
			if more[key] = append(more[key], r.Plan.drop(c)); len(more[key]) > shownControls {
				if i+1 == len(r.Conditions) || r.Conditions[i+1].ControlOf+" "+r.Conditions[i+1].Pool != key {
					rows = append(rows, moreControls(c, more[key][shownControls:], len(head)))
				}
				continue
			}
		}
		value, change := m.SumLogProb, m.Change
		if margin {
			value, change = m.Margin, m.MarginChange
		}
		row := make([]string, len(head))
		copy(row, []string{r.title(c), strconv.Itoa(m.Recall.Of), show(m.Recall, 2), interval(m.Recall, 2), show(value, 3)})
		if change != nil {
			row[5], row[6] = signed(*change, 3), interval(*change, 3)
		}
		if c.NoOp == unchanged {
			row[5] = "no-op"
		}
		if m.McNemar != nil {
			row[7] = "-"
			if m.McNemar.Of > 0 {
				row[7] = strconv.FormatFloat(float64(m.McNemar.P), 'g', 2, 64)
			}
		}
		if e := m.Equivalence; e != nil && equivalence > 0 {
			row[8] = map[bool]string{true: "yes", false: "no"}[e.Equivalent]
		}
		rows = append(rows, row)
	}
	return rows
}

// shownControls is how many control sets of a condition and pool have a line of their own.
const shownControls = 3

// moreControls is one line for the rest of a condition's control sets: their mean change, the lowest and the highest.
func moreControls(c *ConditionResult, drops []float64, columns int) []string {
	row := make([]string, columns)
	row[0] = fmt.Sprintf("  %d more controls (%s)", len(drops), c.Pool)
	if c.Scope != "" {
		row[0] += " @" + string(c.Scope)
	}
	row[5] = fixed(-stats.Mean(drops), 3)
	row[6] = fmt.Sprintf("from %s to %s", fixed(-slices.Max(drops), 3), fixed(-slices.Min(drops), 3))
	return row
}

// templateNotes say how the unmodified model does by template, and without what it is asked about.
func (r *Result) templateNotes() []string {
	var n []string
	if len(r.Templates) > 1 || len(r.Templates) == 1 && r.Templates[0].Template != "" {
		line := "Templates, unmodified (recall, margin):"
		for i, t := range r.Templates {
			if i > 0 {
				line += ";"
			}
			line += fmt.Sprintf(" %s %s, %s", t.Template, show(t.Recall, 2), show(t.Margin, 2))
			if t.Place == "floor" || t.Place == "ceiling" {
				line += " (" + t.Place + ")"
			}
		}
		n = append(n, line+".")
	}
	for _, v := range r.Variants {
		n = append(n, fmt.Sprintf("Unmodified, %s: recall %s, log p(answer) %s, margin %s, n = %d.",
			map[string]string{VariantAbsent: "neither needle nor decoy", VariantDecoyOnly: "decoy without needle", VariantNoDecoy: "needle without decoy"}[v.Variant],
			show(v.Recall, 2), show(v.SumLogProb, 2), show(v.Margin, 2), v.Recall.Of))
	}
	if len(r.Refused) > 0 {
		n = append(n, fmt.Sprintf("%d prompts could not be made, the first %s: %s.", len(r.Refused), r.Refused[0].Prompt, r.Refused[0].Reason))
	}
	return n
}

func (r *Result) title(c *ConditionResult) string {
	scope := ""
	if c.Scope != "" {
		scope = " @" + string(c.Scope)
	}
	switch {
	case c.Stage == StageBands || c.Stage == StageSwap:
		return c.Name
	case c.ControlOf != "" && c.Stage == StageKeep:
		name, _, _ := strings.Cut(c.Name, "@")
		return fmt.Sprintf("  %s: %d heads", name, len(c.Heads))
	case c.ControlOf != "":
		name, _, _ := strings.Cut(c.Name, "@")
		return fmt.Sprintf("  %s: %d others%s", name, len(c.Heads), scope)
	case c.Name == "sure@"+string(c.Scope):
		return fmt.Sprintf("without the %d sure ones%s", len(c.Heads), scope)
	case c.Name == "wide@"+string(c.Scope):
		return fmt.Sprintf("without %d, borderline ones too%s", len(c.Heads), scope)
	case c.Name == modeName(ModeMean, c.Scope):
		return fmt.Sprintf("mean of %d heads%s", len(c.Heads), scope)
	case c.Name == modeName(ModeResample, c.Scope):
		return fmt.Sprintf("%d heads resampled%s", len(c.Heads), scope)
	case c.Scope != "":
		return fmt.Sprintf("without %d heads%s", len(c.Heads), scope)
	case c.Stage == StageDetect && r.Plan.DetectPrompts != nil:
		return c.Name + " (detect prompts)"
	}
	return c.Name
}

// notes are the lines below the table.
func (r *Result) notes() []string {
	n := []string{"recall: the answer stands in the greedy text; interval: Wilson. log p(answer): sum over its tokens, mean over prompts;",
		"change: against unmodified on the same prompts, bootstrap over prompts. McNemar p is about prompts only."}
	if r.Plan.Primary.Metric == metricMargin {
		n[0] = "recall: the answer stands in the greedy text; interval: Wilson. margin: log p(answer) - log p(decoy), nats, mean over prompts;"
	}
	if e := r.Plan.Statistics.Equivalence; e > 0 && len(r.Plan.experiments()) > 0 {
		n = append(n, fmt.Sprintf("within %g: the change's 90 %% interval lies within %g nats of none (two one-sided tests); no does not mean a difference.", e, e))
	}
	n = append(n, r.noOpNotes()...)
	if note := skippedNote(r.Plan.Skipped); note != "" {
		n = append(n, note)
	}
	n = append(n, r.swapNotes()...)
	n = append(n, r.keepNotes()...)
	if len(r.Texts) > 0 {
		n = append(n, textNotes(r.Plan.Texts, r.shownTexts())...)
	}
	n = append(n, r.templateNotes()...)
	if m := r.Metrics; m != nil && (m.Recall.Place() == PlaceCeiling || m.Recall.Place() == PlaceFloor) {
		place := "ceiling"
		if float64(m.Recall.Value) < floorRecall {
			place = "floor"
		}
		n = append(n, fmt.Sprintf("The unmodified model's recall is at the %s (%s): read small effects off the log-probability.", place, show(m.Recall, 2)))
	}
	if r.InSample != nil && *r.InSample {
		n = append(n, "In-sample: the heads were detected on prompts that they are tested on (--detect-prompts FILE gives others).")
	}
	about, controls := r.Plan.About()
	if about != nil && len(about.Heads) > 0 && r.Detection == nil {
		n = append(n, "The heads were given: whether they were detected on these prompts is not known here.")
	}
	if about != nil && len(about.Heads) == 0 && r.Detection != nil && about.Top > len(r.Detection.Heads) {
		n = append(n, fmt.Sprintf("The best %d heads were asked for: %d of them are below the threshold.", about.Top, about.Top-len(r.Detection.Heads)))
	}
	for _, e := range r.Effects {
		if r.Bands != nil && (e.P == nil || e.Pool != PoolLayer && e.Pool != PoolLayerKV) {
			continue // the table of bands has the rest
		}
		p := "p " + e.Reason
		if e.P != nil {
			p = fmt.Sprintf("p = %.3g", float64(*e.P))
		}
		if e.Controls == 0 {
			n = append(n, fmt.Sprintf("%s %s", e.Condition, e.Reason))
			continue
		}
		n = append(n, fmt.Sprintf("%s against its controls (%s): %d of %d lowered %s as much; %s randomisation: %s.", e.Condition, e.Pool, e.AtLeast, e.Controls, e.Metric, strings.Split(e.Method, " ")[0], p))
	}
	n = append(n, r.controlNotes()...)
	n = append(n, r.modeNotes()...)
	if d := r.Detection; d != nil {
		n = append(n, fmt.Sprintf("Closest calls: %d arg maxes of the last row lead by less than 1e-4; borderline heads (one hit from the threshold): %s.", d.CloseCalls, someHeads(d.Borderline)))
		if len(d.NoCopyTF) > 0 {
			n = append(n, fmt.Sprintf("copy_tf is of %d prompts; %d refused, the first because %s.", d.CopyTFOf, len(d.NoCopyTF), d.NoCopyTF[0].Reason))
		}
	}
	if r.N.Scored > 0 && controls != nil {
		n = append(n, fmt.Sprintf("Answers of the first %d control sets of each pool and scope are decoded, the others' scored: no recall, unless every one is provably the code (--full-answers decodes all).", controls.Decoded))
	}
	n = append(n, fmt.Sprintf("Trials: %d; %d fragile (a greedy token led by less than the bound between program shapes), %d broken, %d failed.",
		r.N.Planned, r.N.Fragile, r.N.Broken, r.N.Failed))
	for _, c := range r.Conditions {
		if f := c.Metrics.Flipped; f != nil && f[0] != f[1] {
			n = append(n, fmt.Sprintf("  %s: %d hits, between %d and %d were its fragile trials to flip.", c.Name, c.N.Hit, f[0], f[1]))
		}
	}
	return n
}

func (r *Result) controlNotes() []string {
	var n []string
	for _, c := range r.Controls {
		if c.Reason != "" {
			n = append(n, fmt.Sprintf("Controls, pool %s: %s.", c.Pool, c.Reason))
		}
		if len(c.Sets) == 0 {
			continue
		}
		n = append(n, fmt.Sprintf("Controls, pool %s: %s; seed %d; %s sets are possible, drawn ones share %.0f %% of their heads on average.",
			c.Pool, c.About, c.Seed, c.Report.Possible, 100*c.Report.MeanOverlap))
		if c.Match != nil {
			n = append(n, fmt.Sprintf("  matched on the norm of what the heads write: set %.3g, controls %.3g; mismatch |ln| %.2f (before matching %.2f, largest %.2f).",
				c.Match.Target, c.Match.Mean, c.Match.Mismatch, c.Match.Unmatched, c.Match.Largest))
			if c.Match.Target > 0 && c.Match.Mean == 0 {
				n = append(n, "  These controls write nothing: they are idle heads, and no measure of what it does to switch off heads that write as much.")
			}
		}
		if len(c.Report.Forced) > 0 {
			n = append(n, fmt.Sprintf("  Every control set must hold %s: their layers have no others.", c.Report.Forced))
		}
	}
	return n
}

// someHeads lists a set, the first twenty of a long one.
func someHeads(s heads.Set) string {
	if len(s) <= 20 {
		return s.String()
	}
	return fmt.Sprintf("%s and %d others", s[:20], len(s)-20)
}

func show(m Metric, digits int) string { return fixed(float64(m.Value), digits) }

func signed(m Metric, digits int) string {
	s := show(m, digits)
	if float64(m.Value) > 0 && strings.Trim(s, "0.") != "" {
		return "+" + s
	}
	return s
}

func interval(m Metric, digits int) string {
	return "[" + fixed(float64(m.Low), digits) + ", " + fixed(float64(m.High), digits) + "]"
}

func fixed(x float64, digits int) string {
	if x != x {
		return "-"
	}
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if x < 0 && strings.Trim(s, "-0.") == "" { // rounds to nothing
		return s[1:]
	}
	return s
}

// printer remembers the first error of a writer.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *printer) fence(on bool) {
	if on {
		p.line("```")
	}
}

// grid prints rows in columns, the first left-aligned and the others right-aligned, or as a Markdown table.
func (p *printer) grid(rows [][]string, markdown bool) {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for n, r := range rows {
		cells := make([]string, len(r))
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if i == 0 {
				cells[i] = c + pad
			} else {
				cells[i] = pad + c
			}
		}
		if !markdown {
			p.line("%s", strings.TrimRight(strings.Join(cells, "  "), " "))
			continue
		}
		p.line("| %s |", strings.Join(cells, " | "))
		if n == 0 {
			rule := "|---"
			for range r[1:] {
				rule += "|---:"
			}
			p.line("%s|", rule)
		}
	}
}
