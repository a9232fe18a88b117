package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
)

func bandsVerb() *verb {
	return &verb{
		name: "bands", operands: "MODEL", summary: "take bands of rotary planes from heads, or stop their turning, beside matched controls",
		details: "Dose curve over the slowest planes, middle and fast ones, windows over the spectrum. Without --heads, heads are detected first, on prompts of their own.",
		flags: func(fs *pflag.FlagSet) action {
			var e experimentFlags
			var k knockoutFlags
			var b harness.BandOptions
			list := fs.String("heads", "", "heads whose planes are edited: a list (L18H6,L8H0), a FILE of one, or a result; default: those that are detected")
			e.add(fs)
			e.addDetect(fs)
			fs.StringVar(&e.detectPrompts, "detect-prompts", "", "detect heads and look at their planes on these prompts; generated ones have a split for it")
			k.add(fs, []string{"all"}, []string{harness.PoolLayer, harness.PoolLayerKV})
			fs.StringVar(&b.Protocol, "protocol", harness.ProtocolCorrected, "corrected (the heads' own queries) or published (outputs of q_proj and k_proj, shared by the KV group)")
			fs.IntSliceVar(&b.K, "k", nil, "dimensions of the dose curve, two a plane, even; default 8,16,32,48,64 as far as the model rotates so many")
			fs.IntVar(&b.Windows, "windows", 0, "also take away N windows over the spectrum, one at a time; 8 as published")
			planes := fs.String("plane-controls", "auto", "sets of other planes of the same heads a pool, scope and dose, 19 or more give a p; auto = 19, in whole passes 3 beside the focus")
			fs.BoolVar(&b.Ledger, "ledger", true, "predict what the conditions do from the unmodified model, by the score ledger")
			fs.BoolVar(&b.Matched, "matched", true, "controls matched on what planes do to the scores on the detect prompts")
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("bands", operands, "MODEL"); err != nil {
					return err
				}
				if err := e.config.load(a, fs, "bands"); err != nil {
					return err
				}
				var err error
				if b.Planes, err = controlCount("plane-controls", *planes); err != nil {
					return err
				}
				return e.runKnockout(ctx, a, operands[0], &k, func(o *harness.Options) error {
					o.Verb, o.Stages, o.Bands = "bands", []string{harness.StageBands}, &b
					if err := e.heads(*list, o); err != nil {
						return err
					}
					if len(o.Heads) == 0 {
						o.Stages = []string{harness.StageDetect, harness.StageBands}
					}
					return nil
				})
			}
		},
	}
}
