// Package safetensors reads and writes the SafeTensors format: an 8-byte little-endian header length, a JSON header that
// names each tensor's dtype, shape and byte range, and one data section that the ranges tile without holes or overlaps.
//
// A [File] is one file whose header has been checked in full: what [Parse] and [OpenFile] return has no range outside
// the file, no byte that belongs to no tensor, no size that disagrees with its shape. Each rule of that law is a [Rule], and a
// file that breaks one is refused with a [*HeaderError] that carries it. A [Store] is a whole checkpoint: one file, or the shards of a
// model.safetensors.index.json, which is checked against the shards both ways.
//
// Files are memory-mapped: opening reads the header alone, [File.Bytes] is a view, and [Store.Release] gives a tensor's
// pages back, so that a 16 GB checkpoint passes through a few GB of memory.
//
//	store, err := safetensors.Open("SmolLM2-135M-Instruct")
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	embed, err := store.Float32s("model.embed_tokens.weight", nil) // [vocab, hidden], row-major
//
// Writing is [WriteFile]: tensors are streamed in the order given into a temporary file that takes the final name only when
// everything is on disk.
//
// The package stands at the bottom of the map: loader, loader/gguf and loader/decoder use it, and it uses none of them. Data are little-endian
// in the format; decoding works on any machine.
package safetensors
