package planes

import (
	"fmt"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// Check refuses what the model does not have, before there are prompts.
func (r *FrequencyRequest) Check() error {
	s := &r.Checkpoint.Spec
	return heads.NewSet(r.Heads...).Validate(s.Layers, s.Heads)
}

// Check refuses what the model does not have and what is not predicted, before there are prompts.
func (r *LedgerRequest) Check() error {
	s := &r.Checkpoint.Spec
	all := heads.NewSet(r.Heads...)
	if err := all.Validate(s.Layers, s.Heads); err != nil {
		return err
	}
	for _, e := range r.Edits {
		if err := harness.CheckEdits(s, []decoder.Edit{e}); err != nil {
			return err
		}
		if err := decoder.CheckHeadEdit([]decoder.Edit{e}); err != nil {
			return &harness.UsageError{Err: err, Advice: "docs/trace.md lists the edits that the ledger predicts"}
		}
		all = all.Union(heads.NewSet(e.Heads...))
	}
	if len(all) == 0 {
		return &harness.UsageError{Err: fmt.Errorf("no heads"), Advice: "give --heads L18H6, or an edit of a head"}
	}
	return nil
}
