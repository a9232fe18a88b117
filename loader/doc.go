// Package loader opens a checkpoint and says, in terms free of its family's spelling, what it computes.
//
// A checkpoint is a folder in Hugging Face's layout: config.json, weights in SafeTensors, tokenizer.json. [Open] takes the folder, or
// org/name[@rev] from the local Hugging Face cache, and returns a [Checkpoint]: its [Spec], the memory-mapped weights and the tokenizer.
//
//	c, err := loader.Open("HuggingFaceTB/SmolLM2-135M-Instruct")
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	layer := c.Spec.Params.Layer(7)
//	q, err := c.Float32s(layer.Q, nil) // [heads*headDim, hidden]
//
// A [Spec] says what a checkpoint computes, free of its family's spelling: switches, rotary tables, the kind of each layer, and where
// each parameter lies. A [Param] is made of rows of stored tensors, so that fused projections read like separate ones.
//
// Nothing is guessed. A config key that may change a number and is not understood is an [*UnsupportedError] that names key and value,
// a value that no model can have a [*ConfigError]; a tensor that is missing, left over or of another shape than the config says is an error,
// and so is a key given twice. What a family leaves to its class default is filled in by the family's reader, family_NAME.go; families.go
// lists them, docs/adding-a-family.md says how another is added. [Inspect] says what Open would do, from config and headers alone.
//
// In the map loader stands on loader/safetensors, loader/tokenizer and loader/rope, and below loader/decoder, which runs what it opened.
// loader/loadertest makes small checkpoints for tests and computes them in plain float64: the page to read first.
package loader
