package gguf

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/safetensors"
)

// write puts the built file into a temporary folder and returns its path and that of the folder to import into.
func write(t *testing.T, b *builder) (path, dir string) {
	t.Helper()
	root := t.TempDir()
	path = filepath.Join(root, "m.gguf")
	if err := os.WriteFile(path, b.bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, filepath.Join(root, "out")
}

// imported imports the built file and returns the folder and the parsed config.json.
func imported(t *testing.T, b *builder) (string, map[string]any) {
	t.Helper()
	path, dir := write(t, b)
	if _, err := Import(context.Background(), path, dir, ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	return dir, readJSON(t, filepath.Join(dir, "config.json"))
}

func readJSON(t *testing.T, path string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

func checkWeights(t *testing.T, dir string, want map[string][]float32) {
	t.Helper()
	f, err := safetensors.OpenFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := f.Names(); len(got) != len(want) {
		t.Errorf("got %d tensors, want %d", len(got), len(want))
	}
	for name, values := range want {
		raw, err := f.Bytes(name)
		if err != nil {
			t.Error(err)
			continue
		}
		for i, x := range values {
			bits := uint16(raw[2*i]) | uint16(raw[2*i+1])<<8
			if got := math.Float32frombits(uint32(bits) << 16); got != x {
				t.Errorf("%s: weight %d is %v, want %v", name, i, got, x)
				break
			}
		}
	}
}

// addBiases gives all parts of all layers a bias, q and k in llama.cpp's order.
func addBiases(b *builder, want map[string][]float32, m tinyLlama) {
	for l := range m.layers {
		layer := string(rune('0' + l))
		for i, p := range []struct {
			from, to string
			heads, n int
		}{{"attn_q", "self_attn.q_proj", m.heads, m.heads * m.headDim}, {"attn_k", "self_attn.k_proj", m.kvHeads, m.kvHeads * m.headDim},
			{"attn_v", "self_attn.v_proj", 0, m.kvHeads * m.headDim}, {"attn_output", "self_attn.o_proj", 0, m.hidden},
			{"ffn_gate", "mlp.gate_proj", 0, m.intermediate}, {"ffn_up", "mlp.up_proj", 0, m.intermediate},
			{"ffn_down", "mlp.down_proj", 0, m.hidden}} {
			values := ramp(p.n, 40+i+7*l)
			want["model.layers."+layer+"."+p.to+".bias"] = values
			b.add("blk."+layer+"."+p.from+".bias", F32, []int{p.n}, f32bytes(permuteLikeLlamaCpp(values, p.heads, p.n)))
		}
	}
}

// TestImportTiny imports a tied model without biases, and an untied one with biases and heads wider than hidden/heads.
func TestImportTiny(t *testing.T) {
	b, want := tinyBuilder(tinyShape())
	dir, config := imported(t, b)
	checkWeights(t, dir, want)
	for key, value := range map[string]any{"tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false, "rms_norm_eps": 1e-6,
		"rope_theta": 10000.0, "rope_scaling": nil, "num_key_value_heads": 2.0, "vocab_size": 100.0, "bos_token_id": 98.0, "eos_token_id": 99.0,
		"pad_token_id": nil, "max_position_embeddings": 512.0} {
		if got, ok := config[key]; !ok || got != value {
			t.Errorf("%s: got %v, want %v", key, got, value)
		}
	}
	if _, has := config["head_dim"]; has {
		t.Error("head_dim is given though it is hidden/heads")
	}
	if raw, _ := os.ReadFile(filepath.Join(dir, "config.json")); !strings.Contains(string(raw), `"rms_norm_eps": 1e-06,`) {
		t.Error("rms_norm_eps is not written as 1e-06")
	}

	m := tinyLlama{2, 32, 4, 1, 16, 32, 110}
	b, want = tinyBuilder(m)
	want["lm_head.weight"] = ramp(m.vocab*m.hidden, 99)
	b.add("output.weight", F32, []int{m.vocab, m.hidden}, f32bytes(want["lm_head.weight"]))
	b.set("llama.attention.key_length", uint32(16)).set("llama.attention.value_length", uint32(16))
	addBiases(b, want, m)
	dir, config = imported(t, b)
	checkWeights(t, dir, want)
	for key, value := range map[string]any{"tie_word_embeddings": false, "attention_bias": true, "mlp_bias": true, "head_dim": 16.0} {
		if config[key] != value {
			t.Errorf("%s: got %v, want %v", key, config[key], value)
		}
	}
}

// TestImportReport checks what the command will print, and that progress is told for every tensor.
func TestImportReport(t *testing.T) {
	b, want := tinyBuilder(tinyShape())
	path, dir := write(t, b)
	var seen []int
	r, err := Import(context.Background(), path, dir, ImportOptions{Progress: func(done, total int) { seen = append(seen, done, total) }})
	if err != nil {
		t.Fatal(err)
	}
	n := len(want)
	if r.Tensors != n || r.Types["F32"] != n || r.Name != "tiny" || r.PreTokenizer != "smollm" || r.Version != 3 || !r.Tied || r.Vocab != 100 {
		t.Errorf("got %+v", r)
	}
	if len(seen) != 2*n || seen[0] != 1 || seen[2*n-1] != n || seen[2*n-2] != n {
		t.Errorf("progress: got %v", seen)
	}
}

func llama3Factors(theta float64, headDim int, factor float64) []float32 {
	out := make([]float32, headDim/2)
	for i := range out { // llama.cpp's converter: float32 frequencies, then its own formula
		frequency := 1 / float32(math.Pow(theta, 2*float64(i)/float64(headDim)))
		wavelength := 2 * math.Pi / frequency
		switch {
		case wavelength < 8192.0/4:
			out[i] = 1
		case wavelength > 8192:
			out[i] = float32(factor)
		default:
			smooth := (8192/wavelength - 1) / 3
			out[i] = 1 / ((1-smooth)/float32(factor) + smooth)
		}
	}
	return out
}

func TestRopeScaling(t *testing.T) {
	m := tinyLlama{1, 32, 1, 1, 64, 32, 100}
	tests := []struct {
		name string
		edit func(b *builder)
		want map[string]any // nil: none
	}{
		{"type none", func(b *builder) {
			b.set("llama.rope.scaling.type", "none").set("llama.rope.scaling.factor", float32(4))
		}, nil},
		{"linear", func(b *builder) {
			b.set("llama.rope.scaling.type", "linear").set("llama.rope.scaling.factor", float32(2.5))
		}, map[string]any{"rope_type": "linear", "factor": 2.5}},
		{"factor alone", func(b *builder) { b.set("llama.rope.scale_linear", float32(4)) }, map[string]any{"rope_type": "linear", "factor": 4.0}},
		{"factor 1", func(b *builder) { b.set("llama.rope.scale_linear", float32(1)) }, nil},
		{"yarn", func(b *builder) {
			b.set("llama.rope.scaling.type", "yarn").set("llama.rope.scaling.factor", float32(8)).
				set("llama.rope.scaling.original_context_length", uint32(64)).set("llama.rope.scaling.finetuned", true)
		}, map[string]any{"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64.0}},
		{"llama3", func(b *builder) {
			b.set("llama.rope.freq_base", float32(500000)).add(ropeFreqs, F32, []int{32}, f32bytes(llama3Factors(500000, 64, 32)))
		}, map[string]any{"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
			"original_max_position_embeddings": 8192.0}},
		{"factors of 1", func(b *builder) { b.add(ropeFreqs, F32, []int{32}, f32bytes(llama3Factors(500000, 64, 1))) }, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, _ := tinyBuilder(m)
			test.edit(b)
			_, config := imported(t, b)
			got, _ := config["rope_scaling"].(map[string]any)
			if !maps.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

type refusal struct {
	name, want  string
	unsupported bool
	edit        func(b *builder)
}

// checkRefusals makes one file for everything that cannot be converted; no folder may appear.
func checkRefusals(t *testing.T, tests []refusal) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, _ := tinyBuilder(tinyShape())
			test.edit(b)
			refused(t, b, test.want, test.unsupported)
		})
	}
}

func TestImportRefusesMetadata(t *testing.T) {
	checkRefusals(t, []refusal{
		{"architecture", `general.architecture: got "mamba"`, true, func(b *builder) { b.set("general.architecture", "mamba") }},
		{"no architecture", "general.architecture: key is missing", false, func(b *builder) { b.unset("general.architecture") }},
		{"adapter", `general.type: got "adapter"`, true, func(b *builder) { b.set("general.type", "adapter") }},
		{"split", "split.count", true, func(b *builder) { b.set("split.count", uint16(2)) }},
		{"key not understood", "llama.expert_count: key is not understood: 8", true, func(b *builder) { b.set("llama.expert_count", uint32(8)) }},
		{"attention scale", "llama.attention.scale", true, func(b *builder) { b.set("llama.attention.scale", float32(0.5)) }},
		{"heads by layer", "llama.attention.head_count: got array of 2 uint32", true, func(b *builder) {
			b.set("llama.attention.head_count", []uint32{4, 4})
		}},
		{"no heads", "head_count: key is missing", false, func(b *builder) { b.unset("llama.attention.head_count") }},
		{"zero heads", "head_count: got 0", false, func(b *builder) { b.set("llama.attention.head_count", uint32(0)) }},
		{"kv heads", "head_count_kv: got 3", false, func(b *builder) { b.set("llama.attention.head_count_kv", uint32(3)) }},
		{"eps", "layer_norm_rms_epsilon: got NaN", false, func(b *builder) {
			b.set("llama.attention.layer_norm_rms_epsilon", float32(math.NaN()))
		}},
		{"partial rotation", "llama.rope.dimension_count: got 4", true, func(b *builder) {
			b.set("llama.attention.key_length", uint32(8)).set("llama.rope.dimension_count", uint32(4))
		}},
		{"vocabulary", "llama.vocab_size: got 90", false, func(b *builder) { b.set("llama.vocab_size", uint32(90)) }},
	})
}

func TestImportRefusesTensors(t *testing.T) {
	checkRefusals(t, []refusal{
		{"storage format", "blk.1.ffn_up.weight: got ggml type Q4_K", true, func(b *builder) {
			*b.find("blk.1.ffn_up.weight") = builtTensor{name: "blk.1.ffn_up.weight", kind: 12, shape: []int{8, 256}, data: make([]byte, 8*144)}
			// The shape check comes first, so the model must have that shape.
			b.set("llama.feed_forward_length", uint32(8)).set("llama.embedding_length", uint32(256))
			rebuild(b, tinyLlama{2, 256, 4, 2, 8, 8, 100})
		}},
		{"tensor not understood", "blk.0.attn_sinks.weight: tensor is not understood", true, func(b *builder) {
			b.add("blk.0.attn_sinks.weight", F32, []int{4}, make([]byte, 16))
		}},
		{"bias of a norm", "blk.0.attn_norm.bias: tensor is not understood", true, func(b *builder) {
			b.add("blk.0.attn_norm.bias", F32, []int{32}, make([]byte, 128))
		}},
		{"layer number", "blk.2.attn_norm.weight: layer 2, the file has 2", false, func(b *builder) {
			b.add("blk.2.attn_norm.weight", F32, []int{32}, make([]byte, 128))
		}},
		{"layer spelling", "blk.01.attn_norm.weight: tensor is not understood", true, func(b *builder) {
			b.add("blk.01.attn_norm.weight", F32, []int{32}, make([]byte, 128))
		}},
		{"tensor missing", "blk.1.attn_v.weight: tensor is missing", false, func(b *builder) { b.drop("blk.1.attn_v.weight") }},
		{"embedding missing", "token_embd.weight", false, func(b *builder) { b.drop("token_embd.weight") }},
		{"shape", "blk.0.attn_v.weight: got shape [32 16], want [16 32]", false, func(b *builder) {
			b.find("blk.0.attn_v.weight").shape = []int{32, 16}
		}},
		{"some biases", "blk.0.attn_q.bias: the file has this tensor but not blk.0.attn_k.bias", true, func(b *builder) {
			b.add("blk.0.attn_q.bias", F32, []int{32}, make([]byte, 128))
		}},
	})
}

func TestImportRefusesScaling(t *testing.T) {
	checkRefusals(t, []refusal{
		{"scaling type", `llama.rope.scaling.type: got "longrope"`, true, func(b *builder) { b.set("llama.rope.scaling.type", "longrope") }},
		{"yarn parameter", "llama.rope.scaling.yarn_beta_fast", true, func(b *builder) { b.set("llama.rope.scaling.yarn_beta_fast", float32(16)) }},
		{"factors", "rope_freqs.weight: factor 0 is 2: these are not llama3", true, func(b *builder) {
			b.add(ropeFreqs, F32, []int{4}, f32bytes([]float32{2, 4, 6, 8}))
		}},
		{"factor NaN", "rope_freqs.weight: factor 0 is NaN", true, func(b *builder) {
			b.add(ropeFreqs, F32, []int{4}, f32bytes([]float32{float32(math.NaN()), 1, 1, 1}))
		}},
		{"factor count", "rope_freqs.weight: got 3 factors, want 4", false, func(b *builder) {
			b.add(ropeFreqs, F32, []int{3}, f32bytes([]float32{1, 1, 1}))
		}},
		{"factors nearly llama3's", "rope_freqs.weight: factor 21", true, func(b *builder) {
			m := tinyLlama{1, 32, 1, 1, 64, 32, 100}
			rebuild(b, m)
			b.set("llama.block_count", uint32(1)).set("llama.attention.head_count", uint32(1)).set("llama.rope.freq_base", float32(10000)).
				set("llama.attention.head_count_kv", uint32(1)).set("llama.rope.dimension_count", uint32(64)).
				set("llama.feed_forward_length", uint32(32))
			factors := llama3Factors(10000, 64, 8)
			factors[21] *= 1.0001
			b.add(ropeFreqs, F32, []int{32}, f32bytes(factors))
		}},
	})
}

// rebuild replaces all tensors but those that are not F32 by a model of that shape.
func rebuild(b *builder, m tinyLlama) {
	fresh, _ := tinyBuilder(m)
	for _, t := range b.tensors {
		if t.kind != F32 {
			*fresh.find(t.name) = t
		}
	}
	b.tensors = fresh.tensors
}

// refused checks the error of an import, and that it leaves nothing behind.
func refused(t *testing.T, b *builder, want string, isUnsupported bool) {
	t.Helper()
	path, dir := write(t, b)
	_, err := Import(context.Background(), path, dir, ImportOptions{})
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got error %v, want one that names the file and says %q", err, want)
	}
	if u := (*UnsupportedError)(nil); errors.As(err, &u) != isUnsupported {
		t.Errorf("%v: is an UnsupportedError: %v, want %v", err, !isUnsupported, isUnsupported)
	}
	onlyLeft(t, filepath.Dir(path), "m.gguf")
}

// onlyLeft checks what a folder holds.
func onlyLeft(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, names) {
		t.Errorf("%s holds %v, want %v", dir, got, names)
	}
}

// TestImportTarget checks what happens with a folder that is there, and with an import that is broken off.
func TestImportTarget(t *testing.T) {
	b, _ := tinyBuilder(tinyShape())
	path, dir := write(t, b)
	run := func(ctx context.Context, dir string, o ImportOptions) error {
		_, err := Import(ctx, path, dir, o)
		return err
	}
	background := context.Background()
	ctx, cancel := context.WithCancel(background)
	err := run(ctx, dir, ImportOptions{Progress: func(done, _ int) {
		if done == 5 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("broken off: got %v", err)
	}
	onlyLeft(t, filepath.Dir(path), "m.gguf")

	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := run(background, dir, ImportOptions{}); err != nil {
		t.Fatalf("into an empty folder: %v", err)
	}
	four := []string{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
	onlyLeft(t, dir, four...)
	onlyLeft(t, filepath.Dir(path), "m.gguf", "out")
	if st, _ := os.Stat(dir); st.Mode().Perm() != 0o750 {
		t.Errorf("got mode %v, want that of the empty folder", st.Mode())
	}
	if err := run(background, dir, ImportOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("into a full folder: got %v", err)
	}
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(background)
	cancel()
	if err := run(ctx, dir, ImportOptions{Overwrite: true}); err == nil {
		t.Error("cancelled: no error")
	}
	if raw, _ := os.ReadFile(config); string(raw) != "old" {
		t.Error("a failed import has touched the folder that was there")
	}
	link := filepath.Join(filepath.Dir(path), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := run(background, link, ImportOptions{Overwrite: true}); err != nil {
		t.Fatalf("overwriting an earlier import through a link: %v", err)
	}
	if raw, _ := os.ReadFile(config); !strings.Contains(string(raw), "LlamaForCausalLM") {
		t.Error("config.json was not overwritten")
	}
	onlyLeft(t, filepath.Dir(path), "link", "m.gguf", "out")
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(background, dir, ImportOptions{Overwrite: true}); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("overwriting a folder with a foreign file: got %v", err)
	}
	if err := run(background, filepath.Join(dir, "config.json"), ImportOptions{Overwrite: true}); err == nil {
		t.Error("a file as the folder: no error")
	}
	if err := run(background, "", ImportOptions{}); err == nil {
		t.Error("no folder: no error")
	}
}
