package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// Pools that controls are drawn from.
const (
	PoolLayer   = "layer"    // heads of the same layer that no detector flags
	PoolLayerKV = "layer+kv" // of these, heads that share no key/value head with the target
)

// Controls says how the matched control sets of one pool were drawn.
type Controls struct {
	Pool   string       `json:"pool"`
	About  string       `json:"about"`
	Seed   uint64       `json:"seed"`
	Stream uint64       `json:"stream"`
	Sets   []heads.Set  `json:"sets"`
	Report patch.Report `json:"report"`
	Match  *patch.Match `json:"match,omitempty"`  // absent where the heads' sizes are not known
	Reason string       `json:"reason,omitempty"` // why there are fewer sets than asked for, or none
}

// target is what the knockout stage switches off.
type target struct {
	heads      heads.Set
	sure, wide heads.Set // without the heads that the threshold may owe to chance, and with those one hit short; nil where not apart
	controls   []Controls
}

// chooseTarget takes the given heads, or those detected, and draws their controls.
func chooseTarget(p *Plan, shape Shape, d *Detection) (*target, error) {
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
	if d != nil && k.Heads == nil && k.Top == 0 && k.Cuts {
		sure, wide := d.sets()
		if len(sure) > 0 && !sure.Equal(t.heads) {
			t.sure = sure
		}
		if !wide.Equal(t.heads) {
			t.wide = wide
		}
	}
	if len(t.heads) == 0 || k.most() == 0 {
		return t, nil
	}
	for i, pool := range k.Pools {
		c, err := drawControls(p, shape, d, t.heads, i)
		if err != nil {
			return nil, fmt.Errorf("controls from pool %s: %w", pool, err)
		}
		t.controls = append(t.controls, *c)
	}
	return t, nil
}

// drawControls draws the sets of pool i. Each pool has a random stream of its own, so that one does not depend on the other.
func drawControls(p *Plan, shape Shape, d *Detection, target heads.Set, i int) (*Controls, error) {
	k, stream := p.Knockout, p.Statistics.Controls+uint64(16*i)
	c := &Controls{Pool: k.Pools[i], Seed: p.Statistics.Seed, Stream: stream, Sets: []heads.Set{}}
	var pool heads.Set
	pool, c.About = controlPool(shape, k, d)
	if c.Pool == PoolLayerKV {
		pool = patch.DisjointKV(pool, target, shape.Heads/shape.KVHeads)
		c.About += ", sharing no key/value head with the set"
	}
	size := k.WriteNorm
	if d != nil {
		if s, ok := d.Score("write_norm"); ok {
			size = &s
		}
	}
	draw := func(n int) (err error) {
		rng := rand.New(rand.NewPCG(c.Seed, stream))
		if size == nil {
			c.Sets, c.Report, err = patch.MatchedSets(pool, target, n, rng)
			return err
		}
		c.Match = new(patch.Match)
		c.Sets, c.Report, *c.Match, err = patch.SizeMatchedSets(pool, target, n, *size, rng)
		return err
	}
	err := draw(k.most())
	if !errors.Is(err, patch.ErrPoolExhausted) && !errors.Is(err, patch.ErrTooFewSets) {
		return c, err
	}
	// What has been computed stands without them: take the sets that there are, and say so.
	c.Reason, c.Sets, c.Match = err.Error(), []heads.Set{}, nil
	if errors.Is(err, patch.ErrTooFewSets) && c.Report.Possible.Sign() > 0 {
		err = draw(int(c.Report.Possible.Int64()))
		c.Reason += ": all of them are used"
		return c, err
	}
	return c, nil
}

// controlPool is what sets are drawn from, and in words.
func controlPool(shape Shape, k *PlanKnockout, d *Detection) (heads.Set, string) {
	pool, about := flaggedPool(shape, k, d)
	if len(k.Unreachable) > 0 {
		pool = slices.DeleteFunc(pool, func(h decoder.Head) bool { return slices.Contains(k.Unreachable, h.Layer) })
		about += fmt.Sprintf(", outside the %d layers whose window ends before the needle", len(k.Unreachable))
	}
	return pool, about
}

func flaggedPool(shape Shape, k *PlanKnockout, d *Detection) (heads.Set, string) {
	if d == nil {
		all := heads.NewScores("none", shape.Layers, shape.Heads)
		name := "heads of the same layer outside the set"
		if n := len(k.Exclude.Minus(k.Heads.Set())); n > 0 {
			name += fmt.Sprintf(" and the %d others that its source's detectors flag", n)
		}
		return patch.LayerPool(all, 1, k.Exclude), name
	}
	argmax, _ := d.Score("argmax_last")
	return patch.LayerPool(argmax, d.Threshold, k.Exclude, d.flagged()), "heads of the same layer that no detector flags"
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

// knockoutConditions lists what the knockout stage asks: for each scope the target, its sure and its wide form, and its controls, then
// what the user named.
func knockoutConditions(p *Plan, t *target) []condition {
	var out []condition
	k := p.Knockout
	off := func(name string, set heads.Set, scope decoder.Scope) condition {
		return condition{name: name, edits: patch.ZeroHeads(set, scope), heads: set, scope: scope}
	}
	for _, scope := range k.Scopes {
		if len(t.heads) == 0 {
			break
		}
		main := off(withoutName(scope), t.heads, scope)
		out = append(out, main)
		if t.sure != nil {
			out = append(out, off("sure@"+string(scope), t.sure, scope))
		}
		if t.wide != nil {
			out = append(out, off("wide@"+string(scope), t.wide, scope))
		}
		for _, c := range t.controls {
			for i, set := range c.Sets[:min(len(c.Sets), k.Controls[scope])] {
				control := off(controlName(c.Pool, i, scope), set, scope)
				control.controlOf, control.pool = main.name, c.Pool
				control.scoreOnly = i >= k.Decoded && !p.FullAnswers
				out = append(out, control)
			}
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
