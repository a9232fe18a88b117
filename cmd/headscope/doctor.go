package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
)

func doctorVerb() *verb {
	return &verb{
		name: "doctor", operands: "", summary: "what this machine offers: build, devices, plugins, caches, memory",
		flags: func(fs *pflag.FlagSet) action {
			plugin := fs.String("plugin", "", "PJRT plugin to look at, a FILE")
			asJSON := fs.Bool("json", false, "print JSON")
			return func(_ context.Context, a *app, operands []string) error {
				if err := operandsOf("doctor", operands); err != nil {
					return err
				}
				findings := harness.Diagnose(*plugin, a.getenv)
				bad := 0
				for _, f := range findings {
					if f.State == harness.Bad {
						bad++
					}
				}
				if *asJSON {
					if err := a.json(findings); err != nil {
						return err
					}
				} else {
					w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
					for _, f := range findings {
						fmt.Fprintf(w, "%s\t%s\t%s\n", f.State, f.Name, f.Detail)
						if f.Hint != "" {
							fmt.Fprintf(w, "\t\thint: %s\n", f.Hint)
						}
					}
					if err := w.Flush(); err != nil {
						return err
					}
				}
				if bad > 0 {
					return &codeError{exitFailed, fmt.Errorf("%d findings need attention", bad), "the lines marked bad say what to do"}
				}
				return nil
			}
		},
	}
}

func versionVerb() *verb {
	return &verb{
		name: "version", operands: "", summary: "version, commit, build settings",
		flags: func(fs *pflag.FlagSet) action {
			asJSON := fs.Bool("json", false, "print JSON")
			return func(_ context.Context, a *app, operands []string) error {
				if err := operandsOf("version", operands); err != nil {
					return err
				}
				tool, env := harness.CurrentTool(), harness.CurrentEnvironment(nil)
				if *asJSON {
					return a.json(struct {
						harness.Tool
						Go       string            `json:"go"`
						Platform string            `json:"platform"`
						Packages map[string]string `json:"packages"`
					}{tool, env.Go, env.Platform, env.Packages})
				}
				dirty := map[string]string{"true": ", changed since", "false": "", "unknown": ""}[harness.Dirty]
				_, err := fmt.Fprintf(a.out, "headscope %s\ncommit %s%s\n%s %s\n", tool.Version, tool.GitCommit, dirty, env.Go, env.Platform)
				return err
			}
		},
	}
}
