package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
)

func exportVerb() *verb {
	return &verb{
		name: "export", operands: "RESULT.json", summary: "write a result and its trials as CSV tables or a NumPy archive",
		details: "csv: heads.csv, conditions.csv, effects.csv, grid.csv, and trials.csv with a row a trial.\n" +
			"npz: scores/DETECTOR [layers, heads]; STAGE/sum_logprob, STAGE/margin, STAGE/hit [conditions, prompts]; names.json says what the axes are.",
		flags: func(fs *pflag.FlagSet) action {
			format := fs.String("format", harness.ExportCSV, "csv or npz")
			out := fs.String("out", "", "folder (csv) or FILE (npz); without it beside the result, under its name")
			return func(_ context.Context, a *app, operands []string) error {
				if err := operandsOf("export", operands, "RESULT.json"); err != nil {
					return err
				}
				if *format != harness.ExportCSV && *format != harness.ExportNPZ {
					return &usageError{fmt.Errorf("--format %q", *format), "want csv or npz"}
				}
				paths, err := harness.Export(operands[0], *format, *out)
				if err != nil {
					return err
				}
				for _, p := range paths {
					if _, err := fmt.Fprintln(a.out, p); err != nil {
						return err
					}
				}
				return nil
			}
		},
	}
}
