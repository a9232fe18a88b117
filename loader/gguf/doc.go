// Package gguf reads llama.cpp model files (GGUF version 2 and 3) and turns them into Hugging Face folders.
//
// # Mental model
//
// A GGUF file is a list of typed metadata keys, a list of tensor descriptions and one data section. [Open] reads the two lists and
// checks every claim in them against the length of the file before acting on it; nothing of the data section is read. Array
// metadata (a vocabulary, its merges) stays in the file until it is asked for. [File.Float32s] and [File.ReadRows] then read and
// dequantise one tensor, or some rows of one, so that a file of any size can be converted in little memory.
//
// [Import] writes the four files that a transformers-style loader wants: config.json, model.safetensors (bfloat16),
// tokenizer.json and tokenizer_config.json. All of config.json comes from the metadata and the tensors present. What the file
// says but config.json cannot express is an error that names the key, the tensor or the type; nothing is skipped.
//
// llama.cpp stores the rows of the q and k projections of llama-type models with the two members of a rotated pair next to each
// other; transformers keeps the members half a head apart (rotate_half). Import puts the rows back, see [rotateHalfRow].
//
// # Example
//
//	f, err := gguf.Open("model.Q8_0.gguf")
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	for _, t := range f.Tensors() {
//		fmt.Println(t.Name, t.Type, t.Shape)
//	}
//	norm, err := f.Float32s("output_norm.weight")
//
//	report, err := gguf.Import(ctx, "model.Q8_0.gguf", "model-hf", gguf.ImportOptions{})
//
// # Limits
//
// Dequantised types: F32, F16, BF16, Q4_0, Q4_1, Q8_0. Architectures: llama. Tokenizers: byte-level BPE (tokenizer.ggml.model
// "gpt2") with the pre-tokenizers smollm, llama-bpe, qwen2, gpt-2 and default.
//
// # Place in the map
//
// Below loader, beside safetensors and tokenizer; it imports safetensors (to write) and nothing else of this module.
package gguf
