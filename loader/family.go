package loader

import (
	"cmp"
	"fmt"
	"math"
)

// class is what a family's configuration class in transformers 5.24.0 takes for keys that are absent. Sizes of zero have no default
// here: a checkpoint without them is incomplete.
type class struct {
	modelType string

	layers, heads, hidden, intermediate, vocab int

	maxPositions int
	kvHeads      int  // 0 = as many as query heads
	kvNullable   bool // a null stands for as many as query heads, where an absent key stands for kvHeads
	headDim      int  // 0 = hidden/heads
	noHeadDim    bool // the class takes no head_dim but hidden/heads

	epsKey string // of the norms; empty where the class has no such key
	eps    float64
	actKey string
	act    string
	tied   bool

	eos, bos []int32
}

// read reads what all families spell alike and fills in what most of them share: a plain residual stream, norms before both parts, a
// gated MLP, scores over sqrt(head_dim), no window. The family changes what differs.
func (d class) read(c *config) Spec {
	s := Spec{
		Family:       c.text("model_type", ""),
		Layers:       c.integer("num_hidden_layers", cmp.Or(d.layers, required)),
		Heads:        c.integer("num_attention_heads", cmp.Or(d.heads, required)),
		Hidden:       c.integer("hidden_size", cmp.Or(d.hidden, required)),
		Intermediate: c.integer("intermediate_size", cmp.Or(d.intermediate, required)),
		Vocab:        c.integer("vocab_size", cmp.Or(d.vocab, required)),
		MaxPositions: c.integer("max_position_embeddings", d.maxPositions),

		Norm: RMSNorm, NormEps: d.eps, Norms: Norms{PreAttn: true, PreMLP: true},
		Activation: activation(c, d.actKey, d.act), Gated: true,
		Tied: c.boolean("tie_word_embeddings", d.tied),

		EmbedScale: 1, ResidualScale: 1, LogitScale: 1, LogitDivide: 1,
		EOS: d.eos, BOS: d.bos,
	}
	const kvKey = "num_key_value_heads"
	const most = 4096 // bounds what a hostile file makes us allocate
	if s.Layers > most {
		c.want("num_hidden_layers", fmt.Sprint(s.Layers), fmt.Sprintf("at most %d", most))
		s.Layers = 0
	}
	if s.Heads > most {
		c.want("num_attention_heads", fmt.Sprint(s.Heads), fmt.Sprintf("at most %d", most))
	}
	if s.Family != d.modelType {
		c.want("model_type", quoted(s.Family), quoted(d.modelType)+" beside this architecture")
	}
	if d.epsKey != "" {
		s.NormEps = c.float(d.epsKey, d.eps)
	}
	if d.kvHeads == 0 || d.kvNullable {
		s.KVHeads = cmp.Or(c.nullableInteger(kvKey, cmp.Or(d.kvHeads, s.Heads)), s.Heads)
	} else {
		s.KVHeads = c.integer(kvKey, d.kvHeads)
	}
	s.HeadDim = headDim(c, d, &s)
	s.ScoreScale = 1 / math.Sqrt(float64(s.HeadDim))
	s.Kinds = make([]LayerKind, max(s.Layers, 0))
	return s
}

// headDim reads head_dim: the class's where it is absent, or hidden/heads.
func headDim(c *config, d class, s *Spec) int {
	const largest = 1 << 16 // bounds what a hostile file makes us allocate for its table
	n := c.integer("head_dim", d.headDim)
	if c.err != nil {
		return 2
	}
	if n == 0 && s.Hidden%s.Heads != 0 {
		c.want("hidden_size", fmt.Sprint(s.Hidden), fmt.Sprintf("a multiple of the %d heads, or a head_dim", s.Heads))
	}
	if d.noHeadDim && n != 0 && n != s.Hidden/s.Heads {
		c.refuse("head_dim", fmt.Sprintf("%d, hidden_size over the number of heads", s.Hidden/s.Heads), "transformers' class takes no other")
	}
	if n == 0 {
		n = s.Hidden / s.Heads
	}
	if n%2 != 0 || n == 0 || n > largest {
		c.want("head_dim", fmt.Sprint(n), fmt.Sprintf("an even number up to %d", largest))
	}
	return n
}

// activation reads the name of the MLP's nonlinearity, as transformers' table ACT2FN has it.
func activation(c *config, key, def string) Activation {
	switch c.text(key, def) {
	case "silu", "swish":
		return SiLU
	case "gelu":
		return GELU
	case "gelu_pytorch_tanh", "gelu_new", "gelu_fast":
		return GELUTanh
	}
	c.refuse(key, `"silu", "gelu", "gelu_pytorch_tanh", "gelu_new" or "gelu_fast"`, "")
	return ""
}
