package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader"
)

func closeAll(err error, list ...io.Closer) error {
	for _, c := range list {
		err = errors.Join(err, c.Close())
	}
	return err
}

func inspectVerb() *verb {
	return &verb{
		name: "inspect", operands: "MODEL", summary: "what a checkpoint is, from its config and headers; reads no weights",
		flags: func(fs *pflag.FlagSet) action {
			var f formatFlags
			f.add(fs)
			return func(_ context.Context, a *app, operands []string) (err error) {
				if err := f.check(); err != nil {
					return err
				}
				if err := operandsOf("inspect", operands, "MODEL"); err != nil {
					return err
				}
				c, err := loader.Open(operands[0])
				if err != nil {
					return err
				}
				defer func() { err = closeAll(err, c) }()
				in, err := c.Inspect()
				if err != nil {
					return err
				}
				if f.format == "json" {
					return a.json(in)
				}
				return printInspection(a.out, in)
			}
		},
	}
}

func printInspection(out io.Writer, in *loader.Inspection) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("model", "%s", in.Ref)
	if in.Revision != "" {
		row("revision", "%s", in.Revision)
	}
	row("family", "%s (%s)", in.Family, in.Architecture)
	row("layers", "%d", in.Layers)
	row("heads", "%d query, %d key/value, head_dim %d", in.Heads, in.KVHeads, in.HeadDim)
	row("width", "%d, mlp %d (%s), norm eps %g", in.Hidden, in.Intermediate, in.Activation, in.NormEps)
	row("vocabulary", "%d, output matrix %s", in.Vocab, map[bool]string{true: "tied to the embedding", false: "its own"}[in.Tied])
	row("window", "%d tokens", in.MaxPositions)
	row("end tokens", "%v", in.EOS)
	row("weights", "%d parameters, %s, %s in %d files", in.Parameters, in.DType, harness.FormatBytes(in.Bytes), in.Files)
	r := in.Rope
	row("rope", "%s, theta %g, %d planes of %d dims, factor on cos and sin %g", r.Type, r.Theta, r.Planes, in.HeadDim, r.Scale)
	if r.Factor != 0 {
		row("", "factor %g, low %g, high %g, original window %d", r.Factor, r.LowFreqFactor, r.HighFreqFactor, r.OriginalMaxPositions)
	}
	row("", "first planes %.4g rad a token; slowest %.4g", r.Fastest, r.Slowest)
	if t := in.Tokenizer; t != nil {
		row("tokenizer", "%d tokens, %d looked for in the text; adds special tokens: %t; chat template: %t", t.Vocab, t.Added, t.AddsSpecial, t.ChatTemplate)
	} else {
		row("tokenizer", "none")
	}
	row("config", "sha256 %s", in.ConfigSHA256)
	if in.WeightsIndexSHA256 != "" {
		row("weights index", "sha256 %s", in.WeightsIndexSHA256)
	}
	return w.Flush()
}
