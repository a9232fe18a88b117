package planes

import "github.com/headscope/headscope/harness"

// FrequenciesSchema is the JSON Schema of [Frequencies].
func FrequenciesSchema() ([]byte, error) {
	return harness.TypeSchema("headscope frequencies, schema 1", "What frequencies writes: norms of queries and keys by head and plane. An undefined number is null.", Frequencies{})
}

// LedgerSchema is the JSON Schema of a [Ledger].
func LedgerSchema() ([]byte, error) {
	return harness.TypeSchema("headscope ledger, schema 1", "What ledger writes: scores by plane, effects of edits predicted and measured. An undefined number is null.", Ledger{})
}
