package loader

import (
	"cmp"
	"fmt"
)

// gptNeoX reads GPTNeoXForCausalLM: Pythia and GPT-NeoX. Attention and MLP run side by side, each behind a norm of its own, and every head's
// query, key and value are neighbours in one projection.
func gptNeoX(c *config) Spec {
	s := class{
		modelType: "gpt_neox", maxPositions: 2048, noHeadDim: true, epsKey: "layer_norm_eps", eps: 1e-5, actKey: "hidden_act", act: "gelu",
		eos: []int32{2}, bos: []int32{0},
	}.read(c)
	if s.KVHeads != s.Heads {
		c.refuse("num_key_value_heads", fmt.Sprintf("the %d query heads", s.Heads), "")
	}
	s.Norm, s.Gated = LayerNorm, false
	if c.boolean("use_parallel_residual", true) {
		s.Parallel = ParallelBranches
	}
	d := ropeDefaults{theta: 10000, partial: 0.25, thetaKey: "rotary_emb_base", partialKey: "rotary_pct"}
	ropeAll(c, &s, d)
	table := s.Tables[0]
	if cmp.Or(c.float("rope_theta", 0), table.Theta) != table.Theta {
		c.refuse("rope_theta", fmt.Sprintf("%v, or rotary_emb_base in its place", table.Theta), "transformers' class overlooks rope_theta")
	}
	if p := c.float("partial_rotary_factor", 0); p != 0 && int(float64(s.HeadDim)*p) != table.RotaryDim {
		c.refuse("partial_rotary_factor", "what rotary_pct says, or none", "transformers' class overlooks partial_rotary_factor")
	}
	s.Params = neoXParams(s, c.boolean("attention_bias", true))
	return s
}

func neoXParams(s Spec, attentionBias bool) Params {
	p := Params{Embed: whole("gpt_neox.embed_in.weight", s.Vocab, s.Hidden)}
	p.FinalNorm, p.FinalBias = biased("gpt_neox.final_layer_norm", true, s.Hidden)
	if !s.Tied {
		p.Head = whole(neoXHeadName, s.Vocab, s.Hidden)
	}
	p.Layer = func(l int) LayerParams {
		at := func(name string) string { return fmt.Sprintf("gpt_neox.layers.%d.%s", l, name) }
		var out LayerParams
		out.PreAttn, out.PreAttnBias = biased(at("input_layernorm"), true, s.Hidden)
		out.PreMLP, out.PreMLPBias = biased(at("post_attention_layernorm"), true, s.Hidden)
		for i, to := range []struct{ weight, bias *Param }{{&out.Q, &out.QBias}, {&out.K, &out.KBias}, {&out.V, &out.VBias}} {
			view := View{First: i * s.HeadDim, Rows: s.HeadDim, Stride: 3 * s.HeadDim, Times: s.Heads}
			view.Tensor = at("attention.query_key_value.weight")
			*to.weight = Param{Shape: []int{s.Heads * s.HeadDim, s.Hidden}, Views: []View{view}}
			if view.Tensor = at("attention.query_key_value.bias"); attentionBias {
				*to.bias = Param{Shape: []int{s.Heads * s.HeadDim}, Views: []View{view}}
			}
		}
		out.O, out.OBias = biased(at("attention.dense"), attentionBias, s.Hidden, s.Hidden)
		out.Up, out.UpBias = biased(at("mlp.dense_h_to_4h"), true, s.Intermediate, s.Hidden)
		out.Down, out.DownBias = biased(at("mlp.dense_4h_to_h"), true, s.Hidden, s.Intermediate)
		return out
	}
	return p
}

const neoXHeadName = "embed_out.weight"
