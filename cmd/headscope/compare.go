package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness/headlists"
	"github.com/headscope/headscope/harness/replicate"
)

func compareVerb() *verb {
	return &verb{
		name: "compare", operands: "A [B]", summary: "two lists of heads side by side, from results or other people's files; of one file its detectors",
		details: "Formats: results of ours, published profiles, {\"L-H\": [...]} of Wu et al., QRHead's lists, DuoAttention's gates, L13H4 labels,\n" +
			"[[layer, head], ...]. Detectors of one name are compared, or each with each where the files share no name. Exit code 5: a pair of one\n" +
			"name (else the first pair) is past --tolerance: 1 - Jaccard, or a score's difference relative to the largest if that is above 1; of two results also\n" +
			"a condition's recall.",
		flags: func(fs *pflag.FlagSet) action {
			asJSON := fs.Bool("json", false, "print JSON")
			tolerance := fs.String("tolerance", "", "largest difference that passes, 0 to 1; without it none fails")
			seed := fs.Uint64("seed", 0, "of the intervals")
			return func(_ context.Context, a *app, operands []string) error {
				if len(operands) != 1 {
					if err := operandsOf("compare", operands, "A", "B"); err != nil {
						return err
					}
				}
				o := headlists.CompareOptions{Seed: *seed}
				if *tolerance != "" {
					x, err := strconv.ParseFloat(*tolerance, 64)
					if err != nil || !(x >= 0 && x <= 1) {
						return &usageError{fmt.Errorf("--tolerance %q", *tolerance), "want a number from 0 to 1"}
					}
					o.Tolerance = &x
				}
				c, err := headlists.Compare(operands, o)
				if err != nil {
					return listError(err)
				}
				if *asJSON {
					err = a.json(c)
				} else {
					err = c.Write(a.out)
				}
				if err == nil && c.Past > 0 {
					err = &codeError{exitDifferent, fmt.Errorf("%d comparisons are past the tolerance %s", c.Past, *tolerance), "the lines \"past the tolerance\" say by how much"}
				}
				return err
			}
		},
	}
}

// listError adds what files can be read.
func listError(err error) error {
	return advise(err, "`headscope help compare` lists the formats; layers and heads count from 0")
}

func replicateVerb() *verb {
	return &verb{
		name: "replicate", operands: "FILE|DIR...", summary: "compute the numbers of published head profiles again from what the files hold, and name their faults",
		details: "Files are profiles, utility, behavior, coverage, inheritance and analysis files as published with \"The Retrieval-Head Profile\"; of a\n" +
			"folder all .json files. What refers to a profile finds it among the files given. Exit code 5: a stored number differs.",
		flags: func(fs *pflag.FlagSet) action {
			asJSON := fs.Bool("json", false, "print JSON")
			all := fs.Bool("all", false, "print every number, not only those that differ")
			return func(ctx context.Context, a *app, operands []string) error {
				if len(operands) == 0 {
					return operandsOf("replicate", operands, "FILE")
				}
				r, err := replicate.Run(ctx, operands)
				if err != nil {
					return advise(err, "give the .json files of published profiles, or their folder")
				}
				if *asJSON {
					err = a.json(r)
				} else {
					err = r.Write(a.out, *all)
				}
				if err == nil && r.Disagreements > 0 {
					err = &codeError{exitDifferent, fmt.Errorf("%d of %d stored numbers differ", r.Disagreements, r.Compared), "the lines marked DIFFERS say which"}
				}
				return err
			}
		},
	}
}
