package harness

import (
	"fmt"
	"strconv"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
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

func checkPlanes(s *loader.Spec, e decoder.Edit) error {
	if len(e.Planes) == 0 && e.Band == "" {
		return nil
	}
	n := 0 // planes, the same in all layers that rotate
	for l := range s.Layers {
		table, err := decoder.RopeTable(s, l, 1)
		if err != nil {
			return err
		}
		if table != nil {
			n = table.Planes()
		}
	}
	for _, h := range e.Heads {
		if s.Unrotated(h.Layer) && e.Band != "" {
			return usagef("`headscope inspect MODEL` lists the layers that rotate", "edit %s: head %s is in a layer without rotation, which has no bands", e, h)
		}
	}
	const advice = "`headscope inspect MODEL` prints how many planes are rotated; they count from 0, and a band counts dimensions, two a plane"
	for _, p := range e.Planes {
		if p < 0 || p >= n {
			return usagef(advice, "edit %s: plane %d does not exist: the model has planes 0-%d", e, p, n-1)
		}
	}
	if e.Band == "" {
		return nil
	}
	if k, err := strconv.Atoi(e.Band[len("slow"):]); err != nil || k > 2*n {
		return usagef(advice, "edit %s: band %s: the model rotates %d dimensions", e, e.Band, 2*n)
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
