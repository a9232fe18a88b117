package loader

// cohere reads CohereForCausalLM: Command R. Attention and MLP read the same norm, planes are neighbouring dimensions.
func cohere(c *config) Spec {
	s := class{
		modelType: "cohere", maxPositions: 8192, epsKey: "layer_norm_eps", eps: 1e-5, actKey: "hidden_act", act: "silu", tied: true,
		eos: []int32{255001}, bos: []int32{5},
	}.read(c)
	s.Norm, s.Norms, s.Parallel = LayerNorm, Norms{PreAttn: true}, ParallelResidual
	s.Interleaved, s.RotateFloat, s.RoundTurns = true, true, true
	s.LogitScale = c.float("logit_scale", 0.0625)
	if c.boolean("use_qk_norm", false) {
		s.QKNorm = QKNormPerHead
	}
	ropeAll(c, &s, ropeDefaults{theta: 500000})
	o := layout{preAttn: "input_layernorm", qNorm: "q_norm", kNorm: "k_norm"}
	s.Params = o.withBias(c).params(s)
	return s
}
