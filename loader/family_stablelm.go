package loader

import "fmt"

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
	normed := c.boolean("qk_layernorm", false)
	s.Params = o.params(s)
	if normed {
		s.QKNorm = QKNormPerHead
		plain := s.Params.Layer
		s.Params.Layer = func(l int) LayerParams {
			p := plain(l)
			p.QNorm, p.KNorm = headNorms(l, "q_layernorm", s.Heads, s.HeadDim), headNorms(l, "k_layernorm", s.KVHeads, s.HeadDim)
			return p
		}
	}
	return s
}

// headNorms are the norms of queries or keys, of which each head has a tensor.
func headNorms(layer int, name string, heads, headDim int) Param {
	p := Param{Shape: []int{heads, headDim}, Views: make([]View, heads)}
	for h := range p.Views {
		p.Views[h].Tensor = fmt.Sprintf("model.layers.%d.self_attn.%s.norms.%d.weight", layer, name, h)
	}
	return p
}
