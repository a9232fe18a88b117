package loader

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/headscope/headscope/loader/safetensors"
)

const (
	headName    = "lm_head.weight"
	weightsFile = "weights"
)

// rotaryBuffer matches the frequency tables that old exports stored beside the weights. They follow from the config, and transformers
// ignores them too.
var rotaryBuffer = regexp.MustCompile(`^model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq$`)

// tensor is one that the spec asks for.
type tensor struct {
	name  string
	shape []int
}

// layerTensors lists those of one layer, in the order of Names.
func (s *Spec) layerTensors(layer int) []tensor {
	n := s.Names.Layer(layer)
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	all := []tensor{
		{n.InputNorm, []int{s.Hidden}},
		{n.Q, []int{q, s.Hidden}}, {n.K, []int{kv, s.Hidden}}, {n.V, []int{kv, s.Hidden}}, {n.O, []int{s.Hidden, q}},
		{n.QBias, []int{q}}, {n.KBias, []int{kv}}, {n.VBias, []int{kv}}, {n.OBias, []int{s.Hidden}},
		{n.PostNorm, []int{s.Hidden}},
		{n.Gate, []int{s.Intermediate, s.Hidden}}, {n.Up, []int{s.Intermediate, s.Hidden}}, {n.Down, []int{s.Hidden, s.Intermediate}},
		{n.GateBias, []int{s.Intermediate}}, {n.UpBias, []int{s.Intermediate}}, {n.DownBias, []int{s.Hidden}},
	}
	return slices.DeleteFunc(all, func(t tensor) bool { return t.name == "" })
}

func (s *Spec) outerTensors() []tensor {
	all := []tensor{{s.Names.Embed, []int{s.Vocab, s.Hidden}}, {s.Names.FinalNorm, []int{s.Hidden}}}
	if s.Names.Head != "" {
		all = append(all, tensor{s.Names.Head, []int{s.Vocab, s.Hidden}})
	}
	return all
}

// checkWeights holds the store against the spec both ways and fills in the dtype: every tensor of the spec is there with its shape and
// a float dtype, and nothing is left over beside rotary buffers and a stored copy of a tied head.
func checkWeights(s *Spec, store *safetensors.Store) error {
	expected := map[string]bool{}
	bytesOf := map[safetensors.DType]int64{}
	check := func(list []tensor) error {
		for _, t := range list {
			info, ok := store.Info(t.name)
			if !ok {
				return fmt.Errorf("%s: %s: got no such tensor, want one of shape %v", weightsFile, t.name, t.shape)
			}
			if !slices.Equal(info.Shape, t.shape) {
				return fmt.Errorf("%s: %s: got shape %v, want %v as %s says", filepath.Base(store.Path(t.name)), t.name, info.Shape, t.shape, configFile)
			}
			if dtypeName(info.DType) == "" {
				return &UnsupportedError{File: filepath.Base(store.Path(t.name)), Key: t.name, Got: "dtype " + string(info.DType), Want: "F32, BF16 or F16",
					hint: "use the checkpoint before quantisation"}
			}
			expected[t.name] = true
			bytesOf[info.DType] += info.End - info.Begin
		}
		return nil
	}
	if err := check(s.outerTensors()); err != nil {
		return err
	}
	for l := range s.Layers {
		if err := check(s.layerTensors(l)); err != nil {
			return err
		}
	}
	for _, name := range store.Names() {
		switch {
		case expected[name] || rotaryBuffer.MatchString(name):
		case name == headName && s.Tied:
			if err := checkTiedHead(s, store); err != nil {
				return err
			}
		default:
			return &UnsupportedError{File: filepath.Base(store.Path(name)), Key: name, Got: "a tensor that " + configFile + " does not account for",
				Want: fmt.Sprintf("the tensors of %d %s layers", s.Layers, s.Architecture),
				hint: "biases, norms and layers beyond the config change the numbers; check attention_bias, mlp_bias and num_hidden_layers"}
		}
	}
	s.DType = dominant(bytesOf)
	return nil
}

// checkTiedHead takes a stored output matrix of a tied model only where it is the embedding again, bit for bit. Where it is not, the
// file contradicts its config: transformers' versions differ in which of the two they follow.
func checkTiedHead(s *Spec, store *safetensors.Store) error {
	head, err := store.Bytes(headName)
	if err != nil {
		return err
	}
	embed, err := store.Bytes(s.Names.Embed)
	if err != nil {
		return err
	}
	if !bytes.Equal(head, embed) {
		return &hintError{fmt.Errorf("%s: %s: got values other than those of %s, want equal ones: tie_word_embeddings is true", weightsFile, headName, s.Names.Embed),
			"set tie_word_embeddings to false to use the stored output matrix"}
	}
	return nil
}

// dominant returns the dtype that holds the most bytes, as config.json spells it: exporters keep norms in float32 beside bfloat16 matrices.
func dominant(bytesOf map[safetensors.DType]int64) string {
	best := safetensors.F32
	for _, d := range []safetensors.DType{safetensors.F32, safetensors.BF16, safetensors.F16} {
		if bytesOf[d] > bytesOf[best] {
			best = d
		}
	}
	return dtypeName(best)
}

// dtypeName returns torch's name of a float dtype that this module reads, "" for another one.
func dtypeName(d safetensors.DType) string {
	switch d {
	case safetensors.F32:
		return "float32"
	case safetensors.BF16:
		return "bfloat16"
	case safetensors.F16:
		return "float16"
	}
	return ""
}
