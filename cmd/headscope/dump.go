package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/decoder"
)

const dumpDetails = `The text is the operand TEXT, --text or --file, or token --ids, or one prompt of a prompt file (--prompts FILE --id ID). A TEXT of - is stdin.

FILE ends in .npz (numpy.load) or .safetensors. It holds tokens [T] and rows [R], and for each layer, say 5, with H chosen heads,
KV key/value heads that they read, and D dimensions of a head:
  layer05/q, layer05/q_rot      [R, H, D]   queries after bias and edits, before and after rotation
  layer05/k, layer05/k_rot      [T, KV, D]  keys of all tokens, before and after rotation
  layer05/v                     [T, KV, D]  values of all tokens
  layer05/attention             [H, R, T]   weights after the softmax
  layer05/z                     [R, H, D]   head outputs after edits: what the output projection reads
  layer05/residual              [R, hidden] after the layer, before the final norm
  layer05/heads, layer05/kv_heads           which heads those are
  logits                        [R, vocab]
All are float32, the index arrays int32. meta.json, or the metadata key "meta", says model, hashes, edits, spans and the tokens' text.`

func dumpVerb() *verb {
	return &verb{
		name: "dump", operands: "MODEL [TEXT]", summary: "queries, keys, values, attention, head outputs, residual and logits of a text, as .npz or .safetensors",
		details: dumpDetails,
		flags: func(fs *pflag.FlagSet) action {
			var d dumpFlags
			d.add(fs)
			return d.run
		},
	}
}

type dumpFlags struct {
	passageFlags
	what                []string
	layers, heads, rows string
	out                 string
	yes, overwrite      bool
}

func (d *dumpFlags) add(fs *pflag.FlagSet) {
	fs.StringSliceVar(&d.what, "what", nil, "arrays to write: "+strings.Join(harness.DumpNames(), ",")+", or all")
	fs.StringVar(&d.out, "out", "", "FILE.npz or FILE.safetensors")
	fs.StringVar(&d.layers, "layers", "all", "layers, such as 0,5-7,-1")
	fs.StringVar(&d.heads, "heads", "all", "query heads, such as 0,3-5, in each layer; or by name, such as L18H6,L20H3, in place of --layers")
	fs.StringVar(&d.rows, "rows", "all", "rows, such as 0,5-7,-1; last; or a span of the prompt: needle, code, question, decoy, answer")
	fs.BoolVar(&d.yes, "yes", false, "write more than "+harness.FormatBytes(harness.DumpLimit))
	fs.BoolVar(&d.overwrite, "overwrite", false, "replace a file that is there already")
	d.passageFlags.add(fs)
}

func (d *dumpFlags) run(ctx context.Context, a *app, operands []string) (err error) {
	if len(d.what) == 0 {
		return &usageError{fmt.Errorf("--what is missing"), "choose from " + strings.Join(harness.DumpNames(), ",") + ", or all"}
	}
	if d.out == "" {
		return &usageError{fmt.Errorf("--out is missing"), "name a file that ends in .npz or .safetensors"}
	}
	if err := harness.CheckDumpPath(d.out, d.overwrite); err != nil {
		return err
	}
	return d.with(a, "dump", operands, func(m *opened, p *harness.Passage, edits []decoder.Edit) error {
		choice, err := d.choice(m)
		if err != nil {
			return err
		}
		rows, err := p.Rows(d.rows)
		if err != nil {
			return err
		}
		dumped, err := harness.Dump(ctx, &harness.DumpRequest{
			Checkpoint: m.checkpoint, Model: m.model, Passage: p, Edits: edits, What: d.what, Choice: choice, Rows: rows, Any: d.yes,
		})
		if err != nil {
			return err
		}
		if err := dumped.WriteFile(d.out); err != nil {
			return err
		}
		note := ""
		if dumped.Passes > 1 {
			note = fmt.Sprintf(", in %d passes", dumped.Passes)
		}
		a.note("%d arrays, %s%s", len(dumped.Arrays), harness.FormatBytes(dumped.Bytes()), note)
		_, err = fmt.Fprintln(a.out, d.out)
		return err
	})
}

// choice reads --layers and --heads; "all" is the absence of either.
func (d *dumpFlags) choice(m *opened) (*harness.HeadChoice, error) {
	layers, heads := d.layers, d.heads
	if layers == "all" {
		layers = ""
	}
	if heads == "all" {
		heads = ""
	}
	return harness.ChooseHeads(&m.checkpoint.Spec, layers, heads)
}
