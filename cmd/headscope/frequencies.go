package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/planes"
	"github.com/headscope/headscope/loader"
)

func frequenciesVerb() *verb {
	return &verb{
		name: "frequencies", operands: "MODEL", summary: "which planes of the rotation heads use: norms of queries and keys by plane",
		details: "For every head and plane the mean over all rows of |q| and |k|, the norms of the plane's two dimensions after bias and norm and before\n" +
			"rotation, their product, the plane with the largest and its wavelength. Layers that do not rotate are left out and counted.\n" +
			"Writes <out>/<model>/frequencies_<key>.json.",
		flags: func(fs *pflag.FlagSet) action {
			var l lookFlags
			list := fs.String("heads", "", "L18H6,L8H0, or a FILE with a list; default all")
			top := fs.Int("top", 20, "heads listed in the table")
			heat := fs.Bool("map", false, "also draw every head's profile, a character a plane")
			l.add(fs, 10)
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("frequencies", operands, "MODEL"); err != nil {
					return err
				}
				if *top < 0 {
					return &usageError{fmt.Errorf("--top %d", *top), "0 lists none"}
				}
				hs, err := headsOf(*list)
				if err != nil {
					return err
				}
				r := &planes.FrequencyRequest{Heads: hs, Command: a.args, Done: a.sayDone()}
				check := func(c *loader.Checkpoint) error {
					r.Checkpoint = c
					return r.Check()
				}
				return l.with(ctx, a, operands[0], look{false, check, func(m *opened, prompts *harness.PromptFile) error {
					r.Model, r.Prompts = m.model, prompts
					f, err := planes.MeasureFrequencies(ctx, r)
					if err != nil {
						return err
					}
					path, err := f.Store(l.out, m.checkpoint, f)
					if err != nil {
						return err
					}
					a.note("%s", path)
					if l.format == "json" {
						return a.json(f)
					}
					return f.Write(a.out, planes.FrequencyView{Top: *top, Map: *heat})
				}})
			}
		},
	}
}
