package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/loader"
)

func closeAll(err error, list ...io.Closer) error {
	for _, c := range list {
		err = errors.Join(err, c.Close())
	}
	return err
}

func inspectVerb() *verb {
	return &verb{
		name: "inspect", operands: "[MODEL]", summary: "what a checkpoint is, from its config and headers; reads no weights",
		details: "A folder with no more than config.json will do. What would be refused is said at the end, and the exit code is that of opening it.\n\n" + tableDetails(),
		flags: func(fs *pflag.FlagSet) action {
			var f formatFlags
			f.add(fs)
			families := fs.Bool("families", false, "list the architectures that can be read; takes no MODEL")
			length := fs.Int("length", 0, "reckon memory for N tokens, default the longest sequence of the checkpoint; with --table, go through distances up to N")
			t := tableFlags{}
			t.add(fs)
			return func(_ context.Context, a *app, operands []string) error {
				if err := f.check(); err != nil {
					return err
				}
				if *length < 0 {
					return &usageError{fmt.Errorf("--length %d", *length), "want a number of tokens"}
				}
				if err := t.check(*families); err != nil {
					return err
				}
				if t.table != "" {
					return t.inspect(a, operands, *length, f.format)
				}
				if *families {
					return listFamilies(a, operands, f.format)
				}
				if err := operandsOf("inspect", operands, "MODEL"); err != nil {
					return err
				}
				in, err := loader.Inspect(operands[0], *length)
				if in == nil {
					return err
				}
				if f.format == "json" {
					return errors.Join(a.json(in), err)
				}
				return errors.Join(printInspection(a.out, in), err)
			}
		},
	}
}

// familyEntry is a line of `inspect --families`.
type familyEntry struct {
	Architecture string `json:"architecture"`
	Models       string `json:"models"`
}

func listFamilies(a *app, operands []string, format string) error {
	if err := operandsOf("inspect --families", operands); err != nil {
		return err
	}
	var list []familyEntry
	for _, arch := range loader.Architectures() {
		list = append(list, familyEntry{arch, loader.Models(arch)})
	}
	if format == "json" {
		return a.json(list)
	}
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "architecture\tcheckpoints, among others")
	for _, e := range list {
		fmt.Fprintf(w, "%s\t%s\n", e.Architecture, e.Models)
	}
	fmt.Fprintf(w, "\nrotary tables: %s\n", strings.Join(loader.RopeTypes(), ", "))
	return w.Flush()
}
