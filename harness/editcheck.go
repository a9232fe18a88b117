package harness

import (
	"fmt"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
)

// checkEdits refuses edits that make no sense, and heads and planes that the model does not have: before anything is computed.
func checkEdits(s *loader.Spec, edits []decoder.Edit) error {
	for _, e := range edits {
		if err := heads.NewSet(e.Heads...).Validate(s.Layers, s.Heads); err != nil {
			return fmt.Errorf("edit %s: %w", e, err)
		}
		if err := e.Check(); err != nil {
			return &UsageError{err, "package decoder describes Edit"}
		}
		if err := checkPlanes(s, e); err != nil {
			return err
		}
	}
	return nil
}

// checkPlanes refuses planes, bands and tables that do not fit the rotary table of one of the edit's layers.
func checkPlanes(s *loader.Spec, e decoder.Edit) error {
	if len(e.Planes) == 0 && e.Band == "" && e.Op != decoder.OpSwap {
		return nil
	}
	const advice = "`headscope inspect MODEL` prints the planes of each rotary table; they count from 0, and slow, fast, mid and random count dimensions, two a plane"
	n := 0 // planes, the same in all layers that rotate
	tables := make([]*rope.Table, s.Layers)
	for l := range s.Layers {
		table, err := decoder.RopeTable(s, l, 1)
		if err != nil {
			return err
		}
		if tables[l] = table; table != nil {
			n = table.Planes()
		}
	}
	for _, p := range e.Planes {
		if p < 0 || p >= n {
			return usagef(advice, "edit %s: plane %d does not exist: the model has planes 0-%d", e, p, n-1)
		}
	}
	for _, h := range e.Heads {
		table := tables[h.Layer]
		if table == nil && (e.Band != "" || e.Op == decoder.OpSwap) {
			return usagef("`headscope inspect MODEL` lists the layers that rotate", "edit %s: head %s is in a layer without rotation, which has no bands and no table", e, h)
		}
		if err := fits(e, table); err != nil {
			return usagef(advice, "edit %s: head %s: %w", e, h, err)
		}
	}
	return nil
}

// fits resolves an edit's band or table against the rotary table of a layer.
func fits(e decoder.Edit, table *rope.Table) error {
	switch {
	case e.Band != "":
		b, err := rope.ParseBand(e.Band)
		if err != nil {
			return err
		}
		_, err = b.Planes(table)
		return err
	case len(e.InvFreq) > 0:
		if len(e.InvFreq) != table.Planes() {
			return fmt.Errorf("table %s of %d frequencies: the model rotates %d planes, %d dimensions", e.Table, len(e.InvFreq), table.Planes(), table.RotaryDim)
		}
	case e.Op == decoder.OpSwap:
		r, err := rope.ParseRule(e.Table)
		if err != nil {
			return err
		}
		_, err = r.Apply(table)
		return err
	}
	return nil
}

// checkRows refuses edits whose rows a prompt of t tokens with first question row q0 does not have, and two edits of one head that act
// on the same input at different rows: the program takes one range for each.
func checkRows(edits []decoder.Edit, t, q0 int) error {
	type site struct {
		head  decoder.Head
		query bool
	}
	first := map[site]decoder.Edit{}
	for _, e := range edits {
		rows, err := e.Scope.Resolve(t, q0)
		if err != nil {
			return &hintError{err, `a prompt of a file can have "question": [start, end]; else use scope all, answer or last`}
		}
		for _, h := range e.Heads {
			at := site{h, e.Op != decoder.OpZero && e.Op != decoder.OpScale}
			other, there := first[at]
			if !there {
				first[at] = e
				continue
			}
			if r, err := other.Scope.Resolve(t, q0); err != nil || r != rows {
				return usagef("edits of one head that meet at its output, or at its query, need one scope",
					"head %s: %s at scope %s and %s at scope %s", h, other.Op, other.Scope, e.Op, e.Scope)
			}
		}
	}
	return nil
}
