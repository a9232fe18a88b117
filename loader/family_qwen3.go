package loader

// qwen3 reads Qwen3ForCausalLM, the dense ones. Queries and keys are normalised head by head.
func qwen3(c *config) Spec {
	s := class{
		modelType: "qwen3", maxPositions: 32768, kvHeads: 32, kvNullable: true, headDim: 128, epsKey: "rms_norm_eps", eps: 1e-6, actKey: "hidden_act", act: "silu",
	}.read(c)
	s.QKNorm = QKNormShared
	slideFrom(c, &s)
	ropeAll(c, &s, ropeDefaults{theta: 10000})
	o := preNorms
	o.qNorm, o.kNorm = "q_norm", "k_norm"
	s.Params = o.withBias(c).params(s)
	return s
}
