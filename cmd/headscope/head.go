package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/needle"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// headFlags say what a head's card is made from.
type headFlags struct {
	modelFlags
	formatFlags
	result, prompts string
	show, topK      int
	seed            uint64
}

func (h *headFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&h.result, "result", "", "a result FILE.json of detect or study whose scores are shown; default: the detectors but causal are run on the prompts shown")
	fs.StringVar(&h.prompts, "prompts", "", "prompt FILE, or "+harness.BuiltinPrompts+"; default: prompts generated for the model's tokenizer")
	fs.IntVar(&h.show, "show", 3, "prompts in which it is shown what the head looks at")
	fs.IntVar(&h.topK, "top-k", 5, "keys listed for each")
	fs.Uint64Var(&h.seed, "seed", 0, "of the generated prompts")
	h.formatFlags.add(fs)
	h.modelFlags.add(fs)
}

func headVerb() *verb {
	return &verb{
		name: "head", operands: "MODEL HEAD", summary: "one head's card: its rank under every detector, its effect, what it looks at",
		details: "HEAD is named as in L18H6. Nothing is written.",
		flags: func(fs *pflag.FlagSet) action {
			var h headFlags
			h.add(fs)
			return h.run
		},
	}
}

func (h *headFlags) run(ctx context.Context, a *app, operands []string) (err error) {
	if err := operandsOf("head", operands, "MODEL", "HEAD"); err != nil {
		return err
	}
	if err := h.formatFlags.check(); err != nil {
		return err
	}
	if h.format == "markdown" {
		return &usageError{errors.New("--format markdown"), "want table or json"}
	}
	if h.show < 1 {
		return &usageError{fmt.Errorf("--show %d", h.show), "give at least 1"}
	}
	if h.topK < 0 {
		return &usageError{fmt.Errorf("--top-k %d", h.topK), "0 lists none"}
	}
	r := &harness.CardRequest{Show: h.show, TopK: h.topK, Seed: h.seed}
	if r.Head, err = decoder.ParseHead(operands[1]); err != nil {
		return &usageError{err, "the form is L18H6"}
	}
	if h.result != "" {
		if r.Result, err = harness.ReadResult(h.result); err != nil {
			return err
		}
	}
	if err := h.modelFlags.check(); err != nil {
		return err
	}
	if h.prompts == "" {
		_, h.prompts = harness.OwnPrompts(operands[0])
	}
	if h.prompts != "" {
		if r.Prompts, err = harness.ReadPrompts(h.prompts); err != nil {
			return err
		}
	}
	if r.Checkpoint, err = h.checkpoint(operands[0]); err != nil {
		return err
	}
	if err = r.Check(); err == nil && r.Prompts == nil {
		r.Prompts, err = cardPrompts(ctx, r.Checkpoint, h)
	}
	if err == nil {
		r.Model, err = h.model(a, r.Checkpoint)
	}
	if err != nil {
		return errors.Join(err, r.Checkpoint.Close())
	}
	m := &opened{r.Checkpoint, r.Model}
	defer func() { err = m.close(err) }()
	card, err := harness.NewHeadCard(ctx, r)
	if err != nil {
		return err
	}
	if h.format == "json" {
		return a.json(card)
	}
	return card.Write(a.out)
}

// cardPrompts generates as many prompts as are shown, of the detect split at its usual length.
func cardPrompts(ctx context.Context, c *loader.Checkpoint, h *headFlags) (*harness.PromptFile, error) {
	g, err := harness.GeneratePrompts(ctx, c.Tokenizer, harness.NeedleOptions{Seed: h.seed, N: h.show, Tokens: 500, CodeTokens: 4, Chat: "auto"}, needle.Detect)
	if err != nil {
		return nil, err
	}
	return g.Detect, nil
}
