// Command headscope runs causal experiments on the retrieval heads of language models.
//
//	headscope VERB MODEL [flags]
//
// A verb is one file here and one entry of the table in verbs.go; help is printed from that table. A verb turns flags into a request
// to package harness (or loader) and prints what comes back: the result on stdout, everything else on stderr. Nothing is computed
// here.
//
//	headscope study ~/models/SmolLM2-135M-Instruct --limit 20
//	headscope logits ~/models/SmolLM2-135M-Instruct "The capital of France is" --edit zero:L18H6
//
// An error is one line "error:" and, where there is a way out, one line "hint:"; the exit codes are in exit.go.
package main
