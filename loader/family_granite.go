package loader

// granite reads GraniteForCausalLM, the dense ones: Llama with four multipliers, of which attention_multiplier takes the place of
// 1/sqrt(head_dim).
func granite(c *config) Spec {
	s := class{
		modelType: "granite", maxPositions: 2048, epsKey: "rms_norm_eps", eps: 1e-6, actKey: "hidden_act", act: "silu",
		eos: []int32{2}, bos: []int32{1},
	}.read(c)
	s.EmbedScale = c.float("embedding_multiplier", 1)
	s.ScoreScale = c.float("attention_multiplier", 1)
	s.ResidualScale = c.float("residual_multiplier", 1)
	s.LogitDivide = c.float("logits_scaling", 1)
	ropeAll(c, &s, ropeDefaults{theta: 10000})
	o := preNorms.withBias(c)
	o.mlpBias = c.boolean("mlp_bias", false)
	s.Params = o.params(s)
	return s
}
