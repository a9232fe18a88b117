package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
)

// summary is the result in plain words. Every sentence is computed from the numbers.
type summary struct {
	Asked    []string
	Found    []string
	Effect   []string
	Controls []string
	Overturn []string // what would overturn it, or weakens it
}

func newSummary(r *harness.Result) summary {
	return summary{asked(r), found(r), effectSentences(r), controlSentences(r), doubts(r)}
}

func asked(r *harness.Result) []string {
	name := lastPart(r.Model.Ref)
	var out []string
	knocks := false
	for i := range r.Conditions {
		knocks = knocks || primaryChange(r, &r.Conditions[i]) != nil
	}
	switch {
	case r.Bands != nil && r.Plan.Knockout == nil:
		out = append(out, fmt.Sprintf("Does %s need, in %s, the content of bands of rotary planes, or their rotation; and does taking a band away cost the answer more than "+
			"taking it from other heads, or taking other planes?", name, count(len(r.Heads), "head")))
	case r.Plan.Swap != nil && r.Plan.Knockout == nil:
		which := "in all heads"
		if r.Plan.Swap.Against != nil {
			which = "in " + count(r.Plan.Swap.Tables[0].Heads, "head") + ", against the same in other heads"
		}
		out = append(out, fmt.Sprintf("What do other rotary tables %s of %s do to its answers, and does it depend on how far the needle stands from the question?", which, name))
	case r.Plan.Keep != nil && r.Plan.Knockout == nil:
		out = append(out, fmt.Sprintf("Are a few heads of %s enough? They see the whole text, all others its first and its last tokens only; so do as many random heads.", name))
	case r.Detection != nil && r.Plan.Knockout != nil:
		out = append(out, fmt.Sprintf("Which heads of %s look, at the moment of answering, at a code that stands far back in the text; and does switching them off cost "+
			"the answer more than switching off other heads of the same layers?", name))
	case r.Detection != nil:
		out = append(out, fmt.Sprintf("Which heads of %s look, at the moment of answering, at a code that stands far back in the text? Nothing was switched off: "+
			"where a head looks does not say what it does.", name))
	case len(r.Heads) > 0:
		out = append(out, fmt.Sprintf("Does switching off %s of %s, which were given, cost the answer more than switching off other heads of the same layers?",
			count(len(r.Heads), "head"), name))
	case knocks:
		out = append(out, fmt.Sprintf("What do the named edits do to the answers of %s?", name))
	}
	if m := r.Plan.Primary.Metric; knocks && m != "" {
		text := fmt.Sprintf("What decides, declared beforehand, is the %s (in nats)", metricName(m))
		if c := r.Plan.Primary.Condition; c != "" {
			text += ", under " + c
		} else if s := scopeName(r.Plan.Primary.Scope); s != "" {
			text += ", with the heads off " + s
		}
		if r.Plan.Primary.Pool != "" {
			text += ", against controls of pool " + r.Plan.Primary.Pool
		}
		out = append(out, text+". Every other comparison here is exploratory.")
	}
	return out
}

func found(r *harness.Result) []string {
	d := r.Detection
	if d == nil {
		return nil
	}
	all, n := r.Model.Layers*r.Model.Heads, promptsOf(r)
	if len(d.Heads) == 0 {
		text := fmt.Sprintf("None of the %d heads has its largest weight in the needle in %s of %s or more.", all, percent(d.Threshold), count(n, "prompt"))
		if r.Scores != nil && len(r.Scores.Data) > 0 {
			best := r.Scores.Ranking()[0]
			text += fmt.Sprintf(" The highest is %s with %s.", best, number(r.Scores.At(best), 2, "").Text)
		}
		return []string{text}
	}
	text := fmt.Sprintf("%d of %d heads (%s) have their largest weight in the needle in at least %s of %s: %s.",
		len(d.Heads), all, percent(float64(len(d.Heads))/float64(max(1, all))), percent(d.Threshold), count(n, "prompt"), some(d.Heads, 6))
	out := []string{text}
	sure := 0
	for _, c := range d.Cuts {
		if c.Class == "sure" {
			sure++
		}
	}
	if likely := len(d.Heads) - sure; likely > 0 && len(d.Cuts) > 0 {
		out = append(out, fmt.Sprintf("%d of them are sure; %d may be over the threshold by chance (the 95 %% interval of the score reaches below it).", sure, likely))
	}
	return append(out, looks(d)...)
}

// looks says what the detected heads look at.
func looks(d *harness.Detection) []string {
	counts := map[heads.Label]int{}
	for _, h := range d.Hits {
		counts[h.Label]++
	}
	if len(d.Hits) == 0 {
		return nil
	}
	var parts []string
	for _, x := range []struct {
		label heads.Label
		text  string
	}{
		{heads.LabelCode, "at the code itself"},
		{heads.LabelBeforeCode, "at the token before it"},
		{heads.LabelNeedle, "at other tokens of the needle"},
		{heads.LabelRepeatedWord, "at a repetition of the prompt's last token, as heads that follow duplicates do"},
		{heads.LabelOther, "at no one place"},
	} {
		if counts[x.label] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[x.label], x.text))
		}
	}
	return []string{"Where their hits fall: " + strings.Join(parts, ", ") + "."}
}

// promptsOf is how many prompts the detectors saw.
func promptsOf(r *harness.Result) int {
	if r.Scores != nil {
		return r.Scores.N
	}
	return r.Prompts.N
}

func effectSentences(r *harness.Result) []string {
	var out []string
	for i := range r.Conditions {
		c := &r.Conditions[i]
		m := primaryChange(r, c)
		if m == nil || c.ControlOf != "" || rowKind(c) == "other" || inTable(r, c.Name) {
			continue
		}
		text := effectSentence(r, c, m)
		if c.Scope != "" && c.Scope == r.Plan.Primary.Scope {
			out = slices.Insert(out, 0, text)
		} else {
			out = append(out, text)
		}
	}
	if len(out) == 0 && r.Metrics != nil {
		out = append(out, fmt.Sprintf("The unmodified model: %s, %s %s.", recallCell(r.Metrics.Recall).Text,
			metricName(r.Plan.Primary.Metric), value(primaryValue(r, r.Metrics), 2).Text))
	}
	if text := room(r.Metrics); text != "" {
		out = append(out, text)
	}
	return out
}

// inTable tells whether a condition is one of many bands: the table has them, the summary the one that decides.
func inTable(r *harness.Result, condition string) bool {
	return r.Bands != nil && r.Plan.Primary.Condition != condition && slices.ContainsFunc(r.Bands.Rows, func(b harness.BandRow) bool { return b.Condition == condition })
}

func effectSentence(r *harness.Result, c *harness.ConditionResult, m *harness.Metric) string {
	subject := fmt.Sprintf("With %s off %s", verb(len(c.Heads), "this head", fmt.Sprintf("the %d heads", len(c.Heads))), scopeName(c.Scope))
	if c.Scope == "" || c.Stage == harness.StageBands || c.Stage == harness.StageSwap {
		subject = "Under " + c.Name
	}
	what := metricName(r.Plan.Primary.Metric)
	if !defined(*m) {
		return fmt.Sprintf("%s the change of the %s is undefined: %s.", subject, what, orUnknown(m.Reason))
	}
	by := decimals(abs(float64(m.Value)), 2) + " " + interval(*m, 2)
	var text string
	switch {
	case float64(m.High) < 0:
		text = fmt.Sprintf("%s the %s falls by %s", subject, what, by)
	case float64(m.Low) > 0:
		text = fmt.Sprintf("%s the %s rises by %s", subject, what, by)
	default:
		text = fmt.Sprintf("%s no change of the %s is shown: %s %s", subject, what, signed(float64(m.Value), 2), interval(*m, 2))
	}
	if r.Metrics != nil && defined(r.Metrics.Recall) && defined(c.Metrics.Recall) {
		text += fmt.Sprintf("; recall goes from %s to %s", decimals(float64(r.Metrics.Recall.Value), 2), decimals(float64(c.Metrics.Recall.Value), 2))
	}
	text += fmt.Sprintf(" (%s).", count(m.Of, "prompt"))
	if e := c.Metrics.Equivalence; e != nil && e.Equivalent {
		text += fmt.Sprintf(" It lies within \u00b1%s: equivalent to no effect by that margin.", decimals(float64(e.Margin), 2))
	}
	return text
}

func abs(x float64) float64 { return max(x, -x) }

func orUnknown(reason string) string {
	if reason == "" {
		return "the reason is not recorded"
	}
	return strings.ReplaceAll(reason, ">=", "\u2265")
}

// room says where recall has none to move.
func room(m *harness.Metrics) string {
	if m == nil || !defined(m.Recall) {
		return ""
	}
	v := float64(m.Recall.Value)
	switch m.Recall.Place() {
	case harness.PlaceCeiling:
		return fmt.Sprintf("The unmodified model's recall is at the ceiling (%s): small effects do not show in it, only in the log-probabilities.", decimals(v, 2))
	case harness.PlaceFloor:
		return fmt.Sprintf("The unmodified model's recall is at the floor (%s): it hardly does the task, so a knock-out can cost it little.", decimals(v, 2))
	}
	return ""
}

func controlSentences(r *harness.Result) []string {
	var out []string
	for i := range r.Effects {
		e := &r.Effects[i]
		if inTable(r, e.Condition) {
			continue
		}
		text := controlSentence(e)
		if e.Primary {
			out = slices.Insert(out, 0, "Primary. "+text)
		} else {
			out = append(out, "Exploratory. "+text)
		}
	}
	if len(out) == 0 && len(r.Heads) > 0 && r.Plan.Knockout != nil {
		out = append(out, "No controls were run: whether other heads would have done the same is not known.")
	}
	return out
}

func controlSentence(e *harness.Effect) string {
	where := fmt.Sprintf("%s, pool %s: ", e.Condition, e.Pool)
	if e.Controls == 0 {
		return where + "it " + orUnknown(e.Reason) + ". Whether other heads would have done the same is not known."
	}
	if !finite(e.Drop, e.ControlDrop, e.LargestControl) {
		return where + "nothing can be compared: it " + orUnknown(e.Reason) + "."
	}
	this, others, evidence := "switching the heads off", "switching off as many other heads", "these heads matter more than matched ones"
	if !strings.HasPrefix(e.Condition, "without@") {
		this, others, evidence = "the condition", "its controls", "it matters more than its controls"
		if e.Controls == 1 {
			others = "its control"
		}
	}
	do := map[bool]string{true: " do"}[strings.HasPrefix(evidence, "these heads")]
	cost := map[bool]string{true: "cost", false: "costs"}[others == "its controls"]
	text := where + fmt.Sprintf("%s costs %s nats; %s %s %s on average and %s at most over %s; %s.", this,
		number(float64(e.Drop), 2, "").Text, others, cost, number(float64(e.ControlDrop), 2, "").Text,
		number(float64(e.LargestControl), 2, "").Text, count(e.Controls, "control set"), asMuch(e.AtLeast, e.Controls))
	switch {
	case e.P == nil:
		text += " There is no p: it " + orUnknown(e.Reason) + "."
	case float64(*e.P) <= 0.05 && float64(e.Drop) > 0:
		text += fmt.Sprintf(" p = %s: evidence that %s.", probability(float64(*e.P)), evidence+do)
	case float64(e.Drop) <= 0:
		text += fmt.Sprintf(" p = %s, and there is no drop to explain.", probability(float64(*e.P)))
	default:
		text += fmt.Sprintf(" p = %s: by this test it is not shown that %s.", probability(float64(*e.P)), evidence)
	}
	return text
}

func finite(xs ...harness.Number) bool {
	for _, x := range xs {
		if v := float64(x); math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

func asMuch(k, n int) string {
	if k == 0 {
		return "none costs as much"
	}
	return fmt.Sprintf("%d of %d %s at least as much", k, n, verb(k, "costs", "cost"))
}
