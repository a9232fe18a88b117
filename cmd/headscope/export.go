package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/headlists"
	"github.com/headscope/headscope/heads"
)

func exportVerb() *verb {
	return &verb{
		name: "export", operands: "RESULT.json", summary: "write a result and its trials as CSV tables or a NumPy archive, or its heads for other tools",
		details: "csv: heads.csv, conditions.csv, effects.csv, grid.csv, and trials.csv with a row a trial; where there are such parts bands.csv, depths.csv,\n" +
			"keep.csv and texts.csv.\n" +
			"npz: scores/DETECTOR [layers, heads]; STAGE/sum_logprob, STAGE/margin, STAGE/hit [conditions, prompts]; names.json says what the axes are.\n" +
			"--duo, --qrhead, --wu, --labels write the list of heads alone, of a result or of any file that compare reads: a DuoAttention mask (1 for\n" +
			"each key/value head that a listed head reads), QRHead's L-H list, {\"L-H\": [score]} of Wu et al., L13H4 labels.",
		flags: func(fs *pflag.FlagSet) action {
			format := fs.String("format", harness.ExportCSV, "csv or npz")
			out := fs.String("out", "", "folder (csv) or FILE; without it beside the result, under its name")
			var l listExport
			l.add(fs)
			return func(_ context.Context, a *app, operands []string) error {
				if err := operandsOf("export", operands, "RESULT.json"); err != nil {
					return err
				}
				if asked, err := l.format(fs.Changed("format")); err != nil || asked != "" {
					if err != nil {
						return err
					}
					return l.run(a, operands[0], asked, *out)
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

// listExport are the flags that export heads for other tools.
type listExport struct {
	duo, qrhead, wu, labels bool
	detector                string
}

func (l *listExport) add(fs *pflag.FlagSet) {
	fs.BoolVar(&l.duo, "duo", false, "write the heads as a DuoAttention mask (.tsv)")
	fs.BoolVar(&l.qrhead, "qrhead", false, "write the heads as QRHead's list")
	fs.BoolVar(&l.wu, "wu", false, "write the scores as Wu et al.'s JSON")
	fs.BoolVar(&l.labels, "labels", false, "write the heads as L13H4 labels")
	fs.StringVar(&l.detector, "detector", "", "of the file's detectors the one to write; default its first")
}

// format returns the one that is asked for, "" without.
func (l *listExport) format(other bool) (heads.Format, error) {
	var asked []heads.Format
	for _, x := range []struct {
		on     bool
		format heads.Format
	}{{l.duo, heads.FormatDuo}, {l.qrhead, heads.FormatQRHead}, {l.wu, heads.FormatWu}, {l.labels, heads.FormatLabels}} {
		if x.on {
			asked = append(asked, x.format)
		}
	}
	switch {
	case len(asked) > 1 || len(asked) == 1 && other:
		return "", &usageError{errors.New("export: more than one format"), "choose one of --format, --duo, --qrhead, --wu and --labels"}
	case len(asked) == 1:
		return asked[0], nil
	case l.detector != "":
		return "", &usageError{errors.New("export: --detector without a format for heads"), "add --duo, --qrhead, --wu or --labels"}
	}
	return "", nil
}

func (l *listExport) run(a *app, path string, format heads.Format, out string) error {
	written, err := headlists.Export(path, format, l.detector, out)
	if err != nil {
		return listError(err)
	}
	_, err = fmt.Fprintln(a.out, written)
	return err
}
