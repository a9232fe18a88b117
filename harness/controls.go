package harness

import (
	"fmt"
	"math/rand/v2"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// Controls says how the matched control sets were drawn.
type Controls struct {
	Pool   string       `json:"pool"`
	Seed   uint64       `json:"seed"`
	Stream uint64       `json:"stream"`
	Sets   []heads.Set  `json:"sets"`
	Report patch.Report `json:"report"`
}

// target is what the knockout stage switches off.
type target struct {
	heads    heads.Set
	controls *Controls // nil where none were asked for
}

// chooseTarget takes the given heads, or those detected, and draws their controls from the heads of the same layers that no detector
// flags.
func chooseTarget(p *Plan, spec *loader.Spec, d *Detection) (*target, error) {
	k := p.Knockout
	ranking := k.Heads
	if ranking == nil && d != nil {
		ranking = d.Heads
	}
	if k.Top > 0 {
		if k.Top > len(ranking) && k.Heads == nil && d != nil {
			ranking = d.ranking
		}
		if k.Top > len(ranking) {
			return nil, usagef("lower --top", "the best %d heads of a list of %d", k.Top, len(ranking))
		}
		ranking = ranking[:k.Top]
	}
	t := &target{heads: ranking.Set()}
	if len(t.heads) == 0 || k.Controls == 0 {
		return t, nil
	}
	pool, name := controlPool(spec, k, d)
	rng := rand.New(rand.NewPCG(p.Statistics.Seed, p.Statistics.Controls))
	sets, report, err := patch.MatchedSets(pool, t.heads, k.Controls, rng)
	if err != nil {
		return nil, &hintError{fmt.Errorf("controls: %w", err), "ask for fewer --controls, or fewer heads (--top, a higher --threshold)"}
	}
	t.controls = &Controls{Pool: name, Seed: p.Statistics.Seed, Stream: p.Statistics.Controls, Sets: sets, Report: report}
	return t, nil
}

func controlPool(spec *loader.Spec, k *PlanKnockout, d *Detection) (heads.Set, string) {
	if d == nil {
		all := heads.NewScores("none", spec.Layers, spec.Heads)
		name := "layer: heads of the same layer outside the set"
		if n := len(k.Exclude.Minus(k.Heads.Set())); n > 0 {
			name += fmt.Sprintf(" and the %d others that its source's detectors flag", n)
		}
		return patch.LayerPool(all, 1, k.Exclude), name
	}
	argmax, _ := d.Score("argmax_last")
	name := fmt.Sprintf("layer: heads of the same layer with argmax_last < %g", d.Threshold)
	if _, ok := d.Score("copy_tf"); ok {
		name += fmt.Sprintf(" and copy_tf < %g", d.Threshold)
	}
	return patch.LayerPool(argmax, d.Threshold, k.Exclude, d.flagged()), name
}

// withoutName and controlName are the names of the knockout stage's own conditions.
func withoutName(scope decoder.Scope) string { return "without@" + string(scope) }

func controlName(i int, scope decoder.Scope) string { return fmt.Sprintf("control%d@%s", i, scope) }

// knockoutConditions lists what the knockout stage asks: for each scope the target and its controls, then what the user named.
func knockoutConditions(p *Plan, t *target) []condition {
	var out []condition
	k := p.Knockout
	for _, scope := range k.Scopes {
		if len(t.heads) == 0 {
			break
		}
		main := condition{name: withoutName(scope), edits: patch.ZeroHeads(t.heads, scope), heads: t.heads, scope: scope}
		out = append(out, main)
		if t.controls == nil {
			continue
		}
		for i, set := range t.controls.Sets {
			out = append(out, condition{
				name: controlName(i, scope), edits: patch.ZeroHeads(set, scope), heads: set, scope: scope, controlOf: main.name,
			})
		}
	}
	for _, c := range p.Conditions {
		var hs []decoder.Head
		for _, e := range c.Edits {
			hs = append(hs, e.Heads...)
		}
		out = append(out, condition{name: c.Name, edits: c.Edits, heads: heads.NewSet(hs...)})
	}
	return out
}
