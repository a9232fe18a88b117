package loader

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/headscope/headscope/loader/rope"
)

// Inspection is what there is to say about a checkpoint without running it. Its JSON form is printed by `headscope inspect --format json`.
type Inspection struct {
	Ref          string `json:"ref"`
	Dir          string `json:"dir"`
	Revision     string `json:"revision,omitempty"`
	Family       string `json:"family"`
	Architecture string `json:"architecture"`

	Layers       int     `json:"layers"`
	Heads        int     `json:"heads"`
	KVHeads      int     `json:"kv_heads"`
	HeadDim      int     `json:"head_dim"`
	Hidden       int     `json:"hidden"`
	Intermediate int     `json:"intermediate"`
	Vocab        int     `json:"vocab"`
	MaxPositions int     `json:"max_positions"`
	NormEps      float64 `json:"norm_eps"`
	Activation   string  `json:"activation"`
	Tied         bool    `json:"tied"`
	EOS          []int32 `json:"eos"`
	BOS          []int32 `json:"bos"`

	DType      string `json:"dtype"`
	Parameters int64  `json:"parameters"` // elements the spec asks for, a tied matrix once
	Bytes      int64  `json:"bytes"`      // of those elements as stored
	Tensors    int    `json:"tensors"`    // in the files, harmless extras included
	Files      int    `json:"files"`

	Rope      RopeInspection       `json:"rope"`
	Tokenizer *TokenizerInspection `json:"tokenizer"` // null where there is none

	ConfigSHA256       string `json:"config_sha256"`
	WeightsIndexSHA256 string `json:"weights_index_sha256,omitempty"` // of model.safetensors.index.json
}

// RopeInspection describes the rotary table.
type RopeInspection struct {
	Type      string    `json:"type"`
	Theta     float64   `json:"theta"`
	RotaryDim int       `json:"rotary_dim"`
	Planes    int       `json:"planes"`
	Scale     float64   `json:"scale"`
	Fastest   []float64 `json:"fastest"` // first entries of the table, radians a token
	Slowest   []float64 `json:"slowest"` // its smallest entries, slowest first

	Factor               float64 `json:"factor,omitempty"`
	LowFreqFactor        float64 `json:"low_freq_factor,omitempty"`
	HighFreqFactor       float64 `json:"high_freq_factor,omitempty"`
	OriginalMaxPositions int     `json:"original_max_positions,omitempty"`
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

// Inspect collects the inspection. It reads no weights, only their headers.
func (c *Checkpoint) Inspect() (*Inspection, error) {
	s := &c.Spec
	out := &Inspection{
		Ref: c.Ref, Dir: c.Dir, Revision: c.Revision, Family: s.Family, Architecture: s.Architecture,
		Layers: s.Layers, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Hidden: s.Hidden, Intermediate: s.Intermediate,
		Vocab: s.Vocab, MaxPositions: s.MaxPositions, NormEps: s.NormEps, Activation: string(s.Activation), Tied: s.Tied,
		EOS: s.EOS, BOS: s.BOS, DType: s.DType, Tensors: len(c.Weights.Names()), Files: len(c.Weights.Files()), ConfigSHA256: c.ConfigSHA256,
	}
	claims, err := s.claims()
	if err != nil {
		return nil, err
	}
	for _, t := range claims {
		info, _ := c.Weights.Info(t.name) // Open found it
		out.Parameters += int64(info.Elements())
		out.Bytes += info.End - info.Begin
	}
	if out.Rope, err = inspectRope(s); err != nil {
		return nil, err
	}
	if t := c.Tokenizer; t != nil {
		out.Tokenizer = &TokenizerInspection{Vocab: t.VocabSize(), Added: len(t.AddedTokens()), AddsSpecial: t.AddsSpecial(),
			BOS: t.BOS(), EOS: t.EOS(), ChatTemplate: t.ChatTemplate() != "", SHA256: t.SHA256()}
	}
	if filepath.Base(c.Weights.Files()[0]) != "model.safetensors" { // then there is an index, however many files
		index := filepath.Join(c.Dir, indexFile)
		data, err := os.ReadFile(index)
		if err != nil {
			return nil, fmt.Errorf("inspect: %w", err)
		}
		out.WeightsIndexSHA256 = sha256Hex(data)
	}
	return out, nil
}

func inspectRope(s *Spec) (RopeInspection, error) {
	const shownPlanes = 4
	r := &s.Tables[0]
	t, err := rope.New(*r, s.HeadDim, s.MaxPositions)
	if err != nil {
		return RopeInspection{}, err
	}
	n := min(shownPlanes, t.Planes())
	out := RopeInspection{Type: r.Type, Theta: r.Theta, RotaryDim: t.RotaryDim, Planes: t.Planes(), Scale: t.Scale, Fastest: t.InvFreq[:n],
		Factor: r.Factor, LowFreqFactor: r.LowFreqFactor, HighFreqFactor: r.HighFreqFactor,
		OriginalMaxPositions: r.OriginalMaxPositions}
	for _, p := range t.SlowestPlanes(2 * n) {
		out.Slowest = append(out.Slowest, t.InvFreq[p])
	}
	return out, nil
}
