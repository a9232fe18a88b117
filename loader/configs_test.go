package loader_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/safetensors"
)

// The published numbers of parameters, and what is worth knowing of each: query heads a key/value head, layers with a window, layers that do
// not rotate, planes of the tables.
var published = map[string]struct {
	parameters int64
	facts      string
}{
	"Falcon3-7B-Base":          {7455550464, "group 3, window 0 of 28, unrotated 0, planes 128"},
	"Llama-2-7b-hf":            {6738415616, "group 1, window 0 of 32, unrotated 0, planes 64"},
	"Llama-3.1-8B":             {8030261248, "group 4, window 0 of 32, unrotated 0, planes 64"},
	"Llama-3.2-1B":             {1235814400, "group 4, window 0 of 16, unrotated 0, planes 32"},
	"Llama-3.2-3B":             {3212749824, "group 3, window 0 of 28, unrotated 0, planes 64"},
	"Mistral-7B-v0.1":          {7241732096, "group 4, window 32 of 32, unrotated 0, planes 64"},
	"Mistral-7B-v0.3":          {7248023552, "group 4, window 0 of 32, unrotated 0, planes 64"},
	"OLMo-2-1124-7B":           {7298617344, "group 1, window 0 of 32, unrotated 0, planes 64"},
	"OLMo-7B-hf":               {6888095744, "group 1, window 0 of 32, unrotated 0, planes 64"},
	"Olmo-3-1025-7B":           {7298011136, "group 1, window 24 of 32, unrotated 0, planes 64 64"},
	"Phi-3-mini-128k-instruct": {3821079552, "group 1, window 32 of 32, unrotated 0, planes 48"},
	"Phi-3-mini-4k-instruct":   {3821079552, "group 1, window 32 of 32, unrotated 0, planes 48"},
	"Phi-4-mini-instruct":      {3836021760, "group 3, window 32 of 32, unrotated 0, planes 48"},
	"Qwen2.5-1.5B":             {1543714304, "group 6, window 0 of 28, unrotated 0, planes 64"},
	"Qwen2.5-7B":               {7615616512, "group 7, window 0 of 28, unrotated 0, planes 64"},
	"Qwen3-8B":                 {8190735360, "group 4, window 0 of 36, unrotated 0, planes 64"},
	"SmolLM2-1.7B":             {1711376384, "group 1, window 0 of 24, unrotated 0, planes 32"},
	"SmolLM3-3B":               {3075098624, "group 4, window 0 of 36, unrotated 9, planes 64"},
	"gemma-2-9b":               {9241705984, "group 2, window 21 of 42, unrotated 0, planes 128"},
	"gemma-2b":                 {2506172416, "group 8, window 0 of 18, unrotated 0, planes 128"},
	"gemma-3-1b-pt":            {999885952, "group 4, window 22 of 26, unrotated 0, planes 128 128"},
	"gemma-3-4b-pt":            {3880263168, "group 2, window 29 of 34, unrotated 0, planes 128 128"},
	"glm-4-9b-hf":              {9399951360, "group 16, window 0 of 40, unrotated 0, planes 32"},
	"granite-3.1-8b-instruct":  {8170848256, "group 4, window 0 of 40, unrotated 0, planes 64"},
	"pythia-6.9b":              {6857302016, "group 1, window 0 of 32, unrotated 0, planes 16"},
	"stablelm-2-1_6b":          {1644515328, "group 1, window 0 of 24, unrotated 0, planes 8"},
}

func TestPublishedConfigs(t *testing.T) {
	files, err := filepath.Glob("testdata/configs/*.json")
	if err != nil || len(files) != len(published) {
		t.Fatalf("got %d configs (%v), want %d", len(files), err, len(published))
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), read(t, f), 0o644); err != nil {
			t.Fatal(err)
		}
		in, err := loader.Inspect(dir, 4096)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, s := published[name], in.Spec
		if in.Parameters != want.parameters {
			t.Errorf("%s: got %d parameters, want %d", name, in.Parameters, want.parameters)
		}
		var windows, still int
		for _, a := range s.Attention {
			if a.Window > 0 {
				windows++
			}
			if a.Table == nil {
				still++
			}
		}
		var planes []string
		for _, table := range s.Tables {
			planes = append(planes, fmt.Sprint(len(table.Wavelengths)))
		}
		if got := fmt.Sprintf("group %d, window %d of %d, unrotated %d, planes %s", s.Group, windows, s.Layers, still, strings.Join(planes, " ")); got != want.facts {
			t.Errorf("%s: got %s, want %s", name, got, want.facts)
		}
		for _, table := range s.Tables {
			if (table.ShortWavelengths != nil) != (table.Type == "longrope") || table.ShortWavelengths != nil && table.ShortWavelengths[40] >= table.Wavelengths[40] {
				t.Errorf("%s: got short wavelengths %v", name, table.ShortWavelengths)
			}
		}
		size := map[string]int64{"float32": 4, "bfloat16": 2, "float16": 2}[in.DType]
		if in.Weights != nil || len(in.Refused) != 0 || in.Memory.Weights != size*want.parameters ||
			in.Memory.Cache != 2*size*4096*int64(s.Layers*s.KVHeads*s.HeadDim) || in.Memory.Streamed >= in.Memory.Weights {
			t.Errorf("%s: got %+v, dtype %q, refused %v", name, in.Memory, in.DType, in.Refused)
		}
	}
}

func TestInspect(t *testing.T) {
	inspect := func(ref string) *loader.Inspection {
		t.Helper()
		in, err := loader.Inspect(ref, 0)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	got := inspect("testdata/parity/llama_gqa_llama3rope")
	// 112 tokens x 48, twice; per layer q, o 96x48, k, v 32x48, three MLP matrices 80x48 and two norms; the final norm.
	const layer, head = 2*96*48 + 2*32*48 + 3*80*48 + 2*48, 112 * 48
	const parameters = 2*head + 3*layer + 48
	if w := got.Weights; got.Parameters != parameters || w.Bytes != 4*parameters || w.Tensors != 3*9+3 || w.Files != 2 || len(w.IndexSHA256) != 64 {
		t.Errorf("got %d parameters, %+v, want %d", got.Parameters, w, parameters)
	}
	if want := (loader.Memory{Length: 131072, Weights: 4 * parameters, Streamed: 4 * (2*layer + 48 + head), Cache: 2 * 3 * 2 * 16 * 131072 * 4}); got.Memory != want {
		t.Errorf("got %+v, want %+v", got.Memory, want)
	}
	if got.DType != "float32" || got.Tokenizer != nil || got.Spec.Family != "llama" || len(got.ConfigSHA256) != 64 || got.ConfigSHA256 == got.Weights.IndexSHA256 {
		t.Errorf("got %+v", got)
	}
	table := got.Spec.Tables[0]
	if table.Type != "llama3" || len(table.Frequencies) != 8 || table.Frequencies[0] != 1 || table.Wavelengths[0] < 6.28 || table.Wavelengths[0] > 6.29 ||
		table.Turning != 5 || table.Parameters["factor"] != 8 {
		t.Errorf("got table %+v", table)
	}
	if fmt.Sprint(got.Spec.Norms, got.Spec.Biases) != "[before attention before mlp] []" {
		t.Errorf("got norms %v, biases %v", got.Spec.Norms, got.Spec.Biases)
	}

	tied, copied := inspect(folder(t, loadertest.Options{Tied: true}, nil)), inspect(folder(t, loadertest.Options{Tied: true}, headIsEmbedding))
	if tied.Parameters != copied.Parameters || tied.Weights.Bytes != copied.Weights.Bytes || copied.Weights.Tensors != tied.Weights.Tensors+1 {
		t.Errorf("a stored copy of a tied head counts: got %d and %d parameters", copied.Parameters, tied.Parameters)
	}
}

// What Open refuses stands in the inspection, all of it, and the rest of the inspection is there.
func TestInspectGoesOn(t *testing.T) {
	dir := folder(t, loadertest.Options{}, replaced(zeros("model.norm.weight", safetensors.F32, 31)))
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	in, err := loader.Inspect(dir, 128)
	if in == nil || err == nil || len(in.Refused) != 2 || !strings.Contains(in.Refused[0], "model.norm.weight: got shape [31]") || !strings.Contains(in.Refused[1], "tokenizer.json") {
		t.Fatalf("got %+v, %v, want weights and tokenizer refused", in, err)
	}
	_, openErr := loader.Open(dir)
	var a, b interface{ Hint() string }
	if !errors.As(err, &a) || !errors.As(openErr, &b) || a.Hint() != b.Hint() {
		t.Errorf("got %v, want the hint of %v", err, openErr)
	}
	if in.Spec.Heads != 4 || in.Weights == nil || in.Memory.Length != 128 {
		t.Errorf("got %+v", in)
	}
	quantised := func(e []safetensors.Entry) []safetensors.Entry {
		return append(e, zeros("model.layers.0.mlp.up_proj.qweight", safetensors.I32, 4, 4))
	}
	in, err = loader.Inspect(folder(t, loadertest.Options{}, quantised), 0)
	if !isUnsupported(err) || in == nil || len(in.Refused) != 1 || !strings.Contains(in.Refused[0], "awq") {
		t.Errorf("got %+v, %v, want awq refused", in, err)
	}
	empty := t.TempDir()
	if in, err := loader.Inspect(empty, 0); err == nil || in != nil {
		t.Errorf("an empty folder: got %+v, %v", in, err)
	}
	if err := os.WriteFile(filepath.Join(empty, "config.json"), base(nil), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(empty, "pytorch_model.bin"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if in, err := loader.Inspect(empty, 0); err == nil || in == nil || len(in.Refused) != 1 || !strings.Contains(in.Refused[0], "pickle") {
		t.Errorf("only pickles: got %+v, %v", in, err)
	}
}

func TestModels(t *testing.T) {
	for _, a := range loader.Architectures() {
		if loader.Models(a) == "" {
			t.Errorf("%s: no checkpoint is named", a)
		}
	}
	if loader.Models("GPT2LMHeadModel") != "" {
		t.Error("models of an architecture that is not read")
	}
}
