package harness

import (
	"fmt"
	"math"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// Shape is what the aggregates need to know of a model.
type Shape struct {
	Layers  int `json:"layers"`
	Heads   int `json:"heads"`
	KVHeads int `json:"kv_heads"`
}

// evidence is all that a result's numbers are computed from: a plan, its prompts, and trials. No model, no tokenizer, no clock.
type evidence struct {
	plan  *Plan
	shape Shape

	tests, detects []PromptRecord // with a needle; the same in an in-sample study
	variants       []PromptRecord // without one
	agrees         []PromptRecord // of the agreement stage
	trials         map[string][]Trial

	found  *Detection         // cached
	chosen map[string]*target // by stage
}

// newEvidence sorts the prompts of a run.
func newEvidence(p *Plan, s Shape, records []PromptRecord) *evidence {
	e := &evidence{plan: p, shape: s, trials: map[string][]Trial{}, chosen: map[string]*target{}}
	for i := range records {
		switch r := records[i]; {
		case r.Variant != "" && r.Set == setTest:
			e.variants = append(e.variants, r)
		case r.Variant != "":
		case r.Set == setAgreement:
			e.agrees = append(e.agrees, r)
		case r.Set == setDetect:
			e.detects = append(e.detects, r)
		default:
			e.tests = append(e.tests, r)
		}
	}
	if p.DetectPrompts == nil {
		e.detects = e.tests
	}
	return e
}

// detection is what the detect stage found; nil where there was none.
func (e *evidence) detection() (*Detection, error) {
	if e.plan.Detect == nil || e.found != nil {
		return e.found, nil
	}
	d, err := detect(e)
	e.found = d
	return d, err
}

// detectCondition is the condition of the detect stage.
func (p *Plan) detectCondition() condition {
	name := baseline
	if len(p.Detect.Edits) > 0 {
		name = "edited"
	}
	return condition{name: name, edits: p.Detect.Edits, probe: true}
}

// fill computes a result's numbers.
func (e *evidence) fill(res *Result) error {
	p := e.plan
	if d, err := e.detection(); err != nil {
		return err
	} else if d != nil {
		argmax, _ := d.Score("argmax_last")
		res.Detection, res.Heads, res.Scores = d, d.Heads, &argmax
		c := p.detectCondition()
		res.take(e.trials[StageRepeat])
		res.take(e.trials[StageDetect])
		res.take(e.trials[StageObserve])
		res.take(e.trials[StageCausal])
		sum := p.summarise(&c, StageDetect, e.trials[StageDetect], nil)
		res.Conditions = append(res.Conditions, sum)
		if c.name == baseline {
			res.Metrics = &sum.Metrics
		}
	}
	if p.Agreement != nil {
		var err error
		if res.Agreement, err = e.agreement(); err != nil {
			return err
		}
		res.take(e.trials[StageAgreement])
	}
	for _, x := range p.experiments() {
		if err := e.experiment(res, x); err != nil {
			return err
		}
	}
	if err := e.fillTexts(res); err != nil {
		return err
	}
	res.Grid, res.Templates = p.grid(e.tests, e.baseline())
	res.Variants = e.variantResults()
	res.take(e.trials[StageVariants])
	if ex := e.trials[StageExample]; len(ex) > 0 {
		res.Example = ex[0].Example
		res.take(ex)
	}
	return nil
}

// experiment fills in what an experiment's trials say.
func (e *evidence) experiment(res *Result, x experiment) error {
	conds, err := e.conditions(x)
	if err != nil {
		return err
	}
	about, _ := x.about()
	t, name := e.chosen[x.stage()], x.stage()
	if res.Detection != nil {
		inSample := e.plan.DetectPrompts == nil || sharedRecords(e.detects, e.tests)
		res.InSample = &inSample
	}
	if on := about.DetectedOn; on != nil && res.Detection == nil {
		inSample := on.overlaps(&e.plan.Prompts)
		res.InSample = &inSample
	}
	if about.Heads != nil {
		res.Heads = about.Heads.Only(t.heads)
	}
	if res.Controls == nil {
		res.Controls = t.controls
	}
	if o, ok := x.(observing); ok {
		res.take(e.trials[o.observes(t)])
	}
	res.take(e.trials[name])
	sorted := byCondition(e.trials[name], conds)
	base := e.baseline()
	results := make([]ConditionResult, len(conds))
	for i := range conds {
		c := &conds[i]
		if c.name == baseline {
			results[i] = e.plan.summarise(c, name, base, nil)
			res.Metrics = &results[i].Metrics
			continue
		}
		results[i] = e.plan.summarise(c, name, sorted[c.name], base)
	}
	res.take(e.trials[ledgerStage(x)])
	e.fillPredictions(x, conds, results, sorted)
	res.Conditions = append(res.Conditions, results...)
	res.Effects = append(res.Effects, effects(e.plan, conds, results)...)
	return x.fill(e, t, res, sorted)
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

// GridCell is the unmodified model on the prompts of one template with the needle at one depth.
type GridCell struct {
	Template   string `json:"template"`
	Depth      Number `json:"depth"`
	Tokens     int    `json:"tokens"` // mean length
	N          Counts `json:"n"`
	Recall     Metric `json:"recall"`
	SumLogProb Metric `json:"sum_logprob"`
	Margin     Metric `json:"margin"`
}

// TemplateResult is the unmodified model on one template.
type TemplateResult struct {
	Template   string `json:"template"`
	N          Counts `json:"n"`
	Recall     Metric `json:"recall"`
	SumLogProb Metric `json:"sum_logprob"`
	Margin     Metric `json:"margin"`
	Place      string `json:"place"` // ceiling, floor or between: recall above 0.95, below 0.2, or neither
}

// Places of a base recall: above 0.95 or below 0.2 a drop hardly shows in recall itself.
const (
	PlaceCeiling = "ceiling"
	PlaceFloor   = "floor"
	PlaceBetween = "between"

	floorRecall   = 0.2
	ceilingRecall = 0.95
)

// Place says where a recall lies; empty where it is undefined.
func (m Metric) Place() string {
	switch v := float64(m.Value); {
	case v > ceilingRecall:
		return PlaceCeiling
	case v < floorRecall:
		return PlaceFloor
	case math.IsNaN(v):
		return ""
	}
	return PlaceBetween
}

// grid sorts the unmodified model's trials by template and depth; nothing where no prompt names either.
func (p *Plan) grid(prompts []PromptRecord, base []Trial) ([]GridCell, []TemplateResult) {
	type key struct {
		template string
		depth    Number
	}
	cells, templates := map[key][]int{}, map[string][]int{}
	var order []key
	var names []string
	for i, r := range prompts {
		if i >= len(base) || r.Template == "" && r.Depth != r.Depth {
			continue
		}
		k := key{r.Template, r.Depth}
		if k.depth != k.depth {
			k.depth = -1 // NaN is no key
		}
		if cells[k] == nil {
			order = append(order, k)
		}
		if templates[k.template] == nil {
			names = append(names, k.template)
		}
		cells[k], templates[k.template] = append(cells[k], i), append(templates[k.template], i)
	}
	var out []GridCell
	for _, k := range order {
		c := GridCell{Template: k.template, Depth: k.depth}
		if k.depth < 0 {
			c.Depth = nan
		}
		var trials []Trial
		for _, i := range cells[k] {
			trials = append(trials, base[i])
			c.Tokens += len(prompts[i].IDs)
		}
		c.Tokens /= len(trials)
		sum := p.summarise(&condition{name: baseline}, "", trials, nil)
		c.N, c.Recall, c.SumLogProb, c.Margin = sum.N, sum.Metrics.Recall, sum.Metrics.SumLogProb, sum.Metrics.Margin
		out = append(out, c)
	}
	var byTemplate []TemplateResult
	for _, name := range names {
		var trials []Trial
		for _, i := range templates[name] {
			trials = append(trials, base[i])
		}
		sum := p.summarise(&condition{name: baseline}, "", trials, nil)
		byTemplate = append(byTemplate, TemplateResult{name, sum.N, sum.Metrics.Recall, sum.Metrics.SumLogProb, sum.Metrics.Margin, sum.Metrics.Recall.Place()})
	}
	return out, byTemplate
}

// VariantResult is the unmodified model where the needle, the decoy or both are missing.
type VariantResult struct {
	Variant    string `json:"variant"`
	N          Counts `json:"n"`
	Recall     Metric `json:"recall"`
	SumLogProb Metric `json:"sum_logprob"`
	Margin     Metric `json:"margin"`
}

func (e *evidence) variantResults() []VariantResult {
	var out []VariantResult
	for _, name := range []string{VariantNoDecoy, VariantDecoyOnly, VariantAbsent} {
		var trials []Trial
		for i, t := range e.trials[StageVariants] {
			if e.variants[i].Variant == name {
				trials = append(trials, t)
			}
		}
		if len(trials) == 0 {
			continue
		}
		sum := e.plan.summarise(&condition{name: baseline}, "", trials, nil)
		out = append(out, VariantResult{name, sum.N, sum.Metrics.Recall, sum.Metrics.SumLogProb, sum.Metrics.Margin})
	}
	return out
}

// check tells whether every stage holds the trials of its prompts and conditions.
func (e *evidence) check() error {
	expect := func(stage string, prompts []PromptRecord, conds []condition) error {
		got := e.trials[stage]
		if len(got) != len(prompts)*len(conds) {
			return fmt.Errorf("stage %s: %d trials, want %d", stage, len(got), len(prompts)*len(conds))
		}
		for i, t := range got {
			p, c := prompts[i/len(conds)].ID, conds[i%len(conds)].name
			if t.Prompt != p || t.Condition != c {
				return fmt.Errorf("stage %s: trial %d is %s under %s, want %s under %s", stage, i, t.Prompt, t.Condition, p, c)
			}
		}
		return nil
	}
	if e.plan.Detect != nil {
		if err := expect(StageDetect, e.detects, []condition{e.plan.detectCondition()}); err != nil {
			return err
		}
		for _, stage := range e.plan.Detect.furtherStages() {
			if err := expect(stage, e.detects, []condition{{name: baseline}}); err != nil {
				return err
			}
		}
	}
	if e.plan.Agreement != nil {
		if err := expect(StageAgreement, e.agrees, []condition{{name: baseline}}); err != nil {
			return err
		}
	}
	for _, x := range e.plan.experiments() {
		conds, err := e.conditions(x)
		if err != nil {
			return err
		}
		if err := expect(x.stage(), e.tests, conds); err != nil {
			return err
		}
		if p := predicted(x, conds); len(p) > 0 {
			if err := expect(ledgerStage(x), e.tests, []condition{{name: baseline}}); err != nil {
				return err
			}
			if err := e.checkPredictions(x, p); err != nil {
				return err
			}
		}
	}
	if err := e.checkTexts(); err != nil {
		return err
	}
	return expect(StageVariants, e.variants, []condition{{name: baseline}})
}

// Cut is a head at the threshold, with the interval that its score has.
type Cut struct {
	Head  decoder.Head `json:"head"`
	Score Number       `json:"score"`
	Low   Number       `json:"low"` // Wilson 0.95
	High  Number       `json:"high"`
	Class string       `json:"class"` // sure: the whole interval reaches the threshold; likely: the score does; near: one hit short of it
}

// Classes of heads around the threshold.
const (
	cutSure   = "sure"
	cutLikely = "likely"
	cutNear   = "near"
)

// sets returns the heads that are sure, and the detected ones with those that are near.
func (d *Detection) sets() (sure, wide heads.Set) {
	var s, w []decoder.Head
	for _, c := range d.Cuts {
		if c.Class == cutSure {
			s = append(s, c.Head)
		}
		w = append(w, c.Head)
	}
	return heads.NewSet(s...), heads.NewSet(w...)
}
