package harness

import _ "embed"

//go:embed schema/result.v1.json
var resultSchema []byte

// ResultSchema is the JSON Schema (draft 2020-12) of stored results.
func ResultSchema() []byte { return append([]byte(nil), resultSchema...) }
