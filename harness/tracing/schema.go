package tracing

import "github.com/headscope/headscope/harness"

// Schema is the JSON Schema of a [Trace].
func Schema() ([]byte, error) {
	return harness.TypeSchema("headscope trace, schema 1", "What trace writes: effects of patches by head and rows. An undefined number is null.", Trace{})
}
