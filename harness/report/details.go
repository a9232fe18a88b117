package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headscope/headscope/harness"
)

// scorerRow is one condition as the scorers in use see it.
type scorerRow struct {
	Condition string
	Shares    []cell // first token, substring, exact, ROUGE-1
	Of        int
}

func scorerRows(r *harness.Result) []scorerRow {
	var out []scorerRow
	for i := range r.Conditions {
		c := &r.Conditions[i]
		s := c.Metrics.Scorers
		if s == nil || c.ControlOf != "" {
			continue
		}
		row := scorerRow{Condition: conditionName(r, c), Of: s.Of}
		for _, x := range []harness.Number{s.FirstToken, s.Substring, s.Exact, s.Rouge1} {
			row.Shares = append(row.Shares, number(float64(x), 2, "no trial has a text"))
		}
		out = append(out, row)
	}
	return out
}

// conditionRow is a line of the table of numbers.
type conditionRow struct {
	Name    string
	Title   string
	Of      int
	Recall  cell
	Margin  cell
	Sum     cell
	Change  cell
	McNemar cell
}

func conditionRows(r *harness.Result) []conditionRow {
	var out []conditionRow
	for i := range r.Conditions {
		c := &r.Conditions[i]
		if c.ControlOf != "" {
			continue
		}
		m := &c.Metrics
		row := conditionRow{
			Name: conditionName(r, c), Title: headsTitle(c), Of: m.Recall.Of, Recall: ranged(m.Recall), Margin: ranged(m.Margin), Sum: ranged(m.SumLogProb),
		}
		if p := primaryChange(r, c); p != nil {
			row.Change = change(*p, 2)
			if defined(*p) {
				row.Change.Text += " " + interval(*p, 2)
			}
		}
		if t := m.McNemar; t != nil {
			row.McNemar = number(float64(t.P), 3, "no pair of trials")
			if row.McNemar.Text != "-" {
				row.McNemar = cell{probability(float64(t.P)), fmt.Sprintf("%d hits lost, %d gained, of %d pairs; about prompts only", t.Lost, t.Gained, t.Of)}
			}
		}
		out = append(out, row)
	}
	return out
}

func ranged(m harness.Metric) cell {
	c := value(m, 2)
	if defined(m) {
		c.Text += " " + interval(m, 2)
	}
	return c
}

// fact is a line of a two-column table.
type fact struct {
	Name  string
	Value string
	Mono  bool
}

// pool says how the control sets of one pool were drawn.
type pool struct {
	Name  string
	Facts []fact
	Sets  []string
	More  int // sets not listed
}

const listedSets = 20

func pools(r *harness.Result) []pool {
	var out []pool
	for i := range r.Controls {
		c := &r.Controls[i]
		p := pool{Name: c.Pool}
		add := func(name, format string, args ...any) {
			p.Facts = append(p.Facts, fact{Name: name, Value: fmt.Sprintf(format, args...)})
		}
		add("drawn from", "%s", c.About)
		if c.Reason != "" {
			add("fewer, because", "%s", c.Reason)
		}
		add("sets", "%d, seed %d, stream %d", len(c.Sets), c.Seed, c.Stream)
		if c.Report.Possible != nil {
			add("possible sets", "%s", c.Report.Possible)
		}
		if c.Report.Pairs > 0 {
			add("heads in common", "%s on average, %s at most, over %s of sets", percent(c.Report.MeanOverlap), percent(c.Report.MaxOverlap), count(c.Report.Pairs, "pair"))
		}
		if len(c.Report.Forced) > 0 {
			add("in every set", "%s (their layers have no others)", some(c.Report.Forced, 20))
		}
		if m := c.Match; m != nil {
			add("matched on", "%s: the heads %s, the controls %s", m.Size, decimals(m.Target, 2), decimals(m.Mean, 2))
			add("mismatch", "mean |ln ratio| %s; unmatched sets %s; largest %s", decimals(m.Mismatch, 2), decimals(m.Unmatched, 2), decimals(m.Largest, 2))
		}
		var layers []string
		for _, l := range c.Report.Layers {
			layers = append(layers, fmt.Sprintf("L%d %d of %d", l.Layer, l.Want, l.Pool))
		}
		if len(layers) > 0 {
			add("heads taken of the pool's", "%s", strings.Join(layers, ", "))
		}
		for _, s := range c.Sets[:min(listedSets, len(c.Sets))] {
			p.Sets = append(p.Sets, some(s, 40))
		}
		p.More = len(c.Sets) - len(p.Sets)
		out = append(out, p)
	}
	return out
}

// methods says how the numbers were computed, and of how many things.
func methods(r *harness.Result) []fact {
	s := &r.Plan.Statistics
	var out []fact
	if r.Metrics != nil {
		out = append(out, fact{Name: "recall", Value: fmt.Sprintf("the answer stands in the greedy text; interval %s; n = %d", r.Metrics.Recall.Method, r.Metrics.Recall.Of)})
		for _, x := range []struct {
			name string
			m    harness.Metric
		}{{"margin", r.Metrics.Margin}, {"log-probability of the code", r.Metrics.SumLogProb}} {
			about := fmt.Sprintf("mean over prompts; interval %s; n = %d", x.m.Method, x.m.Of)
			if !defined(x.m) {
				about = "undefined: " + orUnknown(x.m.Reason)
			}
			out = append(out, fact{Name: x.name, Value: about})
		}
	}
	out = append(out, fact{Name: "changes", Value: fmt.Sprintf("against the unmodified model on the same prompts; %d bootstrap resamples of prompts, level %g", s.Resamples, s.Level)})
	if s.Equivalence > 0 {
		out = append(out, fact{Name: "equivalence", Value: fmt.Sprintf("two one-sided tests: the 90 %% interval of the change lies within \u00b1%g nats", s.Equivalence)})
	}
	seen := map[string]bool{}
	for _, e := range r.Effects {
		if !seen[e.Method] {
			seen[e.Method] = true
			out = append(out, fact{Name: "controls", Value: e.Method + ": p = (1 + sets that cost as much) / (sets + 1), one-sided; 19 sets at least"})
		}
	}
	return append(out,
		fact{Name: "McNemar", Value: "exact, two-sided, on hits against the unmodified model's; about prompts only, not about other heads"},
		fact{Name: "cuts", Value: "Wilson interval, 95 %, of argmax_last"},
		fact{Name: "random streams", Value: fmt.Sprintf("seed %d; controls %d, bootstrap %d", s.Seed, s.Controls, s.Bootstrap)},
	)
}

// planFacts is the plan as far as a reader needs it; the result holds all of it.
func planFacts(r *harness.Result) []fact {
	p := r.Plan
	out := []fact{{Name: "stages", Value: strings.Join(p.Stages, ", ")}}
	add := func(name, format string, args ...any) {
		out = append(out, fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	if p.Primary.Hypothesis != "" {
		add("primary hypothesis", "%s (metric %s%s%s)", p.Primary.Hypothesis, p.Primary.Metric, prefixed(", scope ", string(p.Primary.Scope)), prefixed(", pool ", p.Primary.Pool))
	}
	prompts := fmt.Sprintf("%s: %d, of %d to %d tokens", r.Prompts.Source, r.Prompts.N, r.Prompts.Shortest, r.Prompts.Longest)
	if r.Prompts.Limit > 0 {
		prompts += fmt.Sprintf(" (partial: --limit %d)", r.Prompts.Limit)
	}
	add("prompts", "%s", prompts)
	if p.DetectPrompts != nil {
		add("detection prompts", "%s: %d", r.Prompts.DetectSource, len(p.DetectPrompts.IDs))
	}
	if d := p.Detect; d != nil {
		add("detector", "%s, threshold %g, ties by %s", d.Detector, d.Threshold, d.TieBreaker)
		for _, e := range d.Edits {
			add("edited while detecting", "%s", e)
		}
	}
	if k := p.Knockout; k != nil {
		var parts []string
		for _, s := range k.Scopes {
			parts = append(parts, fmt.Sprintf("%s with %d", s, k.Controls[s]))
		}
		add("heads off, with control sets of each pool", "%s; pools %s", strings.Join(parts, ", "), strings.Join(k.Pools, ", "))
		if k.Top > 0 {
			add("heads", "the best %d", k.Top)
		}
	}
	for _, c := range p.Conditions {
		var edits []string
		for _, e := range c.Edits {
			edits = append(edits, e.String())
		}
		add("condition "+c.Name, "%s", strings.Join(edits, "; "))
	}
	add("answers", "at most %d tokens%s", p.MaxNew, map[bool]string{true: ", each decoded to its end"}[p.FullAnswers])
	add("numbers", "%s on %s; %s a prefill, %d answers decoded together, units of %d", p.Run.DType, p.Run.Backend, count(p.Run.Batch, "prompt"), p.Run.DecodeBatch, p.Run.Unit)
	return out
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func environmentFacts(r *harness.Result) []fact {
	e := &r.Environment
	build := r.Tool.Name + " " + r.Tool.Version + ", commit " + r.Tool.GitCommit
	switch {
	case r.Tool.GitDirty == nil:
		build += " (whether changed since is not known)"
	case *r.Tool.GitDirty:
		build += ", with changes since"
	}
	out := []fact{
		{Name: "build", Value: build},
		{Name: "machine", Value: fmt.Sprintf("%s, %d CPUs, %s; device %s: %s", e.Platform, e.CPUs, e.Go, e.Hardware.Device, e.Hardware.About)},
		{Name: "time", Value: fmt.Sprintf("%g s, the last run alone", r.Seconds)},
	}
	for _, name := range slices.Sorted(maps.Keys(e.Packages)) {
		out = append(out, fact{Name: name, Value: e.Packages[name]})
	}
	return out
}

// hashes identify what went in, and the plan.
func hashes(r *harness.Result) []fact {
	out := []fact{
		{"plan's key", r.Key, true},
		{"model", r.Model.Ref + prefixed("@", r.Model.Revision), true},
		{"config.json sha256", r.Model.ConfigSHA256, true},
		{"tokenizer sha256", r.Model.TokenizerSHA256, true},
		{"weights sha256", r.Model.WeightsSHA256, true},
		{"prompts sha256", r.Plan.Prompts.SHA256, true},
	}
	if d := r.Plan.DetectPrompts; d != nil {
		out = append(out, fact{"detection prompts sha256", d.SHA256, true})
	}
	return out
}

// command is what was typed, so that a shell reads it again.
func command(r *harness.Result) string {
	if len(r.Command) == 0 {
		return ""
	}
	words := []string{"headscope"}
	for _, w := range r.Command {
		words = append(words, shellWord(w))
	}
	return strings.Join(words, " ")
}

// failures lists what was left out, with the reason.
type failures struct {
	Rows []harness.PromptFailure
	More int
}

const listedFailures = 40

func newFailures(list []harness.PromptFailure) failures {
	n := min(listedFailures, len(list))
	return failures{list[:n], len(list) - n}
}

// glossary explains the terms that the page uses.
var glossary = []fact{
	{Name: "needle, code, decoy", Value: "a sentence in a long text that says a code; the code is what is asked for; a decoy is another code of the same length in the same text"},
	{Name: "head", Value: "one attention head: L18H6 is head 6 of layer 18, both counted from 0; heads that share keys and values are ruled off together"},
	{Name: "argmax_last", Value: "share of prompts in which the prompt's last row has its largest attention weight in the needle: the published definition of a retrieval head"},
	{Name: "scope", Value: "rows on which heads are off: all; haystack (before the question); question (from its first row on); answer (the last row and every generated one); last"},
	{Name: "control sets", Value: "as many other heads of the same layers; pool layer: that no detector flags; pool layer+kv: that also share no key/value head with the set"},
	{Name: "margin", Value: "log-probability of the code minus that of the decoy in its place, in nats: above 0 the code is the likelier answer"},
	{Name: "hit, decoy, other, refusal, broken, failed", Value: "the code stands in the answer; a decoy does; neither; it says it cannot; no text or a loop; not carried out, and never counted as a miss"},
	{Name: "fragile", Value: "some token of the greedy answer led by less than what two program shapes may differ by"},
	{Name: "in-sample", Value: "heads were chosen and tested on the same prompts"},
}
