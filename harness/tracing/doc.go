// Package tracing finds out through which heads a prompt's code reaches the answer: activation patching from the same prompt with another
// code.
//
//   - For every head and group of rows, the effect on the difference of two logits, the answer's less the donor's answer's, of giving the head
//     its output in the donor's run: the total effect, the direct one through the residual stream alone, what later parts make of it (total
//     less direct, self-repair where it is of the other sign), and the first-order estimate by a gradient.
//   - Pairs of the largest heads: how far the effect of both is from the sum.
//   - Paths: one head's changed output reaches another's queries, keys or values alone.
//
// [Run] writes one line a prompt as it goes and starts where a run of the same key stopped; [Trace] is what comes of the lines.
//
//	t, err := tracing.Run(ctx, &tracing.Request{Checkpoint: c, Model: m, Prompts: prompts, Groups: []string{tracing.Last}, Out: "results"})
//	...
//	err = t.Write(os.Stdout, 20)
//
// It stands on loader/decoder, which edits and runs the model; harness tokenises prompts and names results. It touches no graph.
package tracing
