package gguf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const ropeFreqs = "rope_freqs.weight"

// source is one tensor of the checkpoint and where it comes from.
type source struct {
	name  string // in the checkpoint
	from  string // in the GGUF file
	shape []int
	heads int // > 0: rows are in llama.cpp's order, to be put back head by head
}

// tensorPlan is what a checkpoint is made of.
type tensorPlan struct {
	sources           []source // sorted by name
	tied              bool     // no output matrix of its own
	attnBias, mlpBias bool
	parameters        int64
}

// planTensors maps every tensor of the file to its transformers name, with its shape checked, and checks that none is missing.
func planTensors(f *File, m *llama) (*tensorPlan, error) {
	p := &tensorPlan{tied: true}
	have := map[string]bool{}
	for _, t := range f.tensors {
		if t.Name == ropeFreqs {
			continue // readScaling has turned it into rope_scaling
		}
		s, err := m.source(t.Name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		if !slices.Equal(t.Shape, s.shape) {
			return nil, fmt.Errorf("%s: got shape %v, want %v", t.Name, t.Shape, s.shape)
		}
		if _, err := f.readable(t.Name); err != nil {
			return nil, err
		}
		have[t.Name] = true
		p.sources = append(p.sources, s)
		p.parameters += int64(t.Len())
	}
	p.tied = !have["output.weight"]
	for _, name := range []string{"token_embd.weight", "output_norm.weight"} {
		if !have[name] {
			return nil, fmt.Errorf("%s: tensor is missing", name)
		}
	}
	for layer := range m.layers {
		for _, part := range []string{"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"} {
			if name := fmt.Sprintf("blk.%d.%s.weight", layer, part); !have[name] {
				return nil, fmt.Errorf("%s: tensor is missing", name)
			}
		}
	}
	var err error
	if p.attnBias, err = biases(have, m.layers, "attn_q", "attn_k", "attn_v", "attn_output"); err != nil {
		return nil, err
	}
	if p.mlpBias, err = biases(have, m.layers, "ffn_gate", "ffn_up", "ffn_down"); err != nil {
		return nil, err
	}
	slices.SortFunc(p.sources, func(a, b source) int { return strings.Compare(a.name, b.name) })
	return p, nil
}

// biases says whether the parts have biases in all layers; LlamaForCausalLM has one switch for all, so some is an error.
func biases(have map[string]bool, layers int, parts ...string) (bool, error) {
	present, absent := "", ""
	for layer := range layers {
		for _, part := range parts {
			if name := fmt.Sprintf("blk.%d.%s.bias", layer, part); have[name] {
				present = name
			} else if absent == "" {
				absent = name
			}
		}
	}
	if present != "" && absent != "" {
		return false, unsupported("%s: the file has this tensor but not %s, and a llama config has one switch for both", present, absent)
	}
	return present != "", nil
}

// source maps a GGUF tensor name.
func (m *llama) source(name string) (source, error) {
	s := source{from: name}
	switch name {
	case "token_embd.weight":
		s.name, s.shape = "model.embed_tokens.weight", []int{m.vocab, m.hidden}
		return s, nil
	case "output_norm.weight":
		s.name, s.shape = "model.norm.weight", []int{m.hidden}
		return s, nil
	case "output.weight":
		s.name, s.shape = "lm_head.weight", []int{m.vocab, m.hidden}
		return s, nil
	}
	unknown := unsupported("tensor is not understood")
	field := strings.Split(name, ".")
	if len(field) != 4 || field[0] != "blk" || field[3] != "weight" && field[3] != "bias" {
		return s, unknown
	}
	layer, err := strconv.Atoi(field[1])
	if err != nil || strconv.Itoa(layer) != field[1] {
		return s, unknown
	}
	if layer < 0 || layer >= m.layers {
		return s, fmt.Errorf("layer %d, the file has %d", layer, m.layers)
	}
	part, ok := m.part(field[2])
	isNorm := len(part.shape) == 1
	if !ok || isNorm && field[3] == "bias" {
		return s, unknown
	}
	s.name = fmt.Sprintf("model.layers.%d.%s.%s", layer, part.name, field[3])
	s.shape, s.heads = part.shape, part.heads
	if field[3] == "bias" {
		s.shape = part.shape[:1]
	}
	return s, nil
}

// part describes the weight of one part of a layer; its bias has the first dimension of shape.
func (m *llama) part(name string) (source, bool) {
	q, kv := m.heads*m.headDim, m.kvHeads*m.headDim
	switch name {
	case "attn_norm":
		return source{name: "input_layernorm", shape: []int{m.hidden}}, true
	case "attn_q":
		return source{name: "self_attn.q_proj", shape: []int{q, m.hidden}, heads: m.heads}, true
	case "attn_k":
		return source{name: "self_attn.k_proj", shape: []int{kv, m.hidden}, heads: m.kvHeads}, true
	case "attn_v":
		return source{name: "self_attn.v_proj", shape: []int{kv, m.hidden}}, true
	case "attn_output":
		return source{name: "self_attn.o_proj", shape: []int{m.hidden, q}}, true
	case "ffn_norm":
		return source{name: "post_attention_layernorm", shape: []int{m.hidden}}, true
	case "ffn_gate":
		return source{name: "mlp.gate_proj", shape: []int{m.intermediate, m.hidden}}, true
	case "ffn_up":
		return source{name: "mlp.up_proj", shape: []int{m.intermediate, m.hidden}}, true
	case "ffn_down":
		return source{name: "mlp.down_proj", shape: []int{m.hidden, m.intermediate}}, true
	}
	return source{}, false
}
