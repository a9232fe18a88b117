package loader

import (
	"fmt"
	"math"
)

// sizes reads what all families spell alike and fills in what most of them share: a plain residual stream, scores over
// sqrt(head_dim), one table for all layers, no window. A family changes what differs.
func sizes(c *config, modelType string) Spec {
	s := Spec{
		Family:       c.text("model_type", ""),
		Layers:       c.integer("num_hidden_layers", required),
		Heads:        c.integer("num_attention_heads", required),
		Hidden:       c.integer("hidden_size", required),
		Intermediate: c.integer("intermediate_size", required),
		Vocab:        c.integer("vocab_size", required),

		EmbedScale: 1, ResidualScale: 1, LogitScale: 1, LogitDivide: 1,
	}
	const deepest = 4096 // bounds what a hostile file makes us allocate
	if s.Layers > deepest {
		c.want("num_hidden_layers", fmt.Sprint(s.Layers), fmt.Sprintf("at most %d", deepest))
	}
	if s.Family != modelType {
		c.want("model_type", quoted(s.Family), quoted(modelType)+" beside this architecture")
	}
	return s
}

// headDim reads head_dim: def where it is absent, and hidden/heads where def is 0. It also sets the usual scale of scores.
func headDim(c *config, def int, s *Spec) int {
	const largest = 1 << 16 // bounds what a hostile file makes us allocate for its table
	d := c.integer("head_dim", def)
	if c.err != nil {
		return 0
	}
	if d == 0 && s.Hidden%s.Heads != 0 {
		c.want("hidden_size", fmt.Sprint(s.Hidden), fmt.Sprintf("a multiple of the %d heads, or a head_dim", s.Heads))
	}
	if d == 0 {
		d = s.Hidden / s.Heads
	}
	if d%2 != 0 || d == 0 || d > largest {
		c.want("head_dim", fmt.Sprint(d), fmt.Sprintf("an even number up to %d", largest))
	}
	s.ScoreScale = 1 / math.Sqrt(float64(d))
	return d
}

// activation reads the name of the MLP's nonlinearity, as transformers' table ACT2FN has it.
func activation(c *config, key, def string) Activation {
	switch c.text(key, def) {
	case "silu", "swish":
		return SiLU
	case "gelu":
		return GELU
	case "gelu_pytorch_tanh", "gelu_new":
		return GELUTanh
	}
	c.refuse(key, `"silu", "gelu", "gelu_pytorch_tanh" or "gelu_new"`, "")
	return ""
}

// layerTypes reads layer_types: for each layer, whether it has the sliding window. It returns nil where the key is absent.
func layerTypes(c *config, s *Spec) []bool {
	var names []string
	if !c.value("layer_types", "a list of strings", &names) {
		return nil
	}
	if len(names) != s.Layers {
		c.want("layer_types", fmt.Sprintf("%d entries", len(names)), fmt.Sprintf("one for each of the %d layers", s.Layers))
	}
	sliding := make([]bool, len(names))
	for i, name := range names {
		switch name {
		case fullAttention:
		case slidingAttention:
			sliding[i] = true
		default:
			c.refuse("layer_types", quoted(fullAttention)+" and "+quoted(slidingAttention), "")
		}
	}
	return sliding
}

// The kinds of layers that layer_types and rope_parameters name.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)
