package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
)

func mergeVerb() *verb {
	return &verb{
		name: "merge", operands: "PART...", summary: "put the parts of a run (--shard i/n) together and write its result",
		details: "Parts are the files VERB_KEY.shard1of5.trials.jsonl and so on. They have to be of one plan, run alike, and all there; the merged\n" +
			"trials are those of an unbroken run, byte for byte. No model is needed. What detect shows of one prompt is added by its own command.",
		flags: func(fs *pflag.FlagSet) action {
			var e experimentFlags
			fs.StringVar(&e.out, "out", "", "folder of the results; without it the merged files lie beside the first part")
			e.formatFlags.add(fs)
			return func(_ context.Context, a *app, operands []string) error {
				if len(operands) == 0 {
					return operandsOf("merge", operands, "PART")
				}
				if err := e.formatFlags.check(); err != nil {
					return err
				}
				res, err := harness.Merge(operands, harness.MergeOptions{Out: e.out, Command: a.args})
				if err != nil {
					return err
				}
				return e.report(a, res, harness.TrialsOf(res.Path))
			}
		},
	}
}
