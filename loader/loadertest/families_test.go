package loadertest_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/safetensors"
)

type keys = map[string]any

var longrope = keys{
	"type":         "longrope",
	"short_factor": []float64{1, 1, 1.1, 1.2, 1.4, 1.5, 1.8, 2}, "long_factor": []float64{1, 1.3, 1.9, 2.7, 3.3, 3.9, 4.4, 5},
}

var biased = keys{"attention_bias": true}

// changes are, by family, configs that have to give other numbers than the family's usual one. They are read and computed, or the change
// would not show.
var changes = map[string]map[string]keys{
	"LlamaForCausalLM": {
		"dynamic": {"max_position_embeddings": 8, "rope_scaling": keys{"type": "dynamic", "factor": 2.0}}, "theta": {"rope_theta": 50.0},
		"linear": {"rope_scaling": keys{"rope_type": "linear", "factor": 3.0}}, "bias": {"attention_bias": true, "mlp_bias": true},
	},
	"MistralForCausalLM": {"window": {"sliding_window": nil}, "narrower": {"sliding_window": 7}},
	"Qwen2ForCausalLM":   {"window": {"use_sliding_window": true}, "theta": {"rope_theta": 50.0}},
	"Qwen3ForCausalLM":   {"eps": {"rms_norm_eps": 0.1}, "bias": biased, "window": {"use_sliding_window": true, "sliding_window": 8}},
	"OlmoForCausalLM":    {"clip": {"clip_qkv": nil}, "bias": biased},
	"Olmo2ForCausalLM":   {"eps": {"rms_norm_eps": 0.1}, "bias": biased},
	"Olmo3ForCausalLM":   {"yarn": {"rope_scaling": nil}, "layers": {"layer_types": []string{"full_attention", "full_attention"}}},
	"GemmaForCausalLM":   {"activation": {"hidden_act": "silu"}, "untied": {"tie_word_embeddings": false}, "bias": biased},
	"Gemma2ForCausalLM": {
		"scores": {"attn_logit_softcapping": 1.5}, "logits": {"final_logit_softcapping": 3.5}, "scale": {"query_pre_attn_scalar": 16},
		"window": {"sliding_window": 7, "sliding_window_size": 7},
	},
	"Gemma3ForCausalLM": {
		"local": {"rope_local_base_freq": 50.0}, "global": {"rope_theta": 50.0}, "pattern": {"sliding_window_pattern": 3},
		"linear": {"rope_scaling": keys{"rope_type": "linear", "factor": 8.0}}, "cap": {"final_logit_softcapping": 2.5},
	},
	"Gemma3ForConditionalGeneration": {"local": {"rope_local_base_freq": 50.0}},
	"Phi3ForCausalLM": {
		"longrope": {"rope_scaling": longrope, "original_max_position_embeddings": 64},
		"long":     {"rope_scaling": longrope, "original_max_position_embeddings": 8},
		"part":     {"partial_rotary_factor": 0.75}, "window": {"sliding_window": 8},
	},
	"StableLmForCausalLM": {
		"parallel": {"use_parallel_residual": true}, "head norms": {"qk_layernorm": true}, "part": {"partial_rotary_factor": 0.5},
		"bias": {"use_qkv_bias": false},
	},
	"GPTNeoXForCausalLM": {
		"sequential": {"use_parallel_residual": false}, "part": {"rotary_pct": 0.5}, "base": {"rotary_emb_base": 50.0},
		"bias": {"attention_bias": false},
	},
	"SmolLM3ForCausalLM": {
		"rotation": {"no_rope_layer_interval": 3}, "window": {"use_sliding_window": true, "sliding_window": 8},
		"bias": {"attention_bias": true, "mlp_bias": true},
	},
	"GraniteForCausalLM": {
		"scores": {"attention_multiplier": 0.25}, "embedding": {"embedding_multiplier": 1.5}, "residual": {"residual_multiplier": 0.9},
		"logits": {"logits_scaling": 1.2}, "bias": {"attention_bias": true, "mlp_bias": true},
	},
	"CohereForCausalLM": {"logits": {"logit_scale": 0.25}, "head norms": {"use_qk_norm": true}, "bias": biased},
	"GlmForCausalLM":    {"part": {"partial_rotary_factor": 1.0}},
	"Glm4ForCausalLM":   {"part": {"partial_rotary_factor": 1.0}, "bias": {"attention_bias": false}},
}

func family(name string, config keys) loadertest.Options {
	o := loadertest.Options{Family: name, KVHeads: 2, Seed: 11, Config: config}
	if name == "GPTNeoXForCausalLM" {
		o.KVHeads = 0
	}
	return o
}

// prompt is longer than every window, and repeats a token.
var prompt = []int32{7, 19, 3, 42, 7, 19, 55, 0, 63, 11, 30, 7, 28, 60}

// example is a checkpoint of a family and what the reference computes for the prompt.
type example struct {
	o     loadertest.Options
	c     *loader.Checkpoint
	plain *loadertest.Trace
}

// TestFamilies writes each family as it is usually configured, and in each change, and holds every law on it. The logits are those that
// transformers computes from the same files, which so are files that it reads: it finds every tensor and no other.
func TestFamilies(t *testing.T) {
	golden, err := safetensors.Open("testdata/families.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	withGolden := 0
	for _, name := range loader.Architectures() {
		var usual [][]float64
		for _, change := range append([]string{"usual"}, slices.Sorted(maps.Keys(changes[name]))...) {
			id := strings.TrimSuffix(name, "ForCausalLM") + "/" + strings.ReplaceAll(change, " ", "_")
			if name != withVision {
				withGolden++
			}
			t.Run(id, func(t *testing.T) {
				e := example{o: family(name, changes[name][change])}
				e.c = openIn(t, *checkpoints, id, e.o)
				e.plain = forward(t, e.c, prompt, loadertest.Gains{})
				if change == "usual" {
					usual = e.plain.Logits
				} else if d := largest(usual, e.plain.Logits); usual != nil && d < 1e-3 { // nil: -run leaves it out
					t.Errorf("it changes the logits by %.1e only", d)
				}
				for law, holds := range laws {
					t.Run(law, func(t *testing.T) { holds(t, e) })
				}
				if name != withVision && *checkpoints == "" {
					parityCase{arrays: golden}.compare(t, id, tolState, e.plain.Logits[len(prompt)-1])
				}
			})
		}
	}
	if *checkpoints == "" && withGolden != len(golden.Names()) {
		t.Errorf("there are %d families and changes, and %d in the golden file", withGolden, len(golden.Names()))
	}
}

// withVision is Gemma3ForCausalLM under other names; transformers asks for the vision model as well.
const withVision = "Gemma3ForConditionalGeneration"

var checkpoints = flag.String("checkpoints", "", "keep what TestFamilies writes in this folder, for testdata/make/make_families.py")

// openIn writes a checkpoint below root, or to a folder that goes with the test, and opens it.
func openIn(t *testing.T, root, name string, o loadertest.Options) *loader.Checkpoint {
	t.Helper()
	if root == "" {
		return loadertest.Open(t, o)
	}
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := loadertest.Write(dir, o); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

func TestWriteRefusesWhatAFamilyLacks(t *testing.T) {
	for _, o := range []loadertest.Options{
		{Family: "LlamaModel"}, {Family: "MistralForCausalLM", AttentionBias: true}, {Family: "Qwen2ForCausalLM", MLPBias: true},
		{Family: "GPTNeoXForCausalLM", KVHeads: 2}, {Family: "CohereForCausalLM", Llama3: true}, {Family: "StableLmForCausalLM", HeadDim: 16, Hidden: 32},
		{Family: "GemmaForCausalLM", Tied: true, Config: keys{"tie_word_embeddings": false}}, {Config: keys{"colour": "red"}},
	} {
		if err := loadertest.Write(t.TempDir(), o); err == nil {
			t.Errorf("%+v: written", o)
		}
	}
}

// Every switch of the spec is on in some family or change here, so that the laws above hold for all of them.
func TestLawsCoverTheSpec(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range loader.Architectures() {
		configs := []keys{nil}
		for _, config := range changes[name] {
			configs = append(configs, config)
		}
		for _, config := range configs {
			s := loadertest.Open(t, family(name, config)).Spec
			for switches, on := range map[string]bool{
				"norm " + string(s.Norm): true, "query norm " + string(s.QKNorm): true, "order " + string(s.Parallel): true,
				"activation " + string(s.Activation): true, fmt.Sprint("gated ", s.Gated): true, fmt.Sprint("tied ", s.Tied): true,
				fmt.Sprint("norms ", s.Norms): true, "clip": s.QKVClip > 0, "score cap": s.ScoreCap > 0, "logit cap": s.LogitCap > 0,
				"embed scale": s.EmbedScale != 1, "residual scale": s.ResidualScale != 1, "logit scale": s.LogitScale != 1,
				"logit divide": s.LogitDivide != 1, "tables": len(s.Tables) > 1, "interleaved": s.Interleaved,
				"partial": 2*planesOf(&s) < s.HeadDim, "window": s.Kinds[0].Window > 0, "unrotated": s.Kinds[1].Table == loader.Unrotated,
				"fused": len(s.Params.Layer(0).Q.Views) == 1 && s.Params.Layer(0).Q.Views[0].Times > 0,
			} {
				seen[switches] = seen[switches] || on
			}
		}
	}
	for _, want := range []string{
		"norm rms", "norm rms_float", "norm rms_offset", "norm layer", "norm layer_plain", "query norm ", "query norm shared",
		"query norm per_head", "query norm full", "order ", "order residual_first", "order branches_first", "activation silu",
		"activation gelu", "activation gelu_tanh", "gated true", "gated false", "tied true", "tied false",
	} {
		if !seen[want] {
			t.Errorf("%q: in no family", want)
		}
	}
	for switches, on := range seen {
		if !on {
			t.Errorf("%q: in no family", switches)
		}
	}
}
