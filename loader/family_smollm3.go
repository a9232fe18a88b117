package loader

import "fmt"

// smolLM3 reads SmolLM3ForCausalLM: Llama with some layers, every fourth by default, that do not rotate.
func smolLM3(c *config) Spec {
	s := class{
		modelType: "smollm3", maxPositions: 32768, kvHeads: 4, kvNullable: true, epsKey: "rms_norm_eps", eps: 1e-6, actKey: "hidden_act", act: "silu", tied: true,
		eos: []int32{128001}, bos: []int32{128000},
	}.read(c)
	ropeAll(c, &s, ropeDefaults{theta: 2e6})
	rotates := rotatingLayers(c, &s)
	for l, yes := range rotates {
		if !yes {
			s.Kinds[l].Table = Unrotated
		}
	}
	window := c.integer("sliding_window", 0)
	if !c.boolean("use_sliding_window", false) {
		window = 0
	}
	slide(c, &s, layerTypes(c, &s, func(l int) bool { return window > 0 && !rotates[l] }), window)
	c.ignore("pretraining_tp", "max_window_layers") // of which the class takes no notice

	o := preNorms.withBias(c)
	o.mlpBias = c.boolean("mlp_bias", false)
	s.Params = o.params(s)
	return s
}

// rotatingLayers reads no_rope_layers, whose ones are the layers that do rotate.
func rotatingLayers(c *config, s *Spec) []bool {
	rotates := make([]bool, len(s.Kinds))
	interval := c.integer("no_rope_layer_interval", 4)
	var flags []int
	if !c.value("no_rope_layers", "a list of ones and zeros", &flags) {
		for l := range rotates {
			rotates[l] = (l+1)%interval != 0
		}
		return rotates
	}
	if len(flags) != len(rotates) {
		c.want("no_rope_layers", shown(c.keys["no_rope_layers"]), fmt.Sprintf("one entry for each of the %d layers", s.Layers))
		return rotates
	}
	for l, f := range flags {
		if f != 0 && f != 1 {
			c.want("no_rope_layers", fmt.Sprint(f), "ones and zeros")
		}
		rotates[l] = f == 1
	}
	return rotates
}
