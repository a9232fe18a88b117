package loader

// phi3 reads Phi3ForCausalLM: Phi-3, Phi-3.5, Phi-4 and Phi-4-mini. Projections are fused, long contexts use LongRoPE, of which older
// files have other names.
func phi3(c *config) Spec {
	s := class{
		modelType: "phi3", maxPositions: 4096, epsKey: "rms_norm_eps", eps: 1e-5, actKey: "hidden_act", act: "silu",
		eos: []int32{32000}, bos: []int32{1},
	}.read(c)
	slideAll(c, &s, 0)
	s.Recompute = true
	d := ropeDefaults{theta: 10000, partial: 1, original: 4096, longrope: []string{"su", "yarn"}}
	ropeAll(c, &s, d)
	if t := s.Tables[0].Type; t != "default" && t != "longrope" {
		c.refuseValue("rope_type", quoted(t), `"default" or "longrope"`, "transformers' class takes no other")
	}
	o := preNorms
	o.fusedQKV, o.fusedGateUp = true, true
	s.Params = o.params(s)
	return s
}
