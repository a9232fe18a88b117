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
// model solves it by induction: a head that looks one token back, and heads that look for what such a head has written.
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
