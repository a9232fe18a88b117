package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
)

// textSetFlags choose texts and how they are cut.
type textSetFlags struct {
	texts   []string
	windows harness.Windows
	flags   *pflag.FlagSet
}

func (t *textSetFlags) add(fs *pflag.FlagSet, usage string) {
	t.flags = fs
	fs.StringArrayVar(&t.texts, "text", []string{harness.BuiltinProse}, usage+": a FILE, which is one document; a FILE.jsonl with a document a line, {\"text\": ...}; "+
		harness.BuiltinProse+" or "+harness.BuiltinHaystack+" (repeatable)")
	fs.IntVar(&t.windows.Tokens, "window", 0, "longest sequence that the model sees at once, in tokens; 0 = 1024, or the model's longest if that is less")
	fs.IntVar(&t.windows.Stride, "stride", 0, "tokens from the start of a window to that of the next; 0 = half of --window")
}

func perplexityVerb() *verb {
	return &verb{
		name: "perplexity", operands: "MODEL", summary: "perplexity of texts, unmodified and under edits, with the tax of each edit",
		details: "Each --edit, and each list of an --edits file, is a condition of its own, compared with the unmodified model on the same documents.\n" +
			"Every window begins with what the tokenizer adds by default (BOS), which is not scored.\n" +
			"Windows are lines of <out>/<model>/perplexity_<key>.trials.jsonl as they are done, and the same command goes on from there; the result is\n" +
			"perplexity_<key>.json.",
		flags: func(fs *pflag.FlagSet) action {
			var m modelFlags
			var e editFlags
			var t textSetFlags
			var f formatFlags
			t.add(fs, "what to score")
			e.add(fs, "each is a condition")
			out := fs.String("out", "results", "folder of the results")
			seed := fs.Uint64("seed", 0, "of the intervals")
			f.add(fs)
			m.add(fs)
			return func(ctx context.Context, a *app, operands []string) (err error) {
				if err := operandsOf("perplexity", operands, "MODEL"); err != nil {
					return err
				}
				if err := f.check(); err != nil {
					return err
				}
				o := harness.PerplexityOptions{Windows: t.windows, Seed: *seed, Out: *out, Command: a.args}
				if o.Conditions, err = e.conditions(); err != nil {
					return err
				}
				if o.Texts, err = harness.ReadTexts(t.texts); err != nil {
					return err
				}
				opened, err := m.open(a, operands[0])
				if err != nil {
					return err
				}
				defer func() { err = opened.close(err) }()
				o.Checkpoint, o.Model = opened.checkpoint, opened.model
				p := a.progress()
				o.Events = p.event
				r, err := harness.MeasurePerplexity(ctx, o)
				p.close()
				var stopped *harness.Interrupted
				if errors.As(err, &stopped) {
					return &resumable{err, stopped.Trials}
				}
				if err != nil {
					return err
				}
				if f.format == "json" {
					err = a.json(r)
				} else {
					err = r.Write(a.out, harness.View{Markdown: f.format == "markdown"})
				}
				a.note("%s", r.Path)
				return err
			}
		},
	}
}
