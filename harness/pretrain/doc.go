// Package pretrain trains small decoders: the first part of the laboratory.
//
// # Mental model
//
// A run follows from a [Recipe] alone. The model is the block graph that inference runs (decoder.Trainable), so what is trained is what is
// studied. One compiled program is a step: loss, gradients, AdamW; Go code draws the batches and hands parameters and moments from call to
// call. The data of step n have a random stream of their own, so a run that was saved and resumed is the unbroken run, bit for bit (on one
// backend and shape).
//
//	NewTask() -> texts with needles, prompts, tokenizer.json
//	New(backend, recipe) -> Trainer -> Run -> Save, Recall, Export
//
// The task is needle in text: sentences about bakers and bridges, a few that say what somebody calls a place, and questions about those. A
// model solves it by induction: heads that look back a token or so, and a head that looks for what they have written. The first layer
// has a window of a few tokens, without which it carries needles to rows behind them. Later phases keep fewer heads of a layer
// (prune.go), until one head of the last layer does all of the retrieving and the others are idle.
//
// # Example
//
//	t, err := pretrain.New(backend, pretrain.Needle(1))
//	...
//	err = t.Run(ctx, 100, func(p pretrain.Progress) error { return t.Save("needle.ckpt") })
//	...
//	err = t.Export("needle") // a folder that loader.Open and transformers read
//
// # Place in the map
//
// Above loader/decoder, beside harness/needle; scripts/builtin makes the embedded model with it.
package pretrain
