package loader

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/headscope/headscope/loader/safetensors"
	"github.com/headscope/headscope/loader/tokenizer"
)

// Inspection is what there is to say about a checkpoint without reading its weights. Its JSON form is printed by `headscope inspect --json`.
type Inspection struct {
	Ref          string `json:"ref"`
	Dir          string `json:"dir"`
	Revision     string `json:"revision,omitempty"`
	ConfigSHA256 string `json:"config_sha256"`

	Spec SpecInspection `json:"spec"`

	DType      string `json:"dtype"`      // of the weights where they are there, else what the config says; empty where it does not
	Parameters int64  `json:"parameters"` // elements the spec asks for, a tied matrix once
	Memory     Memory `json:"memory"`

	Weights   *WeightsInspection   `json:"weights"`   // null where the folder has none
	Tokenizer *TokenizerInspection `json:"tokenizer"` // null where it has none, or one that is refused
	Refused   []string             `json:"refused"`   // why Open would fail; empty where it would not
}

// WeightsInspection describes the files of the weights.
type WeightsInspection struct {
	Bytes       int64  `json:"bytes"`   // of the parameters as stored
	Tensors     int    `json:"tensors"` // harmless extras included
	Files       int    `json:"files"`
	IndexSHA256 string `json:"index_sha256,omitempty"` // of model.safetensors.index.json
}

// TokenizerInspection describes the tokenizer.
type TokenizerInspection struct {
	Vocab        int    `json:"vocab"` // largest id plus one
	Added        int    `json:"added"`
	AddsSpecial  bool   `json:"adds_special"`
	BOS          string `json:"bos,omitempty"`
	EOS          string `json:"eos,omitempty"`
	ChatTemplate bool   `json:"chat_template"`
	SHA256       string `json:"sha256"`
}

// Memory is what running the model takes at a length, in bytes, in the dtype of the checkpoint (float32 where it is not known).
type Memory struct {
	Length   int   `json:"length"`   // tokens of one sequence
	Weights  int64 `json:"weights"`  // all of them
	Streamed int64 `json:"streamed"` // two layers and what stands behind the last, which is what streaming keeps
	Cache    int64 `json:"cache"`    // keys and values of all layers; a window does not shorten them
}

// Inspect looks at a reference as Open does, but reads only headers, and goes on where Open stops: what would be refused of weights and
// tokenizer stands in Refused, and the first such error is returned beside the inspection. A config that is refused leaves nothing to
// inspect. A folder with no more than config.json is inspected without an error.
//
// length is the number of tokens for which Memory is reckoned; 0 stands for the longest sequence of the checkpoint.
func Inspect(ref string, length int) (*Inspection, error) {
	c, err := find(ref)
	if err != nil {
		return nil, err
	}
	if err := c.readConfig(); err != nil {
		return nil, incomplete(err, ref, c.Revision)
	}
	out := &Inspection{Ref: ref, Dir: c.Dir, Revision: c.Revision, ConfigSHA256: c.ConfigSHA256, Refused: []string{}}
	if out.Spec, err = inspectSpec(&c.Spec); err != nil {
		return nil, err
	}
	refuse := func(e error) {
		if e == nil {
			return
		}
		if out.Refused = append(out.Refused, e.Error()); err == nil {
			err = e
		}
	}
	refuse(out.inspectWeights(c))
	refuse(c.readTokenizer())
	if t := c.Tokenizer; t != nil {
		out.Tokenizer = inspectTokenizer(t)
	}
	if out.DType = c.Spec.DType; out.DType == "" {
		out.DType = configDType(c.Dir)
	}
	out.Memory = c.Spec.memory(out.DType, length)
	for _, p := range c.Spec.params() {
		out.Parameters += p.Elements()
	}
	return out, err
}

// ReadSpec reads the config of a reference and nothing else: a folder with no more than config.json will do.
func ReadSpec(ref string) (*Spec, error) {
	c, err := find(ref)
	if err != nil {
		return nil, err
	}
	if err := c.readConfig(); err != nil {
		return nil, incomplete(err, ref, c.Revision)
	}
	return &c.Spec, nil
}

// inspectWeights opens the weights and holds their headers against the spec. No weights at all are no error.
func (in *Inspection) inspectWeights(c *Checkpoint) error {
	store, err := c.openWeights()
	var none *safetensors.OpenError
	if errors.As(err, &none) && onlyConfig(c.Dir) {
		return nil
	}
	if err != nil {
		return incomplete(err, c.Ref, c.Revision)
	}
	w := &WeightsInspection{Tensors: len(store.Names()), Files: len(store.Files())}
	in.Weights = w
	_, err = checkWeights(&c.Spec, store)
	err = withHint(err, mismatchHint)
	claims, claimErr := c.Spec.claims()
	for _, t := range claims {
		info, _ := store.Info(t.name)
		w.Bytes += info.End - info.Begin
	}
	if filepath.Base(store.Files()[0]) != singleFile { // then there is an index, or the file that was named
		data, readErr := os.ReadFile(filepath.Join(c.Dir, indexFile))
		if readErr == nil {
			w.IndexSHA256 = sha256Hex(data)
		} else if !errors.Is(readErr, fs.ErrNotExist) {
			err = errors.Join(err, readErr)
		}
	}
	return errors.Join(err, claimErr, store.Close())
}

// onlyConfig tells whether a folder has no weights in any format.
func onlyConfig(dir string) bool {
	for _, pattern := range []string{"*.safetensors", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.gguf", "*.index.json"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) > 0 {
			return false
		}
	}
	return true
}

func inspectTokenizer(t *tokenizer.Tokenizer) *TokenizerInspection {
	return &TokenizerInspection{Vocab: t.VocabSize(), Added: len(t.AddedTokens()), AddsSpecial: t.AddsSpecial(),
		BOS: t.BOS(), EOS: t.EOS(), ChatTemplate: t.ChatTemplate() != "", SHA256: t.SHA256()}
}

// configDType is what a config says of the weights' dtype, under its name in either version of transformers; empty where it says nothing
// that this module reads.
func configDType(dir string) string {
	var says struct {
		Old string `json:"torch_dtype"`
		New string `json:"dtype"`
	}
	text, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil || json.Unmarshal(text, &says) != nil { // readConfig has read it
		return ""
	}
	for _, name := range []string{says.New, says.Old} {
		if slices.Contains([]string{"float32", "bfloat16", "float16"}, name) {
			return name
		}
	}
	return ""
}

// memory reckons Memory for a dtype.
func (s *Spec) memory(dtype string, length int) Memory {
	size := int64(2)
	if dtype == "float32" || dtype == "" {
		size = 4
	}
	sum := func(params []Param) (n int64) {
		for _, p := range params {
			n += p.Elements() * size
		}
		return n
	}
	m := Memory{Length: cmp.Or(length, s.MaxPositions), Weights: sum(s.params())}
	first := s.Params.Layer(0)
	p := s.Params
	head := p.Head
	if s.Tied {
		head = p.Embed
	}
	m.Streamed = 2*sum(first.All()) + sum([]Param{p.FinalNorm, p.FinalBias, head, p.HeadBias})
	m.Cache = 2 * int64(s.Layers) * int64(s.KVHeads) * int64(s.HeadDim) * int64(m.Length) * size
	return m
}
