package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/klog/v2"
)

// app is the process as the verbs see it.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	log      *slog.Logger
	quiet    bool
	args     []string // after the command's name, for the result's record
}

// verb is one entry of the table. flags declares the verb's flags and returns what runs it on the operands.
type verb struct {
	name     string
	operands string
	summary  string
	details  string
	flags    func(*pflag.FlagSet) action
}

type action func(ctx context.Context, a *app, operands []string) error

// run is main without the process: it returns the exit code.
func (a *app) run(ctx context.Context, args []string) (code int) {
	defer func() {
		if r := recover(); r != nil {
			code = a.fail(ctx, panicked(r))
		}
	}()
	a.args = args
	a.log = slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if len(args) == 0 {
		return a.fail(ctx, &usageError{fmt.Errorf("no verb"), "`headscope help` lists the verbs"})
	}
	switch args[0] {
	case "help", "-h", "--help":
		return a.help(ctx, args[1:])
	case "--version":
		args = []string{"version"}
	}
	v, err := find(args[0])
	if err != nil {
		return a.fail(ctx, err)
	}
	return a.runVerb(ctx, v, args[1:])
}

func (a *app) runVerb(ctx context.Context, v *verb, args []string) int {
	fs := newFlags(v)
	act := v.flags(fs)
	level, quiet := commonFlags(fs)
	if err := fs.Parse(args); err != nil {
		if err == pflag.ErrHelp {
			return a.done(ctx, a.helpVerb(v))
		}
		return a.fail(ctx, &usageError{err, fmt.Sprintf("`headscope help %s` lists the flags", v.name)})
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(*level)); err != nil {
		return a.fail(ctx, &usageError{fmt.Errorf("--log-level %q", *level), "want debug, info, warn or error"})
	}
	a.quiet = *quiet
	a.log = slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: l}))
	klog.SetSlogLogger(a.log)
	return a.done(ctx, act(ctx, a, fs.Args()))
}

// commonFlags are those of every verb.
func commonFlags(fs *pflag.FlagSet) (level *string, quiet *bool) {
	return fs.String("log-level", "warn", "debug, info, warn or error"), fs.Bool("quiet", false, "no progress, no notes on stderr")
}

// newFlags is a set in which underscores are hyphens and flags may follow operands.
func newFlags(v *verb) *pflag.FlagSet {
	fs := pflag.NewFlagSet(v.name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.SortFlags = false
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	return fs
}

// note prints a line on stderr, unless --quiet.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// terminal returns the width of a stream if it is a terminal.
func terminal(w io.Writer) (columns int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 20 {
		columns = 80
	}
	return columns, true
}

// json prints a value on stdout.
func (a *app) json(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
