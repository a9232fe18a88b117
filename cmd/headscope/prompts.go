package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/needle"
	"github.com/headscope/headscope/loader"
)

// needleFlags say which prompts are generated.
type needleFlags struct {
	o      harness.NeedleOptions
	depths []float64
}

func (n *needleFlags) add(fs *pflag.FlagSet) {
	fs.IntVar(&n.o.N, "samples", 40, "generated prompts of each split, templates and depths in turn")
	fs.IntVar(&n.o.Tokens, "tokens", 500, "length of a generated prompt, everything included")
	fs.IntVar(&n.o.CodeTokens, "code-tokens", 4, "tokens of every generated code, in the text as in the answer")
	fs.StringSliceVar(&n.o.Templates, "templates", nil, "of "+strings.Join(needle.TemplateNames(), ", ")+"; default all, for detection and test without "+strings.Join(needle.TemplatesOf(needle.KindNoOverlap), " and "))
	fs.Float64SliceVar(&n.depths, "depths", nil, "shares of the text before the needle; default 0.1,0.25,0.5,0.75,0.9")
	fs.StringVar(&n.o.Haystack, "haystack", "", "text FILE or DIR to take sentences from; default generated ones")
	fs.StringVar(&n.o.Chat, "chat", "auto", "auto (the model's chat format if it has one), plain or chat")
	fs.BoolVar(&n.o.Variants, "variants", true, "also ask the unmodified model without needle, decoy, or both")
}

func (n *needleFlags) options(seed uint64) harness.NeedleOptions {
	o := n.o
	o.Seed, o.Depths = seed, n.depths
	return o
}

var needleFlagNames = []string{"samples", "tokens", "code-tokens", "templates", "depths", "haystack", "chat", "variants"}

// givenNeedleFlags lists the flags of fs that were given and only say how prompts are generated.
func givenNeedleFlags(fs *pflag.FlagSet) []string {
	var out []string
	for _, name := range needleFlagNames {
		if fs.Changed(name) {
			out = append(out, "--"+name)
		}
	}
	return out
}

// ownPrompts names the prompt sets of an embedded model, whose vocabulary is too small for generated prompts, and refuses to generate
// any; both are empty for other models.
func ownPrompts(ref string, fs *pflag.FlagSet) (test, detect string, err error) {
	test, detect = harness.OwnPrompts(ref)
	if given := givenNeedleFlags(fs); test != "" && len(given) > 0 {
		return "", "", &usageError{fmt.Errorf("%s with %s, whose vocabulary is too small for generated prompts", strings.Join(given, ", "), ref),
			fmt.Sprintf("leave them out: its own prompts are %s and, to detect on, %s", test, detect)}
	}
	return test, detect, nil
}

func promptsVerb() *verb {
	return &verb{
		name: "prompts", operands: "MODEL", summary: "write the needle prompts that would be generated for a model",
		details: "Three splits that share no code, sentence, subject or wording: detect, test and agreement, whose prompts go through the kinds of needles. No weights are read.\n" +
			"An embedded model has prompts of its own, to detect and to test on: these are written.",
		flags: func(fs *pflag.FlagSet) action {
			var n needleFlags
			n.add(fs)
			seed := fs.Uint64("seed", 0, "every random choice follows from it")
			split := fs.String("split", "test", "test, detect or agreement")
			out := fs.String("out", "", "FILE to write, whole or not at all; default standard output")
			fs.BoolVar(&n.o.Donors, "donors", false, "with each prompt the same one holding another code")
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("prompts", operands, "MODEL"); err != nil {
					return err
				}
				if !slices.Contains(needle.Splits(), needle.Split(*split)) {
					return &usageError{fmt.Errorf("--split %q", *split), "want test, detect or agreement"}
				}
				test, detect, err := ownPrompts(operands[0], fs)
				if err != nil {
					return err
				}
				if test != "" {
					switch needle.Split(*split) {
					case needle.Detect:
						test = detect
					case needle.Agreement:
						return &usageError{fmt.Errorf("--split %s: %s has no such prompts", *split, operands[0]), "want test or detect"}
					}
					f, err := harness.ReadPrompts(test)
					if err != nil {
						return err
					}
					return putPrompts(a, f, *out)
				}
				c, err := loader.Open(operands[0])
				if err != nil {
					return err
				}
				g, err := harness.GeneratePrompts(ctx, c.Tokenizer, n.options(*seed), needle.Split(*split))
				if err = errors.Join(err, c.Close()); err != nil {
					return err
				}
				f := cmp.Or(g.Test, g.Detect, g.Agreement)
				noteGenerated(a, g)
				return putPrompts(a, f, *out)
			}
		},
	}
}

// putPrompts writes a prompt file, to standard output without a name.
func putPrompts(a *app, f *harness.PromptFile, path string) error {
	if path == "" {
		_, err := a.out.Write(f.Data)
		return err
	}
	return harness.WriteFile(path, f.Data)
}

// noteGenerated says what was made and what was not.
func noteGenerated(a *app, g *harness.Generated) {
	for _, r := range g.Reports {
		a.note("%d prompts (%s), at most %d tokens short, %d refused, %d decoys with the code's first token", r.Prompts, r.Chat, r.MostShort, r.Refused, r.SharedFirst)
	}
	for i, r := range g.Refused {
		if i == 3 {
			a.note("  ... and %d others refused", len(g.Refused)-i)
			break
		}
		a.note("  refused %s: %s", r.Prompt, r.Reason)
	}
}
