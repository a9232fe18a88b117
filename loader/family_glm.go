package loader

// glm reads GlmForCausalLM: GLM-4-9B in transformers' own layout.
func glm(c *config) Spec { return glmOf(c, "glm", preNorms) }

// glm4 reads Glm4ForCausalLM: GLM-4-0414, with norms after attention and MLP as well.
func glm4(c *config) Spec {
	o := preNorms
	o.postAttn, o.postMLP = "post_self_attn_layernorm", "post_mlp_layernorm"
	return glmOf(c, "glm4", o)
}

// glmOf is what both have in common: half of a head rotates, planes are neighbouring dimensions, gate and up are one tensor.
func glmOf(c *config, modelType string, o layout) Spec {
	s := class{
		modelType: modelType, maxPositions: 131072, kvHeads: 2, headDim: 128, epsKey: "rms_norm_eps", eps: 1.5625e-07,
		actKey: "hidden_act", act: "silu", eos: []int32{151329, 151336, 151338},
	}.read(c)
	s.Norms.PostAttn, s.Norms.PostMLP = o.postAttn != "", o.postMLP != ""
	s.Interleaved = true
	ropeAll(c, &s, ropeDefaults{theta: 10000, partial: 0.5})
	o.fusedGateUp, o.attentionBias = true, c.boolean("attention_bias", true)
	s.Params = o.params(s)
	return s
}
