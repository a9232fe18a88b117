package loadertest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/safetensors"
)

// Options describe a checkpoint of the Llama family. Zero sizes take the defaults in brackets.
type Options struct {
	Layers       int // [2]
	Heads        int // [4]
	KVHeads      int // [Heads]
	HeadDim      int // [16]; need not be Hidden/Heads
	Hidden       int // [32]
	Intermediate int // [48]
	Vocab        int // [64]
	MaxPositions int // [512]

	AttentionBias, MLPBias, Tied bool

	Theta  float64 // [10000]
	Llama3 bool    // llama3 frequencies: factor 8 over MaxPositions/8, all three bands present at the default sizes

	BFloat16 bool // stored dtype, else float32
	Seed     uint64
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		to  *int
		def int
	}{
		{&o.Layers, 2}, {&o.Heads, 4}, {&o.HeadDim, 16}, {&o.Hidden, 32}, {&o.Intermediate, 48}, {&o.Vocab, 64}, {&o.MaxPositions, 512},
	} {
		if *d.to == 0 {
			*d.to = d.def
		}
	}
	if o.KVHeads == 0 {
		o.KVHeads = o.Heads
	}
	if o.Theta == 0 {
		o.Theta = 10000
	}
	return o
}

// Open writes a checkpoint to a folder that goes with the test and opens it; it is closed at the test's end.
func Open(t testing.TB, o Options) *loader.Checkpoint {
	t.Helper()
	dir := t.TempDir()
	if err := Write(dir, o); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

func open(t testing.TB, dir string) *loader.Checkpoint {
	t.Helper()
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Write writes config.json and model.safetensors into dir. Each tensor is drawn from the seed and its own name, so that two
// checkpoints that differ in one option share all other tensors. The spreads keep attention away from both uniform and one-hot (scores
// of deviation about 2) and the logits apart.
func Write(dir string, o Options) error {
	o = o.withDefaults()
	text, err := json.MarshalIndent(o.config(), "", "  ")
	if err != nil {
		return err
	}
	spec, err := loader.ParseConfig(text, nil)
	if err != nil {
		return fmt.Errorf("loadertest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644); err != nil {
		return err
	}
	return safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), o.entries(&spec), map[string]string{"format": "pt"})
}

func (o Options) config() map[string]any {
	c := map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama",
		"num_hidden_layers": o.Layers, "num_attention_heads": o.Heads, "num_key_value_heads": o.KVHeads, "head_dim": o.HeadDim,
		"hidden_size": o.Hidden, "intermediate_size": o.Intermediate, "vocab_size": o.Vocab, "max_position_embeddings": o.MaxPositions,
		"rms_norm_eps": 1e-5, "hidden_act": "silu", "attention_bias": o.AttentionBias, "mlp_bias": o.MLPBias,
		"tie_word_embeddings": o.Tied, "rope_theta": o.Theta, "bos_token_id": 1, "eos_token_id": 2,
	}
	if o.Llama3 {
		c["rope_scaling"] = map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
			"original_max_position_embeddings": o.MaxPositions / 8}
	}
	return c
}

func (o Options) entries(s *loader.Spec) []safetensors.Entry {
	const score = 1.4 // deviation of a query or key element; scores get its square
	fan := func(n int) float64 { return 1 / math.Sqrt(float64(n)) }
	var out []safetensors.Entry
	draw := func(p loader.Param, mean, deviation float64) {
		if p.Has() {
			out = append(out, o.entry(p.Views[0].Tensor, mean, deviation, p.Shape))
		}
	}
	head := 2.5 * fan(s.Hidden)
	if s.Tied {
		draw(s.Params.Embed, 0, head)
	} else {
		draw(s.Params.Embed, 0, 1)
		draw(s.Params.Head, 0, head)
	}
	draw(s.Params.FinalNorm, 1, 0.1)
	for l := range s.Layers {
		n := s.Params.Layer(l)
		draw(n.PreAttn, 1, 0.1)
		draw(n.Q, 0, score*fan(s.Hidden))
		draw(n.K, 0, score*fan(s.Hidden))
		draw(n.V, 0, fan(s.Hidden))
		draw(n.O, 0, fan(s.Heads*s.HeadDim))
		draw(n.QBias, 0, 0.3)
		draw(n.KBias, 0, 0.3)
		draw(n.VBias, 0, 0.3)
		draw(n.OBias, 0, 0.3)
		draw(n.PreMLP, 1, 0.1)
		draw(n.Gate, 0, fan(s.Hidden))
		draw(n.Up, 0, fan(s.Hidden))
		draw(n.Down, 0, 2*fan(s.Intermediate))
		draw(n.GateBias, 0, 0.3)
		draw(n.UpBias, 0, 0.3)
		draw(n.DownBias, 0, 0.3)
	}
	return out
}

func (o Options) entry(name string, mean, deviation float64, shape []int) safetensors.Entry {
	stream := fnv.New64a()
	stream.Write([]byte(name))
	rng := rand.New(rand.NewPCG(o.Seed, stream.Sum64()))
	n := 1
	for _, d := range shape {
		n *= d
	}
	dtype, data := safetensors.F32, make([]byte, 0, 4*n)
	if o.BFloat16 {
		dtype = safetensors.BF16
	}
	for range n {
		v := float32(mean + deviation*rng.NormFloat64())
		if o.BFloat16 {
			data = binary.LittleEndian.AppendUint16(data, safetensors.BF16FromFloat32(v))
		} else {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
	}
	return safetensors.Entry{Name: name, DType: dtype, Shape: shape, Write: safetensors.Bytes(data)}
}
