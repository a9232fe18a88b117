package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/planes"
	"github.com/headscope/headscope/loader"
)

func ledgerVerb() *verb {
	return &verb{
		name: "ledger", operands: "MODEL", summary: "a head's score on the needle split by plane, and the effect of edits predicted beside the measured one",
		details: "For each head, at the last row: the mean score of the code's tokens minus that of the keys outside of the needle, by plane, split into\n" +
			"content (the plane without rotation) and rotation (what turning changes). Each --edit (zero_planes, scale_planes, freeze, swap,\n" +
			"temperature, uniform, zero, scale) is predicted from the unmodified run, scores and attention exactly, the answer's log-probability\n" +
			"to first order by its gradient, and then run, head by head and all together. Writes <out>/<model>/ledger_<key>.json.",
		flags: func(fs *pflag.FlagSet) action {
			var l lookFlags
			var e editFlags
			list := fs.String("heads", "", "L18H6,L8H0, or a FILE with a list; default those of the edits")
			e.add(fs, "each is predicted and run by itself")
			l.add(fs, 10)
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("ledger", operands, "MODEL"); err != nil {
					return err
				}
				hs, err := headsOf(*list)
				if err != nil {
					return err
				}
				edits, err := e.together()
				if err != nil {
					return err
				}
				r := &planes.LedgerRequest{Heads: hs, Edits: edits, Command: a.args, Done: a.sayDone()}
				check := func(c *loader.Checkpoint) error {
					r.Checkpoint = c
					return r.Check()
				}
				return l.with(ctx, a, operands[0], look{false, check, func(m *opened, prompts *harness.PromptFile) error {
					r.Model, r.Prompts = m.model, prompts
					kept, err := planes.KeepLedger(ctx, r)
					if err != nil {
						return err
					}
					path, err := kept.Store(l.out, m.checkpoint, kept)
					if err != nil {
						return err
					}
					a.note("%s", path)
					if l.format == "json" {
						return a.json(kept)
					}
					return kept.Write(a.out)
				}})
			}
		},
	}
}
