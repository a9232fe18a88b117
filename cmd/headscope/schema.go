package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
)

func schemaVerb() *verb {
	return &verb{
		name: "schema", summary: "print the JSON Schema of results (draft 2020-12)",
		flags: func(*pflag.FlagSet) action {
			return func(_ context.Context, a *app, operands []string) error {
				if err := operandsOf("schema", operands); err != nil {
					return err
				}
				_, err := a.out.Write(harness.ResultSchema())
				return err
			}
		},
	}
}
