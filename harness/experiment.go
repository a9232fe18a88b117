package harness

import (
	"math"
	"math/big"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// experiment is a part of the plan that asks the tested prompts under conditions of its own. All that happens to conditions is common
// to experiments: trials, resumption, parts and their merging, dry run, recomputation, comparisons with the unmodified model and with
// controls, table and result. A new experiment is
//
//   - a pointer field of Plan whose type has these methods, listed in Plan.experiments;
//   - the name of its stage in testStages, and in addExperiments what its options make of it;
//   - where its result has more than conditions and effects, a field of Result that fill sets.
type experiment interface {
	// stage names its trials.
	stage() string
	// about is the heads that it edits and how their controls are drawn.
	about() (*PlanTarget, *PlanControls)
	// conditions lists what each prompt is asked, from the plan and the target alone: the unmodified model is not among them. None for
	// an empty target and nothing else to ask.
	conditions(e *evidence, t *target) ([]condition, error)
	// fill adds what the result has beside conditions and effects. trials are the stage's by condition, in the order of the prompts.
	fill(e *evidence, t *target, res *Result, trials map[string][]Trial) error
}

// selective is an experiment that cannot edit every head: the others are left out of the target.
type selective interface{ edits(decoder.Head) bool }

// testStages are the stages of experiments, in the order of a run.
var testStages = [...]string{StageKnockout, StageBands, StageSwap, StageKeep}

// stageOrder lists the stages that can be asked for, in the order of a run.
func stageOrder() []string { return append([]string{StageDetect}, testStages[:]...) }

// Tests tells whether some of the stages ask tested prompts; else the run only detects.
func Tests(stages []string) bool {
	return slices.ContainsFunc(stages, func(s string) bool { return slices.Contains(testStages[:], s) })
}

// experiments lists those of the plan, in the order of a run.
func (p *Plan) experiments() []experiment {
	var out []experiment
	if p.Knockout != nil {
		out = append(out, p.Knockout)
	}
	if p.Bands != nil {
		out = append(out, p.Bands)
	}
	if p.Swap != nil {
		out = append(out, p.Swap)
	}
	if p.Keep != nil {
		out = append(out, p.Keep)
	}
	return out
}

// About is the heads that the plan's first experiment edits, and how their controls are drawn; nil for a plan that only detects.
func (p *Plan) About() (*PlanTarget, *PlanControls) {
	if xs := p.experiments(); len(xs) > 0 {
		return xs[0].about()
	}
	return nil, nil
}

// addExperiments fixes what the options leave open of the experiments. The first one's comparison is the declared one.
func (p *Plan) addExperiments(o *Options, tests []*Prompt) error {
	if err := rowsExist(o, tests); err != nil {
		return err
	}
	unreachable := unreachableLayers(o.Model.Spec, tests)
	if slices.Contains(o.Stages, StageKnockout) {
		p.addKnockout(o, unreachable, tests)
	}
	if slices.Contains(o.Stages, StageSwap) {
		if err := p.addSwap(o, unreachable, tests); err != nil {
			return err
		}
	}
	if slices.Contains(o.Stages, StageKeep) {
		p.addKeep(o)
	}
	if o.Texts != nil {
		p.Texts = o.Texts.plan
	}
	if slices.Contains(o.Stages, StageBands) {
		return p.addBands(o, unreachable, tests)
	}
	return nil
}

// declare makes, of the plan's first experiment, the comparison that can say most the plan's primary one: the first scope with the most control sets, the first pool.
func (p *Plan) declare(hypothesis string, c *PlanControls, condition func(decoder.Scope) string) {
	if len(p.experiments()) > 1 {
		return
	}
	p.Primary.Hypothesis = hypothesis
	for _, s := range c.Scopes {
		if p.Primary.Scope == "" || c.Controls[s] > c.Controls[p.Primary.Scope] {
			p.Primary.Scope, p.Primary.Pool = s, c.Pools[0]
			if condition != nil {
				p.Primary.Condition = condition(s)
			}
		}
	}
}

// condition is the name of the condition that the declared comparison is about.
func (p *PlanPrimary) condition() string {
	if p.Condition != "" {
		return p.Condition
	}
	return withoutName(p.Scope)
}

// Numbers of control sets where they are left open: 99 on rows over a kept cache, which cost little, and 19 in whole passes. Both allow
// a p of 0.05 and below.
const (
	manyControls = 99
	fewControls  = 19

	// The randomisation needs every set's scores, not its answers: those of a few show what harm to recall is usual.
	decodedControls = 3
)

// cheapRows is how many rows before a prompt's end a scope may begin, where it begins before the question, for its conditions to count as few
// rows over a kept cache.
const cheapRows = 64

// fewRows tells whether a scope begins so late in every prompt that its conditions cost a fraction of a whole pass: everything behind its
// first row is computed anew.
func fewRows(s decoder.Scope, tests []*Prompt) bool {
	return !slices.ContainsFunc(tests, func(p *Prompt) bool {
		rows, err := s.Resolve(len(p.IDs), p.Question)
		return err != nil || rows.Lo == 0 || len(p.IDs)-rows.Lo > cheapRows && (p.Question == 0 || rows.Lo < p.Question)
	})
}

// rowsExist refuses scopes of which no tested prompt has a row.
func rowsExist(o *Options, tests []*Prompt) error {
	scopes := slices.Clone(o.Scopes)
	if o.Swap != nil {
		scopes = append(scopes, o.Swap.Tables[0].Edits[0].Scope)
	}
	for _, s := range scopes {
		if !slices.ContainsFunc(tests, func(p *Prompt) bool {
			rows, err := s.Resolve(len(p.IDs), p.Question)
			return err != nil || rows.Lo < len(p.IDs)+len(p.Answer)
		}) {
			return usagef("rows count from 0, those of the answer included", "scope %s: none of the %d prompts has such a row", s, len(tests))
		}
	}
	return nil
}

// checkHeadsOf refuses heads that were found in another model.
func (p *Plan) checkHeadsOf(o *Options) error {
	if o.HeadsOf == "" || o.HeadsOf == p.Model.WeightsSHA256 {
		return nil
	}
	return usagef("give the result of this model; heads to be taken over on purpose can be given as a list, such as L18H6,L8H0",
		"the heads were found in another model: weights %.12s, this model's are %.12s", o.HeadsOf, p.Model.WeightsSHA256)
}

// planTarget is what the options say of an experiment's heads.
func planTarget(o *Options, unreachable []int) PlanTarget {
	return PlanTarget{
		Heads: o.Heads, Unreachable: unreachable, Exclude: o.Exclude, WriteNorm: o.WriteNorm, DetectedOn: o.DetectedOn,
		Matching: PlanMatching{"write_norm", patch.Candidates, strongest}, Top: o.Top,
	}
}

// planControls is what the options say of controls.
func planControls(o *Options, tests []*Prompt) PlanControls {
	c := PlanControls{Auto: o.Controls == AutoControls, Controls: map[decoder.Scope]int{}, Decoded: decodedControls, Pools: o.Pools, Scopes: o.Scopes}
	if len(c.Pools) == 0 {
		c.Pools = []string{PoolLayer}
	}
	for _, s := range o.Scopes {
		c.Controls[s] = manyControls
		if !fewRows(s, tests) {
			c.Controls[s], c.WholePasses = fewControls, append(c.WholePasses, s)
		}
		if !c.Auto {
			c.Controls[s] = o.Controls
		}
	}
	return c
}

// target is what an experiment edits and compares with.
func (e *evidence) target(x experiment) (*target, error) {
	if t := e.chosen[x.stage()]; t != nil {
		return t, nil
	}
	d, err := e.detection()
	if err != nil {
		return nil, err
	}
	about, controls := x.about()
	c := &controlled{PlanTarget: about, PlanControls: controls, shape: e.shape, stats: &e.plan.Statistics, found: d}
	if s, ok := x.(selective); ok {
		c.edits = s.edits
	}
	if s, ok := x.(*PlanSwap); ok {
		c.groups = s.KVGroups
	}
	t, err := c.choose()
	if err != nil {
		return nil, err
	}
	e.chosen[x.stage()] = t
	return t, nil
}

// conditions lists those of an experiment, the unmodified model first unless a stage before it asks that.
func (e *evidence) conditions(x experiment) ([]condition, error) {
	t, err := e.target(x)
	if err != nil {
		return nil, err
	}
	conds, err := x.conditions(e, t)
	if err != nil || !e.plan.asksBaseline(x) {
		return conds, err
	}
	return append([]condition{{name: baseline}}, conds...), nil
}

// sharesBaseline tells whether the detect stage's trials are the unmodified model's on the tested prompts.
func (p *Plan) sharesBaseline() bool {
	return p.Detect != nil && p.DetectPrompts == nil && len(p.Detect.Edits) == 0
}

// asksBaseline tells whether the experiment is the one that asks the unmodified model.
func (p *Plan) asksBaseline(x experiment) bool {
	return !p.sharesBaseline() && p.experiments()[0].stage() == x.stage()
}

// baseline is the unmodified model's trials on the tested prompts; nil where none have been made yet.
func (e *evidence) baseline() []Trial {
	if e.plan.sharesBaseline() {
		return e.trials[StageDetect]
	}
	var out []Trial
	if xs := e.plan.experiments(); len(xs) > 0 {
		for _, t := range e.trials[xs[0].stage()] {
			if t.Condition == baseline {
				out = append(out, t)
			}
		}
	}
	return out
}

// hasHeads tells whether an experiment has heads to edit, or may find some; else it has at most named conditions.
func (p *Plan) hasHeads(x experiment) bool {
	about, _ := x.about()
	return p.Detect != nil || len(about.Heads) > 0
}

// standIn is a target as large as can be, its heads spread over the layers that can hold some: the cost of an experiment is counted by it
// before heads are detected and controls drawn.
func (s *Study) standIn(x experiment) *target {
	spec := &s.o.Checkpoint.Spec
	about, controls := x.about()
	t := &target{guessed: true}
	if !s.Plan.hasHeads(x) {
		return t
	}
	var free []decoder.Head
	for l := range spec.Layers {
		for h := range spec.Heads {
			if !slices.Contains(about.Unreachable, l) || len(about.Unreachable) == spec.Layers {
				free = append(free, decoder.Head{Layer: l, Index: h})
			}
		}
	}
	all := len(free)
	n := about.Top
	if n == 0 {
		n = max(1, all/50)
	}
	n = min(n, all)
	set := func(i int) heads.Set {
		var out []decoder.Head
		for j := range n {
			out = append(out, free[(j*all/n+i)%all])
		}
		return heads.NewSet(out...)
	}
	t.heads = set(0)
	for i, pool := range controls.Pools {
		c := Controls{Pool: pool}
		sets := min(controls.most(), mostSets(all/spec.Heads, spec.Heads))
		for j := range sets {
			c.Sets = append(c.Sets, set(1+i*sets+j))
		}
		t.controls = append(t.controls, c)
	}
	return t
}

// mostSets is how many layer-matched control sets there can be at most, of any number of heads in so many layers.
func mostSets(layers, heads int) int {
	layer := 1.0
	for n := 1; 2*n <= heads; n++ {
		sets, _ := new(big.Int).Binomial(int64(heads-n), int64(n)).Float64()
		layer = max(layer, sets)
	}
	return int(min(math.Pow(layer, float64(layers)), maxControls))
}

// observations lists the stages of observing experiments: one unit of one trial each.
var observations = [...]string{StagePlanes}

// standInConditions is as many conditions as an experiment can have.
func (s *Study) standInConditions(x experiment) ([]condition, error) {
	spec := &s.o.Checkpoint.Spec
	e := newEvidence(s.Plan, Shape{spec.Layers, spec.Heads, spec.KVHeads}, nil)
	conds, err := x.conditions(e, s.standIn(x))
	if err != nil || !s.Plan.asksBaseline(x) {
		return conds, err
	}
	return append([]condition{{name: baseline}}, conds...), nil
}
