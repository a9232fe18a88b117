package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/decoder"
)

// passageFlags choose the text that dump and show look at, and the model and edits.
type passageFlags struct {
	modelFlags
	editFlags
	text, file, ids, prompts, id string
	noSpecial, withAnswer        bool
	fs                           *pflag.FlagSet
}

func (p *passageFlags) add(fs *pflag.FlagSet) {
	p.fs = fs
	fs.StringVar(&p.text, "text", "", "the text, in place of the operand")
	fs.StringVar(&p.file, "file", "", "read the text from FILE")
	fs.StringVar(&p.ids, "ids", "", "token ids in place of a text, such as 1,15,7")
	fs.StringVar(&p.prompts, "prompts", "", "take a prompt of this FILE, one JSON object a line, or of "+harness.BuiltinPrompts)
	fs.StringVar(&p.id, "id", "", "which prompt of --prompts")
	fs.BoolVar(&p.withAnswer, "with-answer", false, "feed the answer of the prompt after it")
	fs.BoolVar(&p.noSpecial, "no-special", false, "do not add what the tokenizer adds by default (BOS)")
	p.editFlags.add(fs, "all are in force together")
	p.modelFlags.add(fs)
}

// request reads the operands MODEL [TEXT] and the flags; exactly one of them says which text.
func (p *passageFlags) request(a *app, verb string, operands []string) (ref string, r *harness.PassageRequest, err error) {
	names := []string{"MODEL", "TEXT"}
	if err := operandsOf(verb, operands, names[:max(1, min(len(operands), 2))]...); err != nil {
		return "", nil, err
	}
	var given []string
	if len(operands) == 2 {
		given = append(given, "TEXT")
	}
	for _, name := range []string{"text", "file", "ids", "prompts"} {
		if p.fs.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	const advice = "give a TEXT, or one of --text, --file, --ids and --prompts"
	switch {
	case len(given) == 0:
		return "", nil, &usageError{errors.New("no text"), advice}
	case len(given) > 1:
		return "", nil, &usageError{fmt.Errorf("more than one text: %s", strings.Join(given, " and ")), advice}
	case given[0] != "--prompts" && (p.id != "" || p.withAnswer):
		return "", nil, &usageError{errors.New("--id and --with-answer go with --prompts"), advice}
	case p.noSpecial && (given[0] == "--prompts" || given[0] == "--ids"):
		return "", nil, &usageError{fmt.Errorf("--no-special with %s", given[0]), `ids are taken as they are; a prompt of a file says "add_special": false`}
	}
	r = &harness.PassageRequest{NoSpecial: p.noSpecial, WithAnswer: p.withAnswer}
	switch given[0] {
	case "TEXT":
		r.Text, err = operandText(a, operands[1])
	case "--text":
		r.Text = p.text
	case "--file":
		var b []byte
		b, err = os.ReadFile(p.file)
		r.Text = string(b)
	case "--ids":
		r.IDs, err = parseIDs(p.ids)
	case "--prompts":
		if r.Prompts, r.Prompt = p.prompts, p.id; p.prompts == "" {
			err = &usageError{errors.New("--prompts is empty"), "name a file, or " + harness.BuiltinPrompts}
		}
	}
	return operands[0], r, err
}

func operandText(a *app, operand string) (string, error) {
	if operand != "-" {
		return operand, nil
	}
	b, err := io.ReadAll(a.in)
	return string(b), err
}

func parseIDs(list string) ([]int32, error) {
	out := []int32{}
	for _, f := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", []\t\n", r) }) {
		n, err := strconv.ParseInt(f, 10, 32)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--ids: %q is no token id", f), "the form is 1,15,7; `headscope tokenize MODEL TEXT` prints ids"}
		}
		out = append(out, int32(n))
	}
	return out, nil
}

// with opens the model and calls fn with the passage and the edits. What is wrong with the text is said before a device is opened.
func (p *passageFlags) with(a *app, verb string, operands []string, fn func(*opened, *harness.Passage, []decoder.Edit) error) (err error) {
	ref, request, err := p.request(a, verb, operands)
	if err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	edits, err := p.together()
	if err != nil {
		return err
	}
	c, err := p.checkpoint(ref)
	if err != nil {
		return err
	}
	passage, err := harness.NewPassage(c, request)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	model, err := p.model(a, c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	m := &opened{c, model}
	defer func() { err = m.close(err) }()
	a.noteSkipped(m, edits)
	return fn(m, passage, edits)
}
