package loader

// olmo2 reads Olmo2ForCausalLM.
func olmo2(c *config) Spec {
	s := olmoPostNorm(c, "olmo2")
	ropeAll(c, &s, ropeDefaults{theta: 10000})
	return s
}

// olmoPostNorm is what OLMo-2 and OLMo-3 have in common: norms after attention and MLP, and over all queries and all keys of a layer.
func olmoPostNorm(c *config, modelType string) Spec {
	s := class{
		modelType: modelType, maxPositions: 2048, epsKey: "rms_norm_eps", eps: 1e-5, actKey: "hidden_act", act: "silu", eos: []int32{50279},
	}.read(c)
	s.Norm, s.Norms, s.QKNorm, s.RotateFloat = RMSNormFloat, Norms{PostAttn: true, PostMLP: true}, QKNormFull, true
	o := layout{postAttn: "post_attention_layernorm", postMLP: "post_feedforward_layernorm", qNorm: "q_norm", kNorm: "k_norm"}
	s.Params = o.withBias(c).params(s)
	return s
}
