package harness

import (
	"fmt"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// PlanKnockout says which heads are switched off and what they are compared with.
type PlanKnockout struct {
	PlanTarget
	Cuts bool `json:"cuts"` // also without the heads that may be there by chance, and with those one hit short
	PlanControls
	Modes []string `json:"modes,omitempty"` // beside zero: mean, resample
}

const knockoutHypothesis = "switching the heads off lowers the metric more than switching off matched heads does"

func (p *Plan) addKnockout(o *Options, unreachable []int, tests []*Prompt) {
	p.Knockout = &PlanKnockout{planTarget(o, unreachable), o.Cuts, planControls(o, tests), furtherModes(o.Modes)}
	p.declare(knockoutHypothesis, &p.Knockout.PlanControls, nil)
	for _, c := range o.Conditions {
		p.Conditions = append(p.Conditions, NamedEdits{c.Name, decoder.Canonical(c.Edits)})
	}
}

func (k *PlanKnockout) stage() string { return StageKnockout }

func (k *PlanKnockout) about() (*PlanTarget, *PlanControls) { return &k.PlanTarget, &k.PlanControls }

func (k *PlanKnockout) fill(e *evidence, _ *target, res *Result, trials map[string][]Trial) error {
	if t := e.trials[StageMeans]; len(t) > 0 {
		res.Means = meansInfo(t, len(e.detects))
	}
	k.modes(e.plan, res, trials)
	return nil
}

// withoutName and controlName are the names of the knockout stage's own conditions.
func withoutName(scope decoder.Scope) string { return "without@" + string(scope) }

func controlName(pool string, i int, scope decoder.Scope) string {
	name := "control"
	if pool == PoolLayerKV {
		name = "kvcontrol"
	}
	return fmt.Sprintf("%s%d@%s", name, i, scope)
}

// borders are the target without the heads that the threshold may owe to chance, and with those one hit short; nil where not apart.
func (k *PlanKnockout) borders(e *evidence, t *target) (sure, wide heads.Set) {
	switch d := e.found; {
	case !k.Cuts || k.Heads != nil || k.Top > 0 || e.plan.Detect == nil:
		return nil, nil
	case t.guessed:
		return t.heads, t.heads
	default:
		sure, wide = d.sets()
	}
	if len(sure) == 0 || sure.Equal(t.heads) {
		sure = nil
	}
	if wide.Equal(t.heads) {
		wide = nil
	}
	return sure, wide
}

// conditions are, for each scope, the target off, its sure and its wide form, its controls and the further modes, then what the user named.
func (k *PlanKnockout) conditions(e *evidence, t *target) ([]condition, error) {
	var out []condition
	off := func(name string, set heads.Set, scope decoder.Scope) condition {
		return condition{name: name, edits: patch.ZeroHeads(set, scope), heads: set, scope: scope}
	}
	sure, wide := k.borders(e, t)
	for _, scope := range k.Scopes {
		if len(t.heads) == 0 {
			break
		}
		main := off(withoutName(scope), t.heads, scope)
		for _, c := range t.controls {
			main.compared = append(main.compared, comparison{pool: c.Pool, reason: c.Reason})
		}
		out = append(out, main)
		if sure != nil {
			out = append(out, off("sure@"+string(scope), sure, scope))
		}
		if wide != nil {
			out = append(out, off("wide@"+string(scope), wide, scope))
		}
		for _, c := range t.controls {
			for i, set := range c.Sets[:min(len(c.Sets), k.Controls[scope])] {
				control := off(controlName(c.Pool, i, scope), set, scope)
				control.controlOf, control.pool = main.name, c.Pool
				control.scoreOnly = i >= k.Decoded && !e.plan.FullAnswers
				out = append(out, control)
			}
		}
		out = append(out, k.modeConditions(t, scope)...)
	}
	for _, c := range e.plan.Conditions {
		var hs []decoder.Head
		for _, e := range c.Edits {
			hs = append(hs, e.Heads...)
		}
		out = append(out, condition{name: c.Name, edits: c.Edits, heads: heads.NewSet(hs...)})
	}
	return out, nil
}
