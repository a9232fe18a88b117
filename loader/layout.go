package loader

import "fmt"

// layout says how a family's tensors differ from those of Llama: names at the start of a layer's norms, which biases there are, what is
// fused. The zero value is Llama without biases.
type layout struct {
	preAttn, postAttn, preMLP, postMLP string // norms; empty = input_layernorm and post_attention_layernorm before the two parts

	qkvBias, outBias, mlpBias bool
	normBias                  bool
}

// params names the tensors of a decoder of this layout. It reads s when a layer is asked for, not before.
func (o layout) params(s *Spec) Params {
	if o.preAttn+o.postAttn+o.preMLP+o.postMLP == "" {
		o.preAttn, o.preMLP = "input_layernorm", "post_attention_layernorm"
	}
	p := Params{
		Embed:     whole("model.embed_tokens.weight", s.Vocab, s.Hidden),
		FinalNorm: whole("model.norm.weight", s.Hidden),
		Layer:     func(l int) LayerParams { return o.layer(s, fmt.Sprintf("model.layers.%d.", l)) },
	}
	if !s.Tied {
		p.Head = whole(headName, s.Vocab, s.Hidden)
	}
	return p
}

func (o layout) layer(s *Spec, prefix string) LayerParams {
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	var p LayerParams
	for _, part := range []struct {
		weight, bias *Param
		name         string
		biased       bool
		shape        []int
	}{
		{&p.PreAttn, &p.PreAttnBias, o.preAttn, o.normBias, []int{s.Hidden}},
		{&p.PostAttn, &p.PostAttnBias, o.postAttn, o.normBias, []int{s.Hidden}},
		{&p.PreMLP, &p.PreMLPBias, o.preMLP, o.normBias, []int{s.Hidden}},
		{&p.PostMLP, &p.PostMLPBias, o.postMLP, o.normBias, []int{s.Hidden}},
		{&p.Q, &p.QBias, "self_attn.q_proj", o.qkvBias, []int{q, s.Hidden}},
		{&p.K, &p.KBias, "self_attn.k_proj", o.qkvBias, []int{kv, s.Hidden}},
		{&p.V, &p.VBias, "self_attn.v_proj", o.qkvBias, []int{kv, s.Hidden}},
		{&p.O, &p.OBias, "self_attn.o_proj", o.outBias, []int{s.Hidden, q}},
		{&p.Gate, &p.GateBias, "mlp.gate_proj", o.mlpBias, []int{s.Intermediate, s.Hidden}},
		{&p.Up, &p.UpBias, "mlp.up_proj", o.mlpBias, []int{s.Intermediate, s.Hidden}},
		{&p.Down, &p.DownBias, "mlp.down_proj", o.mlpBias, []int{s.Hidden, s.Intermediate}},
	} {
		if part.name == "" {
			continue
		}
		*part.weight = whole(prefix+part.name+".weight", part.shape...)
		if part.biased {
			*part.bias = whole(prefix+part.name+".bias", part.shape[0])
		}
	}
	return p
}
