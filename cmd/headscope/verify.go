package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness/verify"
)

func verifyVerb() *verb {
	return &verb{
		name: "verify", operands: "DIR...", summary: "recompute golden folders and compare, a line a quantity",
		details: "A golden folder holds a checkpoint, golden.json and golden.safetensors; loader/testdata/parity/README.md describes it. Exit code 5: something differs.",
		flags: func(fs *pflag.FlagSet) action {
			var d deviceFlags
			d.add(fs)
			asJSON := fs.Bool("json", false, "print JSON")
			return func(ctx context.Context, a *app, operands []string) error {
				if len(operands) == 0 {
					return operandsOf("verify", operands, "DIR")
				}
				memory, err := d.bytes()
				if err != nil {
					return err
				}
				be, err := d.open(a)
				if err != nil {
					return err
				}
				differ := 0
				var reports []*verify.Report
				for _, dir := range operands {
					r, err := verify.Dir(ctx, be, dir, verify.Options{Memory: memory})
					if err != nil {
						return advise(err, "a golden folder holds a checkpoint, golden.json and golden.safetensors, as loader/testdata/parity/README.md says")
					}
					if !r.OK {
						differ++
					}
					reports = append(reports, r)
					if *asJSON {
						continue
					}
					if err := r.Write(a.out); err != nil {
						return err
					}
				}
				if *asJSON {
					if err := a.json(reports); err != nil {
						return err
					}
				}
				if differ > 0 {
					return &codeError{exitDifferent, fmt.Errorf("%d of %d folders differ", differ, len(operands)), "the lines marked DIFFERS say where"}
				}
				return nil
			}
		},
	}
}
