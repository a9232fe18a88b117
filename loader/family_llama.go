package loader

import "fmt"

// llama reads LlamaForCausalLM: Llama 2 and 3, SmolLM2, Falcon3 and the many checkpoints exported in its layout. Class defaults are
// those of transformers 5.24.0, models/llama/configuration_llama.py; sizes have none here, a checkpoint without them is incomplete.
func llama(c *config) Spec {
	s := Spec{
		Family:       c.text("model_type", ""),
		Layers:       c.integer("num_hidden_layers", required),
		Heads:        c.integer("num_attention_heads", required),
		Hidden:       c.integer("hidden_size", required),
		Intermediate: c.integer("intermediate_size", required),
		Vocab:        c.integer("vocab_size", required),
		MaxPositions: c.integer("max_position_embeddings", 2048),
		NormEps:      c.float("rms_norm_eps", 1e-6),
		Activation:   Activation(c.text("hidden_act", "silu")),
		Tied:         c.boolean("tie_word_embeddings", false),
		Rope:         ropeParameters(c, 10000),
	}
	if s.Family != "llama" {
		c.want("model_type", quoted(s.Family), `"llama" beside architecture LlamaForCausalLM`)
	}
	if s.Activation != SiLU {
		c.refuse("hidden_act", `"silu"`, "")
	}
	s.KVHeads = c.integer("num_key_value_heads", s.Heads)
	s.HeadDim = headDim(c, s.Hidden, s.Heads)
	s.Names = llamaNames(s.Tied, c.boolean("attention_bias", false), c.boolean("mlp_bias", false))

	if partial := c.float("partial_rotary_factor", 1); partial != 1 && s.Rope.Type != "default" {
		c.refuse("partial_rotary_factor", "1 beside scaled frequencies", "transformers fails on it as well")
	}
	llamaRefusals(c, &s)
	checkRope(c, s.Rope, s.HeadDim, s.MaxPositions)
	s.Rope.RotaryDim = s.HeadDim // default frequencies ignore partial_rotary_factor in this class
	return s
}

// llamaRefusals handles the keys that exporters put into llama configs and that mean nothing to the class at their usual values.
func llamaRefusals(c *config, s *Spec) {
	if tp := c.integer("pretraining_tp", 1); tp != 1 {
		c.refuse("pretraining_tp", "1", "larger values only split the products into slices; set it to 1 for the same model")
	}
	window := c.integer("sliding_window", s.MaxPositions)
	if c.boolean("use_sliding_window", true) && window < s.MaxPositions {
		c.refuse("sliding_window", "null: the llama class has no window", "")
	}
	if c.boolean("rope_interleaved", false) {
		c.refuse("rope_interleaved", "false: weights in the layout that transformers saves", "")
	}
	c.boolean("is_llama_config", true)
	var kinds []string
	if c.value("layer_types", "a list of strings", &kinds) {
		if len(kinds) != s.Layers {
			c.want("layer_types", fmt.Sprintf("%d entries", len(kinds)), fmt.Sprintf("one for each of the %d layers", s.Layers))
		}
		for _, k := range kinds {
			if k != "full_attention" {
				c.refuse("layer_types", `"full_attention" throughout`, "")
			}
		}
	}
}

// llamaNames gives the tensor names of the layout; attention_bias and mlp_bias each govern every projection of their part.
func llamaNames(tied, attentionBias, mlpBias bool) Names {
	n := Names{Embed: "model.embed_tokens.weight", FinalNorm: "model.norm.weight", Head: "lm_head.weight"}
	if tied {
		n.Head = ""
	}
	n.Layer = func(l int) LayerNames {
		at := func(name string) string { return fmt.Sprintf("model.layers.%d.%s", l, name) }
		out := LayerNames{
			InputNorm: at("input_layernorm.weight"),
			Q:         at("self_attn.q_proj.weight"), K: at("self_attn.k_proj.weight"),
			V: at("self_attn.v_proj.weight"), O: at("self_attn.o_proj.weight"),
			PostNorm: at("post_attention_layernorm.weight"),
			Gate:     at("mlp.gate_proj.weight"), Up: at("mlp.up_proj.weight"), Down: at("mlp.down_proj.weight"),
		}
		if attentionBias {
			out.QBias, out.KBias = at("self_attn.q_proj.bias"), at("self_attn.k_proj.bias")
			out.VBias, out.OBias = at("self_attn.v_proj.bias"), at("self_attn.o_proj.bias")
		}
		if mlpBias {
			out.GateBias, out.UpBias, out.DownBias = at("mlp.gate_proj.bias"), at("mlp.up_proj.bias"), at("mlp.down_proj.bias")
		}
		return out
	}
	return n
}
