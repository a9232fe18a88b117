package main

import (
	"context"
	"slices"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
)

func studyVerb() *verb {
	return &verb{
		name: "study", operands: "MODEL", summary: "detect retrieval heads, knock them out beside matched controls, and report",
		details: "The plan and its cost are printed first. An interrupted study goes on when the same command is given again.",
		flags: func(fs *pflag.FlagSet) action {
			var e experimentFlags
			var k knockoutFlags
			stages := fs.StringSlice("stages", []string{harness.StageDetect, harness.StageKnockout}, "what to run, in this order")
			e.add(fs)
			e.addDetect(fs)
			fs.StringVar(&e.detectPrompts, "detect-prompts", "", "detect on these prompts and test on --prompts; without it both are the same, and the result says so")
			k.add(fs, []string{"all", "haystack", "question"}, []string{harness.PoolLayer, harness.PoolLayerKV})
			fs.StringSliceVar(&k.modes, "modes", []string{"auto"}, "what takes the heads' place: zero, mean (of their class of rows, over the detection prompts), resample (the same prompt with another code); auto = all that the prompts allow")
			fs.BoolVar(&k.cuts, "cuts", true, "also switch off the heads that are sure alone, and with those one hit short of the threshold")
			e.editFlags.add(fs, "each is a further condition")
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("study", operands, "MODEL"); err != nil {
					return err
				}
				if err := e.config.load(a, fs, "study"); err != nil {
					return err
				}
				conditions, err := e.named()
				if err != nil {
					return err
				}
				return e.runKnockout(ctx, a, operands[0], &k, func(o *harness.Options) error {
					o.Verb, o.Stages, o.Conditions, o.Example = "study", *stages, conditions, true
					if slices.Contains(*stages, harness.StageBands) {
						o.Bands = &harness.BandOptions{Protocol: harness.ProtocolCorrected, Matched: true, Planes: harness.AutoControls, Ledger: true}
					}
					return nil
				})
			}
		},
	}
}

// runKnockout runs an experiment with a knockout stage; finish fills in what the verbs differ in.
func (e *experimentFlags) runKnockout(ctx context.Context, a *app, ref string, k *knockoutFlags, finish func(*harness.Options) error) error {
	o := &harness.Options{}
	if err := k.set(o); err != nil {
		return err
	}
	if err := finish(o); err != nil {
		return err
	}
	m, err := e.prepare(ctx, a, ref, o)
	if err != nil {
		return err
	}
	return e.experiment(ctx, a, o, m)
}

func detectVerb() *verb {
	return &verb{
		name: "detect", operands: "MODEL", summary: "score every head and list the retrieval heads",
		details: "Every detection scores argmax_last, mass_last, argmax_code, copy_tf, write_norm, induction, duplicate and prev_token; --detectors adds others\n(docs/detectors.md). --edit applies while detecting.",
		flags: func(fs *pflag.FlagSet) action {
			var e experimentFlags
			e.add(fs)
			e.addDetect(fs)
			fs.BoolVar(&e.agreement, "agreement", false, "hold every detector against the causal map of a third set of prompts: AUPRC, knock-out curves")
			fs.StringVar(&e.agreementPrompts, "agreement-prompts", "", "prompt FILE that the causal map is of; implies --agreement")
			e.editFlags.add(fs, "in force while detecting")
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("detect", operands, "MODEL"); err != nil {
					return err
				}
				if err := e.config.load(a, fs, "detect"); err != nil {
					return err
				}
				edits, err := e.inForce()
				if err != nil {
					return err
				}
				o := &harness.Options{Verb: "detect", Stages: []string{harness.StageDetect}, Edits: edits, Example: len(edits) == 0}
				m, err := e.prepare(ctx, a, operands[0], o)
				if err != nil {
					return err
				}
				return e.experiment(ctx, a, o, m)
			}
		},
	}
}

func knockoutVerb() *verb {
	return &verb{
		name: "knockout", operands: "MODEL", summary: "switch given heads off and compare with matched control heads",
		flags: func(fs *pflag.FlagSet) action {
			var e experimentFlags
			var k knockoutFlags
			list := fs.String("heads", "", "heads to switch off: a list (L18H6,L8H0), a FILE of one, or a result of detect or study")
			e.add(fs)
			fs.StringVar(&e.detectPrompts, "detect-prompts", "", "prompts that the means of mode mean are over; generated ones have a split for it")
			k.add(fs, []string{"all"}, []string{harness.PoolLayer})
			fs.StringSliceVar(&k.modes, "modes", []string{"zero"}, "what takes the heads' place: zero, mean (of their class of rows, over the detection prompts), resample (the same prompt with another code); auto = all that the prompts allow")
			e.editFlags.add(fs, "each is a further condition")
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("knockout", operands, "MODEL"); err != nil {
					return err
				}
				if err := e.config.load(a, fs, "knockout"); err != nil {
					return err
				}
				conditions, err := e.named()
				if err != nil {
					return err
				}
				return e.runKnockout(ctx, a, operands[0], &k, func(o *harness.Options) error {
					o.Verb, o.Stages, o.Conditions = "knockout", []string{harness.StageKnockout}, conditions
					return e.heads(*list, o)
				})
			}
		},
	}
}
