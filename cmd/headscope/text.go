package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/needle"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/tokenizer"
)

// textFlags are what the verbs that take a text share.
type textFlags struct {
	modelFlags
	editFlags
	file      string
	chat      string
	noSpecial bool
	json      bool
}

func (t *textFlags) addText(fs *pflag.FlagSet) {
	fs.StringVar(&t.file, "file", "", "read the text from FILE in place of the operand")
	fs.StringVar(&t.chat, "chat", "plain", "plain, chat (the text is one user turn, written in the model's chat template) or auto (chat if it has one)")
	fs.BoolVar(&t.noSpecial, "no-special", false, "do not add what the tokenizer adds by default (BOS); tokens written in the text are always recognised")
	fs.BoolVar(&t.json, "json", false, "print JSON")
}

func (t *textFlags) add(fs *pflag.FlagSet) {
	t.addText(fs)
	t.editFlags.add(fs, "all are in force together")
	t.modelFlags.add(fs)
}

// text reads the operands MODEL [TEXT]; a TEXT of "-" is stdin.
func (t *textFlags) text(a *app, verb string, operands []string) (model, text string, err error) {
	if t.file != "" {
		if err := operandsOf(verb, operands, "MODEL"); err != nil {
			return "", "", err
		}
		b, err := os.ReadFile(t.file)
		return operands[0], string(b), err
	}
	if len(operands) == 1 {
		return "", "", &usageError{errors.New("no text"), "give a TEXT, - for standard input, or --file FILE"}
	}
	if err := operandsOf(verb, operands, "MODEL", "TEXT"); err != nil {
		return "", "", err
	}
	text, err = operandText(a, operands[1])
	return operands[0], text, err
}

// turn writes the text as --chat asks; a text of the chat template has its BOS.
func (t *textFlags) turn(tok *tokenizer.Tokenizer, text string) (string, error) {
	text, written, err := harness.UserTurn(tok, text, needle.Chat(t.chat))
	t.noSpecial = t.noSpecial || written
	return text, err
}

// with opens the model and calls fn with the request.
func (t *textFlags) with(a *app, verb string, operands []string, fn func(*harness.TextRequest) error) (err error) {
	ref, text, err := t.text(a, verb, operands)
	if err != nil {
		return err
	}
	edits, err := t.together()
	if err != nil {
		return err
	}
	m, err := t.open(a, ref)
	if err != nil {
		return err
	}
	defer func() { err = m.close(err) }()
	a.noteSkipped(m, edits)
	if text, err = t.turn(m.checkpoint.Tokenizer, text); err != nil {
		return err
	}
	return fn(&harness.TextRequest{Checkpoint: m.checkpoint, Model: m.model, Text: text, NoSpecial: t.noSpecial, Edits: edits})
}

func logitsVerb() *verb {
	return &verb{
		name: "logits", operands: "MODEL [TEXT]", summary: "the most likely next tokens of a text, with or without edits",
		details: "A TEXT of - is read from stdin; --file FILE stands for a TEXT.",
		flags: func(fs *pflag.FlagSet) action {
			var t textFlags
			k := fs.Int("top-k", 10, "how many tokens")
			t.add(fs)
			return func(ctx context.Context, a *app, operands []string) error {
				if *k < 1 {
					return &usageError{fmt.Errorf("--top-k %d", *k), "give at least 1"}
				}
				return t.with(a, "logits", operands, func(r *harness.TextRequest) error {
					next, err := harness.NextTokens(ctx, r, *k)
					if err != nil {
						return err
					}
					if t.json {
						return a.json(next)
					}
					w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', tabwriter.AlignRight)
					fmt.Fprintf(w, "id\tlogit\tlog p\t  token\n")
					for _, n := range next.Top {
						fmt.Fprintf(w, "%d\t%.5f\t%.5f\t  %s\n", n.ID, n.Logit, n.LogProb, strconv.Quote(n.Text))
					}
					return w.Flush()
				})
			}
		},
	}
}

func generateVerb() *verb {
	return &verb{
		name: "generate", operands: "MODEL [TEXT]", summary: "greedy continuation of a text, with or without edits",
		details: "A TEXT of - is read from stdin; --file FILE stands for a TEXT.",
		flags: func(fs *pflag.FlagSet) action {
			var t textFlags
			n := fs.Int("max-new", 32, "longest continuation, in tokens")
			t.add(fs)
			return func(ctx context.Context, a *app, operands []string) error {
				return t.with(a, "generate", operands, func(r *harness.TextRequest) error {
					c, err := harness.Generate(ctx, r, *n)
					if err != nil {
						return err
					}
					if t.json {
						return a.json(c)
					}
					_, err = fmt.Fprintln(a.out, c.Text)
					return err
				})
			}
		},
	}
}

func tokenizeVerb() *verb {
	return &verb{
		name: "tokenize", operands: "MODEL [TEXT]", summary: "ids, tokens and byte offsets of a text",
		details: "A TEXT of - is read from stdin; --file FILE stands for a TEXT.",
		flags: func(fs *pflag.FlagSet) action {
			var t textFlags
			t.addText(fs)
			return func(ctx context.Context, a *app, operands []string) (err error) {
				ref, text, err := t.text(a, "tokenize", operands)
				if err != nil {
					return err
				}
				c, err := loader.Open(ref)
				if err != nil {
					return err
				}
				defer func() { err = closeAll(err, c) }()
				if text, err = t.turn(c.Tokenizer, text); err != nil {
					return err
				}
				tokens, err := harness.Tokenize(c.Tokenizer, text, !t.noSpecial)
				if err != nil {
					return err
				}
				if t.json {
					return a.json(tokens)
				}
				w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', tabwriter.AlignRight)
				fmt.Fprintf(w, "row\tid\tbytes\ttoken\t  text\n")
				for i, tok := range tokens {
					fmt.Fprintf(w, "%d\t%d\t%d-%d\t%s\t  %s\n", i, tok.ID, tok.Start, tok.End, visible(tok.Token), shownText(tok))
				}
				return w.Flush()
			}
		},
	}
}

func shownText(t harness.Token) string {
	if t.Added {
		return "(added)"
	}
	return strconv.Quote(t.Text)
}

// visible writes a token so that it stays in its column: line breaks and the like as escapes.
func visible(token string) string {
	quoted := strconv.QuoteToGraphic(token)
	return quoted[1 : len(quoted)-1]
}
