package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// Study is a run that has been planned: Run carries it out.
type Study struct {
	Plan *Plan
	Key  string

	o                *Options
	prompts, detects []*Prompt // with a needle; detects is prompts in an in-sample study
	agrees           []*Prompt // of the agreement stage
	variants         []*Prompt // of the tested prompts, without one
	cost             Cost
	start            time.Time
	ask              askFunc
	trace            traceFunc
	headMeans        meansFunc
	see              observeFunc
}

// Cost is what a study will compute, as far as it is known before heads are detected.
type Cost struct {
	Prompts, DetectPrompts int
	Tokens                 int   // of all prompts
	Asked                  []int // conditions of each experiment, the unmodified one counted with the first
	Trials                 int   // at most
}

// NewStudy checks the options and tokenises the prompts; nothing is computed or written.
func NewStudy(ctx context.Context, o Options) (*Study, error) {
	start := time.Now()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Study{o: &o, start: start, ask: o.Model.Ask, trace: o.Model.Trace, see: o.Model.Observe, headMeans: o.Model.HeadMeans}
	spec, tok := &o.Checkpoint.Spec, o.Checkpoint.Tokenizer
	all, err := o.Prompts.Tokenize(spec, tok, o.MaxNew)
	if err != nil {
		return nil, err
	}
	s.prompts, s.variants = byVariant(all)
	s.detects = s.prompts
	if o.DetectPrompts != nil {
		if all, err = o.DetectPrompts.Tokenize(spec, tok, o.MaxNew); err != nil {
			return nil, err
		}
		s.detects, _ = byVariant(all)
	}
	if o.AgreementPrompts != nil {
		if all, err = o.AgreementPrompts.Tokenize(spec, tok, o.MaxNew); err != nil {
			return nil, err
		}
		s.agrees, _ = byVariant(all)
	}
	if err := s.chooseModes(); err != nil {
		return nil, err
	}
	if err := s.checkScopes(); err != nil {
		return nil, err
	}
	if s.Plan, err = newPlan(ctx, &o, s.prompts); err != nil {
		return nil, err
	}
	if err := s.count(); err != nil {
		return nil, err
	}
	s.Key, err = s.Plan.Key()
	return s, err
}

// checkScopes refuses edits whose rows a prompt does not have.
func (s *Study) checkScopes() error {
	check := func(edits []decoder.Edit, prompts []*Prompt) error {
		for _, p := range prompts {
			if err := checkDonors(edits, p.Donor); err != nil {
				return fmt.Errorf("prompt %s: %w", p.Spec.ID, err)
			}
			if err := checkRows(&s.o.Checkpoint.Spec, edits, len(p.IDs), p.Question); err != nil {
				return fmt.Errorf("prompt %s: %w", p.Spec.ID, err)
			}
		}
		return nil
	}
	if err := checkMeans(s.o.Edits); err != nil { // conditions have means: those of the detection prompts
		return err
	}
	if err := check(s.o.Edits, s.detects); err != nil {
		return err
	}
	for _, c := range s.o.Conditions {
		if err := check(c.Edits, s.prompts); err != nil {
			return err
		}
	}
	if s.o.Swap != nil {
		for _, t := range s.o.Swap.Tables {
			if err := check(t.Edits, s.prompts); err != nil {
				return err
			}
		}
	}
	if !Tests(s.o.Stages) {
		return nil
	}
	for _, scope := range s.o.Scopes {
		for _, p := range s.prompts {
			if err := checkScope(scope, len(p.IDs), p.Question); err != nil {
				return fmt.Errorf("prompt %s: %w", p.Spec.ID, err)
			}
		}
	}
	return nil
}

// Cost says how much there is to do.
func (s *Study) Cost() Cost { return s.cost }

func (s *Study) count() error {
	c := Cost{Prompts: len(s.prompts)}
	for _, p := range s.prompts {
		c.Tokens += len(p.IDs)
	}
	if s.Plan.Detect != nil {
		c.DetectPrompts = len(s.detects)
		c.Trials += len(s.detects)*(1+len(s.Plan.Detect.furtherStages())) + len(s.agrees)
		if rep := s.Plan.Detect.Repeat; rep != nil {
			c.Trials += rep.Sequences
		}
	}
	for _, x := range s.Plan.experiments() {
		conds, err := s.standInConditions(x)
		if err != nil {
			return err
		}
		c.Trials += len(s.prompts) * len(conds)
		if len(c.Asked) == 0 && s.Plan.sharesBaseline() {
			conds = append(conds, condition{name: baseline})
		}
		c.Asked = append(c.Asked, len(conds))
		if o, ok := x.(observing); ok && o.observes(s.standIn(x)) != "" {
			c.Trials++
		}
		if len(predicted(x, conds)) > 0 {
			c.Trials += len(s.prompts)
		}
	}
	if s.Plan.Texts != nil {
		conds, err := s.textStandIns()
		if err != nil {
			return err
		}
		c.Trials += len(s.Plan.Texts.Texts) * len(conds)
	}
	c.Trials += len(s.variants)
	s.cost = c
	return nil
}

// open takes the run's trials file, where one is written, and sorts its prompts.
func (s *Study) open() (*runner, *evidence, error) {
	r := &runner{o: s.o, plan: s.Plan, ask: s.ask, trace: s.trace, see: s.see, headMeans: s.headMeans}
	spec := &s.o.Checkpoint.Spec
	shape := Shape{spec.Layers, spec.Heads, spec.KVHeads}
	records := recordsOf(append(slices.Clone(s.prompts), s.variants...), s.detects, s.o.DetectPrompts == nil)
	for _, p := range s.agrees {
		records = append(records, recordOf(p, setAgreement))
	}
	e := newEvidence(s.Plan, shape, records)
	if s.o.Out == "" {
		return r, e, nil
	}
	head := trialsHeader{Schema: schemaVersion, Key: s.Key, Shard: s.o.Shard.String(), Run: s.Plan.Run, Shape: shape, Plan: s.Plan}
	if head.Shard != "" {
		c := collect(s.o, s.Plan, s.Key)
		head.Part = &shardInfo{c.Tool, c.Command, c.Model, promptInfo(s.o, e.tests), c.Refused, c.Environment}
	}
	var err error
	r.file, err = openTrials(s.TrialsPath(), head, records)
	return r, e, err
}

// Run carries the study out, going on from what its trials file holds, and writes the result.
func (s *Study) Run(ctx context.Context) (res *Result, err error) {
	r, e, err := s.open()
	if err != nil {
		return nil, err
	}
	if r.file != nil {
		defer func() { err = errors.Join(err, r.file.close()) }()
	}
	if err := s.gather(ctx, r, e); err != nil {
		return nil, err
	}
	res = collect(s.o, s.Plan, s.Key)
	res.Prompts = promptInfo(s.o, e.tests)
	if err := e.fill(res); err != nil {
		return nil, err
	}
	if r.file == nil {
		return res, nil
	}
	if res.TrialsSHA256, err = r.file.sum(); err != nil {
		return nil, err
	}
	aggregate, _ := s.Plan.paths(s.o.Out, s.o.Checkpoint, s.Key)
	if err := res.write(aggregate, time.Since(s.start)); err != nil {
		return nil, err
	}
	return res, nil
}

// gather runs the stages, one after the other. A shard leaves the example to the whole run.
func (s *Study) gather(ctx context.Context, r *runner, e *evidence) (err error) {
	part := s.o.Shard != Shard{}
	var best heads.Ranking
	if s.Plan.Detect != nil {
		if e.trials[StageRepeat], err = r.repeated(ctx); err != nil {
			return err
		}
		st := stage{StageDetect, s.detects, []condition{s.Plan.detectCondition()}}
		if e.trials[StageDetect], err = r.run(ctx, st); err != nil {
			return err
		}
		if err := s.scoreHeads(ctx, r, e); err != nil {
			return err
		}
		if !part { // of the detect stage alone: its heads are found in the merged trials
			d, err := e.detection()
			if err != nil {
				return err
			}
			best = d.Heads
		}
		if s.Plan.Agreement != nil {
			if e.trials[StageAgreement], err = r.agree(ctx, e, s.agrees); err != nil {
				return err
			}
		}
	}
	for _, x := range s.Plan.experiments() {
		if err := s.observe(ctx, r, e, x); err != nil {
			return err
		}
		conds, err := e.conditions(x)
		if err != nil {
			return err
		}
		if e.trials[ledgerStage(x)], err = r.predict(ctx, x, conds, s.prompts); err != nil {
			return err
		}
		if len(conds) > 0 {
			if means, err := r.means(ctx, s.detects, s.prompts, conds); err != nil {
				return err
			} else if means != nil {
				e.trials[StageMeans] = means
			}
			for i, t := range e.baseline() {
				s.prompts[i].draft = t.Greedy
			}
			if e.trials[x.stage()], err = r.run(ctx, stage{x.stage(), s.prompts, conds}); err != nil {
				return err
			}
		}
		if about, _ := x.about(); about.Heads != nil {
			best = about.Heads
		}
	}
	if s.Plan.Texts != nil {
		conds, err := e.textConditions()
		if err != nil {
			return err
		}
		if e.trials[StageTexts], err = r.texts(ctx, s.o.Texts.docs, conds); err != nil {
			return err
		}
	}
	if len(s.variants) > 0 {
		if e.trials[StageVariants], err = r.run(ctx, stage{StageVariants, s.variants, []condition{{name: baseline}}}); err != nil {
			return err
		}
	}
	if s.o.Example && !part {
		e.trials[StageExample], err = r.example(ctx, s.prompts[0], best)
	}
	return err
}

// TrialsPath is where the study's trials are written; empty where nothing is.
func (s *Study) TrialsPath() string {
	if s.o.Out == "" {
		return ""
	}
	aggregate, _ := s.Plan.paths(s.o.Out, s.o.Checkpoint, s.Key)
	return TrialsOf(strings.TrimSuffix(aggregate, ".json") + s.o.Shard.suffix() + ".json")
}

// Describe is the plan and its cost in a line or two.
func (s *Study) Describe() string {
	c := s.Cost()
	text := fmt.Sprintf("plan %s: %d prompts of %s, %d tokens; %s, %s", s.Key, c.Prompts, s.o.Prompts.Source, c.Tokens, s.Plan.Run.DType, s.Plan.Run.Backend)
	if s.Plan.Detect != nil {
		text += fmt.Sprintf("\n  detect: %d prompts, threshold %g", c.DetectPrompts, s.Plan.Detect.Threshold)
	}
	for i, x := range s.Plan.experiments() {
		n := c.Asked[i]
		text += fmt.Sprintf("\n  %s: %d conditions", x.stage(), n)
		if s.Plan.hasHeads(x) {
			_, k := x.about()
			if len(k.Pools) == 0 { // it draws its controls itself
				continue
			}
			text += fmt.Sprintf(" (at most; controls from %s:", strings.Join(k.Pools, ", "))
			for _, scope := range k.Scopes {
				text += fmt.Sprintf(" %d@%s", k.Controls[scope], scope)
			}
			text += ")"
		}
	}
	return text + fmt.Sprintf("\n  at most %d trials", c.Trials)
}
