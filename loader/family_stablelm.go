package loader

// stableLM reads StableLmForCausalLM: StableLM-2 and StableLM-3B. Norms have biases, a quarter of a head rotates.
func stableLM(c *config) Spec {
	s := class{
		modelType: "stablelm", maxPositions: 4096, kvHeads: 32, noHeadDim: true, epsKey: "layer_norm_eps", eps: 1e-5,
		actKey: "hidden_act", act: "silu", eos: []int32{0}, bos: []int32{0},
	}.read(c)
	s.Norm = LayerNorm
	o := layout{preAttn: "input_layernorm", preMLP: "post_attention_layernorm", normBias: true, attentionBias: c.boolean("use_qkv_bias", false)}
	if c.boolean("use_parallel_residual", false) {
		s.Parallel, s.Norms.PreMLP, o.preMLP = ParallelResidual, false, ""
	}
	ropeAll(c, &s, ropeDefaults{theta: 10000, partial: 0.25})
	if c.boolean("qk_layernorm", false) {
		s.QKNorm, o.qNorm, o.kNorm, o.normByHead = QKNormPerHead, "q_layernorm", "k_layernorm", true
	}
	s.Params = o.params(s)
	return s
}
