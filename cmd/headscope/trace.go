package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/tracing"
	"github.com/headscope/headscope/loader"
)

func traceVerb() *verb {
	return &verb{
		name: "trace", operands: "MODEL", summary: "through which heads the code reaches the answer: activation patching from a prompt with another code",
		details: "For every head and group of rows the change of logit(answer) - logit(the donor's answer) when the head has its output in the donor's run:\n" +
			"total, normalised (1 = the donor's behaviour), direct (through the residual stream alone), their difference, and the first-order estimate\n" +
			"by a gradient; interactions of pairs; paths. Prompts of a file need a donor (`prompts --donors`). One line a prompt goes to\n" +
			"<out>/<model>/trace_<key>.trials.jsonl as it is done, and the same command goes on from there; the result is trace_<key>.json.",
		flags: func(fs *pflag.FlagSet) action {
			var l lookFlags
			list := fs.String("heads", "", "L18H6,L8H0, or a FILE with a list; default all")
			rows := fs.StringSlice("rows", tracing.Groups(), "groups of rows to patch at: "+strings.Join(tracing.Groups(), ", ")+"; the earlier a group begins, the dearer it is")
			pairs := fs.Int("pairs", 10, "interactions of the N heads with the largest effects; 0 = none")
			paths := fs.StringSlice("path", nil, "L12H3->L18H6.q: the first head's output reaches only the second's q, k or v (repeatable)")
			top := fs.Int("top", 20, "heads and pairs listed in the table")
			l.add(fs, 10)
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("trace", operands, "MODEL"); err != nil {
					return err
				}
				if *top < 0 {
					return &usageError{fmt.Errorf("--top %d", *top), "0 lists none"}
				}
				r := &tracing.Request{Groups: *rows, Pairs: *pairs, Out: l.out, Command: a.args, Done: a.sayDone()}
				var err error
				if r.Heads, err = headsOf(*list); err != nil {
					return err
				}
				for _, s := range *paths {
					p, err := tracing.ParsePath(s)
					if err != nil {
						return err
					}
					r.Paths = append(r.Paths, p)
				}
				check := func(c *loader.Checkpoint) error {
					r.Checkpoint = c
					return r.Check()
				}
				return l.with(ctx, a, operands[0], look{true, check, func(m *opened, prompts *harness.PromptFile) error {
					r.Model, r.Prompts = m.model, prompts
					t, err := tracing.Run(ctx, r)
					if err != nil {
						var stopped *harness.Interrupted
						if errors.As(err, &stopped) {
							return &resumable{err, stopped.Trials}
						}
						return err
					}
					a.note("%s", t.Path)
					if l.format == "json" {
						return a.json(t)
					}
					return t.Write(a.out, *top)
				}})
			}
		},
	}
}
