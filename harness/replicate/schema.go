package replicate

import "github.com/headscope/headscope/harness"

// Schema is the JSON Schema of a [Report].
func Schema() ([]byte, error) {
	return harness.TypeSchema("headscope replication, schema 1", "What replicate prints: published numbers computed again. An undefined number is null.", Report{})
}
