package loader

// qwen2 reads Qwen2ForCausalLM: Qwen2 and Qwen2.5. Queries, keys and values have biases.
func qwen2(c *config) Spec {
	s := class{
		modelType: "qwen2", maxPositions: 32768, kvHeads: 32, kvNullable: true, epsKey: "rms_norm_eps", eps: 1e-6, actKey: "hidden_act", act: "silu",
	}.read(c)
	slideFrom(c, &s)
	ropeAll(c, &s, ropeDefaults{theta: 10000})
	o := preNorms
	o.attentionBias = true
	s.Params = o.params(s)
	return s
}
