package harness

import (
	"fmt"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// Modes of a knock-out: what takes the place of a head's output. Zero also removes what the head puts out whatever it reads; the mean
// leaves that in, and takes what depends on the prompt; a resampled output is one that the model does make, for another code.
const (
	ModeZero     = "zero"     // nothing
	ModeMean     = "mean"     // its mean over the detection prompts' rows of the same class
	ModeResample = "resample" // its output on the prompt's donor: the same prompt with another code. Rows of the answer stay the head's own
)

var modeOps = map[string]decoder.Op{ModeZero: decoder.OpZero, ModeMean: decoder.OpMean, ModeResample: decoder.OpPatch}

// modesHint names what can be asked for.
const modesHint = "modes are zero, mean and resample, each once"

// checkModes refuses what is no mode, and what the prompts do not allow.
func (o *Options) checkModes() error {
	for i, m := range o.Modes {
		if modeOps[m] == "" || slices.Contains(o.Modes[:i], m) {
			return usagef(modesHint, "mode %q", m)
		}
	}
	if len(o.Modes) > 0 && !slices.Contains(o.Modes, ModeZero) {
		return usagef("name zero too", "modes without zero: the other modes are held against it")
	}
	if slices.Contains(o.Modes, ModeMean) && o.Shard != (Shard{}) {
		return usagef("give --modes zero,resample, or run the knock-out whole", "parts of a run with mode mean: every part would need the means")
	}
	return nil
}

// NeedsMeans tells whether something that is asked for puts in means over other prompts, so that prompts for them are worth making.
func (o *Options) NeedsMeans() bool {
	return slices.Contains(o.Stages, StageKnockout) && (o.AutoModes || o.putsInMeans())
}

func (o *Options) putsInMeans() bool {
	return slices.Contains(o.Modes, ModeMean) || slices.ContainsFunc(o.Conditions, func(c NamedEdits) bool { return usesMeans(c.Edits) })
}

// chooseModes takes the modes that were asked for or, where that was left open, those that the prompts allow.
func (s *Study) chooseModes() error {
	donors := !slices.ContainsFunc(s.prompts, func(p *Prompt) bool { return p.Donor == nil })
	_, _, noMeans := s.meanPools()
	if s.o.AutoModes {
		s.o.Modes = []string{ModeZero}
		if noMeans == nil {
			s.o.Modes = append(s.o.Modes, ModeMean)
		}
		if donors {
			s.o.Modes = append(s.o.Modes, ModeResample)
		}
	}
	if s.o.putsInMeans() && noMeans != nil {
		return noMeans
	}
	if slices.Contains(s.o.Modes, ModeResample) && !donors {
		return usagef("`headscope prompts MODEL --donors` writes prompts that have one; or leave resample out of --modes", "mode resample: a prompt has no donor, the same prompt with another code")
	}
	return nil
}

// furtherModes are those beside zero, in a fixed order.
func furtherModes(asked []string) []string {
	var out []string
	for _, m := range []string{ModeMean, ModeResample} {
		if slices.Contains(asked, m) {
			out = append(out, m)
		}
	}
	return out
}

func modeName(mode string, scope decoder.Scope) string { return mode + "@" + string(scope) }

// modeConditions are the target in the further modes and, scored only, the first control sets of each pool.
func (k *PlanKnockout) modeConditions(t *target, scope decoder.Scope) []condition {
	var out []condition
	for _, mode := range k.Modes {
		edit := func(name string, set heads.Set) condition {
			return condition{name: name, edits: []decoder.Edit{{Op: modeOps[mode], Heads: set, Scope: scope}}, heads: set, scope: scope}
		}
		main := edit(modeName(mode, scope), t.heads)
		out = append(out, main)
		for _, c := range t.controls {
			for i, set := range c.Sets[:min(len(c.Sets), k.Controls[scope], k.Decoded)] {
				control := edit(mode+"_"+controlName(c.Pool, i, scope), set)
				control.controlOf, control.pool, control.scoreOnly = main.name, c.Pool, true
				out = append(out, control)
			}
		}
	}
	return out
}

// ModeResult is one mode of the knock-out of the set at one scope.
type ModeResult struct {
	Scope         decoder.Scope `json:"scope"`
	Mode          string        `json:"mode"`
	Condition     string        `json:"condition"`
	Change        Metric        `json:"change"`         // of the primary outcome, against the unmodified model
	ControlChange Number        `json:"control_change"` // mean over the same few control sets in every mode; null without any
	Controls      int           `json:"controls"`
	AgainstZero   *Metric       `json:"against_zero,omitempty"` // this mode's primary outcome minus zero's, paired
	Verdict       string        `json:"verdict,omitempty"`      // agrees, differs or undecided
}

// Verdicts on a mode.
const (
	modeAgrees    = "agrees"    // the 90 % interval of the difference to zero lies within the plan's equivalence margin
	modeDiffers   = "differs"   // its 95 % interval leaves out 0
	modeUndecided = "undecided" // neither
)

// modes sets the modes side by side.
func (k *PlanKnockout) modes(p *Plan, res *Result, trials map[string][]Trial) {
	if len(k.Modes) == 0 {
		return
	}
	results := map[string]*ConditionResult{}
	for i := range res.Conditions {
		if c := &res.Conditions[i]; c.Stage == StageKnockout {
			results[c.Name] = c
		}
	}
	for _, scope := range k.Scopes {
		zero := trials[withoutName(scope)]
		if zero == nil {
			continue
		}
		for _, mode := range append([]string{ModeZero}, k.Modes...) {
			name, prefix := modeName(mode, scope), mode+"_"
			if mode == ModeZero {
				name, prefix = withoutName(scope), ""
			}
			m := ModeResult{Scope: scope, Mode: mode, Condition: name, Change: p.change(results[name]), ControlChange: nan}
			sum := 0.0
			for _, c := range res.Controls {
				for i := range min(len(c.Sets), k.Controls[scope], k.Decoded) {
					sum += p.drop(results[prefix+controlName(c.Pool, i, scope)])
					m.Controls++
				}
			}
			if m.Controls > 0 {
				m.ControlChange = Number(-sum / float64(m.Controls))
			}
			if mode != ModeZero {
				p.againstZero(&m, zero, trials[name])
			}
			res.Modes = append(res.Modes, m)
		}
	}
}

// againstZero compares a mode's trials with those of the same prompts under zero.
func (p *Plan) againstZero(m *ModeResult, zero, mode []Trial) {
	var before, after []float64
	for i := range mode {
		if zero[i].Outcome == Failed || mode[i].Outcome == Failed {
			continue
		}
		before, after = append(before, p.primaryOf(&zero[i])), append(after, p.primaryOf(&mode[i]))
	}
	d := p.Statistics.change(before, after)
	m.AgainstZero = &d
	e := p.Statistics.equivalence(d, before, after)
	switch {
	case d.Reason != "" || d.Value != d.Value:
	case e != nil && e.Equivalent:
		m.Verdict = modeAgrees
	case d.Low > 0 || d.High < 0:
		m.Verdict = modeDiffers
	default:
		m.Verdict = modeUndecided
	}
}

// primaryOf is a trial's primary outcome.
func (p *Plan) primaryOf(t *Trial) float64 {
	if p.Primary.Metric == metricMargin {
		return float64(t.Margin)
	}
	return float64(t.Sum)
}

// change is that of the primary outcome under a condition.
func (p *Plan) change(c *ConditionResult) Metric {
	if p.Primary.Metric == metricMargin && c.Metrics.MarginChange != nil {
		return *c.Metrics.MarginChange
	}
	return *c.Metrics.Change
}

// writeModes shows the modes as a table.
func (r *Result) writeModes(out *printer, markdown bool) {
	if len(r.Modes) == 0 {
		return
	}
	rows := [][]string{{"knock-out mode", "change", "95 %", "controls", "against zero", "95 %", ""}}
	for _, m := range r.Modes {
		row := []string{m.Mode + " @" + string(m.Scope), signed(m.Change, 3), interval(m.Change, 3), fixed(float64(m.ControlChange), 3), "", "", m.Verdict}
		if m.AgainstZero != nil {
			row[4], row[5] = signed(*m.AgainstZero, 3), interval(*m.AgainstZero, 3)
		}
		rows = append(rows, row)
	}
	out.grid(rows, markdown)
	out.line("")
}

// modeNotes say what the modes are and what they were made from.
func (r *Result) modeNotes() []string {
	if len(r.Modes) == 0 {
		return nil
	}
	n := []string{fmt.Sprintf("knock-out modes: change of the primary outcome; controls: mean over the first %d sets of each pool, the same in every mode.", r.Plan.Knockout.Decoded)}
	if m := r.Means; m != nil {
		from := "tested prompts"
		if r.Plan.DetectPrompts != nil {
			from = "detection prompts"
		}
		line := fmt.Sprintf("mean: over the rows of each class (haystack, needle, question, last, each token of the answer) of %d %s", m.Of, from)
		if m.Parts > 0 {
			line += fmt.Sprintf(", some with tested answers: in %d parts, so that no prompt has means over rows of a prompt with its answer", m.Parts)
		}
		n = append(n, line+".")
	}
	if slices.Contains(r.Plan.Knockout.Modes, ModeResample) {
		n = append(n, "resample: from the same prompt with another code, rows aligned; rows of the answer keep the head's own output.")
	}
	return n
}
