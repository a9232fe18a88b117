package harness

import (
	"cmp"
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

// target is the heads that an experiment is about and those that they are compared with.
type target struct {
	heads    heads.Set
	skipped  heads.Set // of the list, but the experiment cannot edit them
	controls []Controls
	guessed  bool // heads and controls stand in for what is not known yet

	matches map[matchOf]*BandMatch // of the bands stage, once they have been found
}

// control is control i of a condition from a pool, without its edits and heads.
func (k *PlanControls) control(main *condition, pool string, i int, p *Plan) condition {
	prefix := cmp.Or(map[string]string{PoolLayer: "control", PoolLayerKV: "kvcontrol", PoolRandomPlanes: "random", PoolRandomDims: "dims"}[pool], pool)
	return condition{name: fmt.Sprint(prefix, i, ":", main.name), scope: main.scope, controlOf: main.name, pool: pool, scoreOnly: i >= k.Decoded && !p.FullAnswers}
}

// controlled is what control sets are drawn for and from.
type controlled struct {
	*PlanTarget
	*PlanControls
	shape Shape
	stats *PlanStats
	found *Detection              // nil where heads were not detected
	edits func(decoder.Head) bool // nil = every head

	groups bool // sets are whole key/value groups
}

// choose takes the given heads, or those detected, and draws their controls.
func (k *controlled) choose() (*target, error) {
	ranking, d := k.Heads, k.found
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
	if k.edits != nil {
		t.heads = slices.DeleteFunc(t.heads, func(h decoder.Head) bool { return !k.edits(h) })
		t.skipped = ranking.Set().Minus(t.heads)
		if len(t.heads) == 0 && len(ranking) > 0 {
			return nil, usagef("`headscope inspect MODEL` prints which layers rotate", "none of the %d heads is in a layer that rotates", len(ranking))
		}
	}
	if len(t.heads) == 0 || k.most() == 0 {
		return t, nil
	}
	for i, pool := range k.Pools {
		c, err := k.draw(t.heads, i)
		if err != nil {
			return nil, fmt.Errorf("controls from pool %s: %w", pool, err)
		}
		t.controls = append(t.controls, *c)
	}
	return t, nil
}

// draw draws the sets of pool i. Each pool has a random stream of its own, so that one does not depend on the other.
func (k *controlled) draw(target heads.Set, i int) (*Controls, error) {
	stream, d := k.stats.Controls+uint64(16*i), k.found
	c := &Controls{Pool: k.Pools[i], Seed: k.stats.Seed, Stream: stream, Sets: []heads.Set{}}
	var pool heads.Set
	pool, c.About = k.pool()
	if c.Pool == PoolLayerKV {
		pool = patch.DisjointKV(pool, target, k.shape.Heads/k.shape.KVHeads)
		c.About += ", sharing no key/value head with the set"
	}
	if k.groups {
		c.About = "whole key/value groups of " + c.About
	}
	size := k.WriteNorm
	if d != nil {
		if s, ok := d.Score("write_norm"); ok {
			size = &s
		}
	}
	if k.groups {
		pool, target, size = k.asGroups(pool, size, target)
		defer func() {
			for i, s := range c.Sets {
				c.Sets[i] = k.ofGroups(s)
			}
			c.Report.Forced = k.ofGroups(c.Report.Forced)
		}()
	}
	take := func(n int) (err error) {
		rng := rand.New(rand.NewPCG(c.Seed, stream))
		if size == nil {
			c.Sets, c.Report, err = patch.MatchedSets(pool, target, n, rng)
			return err
		}
		c.Match = new(patch.Match)
		c.Sets, c.Report, *c.Match, err = patch.SizeMatchedSets(pool, target, n, *size, rng)
		return err
	}
	err := take(k.most())
	if !errors.Is(err, patch.ErrPoolExhausted) && !errors.Is(err, patch.ErrTooFewSets) {
		return c, err
	}
	// What has been computed stands without them: take the sets that there are, and say so.
	c.Reason, c.Sets, c.Match = err.Error(), []heads.Set{}, nil
	if errors.Is(err, patch.ErrTooFewSets) && c.Report.Possible.Sign() > 0 {
		// Scopes ask for different numbers of the same sets: the reason names none.
		c.Reason = fmt.Sprintf("%v: only %s distinct layer-matched sets of %d heads exist: all of them are used", patch.ErrTooFewSets, c.Report.Possible, len(target))
		return c, take(int(c.Report.Possible.Int64()))
	}
	if blind := slices.DeleteFunc(target.Layers(), func(l int) bool { return !slices.Contains(k.Unreachable, l) }); len(blind) > 0 {
		c.Reason += fmt.Sprintf("; windows of layers %v end before the needle, so that no other head of theirs is drawn", blind)
	}
	return c, nil
}

// asGroups turns heads into key/value groups: of the pool those whose heads are all in it. A group is as large as its heads together.
func (k *controlled) asGroups(pool heads.Set, size *heads.Scores, target heads.Set) (groups, units heads.Set, sizes *heads.Scores) {
	n := k.shape.Heads / k.shape.KVHeads
	of := func(set heads.Set) (out heads.Set) {
		for _, h := range set {
			if h.Index%n != 0 {
				continue
			}
			whole := k.ofGroups(heads.Set{{Layer: h.Layer, Index: h.Index / n}})
			if len(whole.Intersect(set)) == n {
				out = append(out, decoder.Head{Layer: h.Layer, Index: h.Index / n})
			}
		}
		return out
	}
	if size != nil {
		s := heads.NewScores(size.Detector, k.shape.Layers, k.shape.KVHeads)
		for l := range s.Layers {
			for i := range k.shape.Heads {
				s.Data[l*s.Heads+i/n] += size.At(decoder.Head{Layer: l, Index: i})
			}
		}
		sizes = &s
	}
	return of(pool), of(target), sizes
}

// ofGroups are the heads of key/value groups.
func (k *controlled) ofGroups(units heads.Set) heads.Set {
	n := k.shape.Heads / k.shape.KVHeads
	out := heads.Set{}
	for _, u := range units {
		for i := range n {
			out = append(out, decoder.Head{Layer: u.Layer, Index: u.Index*n + i})
		}
	}
	return out
}

// pool is what sets are drawn from, and in words.
func (k *controlled) pool() (heads.Set, string) {
	pool, about := k.unflagged()
	if len(k.Unreachable) > 0 {
		pool = slices.DeleteFunc(pool, func(h decoder.Head) bool { return slices.Contains(k.Unreachable, h.Layer) })
		about += fmt.Sprintf(", outside the %d layers whose window ends before the needle", len(k.Unreachable))
	}
	return pool, about
}

func (k *controlled) unflagged() (heads.Set, string) {
	d := k.found
	if d == nil {
		all := heads.NewScores("none", k.shape.Layers, k.shape.Heads)
		name := "heads of the same layer outside the set"
		if n := len(k.Exclude.Minus(k.Heads.Set())); n > 0 {
			name += fmt.Sprintf(" and the %d others that its source's detectors flag", n)
		}
		return patch.LayerPool(all, 1, k.Exclude), name
	}
	argmax, _ := d.Score("argmax_last")
	return patch.LayerPool(argmax, d.Threshold, k.Exclude, d.flagged()), "heads of the same layer that no detector flags"
}
