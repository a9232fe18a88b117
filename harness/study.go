package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headscope/headscope/loader/decoder"
)

// Study is a run that has been planned: Run carries it out.
type Study struct {
	Plan *Plan
	Key  string

	o                *Options
	prompts, detects []*Prompt // detects is prompts in an in-sample study
	start            time.Time
	ask              askFunc
}

// Cost is what a study will compute, as far as it is known before heads are detected.
type Cost struct {
	Prompts, DetectPrompts int
	Tokens                 int // of all prompts
	Conditions             int // of the knockout stage, the unmodified one included
	Trials                 int // at most
}

// NewStudy checks the options and tokenises the prompts; nothing is computed or written.
func NewStudy(ctx context.Context, o Options) (*Study, error) {
	start := time.Now()
	plan, err := newPlan(ctx, &o)
	if err != nil {
		return nil, err
	}
	key, err := plan.Key()
	if err != nil {
		return nil, err
	}
	s := &Study{Plan: plan, Key: key, o: &o, start: start, ask: o.Model.Ask}
	spec, tok := &o.Checkpoint.Spec, o.Checkpoint.Tokenizer
	if s.prompts, err = o.Prompts.Tokenize(spec, tok, o.MaxNew); err != nil {
		return nil, err
	}
	s.detects = s.prompts
	if o.DetectPrompts != nil {
		if s.detects, err = o.DetectPrompts.Tokenize(spec, tok, o.MaxNew); err != nil {
			return nil, err
		}
	}
	return s, s.checkScopes()
}

// checkScopes refuses edits whose rows a prompt does not have.
func (s *Study) checkScopes() error {
	check := func(edits []decoder.Edit, prompts []*Prompt) error {
		for _, p := range prompts {
			if err := checkRows(edits, len(p.IDs), p.Question); err != nil {
				return fmt.Errorf("prompt %s: %w", p.Spec.ID, err)
			}
		}
		return nil
	}
	if err := check(s.o.Edits, s.detects); err != nil {
		return err
	}
	for _, c := range s.o.Conditions {
		if err := check(c.Edits, s.prompts); err != nil {
			return err
		}
	}
	if s.Plan.Knockout == nil {
		return nil
	}
	for _, scope := range s.Plan.Knockout.Scopes {
		if err := check([]decoder.Edit{{Scope: scope}}, s.prompts); err != nil {
			return err
		}
	}
	return nil
}

// Cost says how much there is to do.
func (s *Study) Cost() Cost {
	c := Cost{Prompts: len(s.prompts)}
	for _, p := range s.prompts {
		c.Tokens += len(p.IDs)
	}
	if s.Plan.Detect != nil {
		c.DetectPrompts = len(s.detects)
		c.Trials += len(s.detects)
	}
	if k := s.Plan.Knockout; k != nil {
		c.Conditions = 1 + len(s.Plan.Conditions)
		if s.knocksOut() {
			c.Conditions += len(k.Scopes) * (1 + k.Controls)
		}
		c.Trials += len(s.prompts) * c.Conditions
		if s.sharesBaseline() {
			c.Trials -= len(s.prompts)
		}
	}
	return c
}

// knocksOut tells whether there are heads to switch off, or may be; else the knockout stage asks the named conditions alone.
func (s *Study) knocksOut() bool { return s.Plan.Detect != nil || len(s.Plan.Knockout.Heads) > 0 }

// sharesBaseline tells whether the detect stage's trials are the unmodified model's on the tested prompts.
func (s *Study) sharesBaseline() bool {
	return s.Plan.Detect != nil && s.o.DetectPrompts == nil && len(s.Plan.Detect.Edits) == 0
}

// Run carries the study out, going on from what its trials file holds, and writes the result.
func (s *Study) Run(ctx context.Context) (res *Result, err error) {
	r := &runner{o: s.o, plan: s.Plan, ask: s.ask}
	aggregate, trials := s.Plan.paths(s.o.Out, s.o.Checkpoint, s.Key)
	if s.o.Out != "" {
		if r.file, err = openTrials(trials, trialsHeader{schemaVersion, s.Key, s.Plan.Run, s.Plan}); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.file.close()) }()
	}
	res = collect(s.o, s.Plan, s.Key)
	res.Prompts = promptInfo(s.o, s.prompts)
	base, err := s.detect(ctx, r, res)
	if err != nil {
		return nil, err
	}
	if s.Plan.Knockout != nil {
		if err := s.knockout(ctx, r, res, base); err != nil {
			return nil, err
		}
	}
	if s.o.Out != "" {
		if err := res.write(aggregate, time.Since(s.start)); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// detect runs the detect stage, if asked for, and returns its trials as the unmodified model's where they are that.
func (s *Study) detect(ctx context.Context, r *runner, res *Result) ([]Trial, error) {
	if s.Plan.Detect == nil {
		return nil, nil
	}
	name := baseline
	if len(s.Plan.Detect.Edits) > 0 {
		name = "edited"
	}
	c := condition{name: name, edits: s.Plan.Detect.Edits, probe: true}
	trials, err := r.run(ctx, stage{StageDetect, s.detects, []condition{c}})
	if err != nil {
		return nil, err
	}
	d, err := detect(&s.o.Checkpoint.Spec, s.detects, trials, s.Plan.Detect.Threshold)
	if err != nil {
		return nil, err
	}
	argmax, _ := d.Score("argmax_last")
	res.Detection, res.Heads, res.Scores = d, d.Heads, &argmax
	res.take(trials)
	sum := summarise(&s.Plan.Statistics, &c, StageDetect, trials, nil)
	res.Conditions = append(res.Conditions, sum)
	if name == baseline {
		res.Metrics = &sum.Metrics
	}
	if s.sharesBaseline() {
		return trials, nil
	}
	return nil, nil
}

// knockout runs the knockout stage against the given unmodified trials, or asks for those too.
func (s *Study) knockout(ctx context.Context, r *runner, res *Result, base []Trial) error {
	t, err := chooseTarget(s.Plan, &s.o.Checkpoint.Spec, res.Detection)
	if err != nil {
		return err
	}
	conds := knockoutConditions(s.Plan, t)
	if base == nil {
		conds = append([]condition{{name: baseline}}, conds...)
	}
	if res.Detection != nil {
		inSample := s.o.DetectPrompts == nil || sharedTexts(s.detects, s.prompts) > 0
		res.InSample = &inSample
	}
	if s.Plan.Knockout.Heads != nil {
		res.Heads = s.Plan.Knockout.Heads.Only(t.heads)
	}
	res.Controls = t.controls
	if len(conds) == 0 {
		return nil
	}
	for i, t := range base {
		s.prompts[i].draft = t.Greedy
	}
	trials, err := r.run(ctx, stage{StageKnockout, s.prompts, conds})
	if err != nil {
		return err
	}
	res.take(trials)
	sorted := byCondition(trials, conds)
	for i := range conds {
		c := &conds[i]
		if c.name == baseline && base == nil {
			base = sorted[baseline]
			sum := summarise(&s.Plan.Statistics, c, StageKnockout, base, nil)
			res.Conditions = append(res.Conditions, sum)
			res.Metrics = &sum.Metrics
			continue
		}
		res.Conditions = append(res.Conditions, summarise(&s.Plan.Statistics, c, StageKnockout, sorted[c.name], base))
	}
	res.Effects = effects(res.Conditions)
	return nil
}

// take counts trials and lists the failed ones.
func (r *Result) take(trials []Trial) {
	for i := range trials {
		t := &trials[i]
		r.N.add(t)
		if t.Outcome == Failed {
			r.Failures = append(r.Failures, PromptFailure{t.Prompt + " under " + t.Condition, t.Error})
		}
	}
}

// TrialsPath is where the study's trials are written; empty where nothing is.
func (s *Study) TrialsPath() string {
	if s.o.Out == "" {
		return ""
	}
	_, trials := s.Plan.paths(s.o.Out, s.o.Checkpoint, s.Key)
	return trials
}

// Describe is the plan and its cost in a line or two.
func (s *Study) Describe() string {
	c := s.Cost()
	text := fmt.Sprintf("plan %s: %d prompts of %s, %d tokens; %s, %s", s.Key, c.Prompts, s.o.Prompts.Source, c.Tokens, s.Plan.Run.DType, s.Plan.Run.Backend)
	if s.Plan.Detect != nil {
		text += fmt.Sprintf("\n  detect: %d prompts, threshold %g", c.DetectPrompts, s.Plan.Detect.Threshold)
	}
	if k := s.Plan.Knockout; k != nil {
		text += fmt.Sprintf("\n  knockout: %d conditions", c.Conditions)
		if s.knocksOut() {
			text += fmt.Sprintf(" (%d control sets, scopes %v)", k.Controls, k.Scopes)
		}
	}
	return text + fmt.Sprintf("\n  at most %d trials", c.Trials)
}
