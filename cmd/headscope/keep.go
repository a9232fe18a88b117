package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
)

func keepVerb() *verb {
	return &verb{
		name: "keep", operands: "MODEL", summary: "keep full attention in a few heads alone, all others streaming: what is enough, beside random heads",
		details: "Recall, margin and perplexity by the number of heads kept, against as many random heads. --heads takes a mask or gates of DuoAttention\n" +
			"too, whose key/value groups are kept whole.",
		flags: func(fs *pflag.FlagSet) action {
			var e experimentFlags
			var t textSetFlags
			list := fs.String("heads", "", "heads to keep, best first: a list (L18H6,L8H0), a FILE of one, a result of detect or study, or DuoAttention's gates")
			groups := fs.Bool("kv-groups", false, "keep whole key/value groups, in the order of their best heads")
			sizes := fs.StringSlice("sizes", nil, "how many of the list are kept, such as 5,10-12; default: a quarter of it, half of it and all; 0 is always there")
			sink := fs.Int("sink", 4, "first keys that the other heads see")
			recent := fs.Int("recent", 64, "last keys that they see, the row's own included")
			controls := fs.Int("controls", 19, "random sets of each size and pool, 19 or more give a p: pool layer has as many in every layer, pool random is of all heads")
			t.add(fs, "plain texts beside the prompts, for an embedded model only if asked for; none leaves them out")
			e.add(fs)
			equivalence := fs.Float64("equivalence", 0.5, "nats: a change of the primary outcome that lies within it, by its 90 % interval, is no effect; 0 = do not test")
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("keep", operands, "MODEL"); err != nil {
					return err
				}
				if err := e.config.load(a, fs, "keep"); err != nil {
					return err
				}
				counts, err := ranges("sizes", *sizes)
				if err != nil {
					return err
				}
				if *list == "" && e.config.result == nil {
					return &usageError{fmt.Errorf("--heads is missing"), "give --heads LIST, a FILE of one, or a result of detect or study"}
				}
				o := &harness.Options{Verb: "keep", Stages: []string{harness.StageKeep}, Equivalence: *equivalence}
				return e.planned(ctx, a, operands[0], o, func(o *harness.Options) error {
					if *list == "" {
						o.Keep = e.config.result.Plan.Keep
						return t.beside(&e.config, o)
					}
					asked, err := harness.ReadKeep(*list, &o.Checkpoint.Spec)
					if err != nil {
						return err
					}
					asked.KVGroups = asked.KVGroups || *groups
					asked.Sizes, asked.Sink, asked.Recent, asked.Controls = counts, *sink, *recent, *controls
					if o.Keep, err = harness.PlanKeeping(&o.Checkpoint.Spec, asked); err != nil {
						return err
					}
					return t.beside(&e.config, o)
				})
			}
		},
	}
}
