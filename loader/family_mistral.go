package loader

// mistral reads MistralForCausalLM: Mistral 7B, Nemo and their derivatives. A window, where there is one, is that of all layers.
func mistral(c *config) Spec {
	s := class{
		modelType: "mistral", maxPositions: 4096 * 32, kvHeads: 8, epsKey: "rms_norm_eps", eps: 1e-6, actKey: "hidden_act", act: "silu",
		eos: []int32{2}, bos: []int32{1},
	}.read(c)
	slideAll(c, &s, 4096)
	ropeAll(c, &s, ropeDefaults{theta: 10000})
	s.Params = preNorms.params(s)
	return s
}
