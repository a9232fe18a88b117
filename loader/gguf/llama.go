package gguf

import (
	"fmt"
	"math"
	"strings"
)

// llama holds what a file of architecture "llama" says about its model, checked for consistency.
type llama struct {
	layers, context, hidden, intermediate int
	heads, kvHeads, headDim, vocab        int

	eps     float64
	theta   float64
	scaling *ropeScaling // nil: none
}

// keys reads metadata and keeps the first error, so that a reader can ask for many keys in a row.
type keys struct {
	f   *File
	err error
}

func (k *keys) fail(key string, err error) {
	if k.err == nil {
		k.err = fmt.Errorf("%s: %w", key, err)
	}
}

// count reads a positive integer; def stands for a missing key, 0 meaning that it is required.
func (k *keys) count(key string, def int) int {
	v, ok := k.f.values[key]
	if !ok {
		if def == 0 {
			k.fail(key, fmt.Errorf("key is missing"))
		}
		return def
	}
	n, err := v.Int()
	switch {
	case err != nil && v.Type == Array:
		k.fail(key, unsupported("got %v, want one integer for all layers", v))
	case err != nil:
		k.fail(key, err)
	case n <= 0 || n > math.MaxInt32:
		k.fail(key, fmt.Errorf("got %d, want a positive 32-bit count", n))
	}
	return int(n)
}

// decimal reads a positive finite float; def stands for a missing key, 0 meaning that it is required.
func (k *keys) decimal(key string, def float64) float64 {
	v, ok := k.f.values[key]
	if !ok {
		if def == 0 {
			k.fail(key, fmt.Errorf("key is missing"))
		}
		return def
	}
	x, err := v.Decimal()
	if err != nil {
		k.fail(key, err)
	} else if !(x > 0) || math.IsInf(x, 0) {
		k.fail(key, fmt.Errorf("got %v, want a positive number", x))
	}
	return x
}

// text reads a string; def stands for a missing key.
func (k *keys) text(key, def string) string {
	v, ok := k.f.values[key]
	if !ok {
		return def
	}
	s, err := v.Text()
	if err != nil {
		k.fail(key, err)
	}
	return s
}

// flag reads a bool; def stands for a missing key.
func (k *keys) flag(key string, def bool) bool {
	v, ok := k.f.values[key]
	if !ok {
		return def
	}
	b, err := v.Bool()
	if err != nil {
		k.fail(key, err)
	}
	return b
}

// readLlama reads the llama.* metadata. Missing keys take the values that llama.cpp's loader gives them.
func readLlama(f *File) (*llama, error) {
	if err := checkKind(f); err != nil {
		return nil, err
	}
	for _, key := range f.keys {
		if name, ok := strings.CutPrefix(key, "llama."); ok {
			if err := checkLlamaKey(name, f.values[key]); err != nil {
				return nil, err
			}
		}
	}
	k := &keys{f: f}
	m := &llama{
		layers:       k.count("llama.block_count", 0),
		context:      k.count("llama.context_length", 0),
		hidden:       k.count("llama.embedding_length", 0),
		intermediate: k.count("llama.feed_forward_length", 0),
		heads:        k.count("llama.attention.head_count", 0),
		eps:          k.decimal("llama.attention.layer_norm_rms_epsilon", 0),
		theta:        k.decimal("llama.rope.freq_base", 10000),
	}
	if k.err != nil {
		return nil, k.err
	}
	m.kvHeads = k.count("llama.attention.head_count_kv", m.heads)
	m.readHeadDim(k)
	if k.err != nil {
		return nil, k.err
	}
	if m.heads%m.kvHeads != 0 {
		return nil, fmt.Errorf("llama.attention.head_count_kv: got %d, want a divisor of the %d query heads", m.kvHeads, m.heads)
	}
	embed, ok := f.Tensor("token_embd.weight")
	if !ok || len(embed.Shape) != 2 {
		return nil, fmt.Errorf("token_embd.weight: got shape %v, want a matrix", embed.Shape)
	}
	m.vocab = k.count("llama.vocab_size", embed.Shape[0])
	if k.err == nil && m.vocab != embed.Shape[0] {
		return nil, fmt.Errorf("llama.vocab_size: got %d, token_embd.weight has %d rows", m.vocab, embed.Shape[0])
	}
	if k.err != nil {
		return nil, k.err
	}
	var err error
	m.scaling, err = readScaling(f, m)
	return m, err
}

// readHeadDim finds the width of a head and refuses heads of which only a part is rotated: LlamaForCausalLM has none.
func (m *llama) readHeadDim(k *keys) {
	const keyLength, valueLength, rotated = "llama.attention.key_length", "llama.attention.value_length", "llama.rope.dimension_count"
	def := k.count(rotated, m.hidden/m.heads)
	m.headDim = k.count(keyLength, def)
	if k.err != nil {
		return
	}
	if m.headDim%2 != 0 {
		k.fail(keyLength, fmt.Errorf("got heads of %d dimensions, want an even number", m.headDim))
	}
	if n := k.count(valueLength, m.headDim); n != m.headDim {
		k.fail(valueLength, unsupported("got %d, want %d as for keys", n, m.headDim))
	}
	if n := k.count(rotated, m.headDim); n != m.headDim {
		k.fail(rotated, unsupported("got %d, want all %d dimensions of a head", n, m.headDim))
	}
}

// checkKind refuses what is not a whole llama model in one file.
func checkKind(f *File) error {
	k := &keys{f: f}
	arch := k.text("general.architecture", "")
	kind := k.text("general.type", "model")
	if k.err != nil {
		return k.err
	}
	switch {
	case arch == "":
		return fmt.Errorf("general.architecture: key is missing")
	case arch != "llama":
		return fmt.Errorf("general.architecture: %w", unsupported("got %q, want \"llama\"", arch))
	case kind != "model":
		return fmt.Errorf("general.type: %w", unsupported("got %q, want \"model\"", kind))
	}
	if v, ok := f.values["split.count"]; ok {
		if n, err := v.Int(); err != nil || n > 1 {
			return fmt.Errorf("split.count: %w", unsupported("got %v: this is one part of a split model, merge the parts first", v))
		}
	}
	return nil
}

// checkLlamaKey accepts the keys that are read, those that change no number, and the others only at the value that means "not in
// use". name is without "llama.".
func checkLlamaKey(name string, v Value) error {
	neutral := false
	switch name {
	case "block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size", "attention.head_count",
		"attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
		"rope.freq_base", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor", "rope.scale_linear",
		"rope.scaling.original_context_length", "rope.scaling.finetuned":
		return nil
	case "expert_count", "expert_used_count":
		n, err := v.Int()
		neutral = err == nil && n == 0
	case "attention.causal":
		neutral = v.Type == Bool && v.bits == 1
	case "use_parallel_residual":
		neutral = v.Type == Bool && v.bits == 0
	case "rope.scaling.attn_factor":
		x, err := v.Decimal()
		neutral = err == nil && x == 1
	case "tensor_data_layout": // the row order that llama.cpp's converters give q and k
		neutral = v.text == "Meta AI original pth"
	}
	if !neutral {
		return fmt.Errorf("llama.%s: %w", name, unsupported("key is not understood: %v", v))
	}
	return nil
}
