package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/needle"
	"github.com/headscope/headscope/loader/decoder"
)

// lookFlags are what frequencies, ledger and trace share: a model, prompts of a file or generated ones, a folder for the result.
type lookFlags struct {
	modelFlags
	formatFlags
	needleFlags

	fs           *pflag.FlagSet
	prompts, out string
	limit        int
	seed         uint64
}

func (l *lookFlags) add(fs *pflag.FlagSet, samples int) {
	l.fs = fs
	fs.StringVar(&l.prompts, "prompts", "", "prompt FILE, one JSON object a line, or "+harness.BuiltinPrompts+"; default: prompts generated for the model's tokenizer, by the flags below")
	l.needleFlags.add(fs)
	l.o.N, l.o.Variants = samples, false
	fs.Lookup("samples").DefValue = fmt.Sprint(samples)
	fs.Lookup("variants").Hidden = true // those prompts lack what is asked for
	fs.IntVar(&l.limit, "limit", 0, "the first N prompts only; 0 = all")
	fs.Uint64Var(&l.seed, "seed", 0, "of generated prompts")
	fs.StringVar(&l.out, "out", "results", "folder of the results")
	l.formatFlags.add(fs)
	l.modelFlags.add(fs)
}

// with opens the model and calls fn with it and the prompts. donors: with each generated prompt the same one holding another code.
func (l *lookFlags) with(ctx context.Context, a *app, ref string, donors bool, fn func(*opened, *harness.PromptFile) error) (err error) {
	if err := errors.Join(l.formatFlags.check(), l.modelFlags.check()); err != nil {
		return err
	}
	if l.limit < 0 {
		return &usageError{fmt.Errorf("--limit %d", l.limit), "give a count of prompts; 0 = all"}
	}
	var file *harness.PromptFile
	if l.prompts != "" {
		if given := givenNeedleFlags(l.fs); len(given) > 0 {
			return &usageError{fmt.Errorf("%s with --prompts", strings.Join(given, ", ")), "those flags say how prompts are generated; give one or the other"}
		}
		if file, err = harness.ReadPrompts(l.prompts); err != nil {
			return err
		}
	}
	c, err := l.checkpoint(ref)
	if err != nil {
		return err
	}
	if file == nil {
		o := l.options(l.seed)
		o.Donors, o.Variants = donors, false
		if l.limit > 0 {
			o.N = min(o.N, l.limit)
		}
		g, err := harness.GeneratePrompts(ctx, c.Tokenizer, o, needle.Test)
		if err != nil {
			return errors.Join(err, c.Close())
		}
		noteGenerated(a, g)
		file = g.Test
	}
	model, err := l.model(a, c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	m := &opened{c, model}
	defer func() { err = m.close(err) }()
	return fn(m, file.WithNeedle().Limit(l.limit))
}

// headsOf reads --heads: a list or a file with one; nil where it is empty.
func headsOf(text string) ([]decoder.Head, error) {
	if text == "" {
		return nil, nil
	}
	d, err := listOf(text)
	if err != nil {
		return nil, err
	}
	if d.KV || d.Detectors[0].Heads == nil {
		return nil, &usageError{fmt.Errorf("--heads %s: a list of key/value heads, want query heads", d.Path), "give L18H6,L8H0 or a file with such a list"}
	}
	return d.Detectors[0].Heads, nil
}

// sayDone says how far a run is, on a line every half minute or so.
func (a *app) sayDone() func(done, of int) {
	last := time.Now()
	return func(done, of int) {
		if time.Since(last) >= logEvery && done < of {
			last = time.Now()
			a.note("%d of %d steps done", done, of)
		}
	}
}
