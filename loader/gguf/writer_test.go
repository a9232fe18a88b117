package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// builder writes GGUF files for tests, right ones and wrong ones.
type builder struct {
	version uint32
	align   int
	pairs   [][]byte
	tensors []builtTensor
}

type builtTensor struct {
	name  string
	kind  TensorType
	shape []int // row-major
	data  []byte
	dims  []uint64 // overrides shape
	at    *uint64  // overrides the offset
}

func newBuilder() *builder { return &builder{version: 3, align: 32} }

func str(s string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...)
}

func le(v any) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// encodeValue returns type number and bytes of a metadata value.
func encodeValue(v any) (ValueType, []byte) {
	array := func(elem ValueType, n int, body []byte) (ValueType, []byte) {
		return Array, append(append(le(uint32(elem)), le(uint64(n))...), body...)
	}
	switch v := v.(type) {
	case uint8:
		return Uint8, le(v)
	case int8:
		return Int8, le(v)
	case uint16:
		return Uint16, le(v)
	case int16:
		return Int16, le(v)
	case uint32:
		return Uint32, le(v)
	case int32:
		return Int32, le(v)
	case uint64:
		return Uint64, le(v)
	case int64:
		return Int64, le(v)
	case float32:
		return Float32, le(v)
	case float64:
		return Float64, le(v)
	case bool:
		return Bool, le(v)
	case string:
		return String, str(v)
	case []string:
		var body []byte
		for _, s := range v {
			body = append(body, str(s)...)
		}
		return array(String, len(v), body)
	case []int32:
		return array(Int32, len(v), le(v))
	case []uint32:
		return array(Uint32, len(v), le(v))
	case [][]int32:
		var body []byte
		for _, inner := range v {
			_, b := encodeValue(inner)
			body = append(body, b...)
		}
		return array(Array, len(v), body)
	}
	panic("no GGUF form")
}

func (b *builder) set(key string, v any) *builder {
	t, body := encodeValue(v)
	return b.raw(key, t, body)
}

// raw adds or, for a key that is there, replaces a pair.
func (b *builder) raw(key string, t ValueType, body []byte) *builder {
	pair := append(append(str(key), le(uint32(t))...), body...)
	for i, p := range b.pairs {
		if bytes.HasPrefix(p, str(key)) {
			b.pairs[i] = pair
			return b
		}
	}
	b.pairs = append(b.pairs, pair)
	return b
}

func (b *builder) unset(key string) *builder {
	for i, p := range b.pairs {
		if bytes.HasPrefix(p, str(key)) {
			b.pairs = append(b.pairs[:i:i], b.pairs[i+1:]...)
			return b
		}
	}
	panic("no key " + key)
}

func (b *builder) add(name string, kind TensorType, shape []int, data []byte) *builder {
	b.tensors = append(b.tensors, builtTensor{name: name, kind: kind, shape: shape, data: data})
	return b
}

func (b *builder) find(name string) *builtTensor {
	for i := range b.tensors {
		if b.tensors[i].name == name {
			return &b.tensors[i]
		}
	}
	panic("no tensor " + name)
}

func (b *builder) drop(name string) *builder {
	for i := range b.tensors {
		if b.tensors[i].name == name {
			b.tensors = append(b.tensors[:i:i], b.tensors[i+1:]...)
			return b
		}
	}
	panic("no tensor " + name)
}

func (b *builder) bytes() []byte {
	out := []byte("GGUF")
	out = append(out, le(b.version)...)
	out = append(out, le(uint64(len(b.tensors)))...)
	out = append(out, le(uint64(len(b.pairs)))...)
	for _, p := range b.pairs {
		out = append(out, p...)
	}
	pad := func(x []byte) []byte { return append(x, make([]byte, (b.align-len(x)%b.align)%b.align)...) }
	var data []byte
	for _, t := range b.tensors {
		data = pad(data)
		dims := t.dims
		if dims == nil {
			for i := len(t.shape) - 1; i >= 0; i-- {
				dims = append(dims, uint64(t.shape[i]))
			}
		}
		at := uint64(len(data))
		if t.at != nil {
			at = *t.at
		}
		out = append(out, str(t.name)...)
		out = append(out, le(uint32(len(dims)))...)
		out = append(out, le(dims)...)
		out = append(out, le(uint32(t.kind))...)
		out = append(out, le(at)...)
		data = append(data, t.data...)
	}
	return append(pad(out), data...)
}

func (b *builder) open(t testing.TB) *File {
	t.Helper()
	raw := b.bytes()
	f, err := NewFile("test.gguf", bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func f32bytes(values []float32) []byte {
	var out []byte
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

// ramp returns n small integers that bfloat16 holds exactly, different for neighbouring seeds.
func ramp(n, seed int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32((i*7+seed*13)%251 - 125)
	}
	return out
}

// byteTokens are a byte-level vocabulary with two special tokens at its end, and its merges.
func byteTokens() (tokens []string, kinds []int32, merges []string) {
	for c := '!'; c <= '~'; c++ {
		tokens = append(tokens, string(c))
	}
	tokens = append(tokens, "Ġ", "Ċ", "Ġa", "Ġab", "<|start|>", "<|end|>")
	kinds = make([]int32, len(tokens))
	for i := range kinds {
		kinds[i] = 1
	}
	kinds[len(kinds)-2], kinds[len(kinds)-1] = tokenControl, tokenUserDefined
	return tokens, kinds, []string{"Ġ a", "Ġa b"}
}

// tinyLlama describes the model that tinyBuilder writes.
type tinyLlama struct{ layers, hidden, heads, kvHeads, headDim, intermediate, vocab int }

func tinyShape() tinyLlama { return tinyLlama{2, 32, 4, 2, 8, 64, 100} }

// tinyBuilder writes a small llama-type model in F32, and returns the tensors of the checkpoint that it must become. q and k are
// permuted here by llama.cpp's own formula: reshape (heads, 2, headDim/2, cols), swap the middle axes.
func tinyBuilder(m tinyLlama) (*builder, map[string][]float32) {
	b, want := newBuilder(), map[string][]float32{}
	tokens, kinds, merges := byteTokens()
	b.set("general.architecture", "llama").set("general.name", "tiny").set("llama.block_count", uint32(m.layers)).
		set("llama.context_length", uint32(512)).set("llama.embedding_length", uint32(m.hidden)).
		set("llama.feed_forward_length", uint32(m.intermediate)).set("llama.attention.head_count", uint32(m.heads)).
		set("llama.attention.head_count_kv", uint32(m.kvHeads)).set("llama.rope.freq_base", float32(10000)).
		set("llama.attention.layer_norm_rms_epsilon", float32(1e-6)).set("llama.rope.dimension_count", uint32(m.headDim)).
		set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "smollm").set("tokenizer.ggml.tokens", tokens).
		set("tokenizer.ggml.token_type", kinds).set("tokenizer.ggml.merges", merges).
		set("tokenizer.ggml.bos_token_id", uint32(len(tokens)-2)).set("tokenizer.ggml.eos_token_id", uint32(len(tokens)-1))
	seed := 0
	add := func(from, to string, heads int, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		seed++
		values := ramp(n, seed)
		want[to] = values
		b.add(from, F32, shape, f32bytes(permuteLikeLlamaCpp(values, heads, shape[0])))
	}
	add("token_embd.weight", "model.embed_tokens.weight", 0, m.vocab, m.hidden)
	add("output_norm.weight", "model.norm.weight", 0, m.hidden)
	for l := range m.layers {
		from, to := "blk."+string(rune('0'+l))+".", "model.layers."+string(rune('0'+l))+"."
		add(from+"attn_norm.weight", to+"input_layernorm.weight", 0, m.hidden)
		add(from+"attn_q.weight", to+"self_attn.q_proj.weight", m.heads, m.heads*m.headDim, m.hidden)
		add(from+"attn_k.weight", to+"self_attn.k_proj.weight", m.kvHeads, m.kvHeads*m.headDim, m.hidden)
		add(from+"attn_v.weight", to+"self_attn.v_proj.weight", 0, m.kvHeads*m.headDim, m.hidden)
		add(from+"attn_output.weight", to+"self_attn.o_proj.weight", 0, m.hidden, m.heads*m.headDim)
		add(from+"ffn_norm.weight", to+"post_attention_layernorm.weight", 0, m.hidden)
		add(from+"ffn_gate.weight", to+"mlp.gate_proj.weight", 0, m.intermediate, m.hidden)
		add(from+"ffn_up.weight", to+"mlp.up_proj.weight", 0, m.intermediate, m.hidden)
		add(from+"ffn_down.weight", to+"mlp.down_proj.weight", 0, m.hidden, m.intermediate)
	}
	return b, want
}

// permuteLikeLlamaCpp takes rows from rotate_half order to the order of a GGUF file; heads 0 changes nothing.
func permuteLikeLlamaCpp(values []float32, heads, rows int) []float32 {
	if heads == 0 {
		return values
	}
	cols, half := len(values)/rows, rows/heads/2
	var out []float32
	for h := range heads {
		for i := range half {
			for member := range 2 {
				row := h*2*half + member*half + i
				out = append(out, values[row*cols:(row+1)*cols]...)
			}
		}
	}
	return out
}
