package harness

import (
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/loader/decoder"
)

// unmoved is the largest change of a token's log-probability, in nats, that program shapes alone may make in float32.
const unmoved = 1e-4

// asksNothing tells whether edits are the identity by what they ask for: a gain or a temperature of 1, or no edit at all.
func asksNothing(edits []decoder.Edit) bool {
	return !slices.ContainsFunc(edits, func(e decoder.Edit) bool { return !e.Identity() })
}

// otherProgram tells whether a condition runs in another program than the unmodified model: rows over a kept cache, or a program with
// inputs that the base one lacks. Such a program alone moves the last bits.
func otherProgram(edits []decoder.Edit) bool {
	return slices.ContainsFunc(edits, func(e decoder.Edit) bool {
		return !e.Base() || e.Scope != decoder.ScopeAll && e.Scope != decoder.ScopeHaystack
	})
}

// noOp says that a condition did nothing to any of its trials: every log-probability of answer and decoy is the unmodified model's to the
// bit or, where the condition needs another program and float32 is computed in, no farther from it than that program without any edit.
// It is empty where the condition did something, where nothing was asked for, and where a trial failed.
func (p *Plan) noOp(c *condition, trials, base []Trial) string {
	if len(trials) == 0 || len(trials) != len(base) || asksNothing(c.edits) {
		return ""
	}
	largest := 0.0
	for i := range trials {
		if trials[i].Outcome == Failed || base[i].Outcome == Failed {
			return ""
		}
		for _, pair := range [2][2][]Number{{trials[i].LogProb, base[i].LogProb}, {trials[i].Decoy, base[i].Decoy}} {
			if len(pair[0]) != len(pair[1]) {
				return ""
			}
			for j, x := range pair[0] {
				largest = math.Max(largest, math.Abs(float64(x-pair[1][j]))) // NaN stays NaN
			}
		}
	}
	return noOpReason(largest, otherProgram(c.edits), p.Run.DType)
}

// noOp is the same of texts, whose conditions are all whole passes.
func (r *TextResult) noOp(dtype string) string {
	if asksNothing(r.Edits) {
		return ""
	}
	for _, d := range r.Documents {
		if d.KL != d.KL || float64(d.KL) > unmoved*float64(d.Tokens) {
			return ""
		}
	}
	return noOpReason(float64(r.Largest), otherProgram(r.Edits), dtype)
}

// unchanged is the reason of a condition whose every log-probability is the unmodified model's to the bit.
const unchanged = "no log-probability changed by a bit"

// doNotTurn is that of stopping or turning round planes that stand still.
const doNotTurn = "these planes do not turn in this model: their frequency is 0"

func noOpReason(largest float64, other bool, dtype string) string {
	switch {
	case largest == 0:
		return unchanged
	case other && largest < unmoved && dtype == "float32":
		return fmt.Sprintf("no log-probability moved by %g nats (largest change %.1g), which the program that it runs in does without any edit", unmoved, largest)
	}
	return ""
}

// noOpNote is the line about a condition that did nothing; empty for others.
func noOpNote(name, reason string) string {
	switch reason {
	case "":
		return ""
	case unchanged, doNotTurn:
		return name + " is a no-op: " + reason + "."
	}
	return name + " did nothing beyond rounding: " + reason + "."
}

// noOpNotes name the conditions that did nothing, and count the control sets that did not; those of bands are named with their table.
func (r *Result) noOpNotes() []string {
	var n []string
	idle := map[string]int{}
	for _, c := range r.Conditions {
		if c.NoOp != "" {
			idle[c.ControlOf]++
		}
		if note := noOpNote(c.Name, c.NoOp); note != "" && c.ControlOf == "" && c.Stage != StageBands {
			n = append(n, note)
		}
	}
	for _, c := range r.Conditions {
		if k := idle[c.Name]; k > 0 {
			n = append(n, fmt.Sprintf("%d control sets of %s did nothing: their heads leave no trace in these log-probabilities.", k, c.Name))
		}
	}
	return n
}
