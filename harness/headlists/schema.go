package headlists

import "github.com/headscope/headscope/harness"

// ComparisonSchema is the JSON Schema of a [Comparison].
func ComparisonSchema() ([]byte, error) {
	return harness.TypeSchema("headscope comparison, schema 1", "What compare prints: two lists of heads side by side. An undefined number is null.", Comparison{})
}

// NormsSchema is the JSON Schema of [Norms].
func NormsSchema() ([]byte, error) {
	return harness.TypeSchema("headscope norms, schema 1", "What norms writes: L1 norms of the query projection a head. An undefined number is null.", Norms{})
}
