// Package verify compares what this module computes with a golden folder: a checkpoint, a golden.json and a golden.safetensors
// written by transformers (layout and tolerances in loader/testdata/parity/README.md).
//
//	report, err := verify.Dir(ctx, backend, "loader/testdata/parity/llama_mha", verify.Options{})
//	report.Write(os.Stdout)
//
// Each quantity is one line with its largest difference and its tolerance. What this version cannot compute is a line too, and
// counted: nothing is passed over in silence. The command `headscope verify` and the parity tests both call Dir.
package verify
