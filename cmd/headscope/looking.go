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
	"github.com/headscope/headscope/loader"
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
	fs.IntVar(&l.limit, "limit", 0, fmt.Sprintf("the first N prompts only; 0 = all; without it %d of an embedded model's own prompts", samples))
	fs.Uint64Var(&l.seed, "seed", 0, "of generated prompts")
	fs.StringVar(&l.out, "out", "results", "folder of the results")
	l.formatFlags.add(fs)
	l.modelFlags.add(fs)
}

// look is what a verb does with a checkpoint and prompts.
type look struct {
	donors bool                           // with each generated prompt the same one holding another code
	check  func(*loader.Checkpoint) error // before prompts are made and weights are read
	run    func(*opened, *harness.PromptFile) error
}

// with opens the model and hands it and the prompts to v.
func (l *lookFlags) with(ctx context.Context, a *app, ref string, v look) (err error) {
	if err := errors.Join(l.formatFlags.check(), l.modelFlags.check()); err != nil {
		return err
	}
	if l.limit < 0 {
		return &usageError{fmt.Errorf("--limit %d", l.limit), "give a count of prompts; 0 = all"}
	}
	file, err := l.file(ref)
	if err != nil {
		return err
	}
	c, err := l.checkpoint(ref)
	if err != nil {
		return err
	}
	if err := v.check(c); err != nil {
		return errors.Join(err, c.Close())
	}
	if file == nil {
		o := l.options(l.seed)
		o.Donors, o.Variants = v.donors, false
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
	return v.run(m, file.WithNeedle().Limit(l.limit))
}

// file reads the prompts that are not generated: those given, else an embedded model's own, as many as would be generated; nil for none.
func (l *lookFlags) file(ref string) (*harness.PromptFile, error) {
	if l.prompts == "" {
		own, _, err := ownPrompts(ref, l.fs)
		if err != nil || own == "" {
			return nil, err
		}
		if !l.fs.Changed("limit") {
			l.limit = l.o.N
		}
		return harness.ReadPrompts(own)
	}
	if given := givenNeedleFlags(l.fs); len(given) > 0 {
		return nil, &usageError{fmt.Errorf("%s with --prompts", strings.Join(given, ", ")), "those flags say how prompts are generated; give one or the other"}
	}
	return harness.ReadPrompts(l.prompts)
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
