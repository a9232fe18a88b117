package loader

import "cmp"

// olmo reads OlmoForCausalLM: norms without parameters, whose epsilon is 1e-5 whatever the config says, and clipped queries, keys and
// values.
func olmo(c *config) Spec {
	s := class{modelType: "olmo", maxPositions: 2048, eps: 1e-5, actKey: "hidden_act", act: "silu", eos: []int32{50279}}.read(c)
	for _, key := range []string{"layer_norm_eps", "rms_norm_eps"} {
		if cmp.Or(c.float(key, 0), s.NormEps) != s.NormEps {
			c.refuse(key, "1e-05, which is built into transformers' class", "")
		}
	}
	s.Norm, s.RotateFloat = LayerNormBare, true
	s.QKVClip = c.float("clip_qkv", 0)
	ropeAll(c, &s, ropeDefaults{theta: 10000})
	s.Params = preNorms.withBias(c).params(s)
	return s
}
