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
//	fmt.Println(c.Spec.Layers, c.Spec.Heads, c.Spec.Rope.Theta)
//
// Nothing is guessed. A config key that may change a number and is not understood is an [*UnsupportedError] that names key and value,
// a tensor that is missing, left over or of another shape than the config says is an error, and so is a key given twice. What a family
// leaves to its class default is filled in by the family's reader, family_NAME.go; families.go lists them.
//
// In the map loader stands on loader/safetensors, loader/tokenizer and loader/rope, and below loader/decoder, which runs what it opened.
// loader/loadertest makes small checkpoints for tests and computes them in plain float64: the page to read first.
package loader
