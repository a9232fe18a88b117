package loader

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/headscope/headscope/loader/safetensors"
)

const weightsFile = "weights"

// storedBuffer matches the frequency tables and causal masks that old exports stored beside the weights. They follow from the config, and
// transformers ignores them too.
var storedBuffer = regexp.MustCompile(
	`^(model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq|gpt_neox\.layers\.\d+\.attention\.(rotary_emb\.inv_freq|bias|masked_bias))$`)

// claim is what the spec wants of one stored tensor: which parameters take which of its rows.
type claim struct {
	name   string
	blocks [][2]int // ranges of rows; nil where one parameter takes the whole tensor
	shape  []int    // of the tensor; without its first axis where blocks are given
}

// claims lists the tensors that the spec asks for, in the order of its parameters.
func (s *Spec) claims() ([]*claim, error) {
	var list []*claim
	byName := map[string]*claim{}
	for _, p := range s.params() {
		for _, v := range p.Views {
			c := byName[v.Tensor]
			if c == nil {
				c = &claim{name: v.Tensor}
				byName[v.Tensor] = c
				list = append(list, c)
			} else if c.blocks == nil || v.isWhole() {
				return nil, fmt.Errorf("%s: %s: the spec takes it twice", s.Family, v.Tensor)
			}
			switch {
			case !v.isWhole():
				c.blocks, c.shape = append(c.blocks, v.blocks(0)...), p.Shape[1:]
			case len(p.Views) == 1:
				c.shape = p.Shape
			default: // one of a row of tensors, each a row of the parameter
				c.shape = p.Shape[1:]
			}
		}
	}
	for _, c := range list {
		if err := c.tile(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Family, err)
		}
	}
	return list, nil
}

// tile joins the blocks, which have to cover the tensor exactly, into its first axis.
func (c *claim) tile() error {
	if c.blocks == nil {
		return nil
	}
	slices.SortFunc(c.blocks, func(a, b [2]int) int { return a[0] - b[0] })
	end := 0
	for _, b := range c.blocks {
		if b[0] != end || b[1] <= b[0] {
			return fmt.Errorf("%s: the spec takes rows %d to %d after row %d", c.name, b[0], b[1]-1, end-1)
		}
		end = b[1]
	}
	c.shape = append([]int{end}, c.shape...)
	return nil
}

// checkWeights holds the store's headers against the spec both ways and fills in the dtype: every tensor of the spec is there with its shape
// and a float dtype, and nothing is left over beside buffers and stored copies of a tied head, whose names it returns.
func checkWeights(s *Spec, store *safetensors.Store) (copies []string, err error) {
	claims, err := s.claims()
	if err != nil {
		return nil, err
	}
	if err := checkQuantised(store); err != nil {
		return nil, err
	}
	expected := map[string]bool{}
	bytesOf := map[safetensors.DType]int64{}
	for _, t := range claims {
		info, ok := store.Info(t.name)
		if !ok {
			return nil, fmt.Errorf("%s: %s: got no such tensor, want one of shape %v", weightsFile, t.name, t.shape)
		}
		if !slices.Equal(info.Shape, t.shape) {
			return nil, fmt.Errorf("%s: %s: got shape %v, want %v as %s says", filepath.Base(store.Path(t.name)), t.name, info.Shape, t.shape, configFile)
		}
		if dtypeName(info.DType) == "" {
			return nil, &UnsupportedError{File: filepath.Base(store.Path(t.name)), Key: t.name, Got: "dtype " + string(info.DType), Want: "F32, BF16 or F16",
				hint: "use the checkpoint before quantisation"}
		}
		expected[t.name] = true
		bytesOf[info.DType] += info.End - info.Begin
	}
	others := otherParts[s.Architecture]
	for _, name := range store.Names() {
		switch {
		case expected[name] || storedBuffer.MatchString(name) || others != nil && others.MatchString(name):
		case s.Tied && (strings.HasSuffix(name, headName) || name == neoXHeadName):
			copies = append(copies, name)
		default:
			return nil, &UnsupportedError{File: filepath.Base(store.Path(name)), Key: name, Got: "a tensor that " + configFile + " does not account for",
				Want: fmt.Sprintf("the tensors of %d %s layers", s.Layers, s.Architecture),
				hint: "biases, norms and layers beyond the config change the numbers; check attention_bias, mlp_bias and num_hidden_layers"}
		}
	}
	s.DType = dominant(bytesOf)
	return copies, nil
}

// checkTiedHead takes a stored output matrix of a tied model only where it is the embedding again, bit for bit. Where it is not, the
// file contradicts its config: transformers' versions differ in which of the two they follow.
func checkTiedHead(s *Spec, store *safetensors.Store, name string) error {
	head, err := store.Bytes(name)
	if err != nil {
		return err
	}
	embed, err := store.Bytes(s.Params.Embed.Views[0].Tensor)
	if err != nil {
		return err
	}
	if !bytes.Equal(head, embed) {
		return &hintError{fmt.Errorf("%s: %s: got values other than those of %s, want equal ones: tie_word_embeddings is true", weightsFile, name, s.Params.Embed.Views[0].Tensor),
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
