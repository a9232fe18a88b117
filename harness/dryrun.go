package harness

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// Estimate is what a run will compute, cost and be able to see, before it is made.
type Estimate struct {
	Key     string          `json:"key"`
	Plan    *Plan           `json:"plan"`
	Prompts EstimatePrompts `json:"prompts"`
	Stages  []StageEstimate `json:"stages"`
	Trials  int             `json:"trials"` // at most: what is drawn after detection is not known yet
	Work    Work            `json:"work"`   // of all stages
	Memory  MemoryEstimate  `json:"memory"`
	Time    *TimeEstimate   `json:"time,omitempty"` // absent without a calibration
	Power   PowerEstimate   `json:"power"`
	Notes   []string        `json:"notes"`
}

// EstimatePrompts are the prompts of a run.
type EstimatePrompts struct {
	Tested   int `json:"tested"`
	Detect   int `json:"detect"`
	Agree    int `json:"agreement"`
	Variants int `json:"variants"`
	Tokens   int `json:"tokens"` // of the tested ones
	Shortest int `json:"shortest"`
	Longest  int `json:"longest"`
}

// Work is what the model computes, in two kinds of programs: whole passes, which see every token of a prompt, and rows over a kept
// cache, which see the last ones alone.
type Work struct {
	WholePasses  int     `json:"whole_passes"`
	WholeTokens  int64   `json:"whole_tokens"`
	WholeFLOPs   float64 `json:"whole_flops"`
	RowPasses    int     `json:"row_passes"`
	RowTokens    int64   `json:"row_tokens"`
	RowFLOPs     float64 `json:"row_flops"`
	DecodeTokens int64   `json:"decode_tokens"` // at most: where no answer is the one that was fed
	DecodeFLOPs  float64 `json:"decode_flops"`
}

func (w *Work) add(o Work) {
	w.WholePasses, w.RowPasses = w.WholePasses+o.WholePasses, w.RowPasses+o.RowPasses
	w.WholeTokens, w.RowTokens, w.DecodeTokens = w.WholeTokens+o.WholeTokens, w.RowTokens+o.RowTokens, w.DecodeTokens+o.DecodeTokens
	w.WholeFLOPs, w.RowFLOPs, w.DecodeFLOPs = w.WholeFLOPs+o.WholeFLOPs, w.RowFLOPs+o.RowFLOPs, w.DecodeFLOPs+o.DecodeFLOPs
}

// StageEstimate is one stage.
type StageEstimate struct {
	Name       string `json:"name"`
	Prompts    int    `json:"prompts"`
	Conditions int    `json:"conditions"`
	Trials     int    `json:"trials"`
	Work       Work   `json:"work"`
}

// MemoryEstimate is what the model's arrays take on the device, in bytes; what the backend takes for itself, its programs and their
// compilation comes on top.
type MemoryEstimate struct {
	Weights     int64 `json:"weights"` // all of them; with --memory, less at a time
	Caches      int64 `json:"caches"`
	Activations int64 `json:"activations"`
}

// PowerEstimate is what the prompts and controls asked for can show.
type PowerEstimate struct {
	Of            int            `json:"of"`          // tested prompts
	Level         float64        `json:"level"`       // of the two-sided test
	Power         float64        `json:"power"`       // chance to see what is there
	MinDropSD     Number         `json:"min_drop_sd"` // in standard deviations of the change over prompts
	SD            Number         `json:"sd"`          // of the primary outcome's change, nats, of the calibration's prompts; null where not measured
	SDOf          int            `json:"sd_of"`
	MinDrop       Number         `json:"min_drop"`    // nats; null without SD
	FewestLost    int            `json:"fewest_lost"` // hits, none gained, that McNemar's test calls significant
	EnoughPrompts bool           `json:"enough_prompts_for_mcnemar"`
	Controls      []ControlPower `json:"controls"`
}

// ControlPower is what the control sets of a scope and pool can show at best.
type ControlPower struct {
	Scope     decoder.Scope `json:"scope"`
	Pool      string        `json:"pool"`
	Sets      int           `json:"sets"`       // drawn where heads are given; else as many as are asked for and can exist
	SmallestP Number        `json:"smallest_p"` // null below 19 sets
}

// dryPower is the power that a minimum detectable drop is stated at.
const dryPower = 0.8

// DryRun says what the study will compute and what that costs. With calibrate, one prompt is put to the model under a few of the
// study's conditions, which takes some seconds; no trial is kept and nothing is written.
func (s *Study) DryRun(ctx context.Context, calibrate bool) (*Estimate, error) {
	e := &Estimate{Key: s.Key, Plan: s.Plan, Notes: []string{}}
	e.Prompts = EstimatePrompts{Tested: len(s.prompts), Variants: len(s.variants), Shortest: math.MaxInt}
	for _, p := range s.prompts {
		n := len(p.IDs)
		e.Prompts.Tokens, e.Prompts.Shortest, e.Prompts.Longest = e.Prompts.Tokens+n, min(e.Prompts.Shortest, n), max(e.Prompts.Longest, n)
	}
	if s.Plan.Detect != nil {
		e.Prompts.Detect, e.Prompts.Agree = len(s.detects), len(s.agrees)
	}
	d, err := s.drystages()
	if err != nil {
		return nil, err
	}
	for _, st := range d {
		e.Stages = append(e.Stages, st.estimate(s))
	}
	for i := range e.Stages {
		e.Trials += e.Stages[i].Trials
		e.Work.add(e.Stages[i].Work)
	}
	e.Memory = s.memory(d)
	e.Power = s.power(d)
	if s.Plan.Detect != nil && len(s.Plan.experiments()) > 0 {
		e.Notes = append(e.Notes, "the heads are not known before detection: conditions are at most these, whole passes are counted from the first layer, and "+
			"a calibration edits heads of its own choice")
	}
	if !calibrate {
		return e, nil
	}
	return e, s.calibrate(ctx, d, e)
}

func (s *Study) power(d []dryStage) PowerEstimate {
	p := PowerEstimate{Of: len(s.prompts), Level: level, Power: dryPower, SD: nan, MinDrop: nan, FewestLost: stats.FewestDiscordant(1 - level), Controls: []ControlPower{}}
	p.MinDropSD = Number(stats.DetectableMean(p.Of, dryPower, 1-level).Or(math.NaN()))
	p.EnoughPrompts = p.Of >= p.FewestLost
	for _, x := range s.Plan.experiments() {
		if s.Plan.hasHeads(x) {
			p.Controls = append(p.Controls, s.controlPower(x, d)...)
		}
	}
	return p
}

// controlPower is what the control sets of an experiment's heads can show.
func (s *Study) controlPower(x experiment, d []dryStage) []ControlPower {
	var out []ControlPower
	_, k := x.about()
	for _, scope := range k.Scopes {
		for _, pool := range k.Pools {
			c := ControlPower{scope, pool, k.Controls[scope], nan}
			for i := range d {
				if d[i].name == x.stage() {
					c.Sets = mostControls(d[i].conds, scope, pool)
				}
			}
			if c.Sets >= fewestControls {
				c.SmallestP = Number(1 / float64(c.Sets+1))
			}
			out = append(out, c)
		}
	}
	return out
}

// mostControls is how many controls of a pool some condition of a scope has.
func mostControls(conds []condition, scope decoder.Scope, pool string) int {
	most, sets := 0, map[string]int{}
	for i := range conds {
		if c := &conds[i]; c.scope == scope && c.pool == pool {
			sets[c.controlOf]++
			most = max(most, sets[c.controlOf])
		}
	}
	return most
}

// Write shows the estimate as text.
func (e *Estimate) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "plan\tkey %s: %s, %s\n", e.Key, strings.Join(e.Plan.Stages, ", "), e.Plan.Run)
	fmt.Fprintf(tw, "prompts\t%d of %d-%d tokens, %d tokens in all", e.Prompts.Tested, e.Prompts.Shortest, e.Prompts.Longest, e.Prompts.Tokens)
	if e.Prompts.Detect > 0 && e.Plan.DetectPrompts != nil {
		fmt.Fprintf(tw, "; %d others to detect on", e.Prompts.Detect)
	}
	if e.Prompts.Agree > 0 {
		fmt.Fprintf(tw, "; %d others for the causal map", e.Prompts.Agree)
	}
	if e.Prompts.Variants > 0 {
		fmt.Fprintf(tw, "; %d without needle or decoy", e.Prompts.Variants)
	}
	fmt.Fprintf(tw, "\nprimary\t%s: %s%s\n", e.Plan.Primary.Metric, e.Plan.Primary.Hypothesis, e.primaryPlace())
	for i := range e.Stages {
		s := &e.Stages[i]
		fmt.Fprintf(tw, "%s\t%d prompts x %d conditions = %d trials: %s\n", s.Name, s.Prompts, s.Conditions, s.Trials, s.Work)
	}
	fmt.Fprintf(tw, "trials\t%d at most\n", e.Trials)
	fmt.Fprintf(tw, "FLOPs\t%s whole passes, %s rows, %s greedy answers at most\n", flops(e.Work.WholeFLOPs), flops(e.Work.RowFLOPs), flops(e.Work.DecodeFLOPs))
	m := e.Memory
	fmt.Fprintf(tw, "memory\tabout %s of arrays on the device: weights %s, caches %s, activations %s; the backend's own comes on top\n", FormatBytes(m.Weights+m.Caches+m.Activations),
		FormatBytes(m.Weights), FormatBytes(m.Caches), FormatBytes(m.Activations))
	e.writeTime(tw)
	e.writePower(tw)
	for _, n := range e.Notes {
		fmt.Fprintf(tw, "note\t%s\n", n)
	}
	return tw.Flush()
}

func (e *Estimate) primaryPlace() string {
	if e.Plan.Primary.Scope == "" {
		return ""
	}
	return fmt.Sprintf(" (scope %s, pool %s)", e.Plan.Primary.Scope, e.Plan.Primary.Pool)
}

// String is the work in a line.
func (w Work) String() string {
	text := fmt.Sprintf("%d whole passes (%d tokens)", w.WholePasses, w.WholeTokens)
	if w.RowPasses > 0 {
		text += fmt.Sprintf(", %d over kept caches (%d rows)", w.RowPasses, w.RowTokens)
	}
	return text
}

// flops shows a count with three digits and a decimal unit.
func flops(x float64) string {
	units := []string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for x >= 1000 && i < len(units)-1 {
		x, i = x/1000, i+1
	}
	return fmt.Sprintf("%.3g %sFLOP", x, units[i])
}

func (e *Estimate) writePower(tw io.Writer) {
	p := &e.Power
	if len(e.Plan.experiments()) == 0 {
		n := e.Prompts.Detect
		hits := int(math.Ceil(e.Plan.Detect.Threshold*float64(n) - 1e-9))
		iv := stats.Wilson(hits, n, level)
		fmt.Fprintf(tw, "power\tthreshold %g is %d hits of %d; a head there has an interval of %.2f-%.2f\n", e.Plan.Detect.Threshold, hits, n, iv.Lo, iv.Hi)
		return
	}
	fmt.Fprintf(tw, "power\tn = %d: a mean change of %.2f SD is seen with a chance of %g (paired, two-sided %.2g; SD of the change over prompts)\n",
		p.Of, float64(p.MinDropSD), p.Power, 1-p.Level)
	if !math.IsNaN(float64(p.SD)) {
		fmt.Fprintf(tw, "\tthat is %.2f nats, by an SD of %.2f nats of %d prompts under %s\n", float64(p.MinDrop), float64(p.SD), p.SDOf, e.Plan.Primary.condition())
	}
	lost := fmt.Sprintf("at least %d lost hits and none gained", p.FewestLost)
	if !p.EnoughPrompts {
		lost += fmt.Sprintf(": more than the %d prompts", p.Of)
	}
	fmt.Fprintf(tw, "\tMcNemar's p reaches %.2g with %s\n", 1-p.Level, lost)
	for _, c := range p.Controls {
		text := "no p: fewer than 19"
		if !math.IsNaN(float64(c.SmallestP)) {
			text = fmt.Sprintf("smallest p %.2g", float64(c.SmallestP))
		}
		fmt.Fprintf(tw, "\tcontrols @%s, pool %s: %d sets, %s\n", c.Scope, c.Pool, c.Sets, text)
	}
}

// median is the prompt of middle length.
func median(prompts []*Prompt) *Prompt {
	s := slices.Clone(prompts)
	slices.SortStableFunc(s, func(a, b *Prompt) int { return len(a.IDs) - len(b.IDs) })
	return s[len(s)/2]
}
