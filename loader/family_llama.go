package loader

import "github.com/headscope/headscope/loader/rope"

// llama reads LlamaForCausalLM: Llama 2 and 3, SmolLM2, Falcon3 and the many checkpoints exported in its layout. Class defaults are
// those of transformers 5.24.0, models/llama/configuration_llama.py; sizes have none here, a checkpoint without them is incomplete.
func llama(c *config) Spec {
	s := sizes(c, "llama")
	s.MaxPositions = c.integer("max_position_embeddings", 2048)
	s.KVHeads = c.integer("num_key_value_heads", s.Heads)
	s.HeadDim = headDim(c, 0, &s)
	s.Norm, s.NormEps = RMSNorm, c.float("rms_norm_eps", 1e-6)
	s.Norms = Norms{PreAttn: true, PreMLP: true}
	s.Activation, s.Gated = activation(c, "hidden_act", "silu"), true
	s.Tied = c.boolean("tie_word_embeddings", false)
	attentionBias := c.boolean("attention_bias", false)
	s.Params = layout{qkvBias: attentionBias, outBias: attentionBias, mlpBias: c.boolean("mlp_bias", false)}.params(&s)

	s.Tables = []rope.Config{ropeParameters(c, &s, ropeDefaults{theta: 10000, ignorePartial: true})}
	llamaRefusals(c, &s)
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
	for _, sliding := range layerTypes(c, s) {
		if sliding {
			c.refuse("layer_types", `"full_attention" throughout`, "")
		}
	}
}
