package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/report"
)

// reportFlags say where pages and figures go.
type reportFlags struct {
	out, png, svg string
}

func reportVerb() *verb {
	return &verb{
		name: "report", operands: "RESULT...", summary: "write results as pages to read, and as figures",
		details: "Each RESULT is the .json of a run; its page is one self-contained .html beside it. Paths of what was written are printed.",
		flags: func(fs *pflag.FlagSet) action {
			var f reportFlags
			fs.StringVar(&f.out, "out", "", "the page's FILE, of one result; - is standard output")
			fs.StringVar(&f.png, "png", "", "also write the figures as PNG into this folder")
			fs.StringVar(&f.svg, "svg", "", "also write the figures as SVG into this folder")
			return func(_ context.Context, a *app, operands []string) error {
				if len(operands) == 0 {
					return &usageError{fmt.Errorf("report: no RESULT"), "give the .json files that study, detect or knockout wrote"}
				}
				if f.out != "" && len(operands) > 1 {
					return &usageError{fmt.Errorf("report: --out is of one result, %d are given", len(operands)), "leave --out away: each page is written beside its result"}
				}
				return f.write(a, operands)
			}
		},
	}
}

// write reads every result before it writes anything.
func (f *reportFlags) write(a *app, paths []string) error {
	results := make([]*harness.Result, len(paths))
	for i, path := range paths {
		r, err := harness.ReadResult(path)
		if err != nil {
			return err
		}
		results[i] = r
	}
	for i, r := range results {
		if err := f.page(a, paths[i], r); err != nil {
			return err
		}
		for _, fig := range []struct {
			dir    string
			format report.Format
		}{{f.png, report.PNG}, {f.svg, report.SVG}} {
			if err := figures(a, fig.dir, fig.format, baseOf(paths[i]), r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *reportFlags) page(a *app, path string, r *harness.Result) error {
	if f.out == "-" {
		return report.HTML(a.out, r, report.Options{})
	}
	to := f.out
	if to == "" {
		to = filepath.Join(filepath.Dir(path), baseOf(path)+".html")
	}
	if err := report.WriteFile(to, r); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.out, to)
	return err
}

// figures writes those that the result has numbers for.
func figures(a *app, dir string, format report.Format, base string, r *harness.Result) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, kind := range report.Kinds() {
		path := filepath.Join(dir, base+"."+string(kind)+"."+string(format))
		if !report.Has(kind, r) {
			a.note("report: %s has no numbers for the figure %s", base, kind)
			continue
		}
		if err := report.WriteFigure(path, r, kind, format); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.out, path); err != nil {
			return err
		}
	}
	return nil
}

func baseOf(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }
