package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness/headlists"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
)

func normsVerb() *verb {
	return &verb{
		name: "norms", operands: "MODEL", summary: "L1 norms of the query projection, head by head, from the weights alone",
		details: "wq_l1: mean over a head's rows of the sum of |weight|; _bias adds the bias, _input the scale of the norm before attention, _qnorm that of\n" +
			"queries, _all all of them; _int8 are the rows' 8-bit codes. With --heads the list is tested against the other heads, labels moved\n" +
			"inside layers. Nothing runs the model; layers are read one at a time. Writes <out>/<model>/norms_<key>.json.",
		flags: func(fs *pflag.FlagSet) action {
			var f formatFlags
			list := fs.String("heads", "", "L18H6,L8H0, or a FILE with a list: a result, a profile, any format of compare")
			out := fs.String("out", "results", "folder of the results")
			permutations := fs.Int("permutations", 10000, "arrangements of labels drawn where not all can be counted")
			seed := fs.Uint64("seed", 0, "of permutations and intervals")
			f.add(fs)
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("norms", operands, "MODEL"); err != nil {
					return err
				}
				if err := f.check(); err != nil {
					return err
				}
				if *permutations < 1 {
					return &usageError{fmt.Errorf("--permutations %d", *permutations), "want at least 1; 10000 is usual"}
				}
				o := headlists.NormsOptions{Seed: *seed, Permutations: *permutations, Command: a.args}
				var err error
				if o.List, err = listOf(*list); err != nil {
					return err
				}
				n, path, err := weightNorms(ctx, operands[0], *out, o)
				if err != nil {
					return err
				}
				a.note("%s", path)
				if f.format == "json" {
					return a.json(n)
				}
				return n.Write(a.out)
			}
		},
	}
}

// listOf reads a list of heads: a file, or the list itself. Without one it is nil.
func listOf(text string) (*heads.Document, error) {
	if text == "" {
		return nil, nil
	}
	if r, err := heads.ParseRanking(text); err == nil {
		return &heads.Document{Path: r.String(), Format: heads.FormatLabels, Detectors: []heads.Detected{{Detector: "listed", Heads: r, Ordered: true}}}, nil
	}
	d, err := heads.ReadDocument(text)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &usageError{fmt.Errorf("--heads %q: no such file, nor a list", text), "give L18H6,L8H0 or a file with a list"}
	}
	if err != nil {
		return nil, listError(err)
	}
	return d, nil
}

// weightNorms stores the norms of a checkpoint and says where.
func weightNorms(ctx context.Context, ref, out string, o headlists.NormsOptions) (n *headlists.Norms, path string, err error) {
	c, err := loader.Open(ref)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = closeAll(err, c) }()
	if n, err = headlists.WeightNorms(ctx, c, o); err != nil {
		return nil, "", listError(err)
	}
	path, err = n.Store(out, c)
	return n, path, err
}
