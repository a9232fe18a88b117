// Package planes takes attention apart by the planes that rotary encoding turns.
//
//   - [MeasureFrequencies]: how large each head's queries and keys are in each plane, [Frequencies].
//   - [KeepLedger]: the score ledger, by the arithmetic of harness/ledger. One head's scores at a row are split by plane into what queries and keys say without rotation and what
//     the rotation changes; from that, and a gradient, the effect of an edit is predicted before the edited model is run, [Ledger].
//
// An example:
//
//	f, err := planes.MeasureFrequencies(ctx, &planes.FrequencyRequest{Checkpoint: c, Model: m, Prompts: prompts})
//	...
//	err = f.Write(os.Stdout, planes.FrequencyView{Top: 20})
//
// It stands on loader/decoder, which runs the model and hands out arrays; harness tokenises prompts and names results. It touches no graph.
package planes
