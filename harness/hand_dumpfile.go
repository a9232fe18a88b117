package harness

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/headscope/headscope/harness/npz"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/safetensors"
)

// dumpVersion is that of a dump's layout.
const dumpVersion = 1

// DumpMeta says what the arrays of a dump are, and of what.
type DumpMeta struct {
	Format   string         `json:"format"` // headscope-dump
	Version  int            `json:"version"`
	Tool     Tool           `json:"tool"`
	Model    ModelInfo      `json:"model"`
	DType    string         `json:"dtype"` // of weights and activations; the arrays are float32
	Hardware Hardware       `json:"hardware"`
	Rope     []DumpRope     `json:"rope"`
	Source   PassageSource  `json:"source"`
	Prompt   int            `json:"prompt_tokens"` // T of the scopes; tokens beyond it are the fed answer
	Question *int           `json:"question_row"`  // null where it is not known
	Spans    []NamedSpan    `json:"spans"`
	Edits    []decoder.Edit `json:"edits"`
	Arrays   []Array        `json:"arrays"`
	Labels   []string       `json:"labels"` // of the tokens
}

// DumpRope is the rotary table of some layers; those that are in no table do not rotate.
type DumpRope struct {
	Layers      []int     `json:"layers"`
	Type        string    `json:"type"`
	Theta       float64   `json:"theta"`
	RotaryDim   int       `json:"rotary_dim"`
	Scale       float64   `json:"scale"`       // factor on cosine and sine
	InvFreq     []float64 `json:"inv_freq"`    // radians a token; plane i is dimensions i and i + rotary_dim/2, or 2i and 2i+1
	Interleaved bool      `json:"interleaved"` // the latter
}

// ropeTables lists the tables in use in a pass over so many tokens.
func ropeTables(s *loader.Spec, tokens int) ([]DumpRope, error) {
	var out []DumpRope
	place := map[int]int{}
	for l, kind := range s.Kinds {
		table, err := decoder.RopeTable(s, l, tokens)
		if err != nil {
			return nil, err
		}
		if table == nil {
			continue
		}
		i, ok := place[kind.Table]
		if !ok {
			i = len(out)
			place[kind.Table] = i
			c := s.Tables[kind.Table]
			out = append(out, DumpRope{nil, c.Type, c.Theta, table.RotaryDim, table.Scale, table.InvFreq, s.Interleaved})
		}
		out[i].Layers = append(out[i].Layers, l)
	}
	return out, nil
}

func (r *DumpRequest) meta(ctx context.Context, arrays []Array) (*DumpMeta, error) {
	c, p := r.Checkpoint, r.Passage
	weights, err := WeightsSHA256(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &c.Spec
	tables, err := ropeTables(s, len(p.IDs))
	if err != nil {
		return nil, err
	}
	m := &DumpMeta{
		Format: "headscope-dump", Version: dumpVersion, Tool: CurrentTool(),
		Model: ModelInfo{
			Ref: c.Ref, Revision: c.Revision, Family: s.Family, Layers: s.Layers, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim,
			ConfigSHA256: c.ConfigSHA256, WeightsSHA256: weights,
		},
		DType: r.Model.DType(), Hardware: CurrentEnvironment(r.Model.Backend()).Hardware,
		Rope:   tables,
		Source: p.Source, Prompt: len(p.IDs), Spans: append([]NamedSpan{}, p.Spans...), Edits: append([]decoder.Edit{}, decoder.Canonical(r.Edits)...),
		Arrays: arrays, Labels: make([]string, len(p.Tokens)),
	}
	if c.Tokenizer != nil {
		m.Model.TokenizerSHA256 = c.Tokenizer.SHA256()
	}
	if p.Question > 0 {
		m.Question = &p.Question
	}
	for i := range p.Tokens {
		if m.Labels[i] = p.Tokens[i].Text; m.Labels[i] == "" {
			m.Labels[i] = p.Tokens[i].Label()
		}
	}
	return m, nil
}

// CheckDumpPath refuses what a dump cannot be written to, before anything is computed. Its suffix names the format: .npz or
// .safetensors. A file that is there already is kept unless overwrite is set.
func CheckDumpPath(path string, overwrite bool) error {
	if s := filepath.Ext(path); s != ".npz" && s != ".safetensors" {
		return usagef("name a file that ends in .npz or .safetensors", "dump to %q: what format?", path)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("dump: %w", err)
	} else if !st.IsDir() {
		return fmt.Errorf("dump: %s is no folder", filepath.Dir(path))
	}
	switch st, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("dump: %w", err)
	case st.IsDir():
		return usagef("name a file", "dump: %s is a folder", path)
	case !overwrite:
		return usagef("name another file, or give --overwrite", "dump: %s is there already", path)
	}
	return nil
}

// WriteFile writes the arrays and what they are to a .npz or .safetensors file, whole or not at all. The description is the entry
// meta.json, or the metadata key "meta".
func (d *Dumped) WriteFile(path string) error {
	meta, err := json.Marshal(d.Meta)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	if strings.HasSuffix(path, ".safetensors") {
		entries := make([]safetensors.Entry, len(d.Arrays))
		for i := range d.Arrays {
			entries[i] = d.Arrays[i].tensor()
		}
		return safetensors.WriteFile(path, entries, map[string]string{"format": "headscope-dump", "meta": string(meta)})
	}
	entries := make([]npz.Entry, 0, len(d.Arrays)+1)
	for _, a := range d.Arrays {
		e := npz.Entry{Name: a.Name, Shape: a.Shape, Data: a.Floats}
		if a.DType == "int32" {
			e.Data = a.Ints
		}
		entries = append(entries, e)
	}
	return npz.WriteFile(path, append(entries, npz.Entry{Name: "meta.json", Data: meta}))
}

func (a *Array) tensor() safetensors.Entry {
	e := safetensors.Entry{Name: a.Name, DType: safetensors.F32, Shape: a.Shape}
	if a.DType == "int32" {
		e.DType = safetensors.I32
	}
	e.Write = func(w io.Writer) error {
		b := make([]byte, 0, 4*8192)
		put := func(v uint32) error {
			b = binary.LittleEndian.AppendUint32(b, v)
			if len(b) < cap(b) {
				return nil
			}
			_, err := w.Write(b)
			b = b[:0]
			return err
		}
		for _, v := range a.Ints {
			if err := put(uint32(v)); err != nil {
				return err
			}
		}
		for _, v := range a.Floats {
			if err := put(math.Float32bits(v)); err != nil {
				return err
			}
		}
		_, err := w.Write(b)
		return err
	}
	return e
}

// Bytes is the size of all arrays.
func (d *Dumped) Bytes() int64 {
	n := int64(0)
	for _, a := range d.Arrays {
		n += product(append([]int{4}, a.Shape...)...)
	}
	return n
}
