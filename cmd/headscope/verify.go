package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/verify"
)

func verifyVerb() *verb {
	return &verb{
		name: "verify", operands: "DIR|RESULT.json...", summary: "recompute golden folders, or results from their trials, and compare",
		details: "A golden folder holds a checkpoint, golden.json and golden.safetensors; loader/testdata/parity/README.md describes it.\n" +
			"A result is computed again from its plan and the trials file beside it, without a model: its key and every number are compared.\n" +
			"Exit code 5: something differs.",
		flags: func(fs *pflag.FlagSet) action {
			var d deviceFlags
			d.add(fs)
			asJSON := fs.Bool("json", false, "print JSON")
			return func(ctx context.Context, a *app, operands []string) error {
				if len(operands) == 0 {
					return operandsOf("verify", operands, "DIR")
				}
				v := verifying{app: a, flags: &d, json: *asJSON}
				for _, path := range operands {
					if err := v.one(ctx, path); err != nil {
						return err
					}
				}
				if *asJSON {
					if err := a.json(v.reports); err != nil {
						return err
					}
				}
				if v.differ > 0 {
					what := "folders"
					if v.golden == nil {
						what = "results"
					}
					return &codeError{exitDifferent, fmt.Errorf("%d of %d %s differ", v.differ, len(operands), what), "the lines marked DIFFERS say where"}
				}
				return nil
			}
		},
	}
}

// verifying goes through the operands; the device is opened when the first folder wants it.
type verifying struct {
	app     *app
	flags   *deviceFlags
	json    bool
	golden  func(ctx context.Context, dir string) (*verify.Report, error) // nil before open
	differ  int
	reports []any
}

func (v *verifying) one(ctx context.Context, path string) error {
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		c, err := harness.Recheck(path)
		if err != nil {
			return err
		}
		v.count(c.OK, c)
		if v.json {
			return nil
		}
		return c.Write(v.app.out)
	}
	if v.golden == nil {
		if err := v.open(); err != nil {
			return err
		}
	}
	r, err := v.golden(ctx, path)
	if err != nil {
		return advise(err, "a golden folder holds a checkpoint, golden.json and golden.safetensors, as loader/testdata/parity/README.md says")
	}
	v.count(r.OK, r)
	if v.json {
		return nil
	}
	return r.Write(v.app.out)
}

func (v *verifying) count(ok bool, report any) {
	if !ok {
		v.differ++
	}
	v.reports = append(v.reports, report)
}

func (v *verifying) open() error {
	memory, err := v.flags.bytes()
	if err != nil {
		return err
	}
	be, err := v.flags.open(v.app)
	if err != nil {
		return err
	}
	v.golden = func(ctx context.Context, dir string) (*verify.Report, error) {
		return verify.Dir(ctx, be, dir, verify.Options{Memory: memory})
	}
	return nil
}
