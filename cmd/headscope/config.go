package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/decoder"
)

// configFlag repeats a result: its plan's settings stand in for the flags that are not given.
type configFlag struct {
	path   string
	result *harness.Result // nil without --config
	given  []string        // flags that say something else than the result
}

func (c *configFlag) add(fs *pflag.FlagSet) {
	fs.StringVar(&c.path, "config", "", "RESULT.json: take every setting from its plan; flags given beside it go first. Prompts of a file have to be given again")
}

// load reads the result and gives its settings to the flags that were left out. It comes before any flag is read.
func (c *configFlag) load(a *app, fs *pflag.FlagSet, verb string) error {
	if c.path == "" {
		return nil
	}
	r, err := harness.ReadResult(c.path)
	if err != nil {
		return err
	}
	if r.Plan.Verb != verb {
		return &usageError{fmt.Errorf("%s: a result of %s, not of %s", c.path, r.Plan.Verb, verb), fmt.Sprintf("`headscope %s MODEL --config %s`", r.Plan.Verb, c.path)}
	}
	c.result = r
	for _, s := range append(planFlags(r.Plan), promptFlags(r)...) {
		if err := c.take(a, fs, s); err != nil {
			return err
		}
	}
	if fs.Lookup("prompts").Value.String() == "" && r.Prompts.Generated == nil {
		return &usageError{fmt.Errorf("%s: its prompts are those of %s (sha256 %s), which it does not hold", c.path, r.Prompts.Source, r.Plan.Prompts.SHA256),
			"give that file again with --prompts"}
	}
	if d := r.Plan.DetectPrompts; d != nil && r.Prompts.Generated == nil && fs.Lookup("detect-prompts").Value.String() == "" {
		return &usageError{fmt.Errorf("%s: its heads were detected on the prompts of %s (sha256 %s), which it does not hold", c.path, r.Prompts.DetectSource, d.SHA256),
			"give that file again with --detect-prompts"}
	}
	return nil
}

// setting is what a flag has to say for a plan to come out.
type setting struct{ flag, value string }

// take sets one flag, unless it was given; pflag goes on to see it as not given.
func (c *configFlag) take(a *app, fs *pflag.FlagSet, s setting) error {
	f := fs.Lookup(s.flag)
	if f == nil {
		return nil
	}
	if f.Changed {
		if now := flagText(f); now != s.value {
			c.given = append(c.given, s.flag)
			a.note("--%s %s, in place of %s as in %s", s.flag, now, s.value, c.path)
		}
		return nil
	}
	if list, ok := f.Value.(pflag.SliceValue); ok && s.value == "" {
		return list.Replace(nil)
	}
	if err := f.Value.Set(s.value); err != nil {
		return fmt.Errorf("%s: --%s %s: %w", c.path, s.flag, s.value, err)
	}
	return nil
}

func flagText(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return f.Value.String()
}

// planFlags are the settings that a plan holds.
func planFlags(p *harness.Plan) []setting {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	out := []setting{
		{"stages", strings.Join(p.Stages, ",")}, {"seed", strconv.FormatUint(p.Statistics.Seed, 10)}, {"max-new", strconv.Itoa(p.MaxNew)},
		{"full-answers", strconv.FormatBool(p.FullAnswers)}, {"batch", strconv.Itoa(p.Run.Batch)}, {"dtype", p.Run.DType}, {"device", p.Run.Device},
		{"equivalence", number(p.Statistics.Equivalence)},
	}
	if p.Detect != nil {
		out = append(out, setting{"threshold", number(p.Detect.Threshold)})
	}
	if p.Knockout != nil {
		out = append(out, setting{"cuts", strconv.FormatBool(p.Knockout.Cuts)}, setting{"modes", strings.Join(append([]string{harness.ModeZero}, p.Knockout.Modes...), ",")})
	}
	if t := p.Texts; t != nil {
		if !strings.Contains(t.Source, ",") && strings.HasPrefix(t.Source, "builtin:") {
			out = append(out, setting{"text", t.Source})
		}
		out = append(out, setting{"window", strconv.Itoa(t.Windows.Tokens)}, setting{"stride", strconv.Itoa(t.Windows.Stride)})
	} else if p.Swap != nil || p.Keep != nil {
		out = append(out, setting{"text", harness.NoTexts})
	}
	if b := p.Bands; b != nil {
		var ks []string
		for _, k := range b.K {
			ks = append(ks, strconv.Itoa(k))
		}
		out = append(out, setting{"protocol", b.Protocol}, setting{"k", strings.Join(ks, ",")}, setting{"windows", strconv.Itoa(len(b.Windows))},
			setting{"matched", strconv.FormatBool(b.Matched())}, setting{"ledger", strconv.FormatBool(b.Ledger)}, setting{"plane-controls", count(b.PlanesAuto, b.PlaneControls)})
	}
	if s := p.Swap; s != nil {
		if out = append(out, setting{"ledger", strconv.FormatBool(s.Ledger)}); s.Against != nil {
			out = append(out, setting{"controls", count(s.Against.Auto, s.Against.Controls)}, setting{"pool", strings.Join(s.Against.Pools, ",")})
		}
	}
	about, k := p.About()
	if k == nil || p.Swap != nil || p.Keep != nil {
		return out
	}
	scopes := []string{}
	for _, s := range k.Scopes {
		scopes = append(scopes, string(s))
	}
	return append(out, setting{"scope", strings.Join(scopes, ",")}, setting{"pool", strings.Join(k.Pools, ",")}, setting{"controls", count(k.Auto, k.Controls)},
		setting{"top", strconv.Itoa(about.Top)})
}

// count is a number of control sets as its flag has it: the same for every scope.
func count(auto bool, sets map[decoder.Scope]int) string {
	if auto {
		return "auto"
	}
	for _, n := range sets {
		return strconv.Itoa(n)
	}
	return "0"
}

// promptFlags are where a result's prompts come from.
func promptFlags(r *harness.Result) []setting {
	if g := r.Prompts.Generated; g != nil {
		var depths []string
		for _, d := range g.Depths {
			depths = append(depths, strconv.FormatFloat(d, 'g', -1, 64))
		}
		return []setting{
			{"samples", strconv.Itoa(g.N)}, {"tokens", strconv.Itoa(g.Tokens)}, {"code-tokens", strconv.Itoa(g.CodeTokens)},
			{"templates", strings.Join(g.Templates, ",")}, {"depths", strings.Join(depths, ",")}, {"haystack", g.Haystack}, {"chat", g.Chat},
			{"variants", strconv.FormatBool(g.Variants)},
		}
	}
	var out []setting
	for _, s := range []setting{{"prompts", r.Prompts.Source}, {"detect-prompts", r.Prompts.DetectSource}} {
		if strings.HasPrefix(s.value, "builtin:") {
			out = append(out, s)
		}
	}
	return out
}

// prompts holds the prompts against the plan's. Where nothing was asked for that changes them, others are refused.
func (c *configFlag) prompts(fs *pflag.FlagSet, o *harness.Options) error {
	if c.result == nil {
		return nil
	}
	p := c.result.Plan
	generated := c.result.Prompts.Generated != nil && !fs.Changed("prompts")
	if generated && slices.ContainsFunc(c.given, func(f string) bool { return f == "seed" || slices.Contains(needleFlagNames, f) }) {
		return nil
	}
	for _, s := range []struct {
		what string
		have **harness.PromptFile
		want *harness.PlanPrompts
	}{{"prompts", &o.Prompts, &p.Prompts}, {"detect prompts", &o.DetectPrompts, p.DetectPrompts}} {
		switch f := *s.have; {
		case f == nil && s.want == nil:
		case f == nil || s.want == nil:
			return &usageError{fmt.Errorf("%s: %s: got %s, want %s", c.path, s.what, hashOf(f), hashOfPlan(s.want)), "give the prompts that the result was made with"}
		case f.SHA256 != s.want.SHA256:
			return &usageError{fmt.Errorf("%s: %s: got %s, want %s", c.path, s.what, hashOf(f), hashOfPlan(s.want)), "give the prompts that the result was made with, or leave out --config"}
		case !fs.Changed("limit"):
			*s.have = f.Only(s.want.IDs)
		}
	}
	return nil
}

func hashOf(f *harness.PromptFile) string {
	if f == nil {
		return "none"
	}
	return fmt.Sprintf("%s (sha256 %s)", f.Source, f.SHA256)
}

func hashOfPlan(p *harness.PlanPrompts) string {
	if p == nil {
		return "none"
	}
	return "sha256 " + p.SHA256
}

// differences says why another key came out although no flag says something else: another model, another backend.
func (c *configFlag) differences(a *app, s *harness.Study) error {
	if c.result == nil || c.result.Key == s.Key {
		return nil
	}
	diffs, err := s.Plan.Differences(c.result.Plan)
	if err != nil {
		return err
	}
	a.note("key %s, not %s as of %s:", s.Key, c.result.Key, c.path)
	for _, d := range diffs {
		a.note("  %s: %s, in place of %s", d.Path, d.Want, d.File)
	}
	return nil
}

// named is the conditions asked for: by flags, else by the result that is repeated.
func (e *experimentFlags) named() ([]harness.NamedEdits, error) {
	if r := e.config.result; r != nil && len(e.edits)+len(e.files) == 0 {
		return r.Plan.Conditions, nil
	}
	return e.conditions()
}

// inForce is the edits in force while detecting: by flags, else by the result that is repeated.
func (e *experimentFlags) inForce() ([]decoder.Edit, error) {
	if r := e.config.result; r != nil && len(e.edits)+len(e.files) == 0 && r.Plan.Detect != nil {
		return r.Plan.Detect.Edits, nil
	}
	return e.together()
}

// heads sets the heads of an experiment: of the list given, else of the result that is repeated.
func (e *experimentFlags) heads(list string, o *harness.Options) error {
	if r := e.config.result; r != nil && list == "" {
		k, _ := r.Plan.About()
		o.Heads, o.Exclude, o.WriteNorm = k.Heads, k.Exclude, k.WriteNorm
		return nil
	}
	if list == "" {
		return nil
	}
	given, err := harness.ReadHeads(list)
	if err == nil {
		o.Heads, o.Exclude, o.WriteNorm, o.DetectedOn, o.HeadsOf = given.Heads, given.Exclude, given.WriteNorm, given.DetectedOn, given.Weights
	}
	return err
}
