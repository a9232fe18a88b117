package loader

import "fmt"

// headName is the output matrix, which a file of a tied model may hold as a copy of the embedding.
const headName = "lm_head.weight"

// layout says how the tensors of a family with Llama's names differ from Llama's own.
type layout struct {
	preAttn, postAttn, preMLP, postMLP string // norms of a layer, empty where there is none

	attentionBias, outBias, mlpBias, normBias bool

	fusedQKV    bool   // q, k and v are the rows of one tensor, in this order
	fusedGateUp bool   // so are gate and up
	qNorm       string // norms of queries and keys, "q_norm" and "k_norm"
	kNorm       string
	normByHead  bool   // of these, each head has a tensor of its own
	prefix      string // in front of all names
}

// preNorms are the two norms of Llama and most others.
var preNorms = layout{preAttn: "input_layernorm", preMLP: "post_attention_layernorm"}

// withBias reads attention_bias where it is that of all four projections.
func (o layout) withBias(c *config) layout {
	o.attentionBias = c.boolean("attention_bias", false)
	o.outBias = o.attentionBias
	return o
}

// params names the tensors of a decoder of this layout. s has to be complete but for Params.
func (o layout) params(s Spec) Params {
	p := Params{
		Embed: whole(o.prefix+"model.embed_tokens.weight", s.Vocab, s.Hidden),
		Layer: func(l int) LayerParams { return o.layer(&s, fmt.Sprintf("%smodel.layers.%d.", o.prefix, l)) },
	}
	if s.Norm != LayerNormBare {
		p.FinalNorm, p.FinalBias = biased(o.prefix+"model.norm", o.normBias, s.Hidden)
	}
	if !s.Tied {
		p.Head = whole(o.prefix+headName, s.Vocab, s.Hidden)
	}
	return p
}

func (o layout) layer(s *Spec, prefix string) LayerParams {
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	attention, mlp := prefix+"self_attn.", prefix+"mlp."
	var p LayerParams
	norm := func(name string) (weight, bias Param) {
		if name == "" || s.Norm == LayerNormBare {
			return Param{}, Param{}
		}
		return biased(prefix+name, o.normBias, s.Hidden)
	}
	p.PreAttn, p.PreAttnBias = norm(o.preAttn)
	p.PostAttn, p.PostAttnBias = norm(o.postAttn)
	p.PreMLP, p.PreMLPBias = norm(o.preMLP)
	p.PostMLP, p.PostMLPBias = norm(o.postMLP)

	if o.fusedQKV {
		parts := split(attention+"qkv_proj", o.attentionBias, s.Hidden, q, kv, kv)
		p.Q, p.K, p.V, p.QBias, p.KBias, p.VBias = parts[0].weight, parts[1].weight, parts[2].weight, parts[0].bias, parts[1].bias, parts[2].bias
	} else {
		p.Q, p.QBias = biased(attention+"q_proj", o.attentionBias, q, s.Hidden)
		p.K, p.KBias = biased(attention+"k_proj", o.attentionBias, kv, s.Hidden)
		p.V, p.VBias = biased(attention+"v_proj", o.attentionBias, kv, s.Hidden)
	}
	p.O, p.OBias = biased(attention+"o_proj", o.outBias, s.Hidden, q)
	switch s.QKNorm {
	case QKNormShared:
		p.QNorm, p.KNorm = whole(attention+o.qNorm+".weight", s.HeadDim), whole(attention+o.kNorm+".weight", s.HeadDim)
	case QKNormPerHead:
		p.QNorm, p.KNorm = o.headNorms(attention+o.qNorm, s.Heads, s.HeadDim), o.headNorms(attention+o.kNorm, s.KVHeads, s.HeadDim)
	case QKNormFull:
		p.QNorm, p.KNorm = whole(attention+o.qNorm+".weight", q), whole(attention+o.kNorm+".weight", kv)
	}

	if o.fusedGateUp {
		parts := split(mlp+"gate_up_proj", o.mlpBias, s.Hidden, s.Intermediate, s.Intermediate)
		p.Gate, p.Up, p.GateBias, p.UpBias = parts[0].weight, parts[1].weight, parts[0].bias, parts[1].bias
	} else {
		p.Gate, p.GateBias = biased(mlp+"gate_proj", o.mlpBias, s.Intermediate, s.Hidden)
		p.Up, p.UpBias = biased(mlp+"up_proj", o.mlpBias, s.Intermediate, s.Hidden)
	}
	p.Down, p.DownBias = biased(mlp+"down_proj", o.mlpBias, s.Hidden, s.Intermediate)
	return p
}

// headNorms are the norms of queries or keys that differ from head to head.
func (o layout) headNorms(module string, heads, headDim int) Param {
	if !o.normByHead {
		return whole(module+".weight", heads, headDim)
	}
	p := Param{Shape: []int{heads, headDim}, Views: make([]View, heads)}
	for h := range p.Views {
		p.Views[h].Tensor = fmt.Sprintf("%s.norms.%d.weight", module, h)
	}
	return p
}

// whole is the parameter that one tensor holds.
func whole(name string, shape ...int) Param {
	return Param{Shape: shape, Views: []View{{Tensor: name}}}
}

// biased is the weight of a module and, where it has one, its bias.
func biased(module string, hasBias bool, shape ...int) (weight, bias Param) {
	if hasBias {
		bias = whole(module+".bias", shape[0])
	}
	return whole(module+".weight", shape...), bias
}

type weightAndBias struct{ weight, bias Param }

// split cuts a module's rows into parts of so many rows each.
func split(module string, hasBias bool, columns int, rows ...int) []weightAndBias {
	parts := make([]weightAndBias, len(rows))
	first := 0
	for i, n := range rows {
		at := func(name string) []View { return []View{{Tensor: module + name, First: first, Rows: n, Times: 1}} }
		parts[i].weight = Param{Shape: []int{n, columns}, Views: at(".weight")}
		if hasBias {
			parts[i].bias = Param{Shape: []int{n}, Views: at(".bias")}
		}
		first += n
	}
	return parts
}
