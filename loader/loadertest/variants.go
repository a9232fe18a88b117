package loadertest

import (
	"maps"
	"slices"
	"strings"

	"github.com/headscope/headscope/loader"
)

// Variant is a family at its usual configuration, or with a change to it that has to give other numbers.
type Variant struct {
	Name    string // Llama/usual
	Options Options
	Usual   bool
}

// Variants lists every family, as usually configured and then in each change, four heads on two key/value heads where it has groups.
// Between them they have every switch of loader.Spec on.
func Variants() []Variant {
	all := changes()
	var out []Variant
	for _, family := range loader.Architectures() {
		for _, change := range append([]string{"usual"}, slices.Sorted(maps.Keys(all[family]))...) {
			o := Options{Family: family, KVHeads: 2, Seed: 11, Config: all[family][change]}
			if family == "GPTNeoXForCausalLM" {
				o.KVHeads = 0
			}
			name := strings.TrimSuffix(family, "ForCausalLM") + "/" + strings.ReplaceAll(change, " ", "_")
			out = append(out, Variant{name, o, change == "usual"})
		}
	}
	return out
}

// changes are, by family, keys of its config in place of the usual ones. They are read and computed, or the change would not show.
func changes() map[string]map[string]keys {
	longrope := keys{
		"type":         "longrope",
		"short_factor": []float64{1, 1, 1.1, 1.2, 1.4, 1.5, 1.8, 2}, "long_factor": []float64{1, 1.3, 1.9, 2.7, 3.3, 3.9, 4.4, 5},
	}
	biased := keys{"attention_bias": true}
	return map[string]map[string]keys{
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
}
