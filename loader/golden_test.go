package loader_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
	"github.com/headscope/headscope/loader/safetensors"
)

// golden is what golden.json says of a case beside its arrays.
type golden struct {
	Shape struct {
		Layers, Heads, Hidden, Vocab int
		KVHeads                      int    `json:"kv_heads"`
		HeadDim                      int    `json:"head_dim"`
		RotaryDim                    int    `json:"rotary_dim"`
		Pairs                        string `json:"rotary_pairs"`
	}
	Layers []struct {
		Window *int
		Rope   *string
	}
	Sequences []struct {
		IDs  []int32
		Rope tables
	}
	Checks struct {
		Effect map[string]float64 `json:"config_change_effect"`
	}
}

const cases = 28 // of testdata/parity

// goldenFolders are those of testdata and of every folder that HEADSCOPE_GOLDEN names.
func goldenFolders(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, dir := range append([]string{"testdata/parity"}, filepath.SplitList(os.Getenv("HEADSCOPE_GOLDEN"))...) {
		for _, pattern := range []string{"golden.json", "*/golden.json"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				if _, err := os.Stat(filepath.Join(filepath.Dir(f), "config.json")); err == nil {
					out = append(out, filepath.Dir(f))
				}
			}
		}
	}
	if len(out) < cases {
		t.Fatalf("got %d golden folders, want the %d of testdata/parity at least", len(out), cases)
	}
	return out
}

func readGolden(t *testing.T, dir string) golden {
	t.Helper()
	var g golden
	if err := json.Unmarshal(read(t, dir, "golden.json"), &g); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return g
}

// Open holds the weights of each case against its spec; shape, windows and tables are those that transformers had.
func TestParitySpecs(t *testing.T) {
	families := map[string]bool{}
	for _, dir := range goldenFolders(t) {
		name, g := filepath.Base(dir), readGolden(t, dir)
		c := mustOpen(t, dir)
		s := &c.Spec
		families[s.Architecture] = true
		got := fmt.Sprint(s.Layers, s.Heads, s.KVHeads, s.HeadDim, s.Hidden, s.Vocab, s.DType)
		if want := fmt.Sprint(g.Shape.Layers, g.Shape.Heads, g.Shape.KVHeads, g.Shape.HeadDim, g.Shape.Hidden, g.Shape.Vocab, "float32"); got != want {
			t.Errorf("%s: got shape %s, want %s", name, got, want)
		}
		if s.Interleaved != (g.Shape.Pairs == "interleaved") {
			t.Errorf("%s: got interleaved %v, want %s", name, s.Interleaved, g.Shape.Pairs)
		}
		for l, k := range s.Kinds {
			want := g.Layers[l]
			if (want.Window == nil) != (k.Window == 0) || want.Window != nil && *want.Window != k.Window {
				t.Errorf("%s: layer %d: got window %d, want %v", name, l, k.Window, want.Window)
			}
			if (want.Rope == nil) != (k.Table == loader.Unrotated) {
				t.Errorf("%s: layer %d: got table %d, want %v", name, l, k.Table, want.Rope)
			}
			if k.Table == loader.Unrotated {
				continue
			}
			if r := s.Tables[k.Table].RotaryDim; r != g.Shape.RotaryDim {
				t.Errorf("%s: layer %d: got %d rotated dimensions, want %d", name, l, r, g.Shape.RotaryDim)
			}
			for i, q := range g.Sequences {
				tab, err := rope.New(s.Tables[k.Table], s.HeadDim, len(q.IDs))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				q.Rope.compare(t, fmt.Sprintf("%s: sequence %d", name, i), *want.Rope, tab)
			}
		}
	}
	families[withVision] = true // TestGemma3WithVision has its case
	if got, want := slices.Sorted(maps.Keys(families)), loader.Architectures(); !slices.Equal(got, want) {
		t.Errorf("golden cases are of %v, want one of each of %v", got, want)
	}
}

// configOf reads a case's config.json as an object.
func configOf(t *testing.T, dir string) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(read(t, dir, "config.json"), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func parse(t *testing.T, o object) (loader.Spec, error) {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := loader.ParseConfig(b, nil)
	return s, err
}

// flat is all of a spec, the tensors of its layers included, in a form that can be compared.
func flat(s loader.Spec) string {
	out := s
	out.Params.Layer = nil
	text := fmt.Sprintf("%+v", out)
	for l := range s.Layers {
		text += fmt.Sprintf("\n%+v", s.Params.Layer(l))
	}
	return text
}

// The changes of config keys of which golden.json says that they move the logits, by case and label; testdata/make/cases_shared.py has them.
var changes = map[string]map[string]object{
	"llama_mha": {"theta": {"rope_theta": 500.0}},
	"llama_gqa_llama3rope": {
		"no_scaling": {"rope_scaling": nil},
		"orig_max":   {"rope_scaling": object{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}},
		"low_freq":   {"rope_scaling": object{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 2.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 256}},
	},
	"llama_yarn": {
		"no_scaling":       {"rope_scaling": nil},
		"attention_factor": {"rope_scaling": object{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "attention_factor": 1.0}},
		"truncate":         {"rope_scaling": object{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "truncate": false}},
	},
	"llama_linear":     {"no_scaling": {"rope_scaling": nil}},
	"llama_dynamic":    {"no_scaling": {"rope_scaling": nil}},
	"llama_longrope":   {"none": {"rope_scaling": nil}},
	"mistral_window":   {"no_window": {"sliding_window": nil}, "window+1": {"sliding_window": 9}},
	"mistral_nowindow": {"window": {"sliding_window": 8}},
	"qwen2":            {"theta": {"rope_theta": 10000.0}},
	"qwen2_window":     {"off": {"use_sliding_window": false}, "mwl": {"max_window_layers": 2}},
	"qwen3":            {"eps": {"rms_norm_eps": 1e-2}},
	"olmo":             {"clip": {"clip_qkv": nil}},
	"olmo3": {
		"no_scaling": {"rope_scaling": nil}, "window": {"sliding_window": 9},
		"layer_types": {"layer_types": []string{"sliding_attention", "sliding_attention", "full_attention", "full_attention"}},
	},
	"gemma": {"silu": {"hidden_act": "silu"}},
	"gemma2": {
		"attn_cap": {"attn_logit_softcapping": nil}, "final_cap": {"final_logit_softcapping": nil}, "qpas": {"query_pre_attn_scalar": 16},
		"window": {"sliding_window": 9, "sliding_window_size": 9},
	},
	"gemma3_text": {
		"local": {"rope_local_base_freq": 1000000}, "theta": {"rope_theta": 10000}, "window": {"sliding_window": 9}, "qpas": {"query_pre_attn_scalar": 16},
		"pattern": {"layer_types": []string{"sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"}},
	},
	"phi3_longrope": {"none": {"rope_scaling": nil}, "maxpos": {"max_position_embeddings": 128}},
	"stablelm":      {"prf": {"partial_rotary_factor": 0.5}, "theta": {"rope_theta": 500}},
	"gpt_neox":      {"pct": {"rotary_pct": 0.5}, "serial": {"use_parallel_residual": false}, "base": {"rotary_emb_base": 500}},
	"smollm3":       {"all_rope": {"no_rope_layers": []int{1, 1, 1, 1}}},
	"granite": {
		"am": {"attention_multiplier": 0.25}, "em": {"embedding_multiplier": 1.0}, "rm": {"residual_multiplier": 1.0}, "ls": {"logits_scaling": 1.0},
	},
	"cohere": {"ls": {"logit_scale": 0.0625}},
	"glm4":   {"prf": {"partial_rotary_factor": 1.0}},
	"glm":    {"prf": {"partial_rotary_factor": 1.0}},
}

func TestCheckedKeysMatter(t *testing.T) {
	ran := 0
	for _, dir := range goldenFolders(t)[:cases] {
		name, g := filepath.Base(dir), readGolden(t, dir)
		for label := range g.Checks.Effect {
			change, ok := changes[name][label]
			if !ok {
				t.Errorf("%s: no change is known for %s", name, label)
				continue
			}
			ran++
			plain := configOf(t, dir)
			before, err := parse(t, plain)
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(plain, change)
			after, err := parse(t, plain)
			if err != nil {
				t.Errorf("%s: %s: %v", name, label, err)
			} else if flat(before) == flat(after) {
				t.Errorf("%s: %s: the spec does not change", name, label)
			}
		}
	}
	want := 0
	for _, list := range changes {
		want += len(list)
	}
	if ran != want {
		t.Errorf("made %d changes, want the %d listed", ran, want)
	}
}

// harmless are the keys of the cases that may take any value without a change.
var harmless = []string{
	"attention_dropout", "embd_pdrop", "hidden_dropout", "initializer_range", "resid_pdrop", "pad_token_id", "torch_dtype", "dtype",
	"transformers_version", "use_cache", "cache_implementation", "rope_scaling",
}

// Every key of every family either changes the spec, is refused at another value, or is on the list above; and a key that no family
// knows is refused with its value.
func TestEveryKeyIsUnderstood(t *testing.T) {
	for i, dir := range goldenFolders(t) {
		name, plain := filepath.Base(dir), configOf(t, dir)
		before, err := parse(t, plain)
		if err != nil {
			t.Fatal(err)
		}
		for key, v := range plain {
			if i >= cases || slices.Contains(harmless, key) || unused(name, key) { // of folders from elsewhere, unused keys are not known
				continue
			}
			o := maps.Clone(plain)
			switch v := v.(type) {
			case bool:
				o[key] = !v
			case float64:
				o[key] = 2*v + 2
			case string:
				o[key] = "relu" // an activation that no family has, and nonsense elsewhere
			case []any:
				o[key] = append(slices.Clone(v), v[0])
			case nil:
				o[key] = 3
			case map[string]any:
				continue
			}
			if after, err := parse(t, o); err == nil && flat(before) == flat(after) {
				t.Errorf("%s: %s: %v in place of %v changes nothing and is not refused", name, key, o[key], v)
			}
		}
		o := maps.Clone(plain)
		o["residual_gate"] = 0.5
		if _, err := parse(t, o); !isUnsupported(err) || !strings.Contains(err.Error(), "residual_gate: got 0.5, which is not supported, want ") {
			t.Errorf("%s: an unknown key: got %v", name, err)
		}
	}
}

// unused tells of keys that the values of others in the same case put out of use.
func unused(name, key string) bool {
	switch key {
	case "sliding_window", "max_window_layers", "use_sliding_window": // each beside the others, at which no layer has a window
		return name == "qwen2" || name == "qwen3" || name == "smollm3"
	case "no_rope_layer_interval", "pretraining_tp": // beside no_rope_layers; not read by the class
		return name == "smollm3"
	case "original_max_position_embeddings": // without scaling
		return name == "phi3"
	}
	return false
}

// Both ways of writing a config down, that of transformers 4 and that of 5, give one spec.
func TestVersionsOfSpelling(t *testing.T) {
	for _, dir := range goldenFolders(t)[:cases] {
		name, old := filepath.Base(dir), configOf(t, dir)
		before, err := parse(t, old)
		if err != nil {
			t.Fatal(err)
		}
		after, err := parse(t, renewed(old))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(before.Tables, after.Tables) || flat(before) != flat(after) {
			t.Errorf("%s: got %s, want %s as in the older spelling", name, flat(after), flat(before))
		}
	}
}

// renewed moves the rotary keys of a config into rope_parameters, as transformers 5 saves them.
func renewed(old object) object {
	o := maps.Clone(old)
	take := func(keys ...string) any {
		for _, k := range keys {
			if v, ok := o[k]; ok {
				delete(o, k)
				return v
			}
		}
		return nil
	}
	p := object{"rope_type": "default"}
	if s, ok := take("rope_scaling").(map[string]any); ok {
		p = maps.Clone(s)
		if t, ok := p["type"]; ok {
			p["rope_type"] = t
			delete(p, "type")
		}
	}
	p["rope_theta"] = take("rope_theta", "rotary_emb_base")
	if v := take("partial_rotary_factor", "rotary_pct"); v != nil {
		p["partial_rotary_factor"] = v
	}
	if local := take("rope_local_base_freq"); local != nil {
		p = object{"full_attention": p, "sliding_attention": object{"rope_type": "default", "rope_theta": local}}
	} else if o["model_type"] == "olmo3" {
		p = object{"full_attention": p, "sliding_attention": object{"rope_type": "default", "rope_theta": 500000}}
	}
	o["rope_parameters"] = p
	if v := take("torch_dtype"); v != nil {
		o["dtype"] = v
	}
	o["transformers_version"] = "5.24.0"
	return o
}

const withVision = "Gemma3ForConditionalGeneration"

// The text model of a checkpoint with a vision tower is that of the text checkpoint, its tensors under another name.
func TestGemma3WithVision(t *testing.T) {
	const from, prefix = "testdata/parity/gemma3_text", "language_model."
	text := mustOpen(t, from)
	dir := caseFolder(t, "gemma3_text", func(e []safetensors.Entry) []safetensors.Entry {
		for i := range e {
			e[i].Name = prefix + e[i].Name
		}
		return append(e, zeros("vision_tower.vision_model.post_layernorm.weight", safetensors.F32, 8), zeros("multi_modal_projector.mm_input_projection_weight", safetensors.F32, 8, 48))
	})
	inner := configOf(t, from)
	delete(inner, "architectures")
	whole := object{
		"architectures": []string{withVision}, "model_type": "gemma3", "text_config": inner, "vision_config": object{"model_type": "siglip_vision_model"},
		"mm_tokens_per_image": 256, "boi_token_index": 5, "eoi_token_index": 6, "image_token_index": 7, "eos_token_id": []int{1, 9}, "initializer_range": 0.02,
	}
	write := func(o object) {
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(whole)
	c := mustOpen(t, dir)
	got, want := c.Spec, text.Spec
	if fmt.Sprint(got.EOS) != "[1 9]" || got.Architecture != withVision || got.Params.Layer(2).Q.Views[0].Tensor != prefix+"model.layers.2.self_attn.q_proj.weight" {
		t.Errorf("got %+v", got)
	}
	got.Architecture, got.EOS, got.Params, want.Params = want.Architecture, want.EOS, loader.Params{}, loader.Params{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	a, err := c.Float32s(c.Spec.Params.Embed, nil)
	b, err2 := text.Float32s(text.Spec.Params.Embed, nil)
	if err != nil || err2 != nil || !slices.Equal(a, b) {
		t.Errorf("the embeddings differ (%v, %v)", err, err2)
	}
	inner["residual_gate"] = 1
	write(whole)
	if _, err := loader.Open(dir); !isUnsupported(err) || !strings.Contains(err.Error(), "text_config.residual_gate: got 1") {
		t.Errorf("an unknown key inside: got %v", err)
	}
	delete(whole, "text_config")
	write(whole)
	if _, err := loader.Open(dir); err == nil || !strings.Contains(err.Error(), "text_config: got nothing") {
		t.Errorf("no text model: got %v", err)
	}
}
