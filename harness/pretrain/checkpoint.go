package pretrain

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unsafe"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader/safetensors"
)

// Keys of a checkpoint's metadata.
const (
	recipeKey = "recipe"
	stepKey   = "step"
)

// gatesName is the tensor of a checkpoint that holds the gates, [layers, heads].
const gatesName = "gates"

// moments are the prefixes of a checkpoint's tensor names: parameters, first and second moments.
var moments = []string{"", "first.", "second."}

// Save writes the run to one file, whole or not at all: parameters, moments, step and recipe. [Resume] goes on from there.
func (t *Trainer) Save(path string) error {
	recipe, err := json.Marshal(t.recipe)
	if err != nil {
		return err
	}
	var entries []safetensors.Entry
	for i, x := range t.state {
		p := t.stack.Params()[i%len(t.stack.Params())]
		e, err := entry(moments[i/len(t.stack.Params())]+p.Views[0].Tensor, x, p.Shape)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	gates := tensors.FromFlatDataAndDimensions(t.gates, t.spec.Layers, t.spec.Heads)
	defer release(gates)
	e, err := entry(gatesName, gates, []int{t.spec.Layers, t.spec.Heads})
	if err != nil {
		return err
	}
	return safetensors.WriteFile(path, append(entries, e), map[string]string{recipeKey: string(recipe), stepKey: strconv.Itoa(t.step)})
}

func entry(name string, x *tensors.Tensor, shape []int) (safetensors.Entry, error) {
	values, err := tensors.CopyFlatData[float32](x)
	if err != nil {
		return safetensors.Entry{}, fmt.Errorf("%s: %w", name, err)
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))
	return safetensors.Entry{Name: name, DType: safetensors.F32, Shape: shape, Write: safetensors.Bytes(raw)}, nil
}

// load puts a checkpoint in the place of a new run's parameters and moments.
func (t *Trainer) load(path string) error {
	f, err := safetensors.OpenFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	recipe, err := json.Marshal(t.recipe)
	if err != nil {
		return err
	}
	if got := f.Metadata()[recipeKey]; got != string(recipe) {
		return fmt.Errorf("%s: got a run of recipe %s, want %s", path, got, recipe)
	}
	if t.step, err = strconv.Atoi(f.Metadata()[stepKey]); err != nil {
		return fmt.Errorf("%s: %s: %w", path, stepKey, err)
	}
	for i := range t.state {
		p := t.stack.Params()[i%len(t.stack.Params())]
		name := moments[i/len(t.stack.Params())] + p.Views[0].Tensor
		values, err := read(f, name, p.Shape)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		release(t.state[i])
		t.state[i] = tensors.FromFlatDataAndDimensions(values, p.Shape...)
	}
	if t.gates, err = read(f, gatesName, []int{t.spec.Layers, t.spec.Heads}); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// read reads a tensor of float32 of one shape.
func read(f *safetensors.File, name string, shape []int) ([]float32, error) {
	info, ok := f.Info(name)
	if !ok || !slices.Equal(info.Shape, shape) || info.DType != safetensors.F32 {
		return nil, fmt.Errorf("%s: got %s, want F32%v", name, info, shape)
	}
	raw, err := f.Bytes(name)
	if err != nil {
		return nil, err
	}
	values := make([]float32, len(raw)/4)
	if err := safetensors.DecodeFloat32(values, raw, safetensors.F32); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return values, nil
}

// Export writes the model as a Hugging Face folder: config.json, model.safetensors, tokenizer.json and tokenizer_config.json. Gates are
// multiplied into the weights.
func (t *Trainer) Export(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	config, err := t.recipe.Model.config(t.task.Vocab())
	if err != nil {
		return err
	}
	tokenizer, err := t.task.tokenizerJSON()
	if err != nil {
		return err
	}
	tokenizerConfig, err := tokenizerConfig(t.recipe.Model.Window)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"config.json": config, "tokenizer.json": tokenizer, "tokenizer_config.json": tokenizerConfig} {
		if err := os.WriteFile(filepath.Join(dir, name), append(data, '\n'), 0o666); err != nil {
			return err
		}
	}
	weights, err := t.weights()
	if err != nil {
		return err
	}
	defer release(weights...)
	var entries []safetensors.Entry
	for i, p := range t.stack.Params() {
		e, err := entry(p.Views[0].Tensor, weights[i], p.Shape)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	return safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), entries, map[string]string{"format": "pt"})
}
