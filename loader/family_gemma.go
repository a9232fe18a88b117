package loader

import "math"

// gemma reads GemmaForCausalLM. Its hidden_act "gelu" means the tanh form: the released files say so and mean the other.
func gemma(c *config) Spec {
	s := class{
		modelType: "gemma", maxPositions: 8192, kvHeads: 16, headDim: 256, epsKey: "rms_norm_eps", eps: 1e-6,
		actKey: "hidden_act", act: "gelu_pytorch_tanh", tied: true, eos: []int32{1}, bos: []int32{2},
	}.read(c)
	if s.Activation == GELU {
		s.Activation = GELUTanh
	}
	if c.has("hidden_activation") && activation(c, "hidden_activation", "") != s.Activation {
		c.refuse("hidden_activation", "what hidden_act says, which is the key that transformers' class reads", "")
	}
	gemmaStream(&s)
	ropeAll(c, &s, ropeDefaults{theta: 10000})
	s.Params = preNorms.withBias(c).params(s)
	return s
}

// gemmaStream is what all Gemmas do to the residual stream.
func gemmaStream(s *Spec) {
	s.Norm = RMSNormOffset
	s.EmbedScale, s.EmbedRound = math.Sqrt(float64(s.Hidden)), true
}

// gemmaSandwich is what Gemma-2 and Gemma-3 have in common: norms at all four places, the scale of scores and the caps, with the class's
// defaults of the latter.
func gemmaSandwich(c *config, s *Spec, scoreCap, logitCap float64) layout {
	gemmaStream(s)
	s.Norms = Norms{PreAttn: true, PostAttn: true, PreMLP: true, PostMLP: true}
	s.ScoreScale = 1 / math.Sqrt(c.float("query_pre_attn_scalar", 256))
	s.ScoreCap = c.nullableFloat("attn_logit_softcapping", scoreCap)
	s.LogitCap = c.nullableFloat("final_logit_softcapping", logitCap)
	if old := c.text("hidden_act", ""); old != "" && old != "gelu" && activation(c, "hidden_act", "") != s.Activation {
		c.refuse("hidden_act", "what hidden_activation says, which is the key that transformers' class reads", "")
	}
	o := layout{
		preAttn: "input_layernorm", postAttn: "post_attention_layernorm",
		preMLP: "pre_feedforward_layernorm", postMLP: "post_feedforward_layernorm",
	}
	return o.withBias(c)
}
