// Package decoder is the model graph and all that runs it: value types (Head, Edit, Scope, Prompt, Condition), one compiled decoder
// block, the walk through the layers, shared trunks, kept caches, greedy decoding.
//
// The mental model: a study asks thousands of "what if" questions of one model, so an intervention is data. One block is compiled
// for a batch and length bucket; its arguments are the residual stream, one layer's weights, the rotary tables and the edits'
// gains, and Go code walks the layers. The unmodified model and every edited one are the same program with other numbers.
//
//	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: "auto"})
//	m, err := decoder.New(be, checkpoint, decoder.Options{DType: "float32"})
//	off, err := decoder.ParseEdit("zero:L18H6,L20H3@question", nil)
//	conds := []decoder.Condition{{Probe: true}, {Edits: []decoder.Edit{off}}}
//	err = m.Ask(ctx, prompts, conds, decoder.AskOptions{MaxNew: 16, EOS: checkpoint.Spec.EOS}, func(prompt, cond int, r *decoder.Reply) error {
//		...
//	})
//
// How Ask saves work (docs/architecture.md has the measurements):
//
//   - Layer-major walk: all queued batches pass layer l before layer l+1 is needed, so weights can be streamed (weights.go, walk.go).
//   - Shared trunk: conditions on one prompt start at their first edited layer, from the plain run's residual (run.go).
//   - Rows over a kept cache: edits that start at a later row leave the earlier keys and values as they are, and only the later rows
//     are computed, conditions as batch rows (rows.go, promptcache.go, rowblock.go). Keys are kept before rotation; a run rotates those of its prompts
//     once, its own new ones at each step.
//   - Forks: of many conditions that are only scored, those that edit the first layers alike run together up to where they part (fork.go).
//   - Rows, not matrices: a probe computes its few attention rows anew; attention itself is tiled (block.go).
//   - Fed answers: prompt and expected answer go in together; where every token is the argmax by a safe margin, greedy decoding
//     would have said the same (collect.go).
//   - Drafts: an edited model mostly answers like the plain one, so that answer is checked several tokens a step (draft.go).
//   - Full batches: answers that need decoding wait until as many of one bucket are there as are decoded together (decode.go).
//
// Every family of package loader runs in the same block: loader.Spec says which norms, residual form, activation and factors it has
// (layer.go), windows and rotary tables are inputs of each layer (positions.go). Edits that need more than gains (other tables for single
// heads, given outputs, sink and recent keys) are further inputs, and only layers that have such an edit run a program that takes them
// (variant.go, gaingraph.go, editinputs.go).
//
// One sequence in the hand (trace.go) gives arrays; its gradient by every head's output (gradient.go), heads' direct effects on two logits
// (direct.go) and a head's output along a single path (path.go, donor.go) are programs of their own, made of the block's parts.
//
// Reading order: edit.go, gains.go, graph.go, layer.go, block.go, rowblock.go, walk.go, rows.go, run.go, collect.go, decode.go, draft.go.
//
// Place in the map: above loader and rope, below heads, patch and harness. Only the yardstick of scripts/bench uses GoMLX's graph
// beside it.
package decoder

// Engine is raised whenever programs, batches or their order change such that numbers may move within the bound between shapes. It is
// part of a run's plan: trials of one engine are not continued by another.
const Engine = 4
