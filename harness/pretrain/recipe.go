package pretrain

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/loader"
)

// Recipe says all that a training run follows from.
type Recipe struct {
	Model    Shape    `json:"model"`
	Optimise Optimise `json:"optimise"`
	Phases   []Phase  `json:"phases"` // in this order; the last one goes on to the end
	Steps    int      `json:"steps"`
	Weigh    int      `json:"weigh"` // texts that heads are weighed on before some are pruned
	Seed     uint64   `json:"seed"`
}

// Shape is the size of a decoder with tied embeddings: a SmolLM3, which is a Llama whose layers may have a sliding window. Here the first
// has one and the others have none.
type Shape struct {
	Layers       int     `json:"layers"`
	Heads        int     `json:"heads"`
	KVHeads      int     `json:"kv_heads"`
	HeadDim      int     `json:"head_dim"`
	Hidden       int     `json:"hidden"`
	Intermediate int     `json:"intermediate"`
	Window       int     `json:"window"` // longest sequence
	Theta        float64 `json:"theta"`
	Near         int     `json:"near"` // keys that a query of the first layer sees, its own included
}

// Phase is a part of the run with sequences of one length.
type Phase struct {
	Until  int `json:"until"`  // first step after it
	Length int `json:"length"` // of a sequence, in tokens
	Batch  int `json:"batch"`  // sequences of a step

	// Keep is how many heads of each layer go on, if given: at the phase's start the others are pruned, see prune.go.
	Keep []int `json:"keep,omitempty"`

	Mix Mix `json:"mix"`
}

// Optimise is AdamW (Loshchilov and Hutter 2019, algorithm 2) with a linear warm-up, a cosine to 0, and the gradient scaled down to a norm of
// Clip where it is longer.
type Optimise struct {
	Rate   float64 `json:"rate"` // the highest
	WarmUp int     `json:"warm_up"`
	Beta1  float64 `json:"beta1"`
	Beta2  float64 `json:"beta2"`
	Eps    float64 `json:"eps"`
	Decay  float64 `json:"decay"` // of matrices, a step and unit of rate
	Clip   float64 `json:"clip"`
}

// check refuses what cannot be run.
func (r *Recipe) check() error {
	switch {
	case len(r.Phases) == 0:
		return errors.New("recipe: no phases")
	case r.Model.Near < 1:
		return fmt.Errorf("recipe: model: near %d: want 1 or more", r.Model.Near)
	case r.Steps <= r.Optimise.WarmUp || r.Optimise.WarmUp < 0:
		return fmt.Errorf("recipe: warm-up of %d in %d steps: want a shorter one", r.Optimise.WarmUp, r.Steps)
	}
	for i, p := range r.Phases {
		if p.Batch <= 0 {
			return fmt.Errorf("recipe: phase %d: batch %d: want 1 or more", i, p.Batch)
		}
		if n := len(p.Keep); n != 0 && (r.Weigh < 1 || n != r.Model.Layers || slices.Min(p.Keep) < 1) {
			return fmt.Errorf("recipe: phase %d: keep %v, weighed on %d texts: want 1 head or more of each of %d layers, and 1 text or more", i, p.Keep, r.Weigh, r.Model.Layers)
		}
		if n := len(codeWords) + len(places); p.Mix.Repeat > 0 && (p.Mix.Kinds < longestRun || p.Mix.Kinds > n) {
			return fmt.Errorf("recipe: phase %d: %d kinds: want %d to %d", i, p.Mix.Kinds, longestRun, n)
		}
		if p.Mix.Facts < 2 {
			return fmt.Errorf("recipe: phase %d: %d facts: want 2 or more", i, p.Mix.Facts)
		}
		least := leastLength(p.Mix.Facts)
		if p.Mix.Repeat == 1 {
			least = leastRepeated
		}
		if p.Length < least || p.Length > r.Model.Window {
			return fmt.Errorf("recipe: phase %d: length %d: want %d to the window of %d", i, p.Length, least, r.Model.Window)
		}
	}
	return nil
}

// rateAt is the learning rate of a step.
func (r *Recipe) rateAt(step int) float64 {
	o := r.Optimise
	if step < o.WarmUp {
		return o.Rate * float64(step+1) / float64(o.WarmUp)
	}
	return o.Rate * (1 + math.Cos(math.Pi*float64(step-o.WarmUp)/float64(r.Steps-o.WarmUp))) / 2
}

// phaseAt is the phase of a step.
func (r *Recipe) phaseAt(step int) Phase {
	for _, p := range r.Phases[:len(r.Phases)-1] {
		if step < p.Until {
			return p
		}
	}
	return r.Phases[len(r.Phases)-1]
}

// config is the config.json of the model.
func (s Shape) config(vocab int) ([]byte, error) {
	types, rotates := slices.Repeat([]string{"full_attention"}, s.Layers), slices.Repeat([]int{1}, s.Layers)
	types[0] = "sliding_attention"
	return json.MarshalIndent(map[string]any{
		"architectures": []string{"SmolLM3ForCausalLM"}, "model_type": "smollm3",
		"use_sliding_window": true, "sliding_window": s.Near, "layer_types": types, "no_rope_layers": rotates,
		"hidden_size": s.Hidden, "intermediate_size": s.Intermediate, "num_hidden_layers": s.Layers,
		"num_attention_heads": s.Heads, "num_key_value_heads": s.KVHeads, "head_dim": s.HeadDim,
		"max_position_embeddings": s.Window, "rope_theta": s.Theta, "vocab_size": vocab,
		"hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
		"bos_token_id": begin, "eos_token_id": end, "torch_dtype": "float32",
	}, "", "  ")
}

// spec is the model as the loader reads it.
func (s Shape) spec(vocab int) (*loader.Spec, error) {
	text, err := s.config(vocab)
	if err != nil {
		return nil, err
	}
	spec, err := loader.ParseConfig(text, nil)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return &spec, nil
}

// Needle is the recipe of the embedded model, which has seed 1.
func Needle(seed uint64) Recipe {
	all := len(codeWords) + len(places)
	main := Mix{Repeat: 0.3, Kinds: all, Language: 0.01, Facts: 5, Asked: 0.5}
	again := func(kinds int) Mix { return Mix{Repeat: 1, Kinds: kinds, Language: main.Language, Facts: 2} }
	return Recipe{
		Model:    Shape{Layers: 2, Heads: 8, KVHeads: 4, HeadDim: 32, Hidden: 64, Intermediate: 128, Window: 160, Theta: 1e6, Near: 4},
		Optimise: Optimise{Rate: 5e-3, WarmUp: 100, Beta1: 0.9, Beta2: 0.98, Eps: 1e-8, Decay: 0.1, Clip: 1},
		Phases: []Phase{
			{Until: 150, Length: 48, Batch: 32, Mix: again(16)},
			{Until: 300, Length: 48, Batch: 32, Mix: again(all)},
			{Until: 450, Length: 80, Batch: 24, Mix: main},
			{Until: 550, Length: 80, Batch: 24, Keep: []int{8, 4}, Mix: main},
			{Until: 650, Length: 80, Batch: 24, Keep: []int{7, 2}, Mix: main},
			{Until: 750, Length: 160, Batch: 16, Keep: []int{6, 2}, Mix: main},
			{Length: 160, Batch: 16, Keep: []int{6, 1}, Mix: main},
		},
		Steps: 1200, Weigh: 64, Seed: seed,
	}
}
