package harness

import (
	"fmt"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// CheckEdits refuses edits that no prompt can make right: a form that makes no sense, heads and planes that the model does not have.
func CheckEdits(s *loader.Spec, edits []decoder.Edit) error {
	for _, e := range edits {
		if err := heads.NewSet(e.Heads...).Validate(s.Layers, s.Heads); err != nil {
			return fmt.Errorf("edit %s: %w", e, err)
		}
		if err := e.Check(); err != nil {
			return &UsageError{err, "package decoder describes Edit"}
		}
		if err := decoder.CheckEdits(s, []decoder.Edit{e}, 2, 1); err != nil {
			return &UsageError{fmt.Errorf("edit %s: %w", e, err),
				"`headscope inspect MODEL` prints which layers rotate and how many planes; these count from 0, and a band counts dimensions, two a plane"}
		}
	}
	return nil
}

// skippedHeads are the heads that edits leave out, as their layers do not rotate.
func skippedHeads(s *loader.Spec, lists ...[]decoder.Edit) heads.Set {
	var out []decoder.Head
	for _, edits := range lists {
		out = append(out, decoder.SkippedHeads(s, edits)...)
	}
	return heads.NewSet(out...)
}

// SkippedNote says which heads edits leave out, as their layers do not rotate; empty for none.
func SkippedNote(s *loader.Spec, edits []decoder.Edit) string {
	return skippedNote(skippedHeads(s, edits))
}

func skippedNote(skipped heads.Set) string {
	if len(skipped) == 0 {
		return ""
	}
	return fmt.Sprintf("Skipped by edits of planes and tables, as their layers do not rotate: %d heads, %s.", len(skipped), someHeads(skipped))
}

// checkDonors refuses edits that take head outputs from a donor where a prompt has none.
func checkDonors(edits []decoder.Edit, donor []int32) error {
	for _, e := range edits {
		if (e.Op == decoder.OpPatch || e.Op == decoder.OpPath) && donor == nil {
			return usagef("`headscope prompts MODEL --donors` writes prompts that have one: the same prompt with another code",
				"edit %s: the prompt has no donor", e)
		}
	}
	return nil
}

// checkMeans refuses edits that put in means over other prompts where there are none.
func checkMeans(edits []decoder.Edit) error {
	for _, e := range edits {
		if e.Op == decoder.OpMean {
			return usagef("own_mean is the mean over the same prompt; study and knockout take mean edits, of the prompts they detect on", "edit %s: no prompts to take means over", e)
		}
	}
	return nil
}

// usesMeans tells whether some of the edits put in means over other prompts.
func usesMeans(edits []decoder.Edit) bool { return checkMeans(edits) != nil }

// checkScope refuses a scope whose rows a prompt of t tokens with first question row q0 does not have.
func checkScope(s decoder.Scope, t, q0 int) error {
	if _, err := s.Resolve(t, q0); err != nil {
		return &hintError{err, `a prompt of a file can have "question": [start, end]; else use scope all, answer or last`}
	}
	return nil
}

// checkRows refuses edits whose rows a prompt of t tokens with first question row q0 does not have, and two edits of one head that act
// on the same input at different rows: the program takes one range for each.
func checkRows(s *loader.Spec, edits []decoder.Edit, t, q0 int) error {
	for _, e := range edits {
		if err := checkScope(e.Scope, t, q0); err != nil {
			return err
		}
	}
	if err := decoder.CheckEdits(s, edits, t, q0); err != nil {
		return &UsageError{err, "edits of one head that meet at its output, at its query or at its table need one scope"}
	}
	return nil
}
