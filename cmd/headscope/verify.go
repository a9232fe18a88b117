package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/planes"
	"github.com/headscope/headscope/harness/tracing"
	"github.com/headscope/headscope/harness/verify"
)

func verifyVerb() *verb {
	return &verb{
		name: "verify", operands: "DIR|RESULT.json...", summary: "recompute golden folders, or results from their trials, and compare",
		details: "A golden folder holds a checkpoint, golden.json and golden.safetensors; loader/testdata/parity/README.md describes it.\n" +
			"A result is computed again from its plan and the trials file beside it, without a model: its key and every number are compared.\n" +
			"So is a trace. Of what perplexity, frequencies and ledger wrote, all is computed again that follows from what the file holds by document,\n" +
			"plane and prompt; the output names what is left.\n" +
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
		c, err := recheck(path)
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

// recheck computes a result or a document again, as far as it can be without the model.
func recheck(path string) (*harness.Check, error) {
	kind, data, err := harness.ReadDocument(path)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "":
		return harness.Recheck(path)
	case "perplexity":
		return harness.RecheckPerplexity(path, data)
	case "trace":
		return tracing.Recheck(path, data)
	case "frequencies":
		return planes.RecheckFrequencies(path, data)
	case "ledger":
		return planes.RecheckLedger(path, data)
	}
	source := map[string]string{
		"norms": "from the weights of the model", "comparison": "from the two lists of heads", "replication": "from the files of the published profile",
	}[kind]
	if source == "" {
		source = "in a way that this headscope does not know"
	}
	return nil, &codeError{exitUnsupported, fmt.Errorf("%s: a document of kind %q, none of whose numbers follow from others in it: they were computed %s", path, kind, source),
		"run its verb again on the same input, which gives the same numbers"}
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
