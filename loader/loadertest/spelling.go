package loadertest

import "maps"

// keys of a config.json.
type keys map[string]any

// spellings are the keys that a family's published checkpoints have beside the ones that all have, at values of a size that shows in a
// tiny checkpoint: windows of 8 keys, soft caps that bend, multipliers away from 1. Layers that differ in kind alternate, so that two
// layers have both.
var spellings = map[string]func(o Options) keys{
	"LlamaForCausalLM": func(o Options) keys {
		k := keys{"model_type": "llama", "head_dim": o.HeadDim, "attention_bias": o.AttentionBias, "mlp_bias": o.MLPBias, "rope_theta": o.theta(10000)}
		if o.Llama3 {
			k["rope_scaling"] = keys{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
				"original_max_position_embeddings": o.MaxPositions / 8}
		}
		return k
	},
	"MistralForCausalLM": func(o Options) keys {
		return keys{"model_type": "mistral", "head_dim": o.HeadDim, "sliding_window": 8, "rope_theta": o.theta(10000)}
	},
	"Qwen2ForCausalLM": func(o Options) keys {
		return keys{"model_type": "qwen2", "use_sliding_window": false, "sliding_window": 8, "max_window_layers": 1,
			"rope_theta": o.theta(1e6)}
	},
	"Qwen3ForCausalLM": func(o Options) keys {
		return keys{"model_type": "qwen3", "head_dim": o.HeadDim, "attention_bias": o.AttentionBias, "use_sliding_window": false,
			"sliding_window": nil, "max_window_layers": 1, "rope_scaling": nil, "rope_theta": o.theta(1e6)}
	},
	"OlmoForCausalLM": func(o Options) keys {
		return keys{"model_type": "olmo", "attention_bias": o.AttentionBias, "clip_qkv": 1.5, "rope_scaling": nil,
			"rope_theta": o.theta(10000), "rms_norm_eps": nil}
	},
	"Olmo2ForCausalLM": func(o Options) keys {
		return keys{"model_type": "olmo2", "attention_bias": o.AttentionBias, "rope_scaling": nil, "rope_theta": o.theta(500000)}
	},
	"Olmo3ForCausalLM": func(o Options) keys {
		return keys{"model_type": "olmo3", "attention_bias": o.AttentionBias, "sliding_window": 8, "layer_types": o.alternating(),
			"rope_theta": o.theta(500000), "rope_scaling": keys{"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
				"original_max_position_embeddings": max(o.MaxPositions/4, 1), "attention_factor": 1.1386294361119891}}
	},
	"GemmaForCausalLM": func(o Options) keys {
		return keys{"model_type": "gemma", "head_dim": o.HeadDim, "hidden_act": "gelu", "attention_bias": o.AttentionBias, "rope_scaling": nil,
			"rope_theta": o.theta(10000), "tie_word_embeddings": nil}
	},
	"Gemma2ForCausalLM": func(o Options) keys {
		return keys{"model_type": "gemma2", "head_dim": o.HeadDim, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
			"attention_bias": o.AttentionBias, "attn_logit_softcapping": 4.5, "final_logit_softcapping": 5.5,
			"query_pre_attn_scalar": o.HeadDim + 8, "sliding_window": 8, "sliding_window_size": 8, "cache_implementation": "hybrid",
			"rope_theta": o.theta(10000), "tie_word_embeddings": nil}
	},
	"Gemma3ForCausalLM":              gemma3,
	"Gemma3ForConditionalGeneration": gemma3,
	"Phi3ForCausalLM": func(o Options) keys {
		return keys{"model_type": "phi3", "pad_token_id": 0, "original_max_position_embeddings": o.MaxPositions, "attention_bias": false, "rope_scaling": nil,
			"rope_theta": o.theta(10000), "sliding_window": nil, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
	},
	"StableLmForCausalLM": func(o Options) keys {
		return keys{"model_type": "stablelm", "rms_norm_eps": nil, "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25, "use_qkv_bias": true,
			"rope_theta": o.theta(10000)}
	},
	"GPTNeoXForCausalLM": func(o Options) keys {
		return keys{"model_type": "gpt_neox", "hidden_act": "gelu", "rms_norm_eps": nil, "layer_norm_eps": 1e-5, "num_key_value_heads": nil,
			"rotary_emb_base": o.theta(10000), "rotary_pct": 0.25, "use_parallel_residual": true}
	},
	"SmolLM3ForCausalLM": func(o Options) keys {
		return keys{"model_type": "smollm3", "pad_token_id": 0, "attention_bias": o.AttentionBias, "mlp_bias": o.MLPBias, "no_rope_layer_interval": 2,
			"use_sliding_window": false, "sliding_window": nil, "max_window_layers": 28, "rope_scaling": nil, "rope_theta": o.theta(2e6),
			"tie_word_embeddings": nil}
	},
	"GraniteForCausalLM": func(o Options) keys {
		return keys{"model_type": "granite", "attention_bias": o.AttentionBias, "mlp_bias": o.MLPBias, "attention_multiplier": 0.3,
			"embedding_multiplier": 6.5, "residual_multiplier": 0.6, "logits_scaling": 1.6, "rope_scaling": nil, "rope_theta": o.theta(10000)}
	},
	"CohereForCausalLM": func(o Options) keys {
		return keys{"model_type": "cohere", "rms_norm_eps": nil, "layer_norm_eps": 1e-5, "attention_bias": o.AttentionBias,
			"logit_scale": 0.5, "use_qk_norm": false, "rope_theta": o.theta(8e6), "tie_word_embeddings": nil}
	},
	"GlmForCausalLM": func(o Options) keys {
		return keys{"model_type": "glm", "pad_token_id": 0, "head_dim": o.HeadDim, "attention_bias": true,
			"partial_rotary_factor": 0.5, "rope_theta": o.theta(10000)}
	},
	"Glm4ForCausalLM": func(o Options) keys {
		return keys{"model_type": "glm4", "pad_token_id": 0, "head_dim": o.HeadDim, "attention_bias": true,
			"partial_rotary_factor": 0.5, "rope_theta": o.theta(10000)}
	},
}

func gemma3(o Options) keys {
	return keys{"model_type": "gemma3_text", "head_dim": o.HeadDim, "hidden_act": nil, "hidden_activation": "gelu_pytorch_tanh",
		"attention_bias": o.AttentionBias, "query_pre_attn_scalar": o.HeadDim + 8, "sliding_window": 8, "sliding_window_pattern": 2,
		"rope_local_base_freq": 10000.0, "rope_theta": o.theta(1e6), "rope_scaling": nil, "tie_word_embeddings": nil}
}

// config returns the keys of config.json.
func (o Options) config() keys {
	k := keys{
		"architectures":       []string{o.Family},
		"num_hidden_layers":   o.Layers,
		"num_attention_heads": o.Heads, "num_key_value_heads": o.KVHeads,
		"hidden_size": o.Hidden, "intermediate_size": o.Intermediate, "vocab_size": o.Vocab, "max_position_embeddings": o.MaxPositions,
		"rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": o.Tied, "bos_token_id": 1, "eos_token_id": 2,
	}
	maps.Copy(k, spellings[o.Family](o))
	maps.Copy(k, o.Config)
	maps.DeleteFunc(k, func(_ string, v any) bool { return v == nil })
	if o.Family == "Gemma3ForConditionalGeneration" { // the text model is one part of it
		delete(k, "architectures")
		return keys{"architectures": []string{o.Family}, "model_type": "gemma3", "text_config": k}
	}
	return k
}

// saysHeadDim tells whether the family's files have a head_dim, which then need not be hidden/heads.
func (o Options) saysHeadDim() bool {
	spell := spellings[o.Family]
	return spell != nil && spell(o)["head_dim"] != nil
}

func (o Options) theta(def float64) float64 {
	if o.Theta != 0 {
		return o.Theta
	}
	return def
}

func (o Options) alternating() []string {
	out := make([]string, o.Layers)
	for l := range out {
		out[l] = [2]string{"sliding_attention", "full_attention"}[l%2]
	}
	return out
}
