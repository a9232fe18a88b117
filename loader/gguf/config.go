package gguf

import "math"

// configJSON returns config.json of a llama-type model.
//
// initializer_range is not in a GGUF file and matters to nobody but a trainer that starts afresh; 1/sqrt(hidden) is what the
// checkpoints of the SmolLM2 family say. rope_theta is an integer where it is one, as transformers' own checkpoints have it.
func (m *llama) configJSON(p *tensorPlan, s specialIDs) object {
	var theta any = m.theta
	if m.theta == math.Trunc(m.theta) && m.theta < 1<<53 {
		theta = int(m.theta)
	}
	o := object{
		{"architectures", []string{"LlamaForCausalLM"}},
		{"attention_bias", p.attnBias},
		{"attention_dropout", 0.0},
		{"bos_token_id", s.bos},
		{"eos_token_id", s.eos},
	}
	if m.headDim*m.heads != m.hidden {
		o = append(o, member{"head_dim", m.headDim})
	}
	return append(o, object{
		{"hidden_act", "silu"},
		{"hidden_size", m.hidden},
		{"initializer_range", 1 / math.Sqrt(float64(m.hidden))},
		{"intermediate_size", m.intermediate},
		{"is_llama_config", true},
		{"max_position_embeddings", m.context},
		{"mlp_bias", p.mlpBias},
		{"model_type", "llama"},
		{"num_attention_heads", m.heads},
		{"num_hidden_layers", m.layers},
		{"num_key_value_heads", m.kvHeads},
		{"pad_token_id", s.pad},
		{"pretraining_tp", 1},
		{"rms_norm_eps", m.eps},
		{"rope_interleaved", false},
		{"rope_scaling", m.scaling.object()},
		{"rope_theta", theta},
		{"tie_word_embeddings", p.tied},
		{"torch_dtype", "bfloat16"},
		{"transformers_version", "4.42.3"},
		{"use_cache", true},
		{"vocab_size", m.vocab},
	}...)
}
