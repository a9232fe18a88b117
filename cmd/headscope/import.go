package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/gguf"
)

func importVerb() *verb {
	return &verb{
		name: "import", operands: "FILE.gguf DIR", summary: "write a .gguf file as a Hugging Face folder",
		flags: func(fs *pflag.FlagSet) action {
			overwrite := fs.Bool("overwrite", false, "replace what an earlier import wrote to DIR")
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("import", operands, "FILE.gguf", "DIR"); err != nil {
					return err
				}
				p := a.progress()
				r, err := gguf.Import(ctx, operands[0], operands[1], gguf.ImportOptions{
					Overwrite: *overwrite,
					Progress:  func(done, total int) { p.event(harness.Event{Stage: "import", Done: done, Total: total}) },
				})
				p.close()
				if err != nil {
					return advise(err, "the file is damaged, or no GGUF model: fetch it again")
				}
				for _, n := range r.Notes {
					a.note("note: %s", n)
				}
				w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
				fmt.Fprintf(w, "name\t%s\n", r.Name)
				fmt.Fprintf(w, "tensors\t%d, %d parameters, from %v\n", r.Tensors, r.Parameters, r.Types)
				fmt.Fprintf(w, "tokenizer\t%s, %d tokens\n", r.PreTokenizer, r.Vocab)
				fmt.Fprintf(w, "wrote\t%s: %v\n", r.Dir, r.Files)
				return w.Flush()
			}
		},
	}
}
