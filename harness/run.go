package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// Options asks for a run. Zero values mean what their comments say.
type Options struct {
	Verb   string   // study, detect or knockout: names the result
	Stages []string // StageDetect, then those of experiments, in the order of their constants

	Checkpoint *loader.Checkpoint
	Model      *decoder.Model

	Prompts       *PromptFile
	DetectPrompts *PromptFile     // nil: detect on Prompts, and say so
	Refused       []PromptFailure // prompts that could not be made, for the record

	Edits            []decoder.Edit // in force while detecting
	AgreementPrompts *PromptFile    // hold the detectors against the causal map of these; nil: do not

	Detectors  []string        // beyond those of every detection: names, or DetectorsAll
	Threshold  float64         // argmax_last of a retrieval head, inclusive
	Heads      heads.Ranking   // heads to knock out; nil: those that the detect stage finds
	Exclude    heads.Set       // never drawn as controls
	DetectedOn *PlanPrompts    // what given heads were detected on; nil = not known
	WriteNorm  *heads.Scores   // sizes of given heads' writes, to match controls on; nil = not known
	Top        int             // knock out only the best so many; 0 = all
	Modes      []string        // of the knock-out; nil: ModeZero
	AutoModes  bool            // all modes that the prompts allow, in place of Modes
	Cuts       bool            // also knock out the sure heads alone, and with those one hit short of the threshold
	Controls   int             // matched control sets of each pool and scope; AutoControls = 99 on question rows, 19 in whole passes
	Pools      []string        // PoolLayer, PoolLayerKV; nil: PoolLayer
	Scopes     []decoder.Scope // at which the heads are off; none: only Conditions are asked
	Conditions []NamedEdits    // further conditions of the knockout stage
	Swap       *PlanSwap       // of the swap stage
	Keep       *PlanKeep       // of the keep stage
	Texts      *Texts          // scored beside the swap and keep stages; nil: none
	Bands      *BandOptions    // of the bands stage
	HeadsOf    string          // sha256 of the weights that given heads were found in; "" = not known

	MaxNew      int  // longest greedy answer
	FullAnswers bool // decode every answer to its end, also where the fed answer already decides it
	Batch       int  // prompts of a prefill; part of the key
	Seed        uint64
	Equivalence float64 // nats; a change of the primary outcome within it is "no effect"; 0 = not asked
	Example     bool    // record what the best heads look at in the first prompt

	Out     string // folder of the results; empty: nothing is written
	Shard   Shard  // compute only this part; RunShard's business
	Command []string
	Events  func(Event) // may be nil
}

// AutoControls leaves the number of control sets to the plan.
const AutoControls = -1

// maxControls bounds the control sets: each is a condition of every prompt.
const maxControls = 10000

// Event tells how far a run is.
type Event struct {
	Stage       string
	Done, Total int // trials
	Resumed     int // of Done: read from the trials file
}

func (o *Options) check() error {
	if o.Checkpoint.Tokenizer == nil {
		return &hintError{fmt.Errorf("%s has no tokenizer.json", o.Checkpoint.Dir), "prompts are texts: put the model's tokenizer.json into its folder"}
	}
	if err := o.checkStages(); err != nil {
		return err
	}
	detect, knockout := slices.Contains(o.Stages, StageDetect), slices.Contains(o.Stages, StageKnockout)
	switch {
	case slices.Contains(o.Stages, StageSwap) && o.Swap == nil:
		return usagef("`headscope swap MODEL --table NAME` is this stage alone", "stage swap without tables")
	case slices.Contains(o.Stages, StageKeep) && o.Keep == nil:
		return usagef("`headscope keep MODEL --heads LIST` is this stage alone", "stage keep without heads")
	case knockout && !detect && len(o.Heads) == 0 && len(o.Conditions) == 0:
		return usagef("give --heads LIST or FILE, or --edit, or run the detect stage too", "no heads to knock out")
	case knockout && len(o.Scopes) == 0 && len(o.Conditions) == 0:
		return usagef("give --scope all, or another", "no scope to knock heads out at")
	case detect && !(o.Threshold > 0 && o.Threshold <= 1):
		return usagef("argmax_last is a share of prompts", "threshold %g is not in (0, 1]", o.Threshold)
	case o.Controls < AutoControls || o.Top < 0:
		return usagef("give a count", "negative number of controls or heads")
	case o.Controls > maxControls:
		return usagef(fmt.Sprintf("give at most %d", maxControls), "controls %d is out of range", o.Controls)
	case o.Equivalence < 0 || math.IsNaN(o.Equivalence) || math.IsInf(o.Equivalence, 0):
		return usagef("give nats, such as 0.5; 0 = not asked", "equivalence margin %g is not a size", o.Equivalence)
	case o.MaxNew < 1:
		return usagef("the greedy answer needs at least one token", "max-new %d is not positive", o.MaxNew)
	case o.Batch < 1 || o.Batch > 64:
		return usagef("give 1 to 64", "batch %d is out of range", o.Batch)
	}
	for i, pool := range o.Pools {
		if pool != PoolLayer && pool != PoolLayerKV || slices.Contains(o.Pools[:i], pool) {
			return usagef("pools are layer and layer+kv, each once", "pool %q", pool)
		}
	}
	if err := o.checkModes(); err != nil {
		return err
	}
	s := &o.Checkpoint.Spec
	if err := o.Heads.Set().Validate(s.Layers, s.Heads); err != nil {
		return err
	}
	if err := CheckEdits(s, o.Edits); err != nil {
		return err
	}
	if err := o.checkShard(); err != nil {
		return err
	}
	if err := o.checkDetectors(); err != nil {
		return err
	}
	if err := o.checkBands(); err != nil {
		return err
	}
	return o.checkNames()
}

// checkStages refuses stages that there are not, and another order than that of a run.
func (o *Options) checkStages() error {
	order := stageOrder()
	advice := "stages are " + strings.Join(order, ", ")
	last := -1
	for _, s := range o.Stages {
		at := slices.Index(order, s)
		if at < 0 {
			return usagef(advice, "stage %q is unknown", s)
		}
		if at <= last {
			return usagef(advice+", in this order", "stages %s: each once, detect first", strings.Join(o.Stages, ","))
		}
		last = at
	}
	if last < 0 {
		return usagef(advice, "no stages")
	}
	return nil
}

// checkNames refuses two conditions of one name: trials are sorted and resumed by it.
func (o *Options) checkNames() error {
	names := map[string]bool{baseline: true}
	for _, scope := range o.Scopes {
		if names[withoutName(scope)] {
			return usagef("give each scope once", "scope %s is there twice", scope)
		}
		names[withoutName(scope)] = true
	}
	for _, c := range o.Conditions {
		if ownName.MatchString(c.Name) {
			return usagef("give it another name", "condition %q: names such as without@all and control0@all are the study's own", c.Name)
		}
		if names[c.Name] {
			return usagef("give each condition its own name", "condition %q is there twice", c.Name)
		}
		names[c.Name] = true
		if len(c.Edits) == 0 {
			return usagef("give at least one edit", "condition %q changes nothing", c.Name)
		}
		if err := CheckEdits(&o.Checkpoint.Spec, c.Edits); err != nil {
			return err
		}
	}
	return nil
}

// ownName matches the names that the knockout stage gives to its own conditions.
var ownName = regexp.MustCompile(`^(without|sure|wide|mean|resample|((mean|resample)_)?(kv)?control[0-9]+)@`)

// baseline is the name of the unmodified condition.
const baseline = "unmodified"

// runner carries a run from stage to stage.
type runner struct {
	o     *Options
	plan  *Plan
	file  *trialsFile // nil where nothing is written
	ask   askFunc
	trace traceFunc
	see   observeFunc

	headMeans meansFunc
}

// askFunc is decoder.Model.Ask.
type askFunc func(context.Context, []*decoder.Prompt, []decoder.Condition, decoder.AskOptions, decoder.Emit) error

// meansFunc is decoder.Model.HeadMeans.
type meansFunc func(context.Context, []*decoder.Prompt, []decoder.Head, [][]int) ([]*decoder.Means, error)

// traceFunc is decoder.Model.Trace.
type traceFunc func(context.Context, *decoder.Prompt, []decoder.Edit, decoder.TraceOptions) (*decoder.Trace, error)

// observeFunc is decoder.Model.Observe.
type observeFunc func(context.Context, *decoder.Prompt, []decoder.LookAt, [][2]int32) (*decoder.Observation, error)

// stage is one set of prompts under one set of conditions.
type stage struct {
	name    string
	prompts []*Prompt
	conds   []condition
}

// run computes the stage's trials, or takes them from the trials file, in the order prompt by prompt.
func (r *runner) run(ctx context.Context, s stage) ([]Trial, error) {
	var all []Trial
	size := r.plan.Run.Unit
	ev := Event{Stage: s.name, Total: r.o.Shard.size(len(s.prompts), size) * len(s.conds)}
	for from := 0; from < len(s.prompts); from += size {
		prompts := s.prompts[from:min(from+size, len(s.prompts))]
		id := unitID{s.name, from / size}
		if !r.o.Shard.has(id.unit) {
			continue
		}
		trials, err := r.stored(id, s.conds, prompts)
		if err != nil {
			return nil, err
		}
		if trials != nil {
			ev.Resumed += len(trials)
		} else {
			trials, err = r.compute(ctx, id, s.conds, prompts, func() { ev.Done++; r.event(ev) })
			if err != nil {
				return nil, err
			}
			if err := r.keep(trials); err != nil {
				return nil, err
			}
		}
		all = append(all, trials...)
		ev.Done = len(all)
		r.event(ev)
	}
	return all, nil
}

func (r *runner) event(e Event) {
	if r.o.Events != nil {
		r.o.Events(e)
	}
}

// stored returns a unit that an earlier run finished, nil where there is none.
func (r *runner) stored(id unitID, conds []condition, prompts []*Prompt) ([]Trial, error) {
	if r.file == nil {
		return nil, nil
	}
	trials, err := r.file.whole(id, len(conds)*len(prompts))
	if err != nil || trials == nil {
		return nil, err
	}
	for i, t := range trials {
		p, c := prompts[i/len(conds)].Spec.ID, conds[i%len(conds)].name
		if t.Prompt != p || t.Condition != c {
			return nil, &HeaderMismatchError{r.file.path, fmt.Sprintf("%s under %s", t.Prompt, t.Condition), fmt.Sprintf("%s under %s", p, c)}
		}
	}
	return trials, nil
}

// compute asks the model. A unit that does not fit into memory is failed trials; any other error ends the run.
func (r *runner) compute(ctx context.Context, id unitID, conds []condition, prompts []*Prompt, done func()) ([]Trial, error) {
	trials := make([]Trial, 0, len(conds)*len(prompts))
	asked := make([]*decoder.Prompt, len(prompts))
	questions, err := questionsOf(conds, r.o.Checkpoint.Spec.Layers-1)
	if err != nil {
		return nil, err
	}
	dc := make([]decoder.Condition, len(questions))
	for i, q := range questions {
		dc[i] = q.Condition
	}
	for i, p := range prompts {
		asked[i] = p.ask()
		for j := range conds {
			trials = append(trials, newTrial(id.stage, id.unit, p, &conds[j]))
		}
	}
	eos, tok := r.plan.Model.EOS, r.o.Checkpoint.Tokenizer
	o := r.askOptions()
	if id.stage == StageDetect && r.plan.Detect.asks("wu_step", "wu_set") {
		o.Verify = false // those read the whole answer
	}
	err = r.ask(ctx, asked, dc, o, func(p, q int, reply *decoder.Reply) error {
		if len(dc[q].Edits) == 0 && overflowed(reply.LogProb) {
			return fmt.Errorf("prompt %s: %w", prompts[p].Spec.ID, errNotFinite("the unmodified model's log-probabilities are"))
		}
		for _, c := range questions[q].of {
			t := &trials[p*len(conds)+c]
			t.fill(reply)
			switch {
			case t.Error != "":
				t.Outcome = Failed // there is no model left whose answer could be wrong
			case conds[c].scoreOnly:
				t.scored()
			default:
				t.Outcome, t.Text = judge(prompts[p], reply, eos, tok)
				t.Scores = textScores(prompts[p], reply, t.Text)
			}
			done()
		}
		return nil
	})
	var memory *decoder.OutOfMemoryError
	if errors.As(err, &memory) {
		for i := range trials {
			trials[i] = newTrial(id.stage, id.unit, prompts[i/len(conds)], &conds[i%len(conds)])
			trials[i].fail(memory)
		}
		return trials, nil
	}
	return trials, err
}

func (r *runner) askOptions() decoder.AskOptions {
	return decoder.AskOptions{
		MaxNew: r.plan.MaxNew, Verify: !r.plan.FullAnswers, EOS: r.plan.Model.EOS, Attention: true,
		Batch: r.plan.Run.Batch, DecodeBatch: r.plan.Run.DecodeBatch,
	}
}
