package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/headlists"
	"github.com/headscope/headscope/harness/planes"
	"github.com/headscope/headscope/harness/replicate"
	"github.com/headscope/headscope/harness/tracing"
)

// schemas are those of what single verbs write, beside the schema of results.
func schemas() map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){
		"compare": headlists.ComparisonSchema, "norms": headlists.NormsSchema, "replicate": replicate.Schema, "head": harness.CardSchema,
		"frequencies": planes.FrequenciesSchema, "ledger": planes.LedgerSchema, "trace": tracing.Schema,
		"perplexity": harness.PerplexitySchema,
	}
}

func schemaNames() []string { return slices.Sorted(maps.Keys(schemas())) }

func schemaVerb() *verb {
	return &verb{
		name: "schema", operands: "[VERB]", summary: "print the JSON Schema (draft 2020-12) of results, or of what one of " + strings.Join(schemaNames(), ", ") + " writes",
		flags: func(*pflag.FlagSet) action {
			return func(_ context.Context, a *app, operands []string) error {
				if len(operands) == 0 {
					_, err := a.out.Write(harness.ResultSchema())
					return err
				}
				if err := operandsOf("schema", operands, "VERB"); err != nil {
					return err
				}
				schema, ok := schemas()[operands[0]]
				if !ok {
					return &usageError{fmt.Errorf("schema of %q", operands[0]), "want " + strings.Join(schemaNames(), ", ") + ", or nothing for that of study, detect and knockout"}
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
