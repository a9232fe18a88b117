package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/headlists"
	"github.com/headscope/headscope/harness/replicate"
)

func schemaVerb() *verb {
	return &verb{
		name: "schema", operands: "[VERB]", summary: "print the JSON Schema (draft 2020-12) of results, or of what compare, norms, perplexity or replicate writes",
		flags: func(*pflag.FlagSet) action {
			return func(_ context.Context, a *app, operands []string) error {
				if len(operands) == 0 {
					_, err := a.out.Write(harness.ResultSchema())
					return err
				}
				if err := operandsOf("schema", operands, "VERB"); err != nil {
					return err
				}
				schema, ok := map[string]func() ([]byte, error){"compare": headlists.ComparisonSchema, "norms": headlists.NormsSchema, "perplexity": harness.PerplexitySchema, "replicate": replicate.Schema}[operands[0]]
				if !ok {
					return &usageError{fmt.Errorf("schema of %q", operands[0]), "want compare, norms, perplexity or replicate, or nothing for that of study, detect and knockout"}
				}
				text, err := schema()
				if err != nil {
					return err
				}
				_, err = a.out.Write(text)
				return err
			}
		},
	}
}
