package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/needle"
	"github.com/headscope/headscope/harness/report"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// experimentFlags are what study, detect and knockout share.
type experimentFlags struct {
	modelFlags
	editFlags
	formatFlags
	needleFlags

	runFlags

	fs                          *pflag.FlagSet
	prompts, detectPrompts, out string
	limit, maxNew, batch        int
	fullAnswers                 bool
	seed                        uint64
	threshold                   float64
	detectors                   []string
	agreement                   bool
	agreementPrompts            string
}

func (e *experimentFlags) add(fs *pflag.FlagSet) {
	e.fs = fs
	fs.StringVar(&e.prompts, "prompts", "", "prompt FILE, one JSON object a line, or "+harness.BuiltinPrompts+"; default: prompts generated for the model's tokenizer, by the flags below")
	e.needleFlags.add(fs)
	fs.IntVar(&e.limit, "limit", 0, fmt.Sprintf("the first N prompts only; 0 = all; without it %d of an embedded model's own prompts", harness.OwnLimit))
	fs.Uint64Var(&e.seed, "seed", 0, "every random stream follows from it")
	fs.StringVar(&e.out, "out", "results", "folder of the results")
	fs.IntVar(&e.maxNew, "max-new", 16, "longest greedy answer, in tokens")
	fs.BoolVar(&e.fullAnswers, "full-answers", false, "decode every greedy answer to its end, also where the fed answer already decides it")
	fs.IntVar(&e.batch, "batch", 1, "prompts of a prefill; part of the key, as it decides the last bits")
	e.runFlags.add(fs)
	e.formatFlags.add(fs)
	e.modelFlags.add(fs)
}

func (e *experimentFlags) addDetect(fs *pflag.FlagSet) {
	fs.Float64Var(&e.threshold, "threshold", 0.1, "argmax_last from which on a head is a retrieval head")
	fs.StringSliceVar(&e.detectors, "detectors", []string{harness.DetectorsBasic}, "detectors beyond the basic ones, by name (docs/detectors.md), or all")
}

// prepare opens the model and the prompts and fills in what all experiments share.
func (e *experimentFlags) prepare(ctx context.Context, a *app, ref string, o *harness.Options) (*opened, error) {
	if err := e.formatFlags.check(); err != nil {
		return nil, err
	}
	if err := e.modelFlags.check(); err != nil {
		return nil, err
	}
	if e.limit < 0 {
		return nil, &usageError{fmt.Errorf("--limit %d", e.limit), "give a count of prompts; 0 = all"}
	}
	o.Detectors = e.detectors
	o.Threshold, o.MaxNew, o.FullAnswers, o.Batch, o.Seed = e.threshold, e.maxNew, e.fullAnswers, e.batch, e.seed
	o.Out, o.Command = e.out, a.args
	err := e.runFlags.set(o)
	if err != nil {
		return nil, err
	}
	if err := e.ownPrompts(ref, o); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		path string
		to   **harness.PromptFile
	}{{e.prompts, &o.Prompts}, {e.detectPrompts, &o.DetectPrompts}, {e.agreementPrompts, &o.AgreementPrompts}} {
		if f.path == "" {
			continue
		}
		if *f.to, err = harness.ReadPrompts(f.path); err != nil {
			return nil, err
		}
		*f.to = (*f.to).Limit(e.limit)
	}
	c, err := e.checkpoint(ref)
	if err != nil {
		return nil, err
	}
	if err = e.generate(ctx, a, c, o); err == nil {
		err = e.config.prompts(e.fs, o)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	model, err := e.model(a, c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	o.Checkpoint, o.Model = c, model
	return &opened{c, model}, nil
}

// ownPrompts takes the first few of an embedded model's own prompts where no others are named.
func (e *experimentFlags) ownPrompts(ref string, o *harness.Options) error {
	if e.prompts != "" {
		return nil
	}
	test, detect, err := ownPrompts(ref, e.fs)
	if err != nil || test == "" {
		return err
	}
	if !e.fs.Changed("limit") {
		e.limit = harness.OwnLimit
	}
	if e.agreement && e.agreementPrompts == "" {
		e.agreementPrompts = test
	}
	switch {
	case !harness.Tests(o.Stages):
		e.prompts = detect
	case e.detectPrompts == "" && (slices.Contains(o.Stages, harness.StageDetect) || o.NeedsMeans() || o.Bands != nil && o.Bands.Matched):
		e.prompts, e.detectPrompts = test, detect
	default:
		e.prompts = test
	}
	return nil
}

// generate makes the prompts that no file was given for: a split of its own for detection.
func (e *experimentFlags) generate(ctx context.Context, a *app, c *loader.Checkpoint, o *harness.Options) error {
	if o.Prompts != nil {
		if e.agreement && o.AgreementPrompts == nil {
			return &usageError{errors.New("--agreement with --prompts"), "name the prompts that the causal map is of: --agreement-prompts FILE"}
		}
		if given := givenNeedleFlags(e.fs); len(given) > 0 {
			return &usageError{fmt.Errorf("%s with --prompts", strings.Join(given, ", ")), "those flags say how prompts are generated; give one or the other"}
		}
		return nil
	}
	detect, tests := slices.Contains(o.Stages, harness.StageDetect), harness.Tests(o.Stages)
	asked := e.options(e.seed)
	asked.Donors = o.AutoModes || slices.Contains(o.Modes, harness.ModeResample)
	if e.limit > 0 {
		asked.N = min(asked.N, e.limit) // the first ones are the same
	}
	var splits []needle.Split
	if tests {
		splits = append(splits, needle.Test)
	}
	if (detect || o.Bands != nil && o.Bands.Matched || o.NeedsMeans()) && o.DetectPrompts == nil {
		splits = append(splits, needle.Detect)
	}
	if e.agreement && o.AgreementPrompts == nil {
		splits = append(splits, needle.Agreement)
	}
	g, err := harness.GeneratePrompts(ctx, c.Tokenizer, asked, splits...)
	if err != nil {
		return err
	}
	noteGenerated(a, g)
	o.Refused = g.Refused
	switch {
	case !tests:
		o.Prompts = g.Detect
	case g.Detect != nil:
		o.Prompts, o.DetectPrompts = g.Test, g.Detect.Limit(e.limit)
	default:
		o.Prompts = g.Test
	}
	o.Prompts = o.Prompts.Limit(e.limit)
	if g.Agreement != nil {
		o.AgreementPrompts = g.Agreement.Limit(e.limit)
	}
	return nil
}

// experiment plans, says what it costs, runs, and prints the result.
func (e *experimentFlags) experiment(ctx context.Context, a *app, o *harness.Options, m *opened) (err error) {
	defer func() { err = m.close(err) }()
	p := a.progress()
	o.Events = p.event
	s, err := harness.NewStudy(ctx, *o)
	if err != nil {
		return err
	}
	if err := e.config.differences(a, s); err != nil {
		return err
	}
	a.note("%s", s.Describe())
	switch {
	case e.dryRun != "":
		return e.printEstimate(ctx, a, s)
	case o.Shard != harness.Shard{}:
		return e.runShard(ctx, a, s, p)
	}
	res, err := s.Run(ctx)
	p.close()
	if err != nil {
		return &resumable{err, s.TrialsPath()}
	}
	return e.report(a, res, s.TrialsPath())
}

// report prints a result and says where it lies and what failed.
func (e *experimentFlags) report(a *app, res *harness.Result, trials string) error {
	if err := e.print(a, res); err != nil {
		return err
	}
	if res.Path != "" {
		page := strings.TrimSuffix(res.Path, ".json") + ".html"
		if err := report.WriteFile(page, res); err != nil {
			return err
		}
		a.note("%s\n%s", page, res.Path)
	}
	if res.Failed() {
		return someFailed(res.N, res.Failures[0].Prompt+": "+res.Failures[0].Reason, trials)
	}
	return nil
}

func someFailed(n harness.Counts, first, trials string) error {
	return &codeError{exitSomeFailed, fmt.Errorf("%d of %d trials failed, the first: %s", n.Failed, n.Planned, first),
		"lower --batch or free memory; delete " + trials + " to try them again under the same key"}
}

func (e *experimentFlags) print(a *app, res *harness.Result) error {
	if e.format == "json" {
		data, err := res.JSON()
		if err != nil {
			return err
		}
		_, err = a.out.Write(data)
		return err
	}
	columns, tty := terminal(a.out)
	return res.Write(a.out, harness.View{Markdown: e.format == "markdown", Width: columns, Color: tty && a.getenv("NO_COLOR") == ""})
}

// formatFlags choose how a result is printed.
type formatFlags struct {
	format string
	json   bool
}

func (f *formatFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.format, "format", "table", "table, markdown or json")
	fs.BoolVar(&f.json, "json", false, "the same as --format json")
}

func (f *formatFlags) check() error {
	if f.json {
		f.format = "json"
	}
	switch f.format {
	case "table", "markdown", "json":
		return nil
	}
	return &usageError{fmt.Errorf("--format %q", f.format), "want table, markdown or json"}
}

// knockoutFlags say what is switched off and compared.
type knockoutFlags struct {
	scopes, pools []string
	modes         []string
	controls      string
	top           int
	cuts          bool
	equivalence   float64
}

func (k *knockoutFlags) add(fs *pflag.FlagSet, scopes, pools []string) {
	fs.StringSliceVar(&k.scopes, "scope", scopes, "rows at which heads are off: all, haystack, question, answer, last (a list, repeatable)")
	fs.StringVar(&k.controls, "controls", "auto", "matched sets of other heads a pool and scope, 19 or more give a p; auto = 99 on question, answer and last rows, 19 in whole passes, fewer where fewer exist")
	fs.StringSliceVar(&k.pools, "pool", pools, "what controls are drawn from: layer, layer+kv (shares no key/value head with the set)")
	fs.IntVar(&k.top, "top", 0, "switch off the best K heads, also where fewer reach the threshold; 0 = all that do")
	fs.Float64Var(&k.equivalence, "equivalence", 0.5, "nats: a change of the primary outcome that lies within it, by its 90 % interval, is no effect; 0 = do not test")
}

// controlCount reads a number of control sets.
func controlCount(flag, text string) (int, error) {
	if text == "auto" {
		return harness.AutoControls, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, &usageError{fmt.Errorf("--%s %q", flag, text), "give a count, or auto"}
	}
	return n, nil
}

func (k *knockoutFlags) set(o *harness.Options) error {
	o.Top, o.Pools, o.Cuts, o.Equivalence = k.top, k.pools, k.cuts, k.equivalence
	if o.AutoModes = slices.Equal(k.modes, []string{"auto"}); !o.AutoModes {
		o.Modes = k.modes
	}
	var err error
	if o.Controls, err = controlCount("controls", k.controls); err != nil {
		return err
	}
	for _, s := range k.scopes {
		scope := decoder.Scope(strings.TrimSpace(s))
		if _, err := scope.Resolve(2, 1); err != nil {
			return &usageError{err, "give --scope all,question"}
		}
		o.Scopes = append(o.Scopes, scope)
	}
	return nil
}
