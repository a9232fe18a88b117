package harness

import (
	"fmt"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// bandConditions collects the conditions of the stage.
type bandConditions struct {
	b   *PlanBands
	e   *evidence
	t   *target
	out []condition
}

// conditions are, for each scope, the dose curve, then middle and fast planes, then windows; behind each its controls.
func (b *PlanBands) conditions(e *evidence, t *target) ([]condition, error) {
	if len(t.heads) == 0 {
		return nil, nil
	}
	c := &bandConditions{b: b, e: e, t: t}
	op := b.op()
	for _, scope := range b.Scopes {
		for _, k := range b.K {
			for _, o := range []decoder.Op{op, decoder.OpFreeze} {
				if err := c.band(o, k, scope); err != nil {
					return nil, err
				}
			}
		}
		for _, band := range []string{fmt.Sprintf("mid%d", b.Focus), fmt.Sprintf("fast%d", b.Focus)} {
			for _, o := range []decoder.Op{op, decoder.OpFreeze, opMirror} {
				if err := c.main(o, band, scope); err != nil {
					return nil, err
				}
			}
		}
		if err := c.main(opMirror, slow(b.Focus), scope); err != nil {
			return nil, err
		}
		if err := c.windows(scope); err != nil {
			return nil, err
		}
	}
	return c.out, nil
}

// on is an operation on a band of a set of heads.
func (c *bandConditions) on(set heads.Set, op decoder.Op, band string, scope decoder.Scope) ([]decoder.Edit, error) {
	if op != opMirror {
		return patch.Band(set, op, band, scope), nil
	}
	var out []decoder.Edit
	for i := range c.b.Tables {
		t := &c.b.Tables[i]
		planes, err := t.planes(band)
		if err != nil {
			return nil, err
		}
		some := slices.DeleteFunc(slices.Clone(set), func(h decoder.Head) bool { return !slices.Contains(t.Layers, h.Layer) })
		out = append(out, patch.Mirror(some, t.InvFreq, planes, scope)...)
	}
	return out, nil
}

// main is a condition without controls.
func (c *bandConditions) main(op decoder.Op, band string, scope decoder.Scope) error {
	edits, err := c.on(c.t.heads, op, band, scope)
	c.out = append(c.out, condition{name: bandName(op, band, scope), edits: edits, heads: c.t.heads, scope: scope, looksAtScores: band == slow(c.b.Focus)})
	return err
}

// band is a dose of the slowest planes with its controls: other heads, all of them at the focus, else as many as are decoded, and other planes.
func (c *bandConditions) band(op decoder.Op, k int, scope decoder.Scope) error {
	if err := c.main(op, slow(k), scope); err != nil {
		return err
	}
	at := len(c.out) - 1
	main := c.out[at]
	n, focus := c.b.Controls[scope], k == c.b.Focus
	if !focus {
		n = min(n, c.b.Decoded)
	}
	var compared []comparison
	for _, pool := range c.t.controls {
		compared = append(compared, comparison{pool: pool.Pool, reason: pool.Reason})
		for i, set := range pool.Sets[:min(len(pool.Sets), n)] {
			edits, err := c.on(set, op, slow(k), scope)
			if err != nil {
				return err
			}
			c.control(&main, pool.Pool, i, set, edits)
		}
	}
	if n := c.b.planeSets(scope, focus); n > 0 {
		more, err := c.planeControls(&main, k, n)
		if err != nil {
			return err
		}
		compared = append(compared, more...)
	}
	c.out[at].compared = compared
	return nil
}

// windows take planes away along the spectrum. All have as many, and so one family of random planes is the control of each.
func (c *bandConditions) windows(scope decoder.Scope) error {
	first := -1
	for _, band := range c.b.Windows {
		if err := c.main(c.b.op(), band, scope); err != nil {
			return err
		}
		if first < 0 {
			first = len(c.out) - 1
		}
	}
	n := c.b.planeSets(scope, true)
	if first < 0 || n == 0 {
		return nil
	}
	windows := c.out[first:]
	with, err := c.randomPlanes(c.b.Windows, 2*windowWidth(2*len(c.b.smallest().InvFreq)), n)
	if err != nil {
		return err
	}
	main := windows[0]
	for i := range windows {
		windows[i].compared = []comparison{{pool: PoolRandomPlanes, reason: with.reason, of: "plane-set", with: main.name}}
	}
	for i, name := range with.bands {
		c.control(&main, PoolRandomPlanes, i, c.t.heads, patch.Band(c.t.heads, c.b.op(), name, scope))
	}
	return nil
}

// control adds control i of a pool.
func (c *bandConditions) control(main *condition, pool string, i int, set heads.Set, edits []decoder.Edit) {
	one := c.b.control(main, pool, i, c.e.plan)
	one.edits, one.heads = edits, set
	c.out = append(c.out, one)
}
