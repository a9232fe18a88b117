package loader

// llama reads LlamaForCausalLM: Llama 2 and 3, SmolLM2, Falcon3 and the many checkpoints exported in its layout.
func llama(c *config) Spec {
	s := class{
		modelType: "llama", maxPositions: 2048, epsKey: "rms_norm_eps", eps: 1e-6, actKey: "hidden_act", act: "silu",
		eos: []int32{2}, bos: []int32{1},
	}.read(c)
	ropeAll(c, &s, ropeDefaults{theta: 10000})
	if c.nullableInteger("pretraining_tp", 1) > 1 {
		c.refuse("pretraining_tp", "1", "larger values only split the products into slices; set it to 1 for the same model")
	}
	if c.boolean("rope_interleaved", false) {
		c.refuse("rope_interleaved", "false: weights in the layout that transformers saves", "")
	}
	c.boolean("is_llama_config", true)

	o := preNorms.withBias(c)
	o.mlpBias = c.boolean("mlp_bias", false)
	s.Params = o.params(s)
	return s
}
