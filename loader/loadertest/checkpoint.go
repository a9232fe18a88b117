package loadertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/safetensors"
)

// Options describe a checkpoint. Zero sizes take the defaults in brackets.
type Options struct {
	Family string // an architecture of loader.Architectures [LlamaForCausalLM], at the values that its published checkpoints exercise

	Layers       int // [2]
	Heads        int // [4]
	KVHeads      int // [Heads]
	HeadDim      int // [16]; need not be Hidden/Heads in families whose published files say it
	Hidden       int // [32], or Heads*HeadDim in the other families
	Intermediate int // [48]
	Vocab        int // [64]
	MaxPositions int // [512]

	AttentionBias, MLPBias, Tied bool // where the family has the key; Gemma, Cohere and SmolLM3 are tied in any case

	Theta  float64 // [10000 for Llama, the published value for others]
	Llama3 bool    // llama3 frequencies of Llama: factor 8 over MaxPositions/8, all three bands present at the default sizes

	Config map[string]any // keys of config.json in place of the family's; nil removes one

	BFloat16 bool // stored dtype, else float32
	Seed     uint64
}

func (o Options) withDefaults() Options {
	if o.Family == "" {
		o.Family = "LlamaForCausalLM"
	}
	for _, d := range []struct {
		to  *int
		def int
	}{
		{&o.Layers, 2}, {&o.Heads, 4}, {&o.Intermediate, 48}, {&o.Vocab, 64}, {&o.MaxPositions, 512},
	} {
		if *d.to == 0 {
			*d.to = d.def
		}
	}
	if o.KVHeads == 0 {
		o.KVHeads = o.Heads
	}
	free := o.saysHeadDim() // from hidden/heads
	switch {
	case o.HeadDim != 0:
	case o.Hidden != 0 && !free:
		o.HeadDim = o.Hidden / o.Heads
	default:
		o.HeadDim = 16
	}
	switch {
	case o.Hidden != 0:
	case free:
		o.Hidden = 32
	default:
		o.Hidden = o.Heads * o.HeadDim
	}
	return o
}

// Open writes a checkpoint to a folder that goes with the test and opens it; it is closed at the test's end.
func Open(t testing.TB, o Options) *loader.Checkpoint {
	t.Helper()
	dir := t.TempDir()
	if err := Write(dir, o); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

func open(t testing.TB, dir string) *loader.Checkpoint {
	t.Helper()
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Write writes config.json and model.safetensors into dir: the family's spelling of the config, and the tensors that the loader then asks
// for. Each is drawn from the seed and its own name.
func Write(dir string, o Options) error {
	o = o.withDefaults()
	if spellings[o.Family] == nil {
		return fmt.Errorf("loadertest: family: got %q, want one of %v", o.Family, slices.Sorted(maps.Keys(spellings)))
	}
	text, err := json.MarshalIndent(o.config(), "", "  ")
	if err != nil {
		return err
	}
	spec, err := loader.ParseConfig(text, nil)
	if err != nil {
		return fmt.Errorf("loadertest: %w", err)
	}
	if err := o.check(&spec); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644); err != nil {
		return err
	}
	return safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), o.entries(o.tensors(&spec)), map[string]string{"format": "pt"})
}

// check refuses options that the family's config cannot say.
func (o Options) check(s *loader.Spec) error {
	first := s.Params.Layer(0)
	for _, asked := range []struct {
		option string
		lost   bool
	}{
		{"AttentionBias", o.AttentionBias && !first.QBias.Has()}, {"MLPBias", o.MLPBias && !first.DownBias.Has()},
		{"Tied", o.Tied && !s.Tied}, {"Llama3", o.Llama3 && s.Tables[0].Type != "llama3"},
		{"KVHeads", o.KVHeads != s.KVHeads}, {"HeadDim", o.HeadDim != s.HeadDim},
	} {
		if asked.lost {
			return fmt.Errorf("loadertest: %s: %s has no such option at this value", asked.option, o.Family)
		}
	}
	return nil
}
