package loader_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

const spellings = "testdata/config_spellings"

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func isUnsupported(err error) bool {
	var e *loader.UnsupportedError
	return errors.As(err, &e)
}

// tables are the frequencies that transformers computes, by the name of the kind of layer.
type tables map[string]struct {
	InvFreq []float64 `json:"inv_freq"`
	Scale   float64   `json:"attention_scaling"`
}

// compare holds one table of the spec against the golden one.
func (want tables) compare(t *testing.T, name, key string, got *rope.Table) {
	t.Helper()
	w, ok := want[key]
	if !ok || len(w.InvFreq) != got.Planes() || math.Abs(got.Scale-w.Scale) > 1e-6*w.Scale {
		t.Errorf("%s: %s: got %d planes, factor %v, want %d, %v", name, key, got.Planes(), got.Scale, len(w.InvFreq), w.Scale)
		return
	}
	for i, f := range got.InvFreq {
		if math.Abs(f-w.InvFreq[i]) > 1e-6*w.InvFreq[i] {
			t.Errorf("%s: %s: plane %d: got %v, want %v", name, key, i, f, w.InvFreq[i])
		}
	}
}

// All spellings of a group mean the same.
func TestSpellings(t *testing.T) {
	var g struct {
		Groups map[string]struct {
			Rope    tables
			Configs map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal(read(t, spellings, "golden.json"), &g); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for group, want := range g.Groups {
		var first *loader.Spec
		for name := range want.Configs {
			s, err := loader.ParseConfig(read(t, spellings, group, name+".json"), nil)
			if err != nil {
				t.Errorf("%s/%s: %v", group, name, err)
				continue
			}
			ran++
			s.Params.Layer = nil // functions are equal to nothing
			if first == nil {
				first = &s
			} else if !reflect.DeepEqual(*first, s) {
				t.Errorf("%s/%s: got %+v, want %+v as another spelling", group, name, s, *first)
			}
			for _, k := range s.Kinds {
				key := "all"
				if _, one := want.Rope[key]; !one {
					key = map[bool]string{true: "sliding_attention", false: "full_attention"}[k.Window > 0]
				}
				tab, err := rope.New(s.Tables[k.Table], s.HeadDim, 20)
				if err != nil {
					t.Fatal(err)
				}
				want.Rope.compare(t, group+"/"+name, key, tab)
			}
		}
	}
	if ran != 13 {
		t.Errorf("compared %d spellings, want 13", ran)
	}
}

func TestMalformedConfigs(t *testing.T) {
	for name, tc := range map[string]struct {
		unsupported bool
		contains    string
	}{
		"unknown_rope_type":        {true, `rope_scaling.rope_type: got "spiral"`},
		"missing_factor":           {false, "config.json: rope_scaling.factor: got nothing, want a number"},
		"longrope_wrong_length":    {false, "longrope: short_factor: got 2 factors, want 6"},
		"odd_rotary_dim":           {false, "config.json: partial_rotary_factor: got 0.3125, want an even number of rotated dimensions, not 5 of 16"},
		"layer_types_wrong_length": {false, `config.json: layer_types: got ["sliding_attention"], want one entry for each of the 2 layers`},
		"kv_heads_not_a_divisor":   {false, "config.json: num_key_value_heads: got 3, want a divisor of the 4 query heads"},
		"negative_theta":           {false, "config.json: rope_theta: got -10000"},
		"llama3_missing_key":       {false, "config.json: rope_scaling.low_freq_factor: got nothing"},
	} {
		_, err := loader.ParseConfig(read(t, spellings, "malformed", name+".json"), nil)
		var bad *loader.ConfigError
		if !tc.unsupported && !errors.As(err, &bad) {
			t.Errorf("%s: got %v, want a *ConfigError", name, err)
		}
		if err == nil || !strings.Contains(err.Error(), tc.contains) || isUnsupported(err) != tc.unsupported {
			t.Errorf("%s: got %v, want an error with %q, unsupported %v", name, err, tc.contains, tc.unsupported)
		}
	}
	files, err := filepath.Glob(filepath.Join(spellings, "malformed", "*.json"))
	if err != nil || len(files) != 8 {
		t.Errorf("got %d malformed configs (%v), want 8", len(files), err)
	}
}

// base is a valid config; nil values in change remove keys.
func base(change map[string]any) []byte {
	c := map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4,
		"num_key_value_heads": 2, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 256,
		"rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": false,
	}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return b
}

type object = map[string]any

var llama3 = object{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}

func with(o object, key string, v any) object {
	o = maps.Clone(o)
	o[key] = v
	return o
}

func TestLlama3Spellings(t *testing.T) {
	oldType := with(llama3, "type", "llama3")
	delete(oldType, "rope_type")
	withTheta := with(llama3, "rope_theta", 5e5)
	want := rope.Config{Type: "llama3", Theta: 5e5, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 64, RotaryDim: 16}
	for name, change := range map[string]object{
		"rope_type":           {"rope_theta": 5e5, "rope_scaling": llama3},
		"type":                {"rope_theta": 5e5, "rope_scaling": oldType},
		"both":                {"rope_theta": 5e5, "rope_scaling": with(llama3, "type", "llama3")},
		"flat":                {"rope_theta": nil, "rope_parameters": withTheta},
		"nested":              {"rope_theta": nil, "rope_parameters": object{"full_attention": withTheta}},
		"flat and equal root": {"rope_theta": 5e5, "rope_parameters": withTheta},
		"flat, theta at root": {"rope_theta": 5e5, "rope_parameters": llama3},
		"theta in scaling":    {"rope_theta": nil, "rope_scaling": withTheta},
	} {
		s, err := loader.ParseConfig(base(change), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(s.Tables, []rope.Config{want}) {
			t.Errorf("%s: got %+v, want %+v", name, s.Tables, want)
		}
	}
}

func TestLlamaDefaults(t *testing.T) {
	s, err := loader.ParseConfig(base(object{"num_key_value_heads": nil, "max_position_embeddings": nil, "rms_norm_eps": nil, "hidden_act": nil,
		"rope_theta": nil, "tie_word_embeddings": nil, "head_dim": nil}), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(s.KVHeads, s.MaxPositions, s.NormEps, s.Activation, s.Tables[0].Theta, s.Tables[0].Type, s.Tied, s.HeadDim, s.Params.Head.Views[0].Tensor, s.Params.Layer(1).QBias.Has())
	if want := fmt.Sprint(4, 2048, 1e-6, "silu", 10000.0, "default", false, 16, "lm_head.weight", false); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHarmlessConfigs(t *testing.T) {
	for name, change := range map[string]object{
		"explicit head_dim":       {"head_dim": 32, "hidden_size": 66},
		"nulls":                   {"rope_scaling": nil, "sliding_window": json.RawMessage("null"), "query_pre_attn_scalar": json.RawMessage("null"), "head_dim": json.RawMessage("null")},
		"training keys":           {"attention_dropout": 0.1, "initializer_range": 0.02, "use_cache": false, "torch_dtype": "bfloat16", "_name_or_path": "x"},
		"smollm2 keys":            {"is_llama_config": true, "rope_interleaved": false, "transformers.js_config": object{"dtype": "q4"}, "pad_token_id": -1},
		"wide window":             {"sliding_window": 256},
		"window off":              {"sliding_window": 8, "use_sliding_window": false},
		"layer types":             {"layer_types": []string{"full_attention", "full_attention"}},
		"partial, default ladder": {"partial_rotary_factor": 0.5},
		"pretraining_tp":          {"pretraining_tp": 1},
		"swiglu said twice":       {"activation": "swiglu"},
		"switches left off":       {"qk_layernorm": false, "use_parallel_residual": false, "use_qkv_bias": false, "full_attn_mod": 1, "use_mrope": false, "is_decoder": false},
		"a dump of everything":    {"num_beam_groups": 1, "chunk_size_feed_forward": 0, "pruned_heads": object{}, "output_scores": false, "use_bfloat16": false, "model_max_length": 9},
		"provenance of a table":   {"rope_scaling": object{"type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "finetuned": true}},
		"whole float":             {"vocab_size": 100.0},
	} {
		s, err := loader.ParseConfig(base(change), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if s.Tables[0].RotaryDim != s.HeadDim {
			t.Errorf("%s: got %d rotary dimensions, want the head's %d", name, s.Tables[0].RotaryDim, s.HeadDim)
		}
	}
}

func TestRefusedConfigs(t *testing.T) {
	for name, tc := range map[string]struct {
		change      object
		unsupported bool
		contains    string
	}{
		"unknown key":          {object{"logit_scale": 2.5}, true, "logit_scale: got 2.5"},
		"two unknown keys":     {object{"zeta": 1, "alpha": 2}, true, "alpha: got 2, which is not supported, want a key that the family is known to read (the same holds for zeta)"},
		"case is a difference": {object{"Rope_Theta": 5e5}, true, "Rope_Theta"},
		"unknown rope key":     {object{"rope_scaling": with(llama3, "attention_factor", 2)}, true, "rope_scaling.attention_factor: got 2"},
		"default with factor":  {object{"rope_parameters": object{"rope_theta": 1e4, "factor": 8}}, true, "rope_parameters.factor"},
		"quantised":            {object{"quantization_config": object{"bits": 4}}, true, "quantization_config: got {"},
		"activation":           {object{"hidden_act": "relu"}, true, `hidden_act: got "relu", which is not supported, want "silu", "gelu"`},
		"tensor parallel":      {object{"pretraining_tp": 2}, true, "pretraining_tp: got 2"},
		"window":               {object{"sliding_window": 128}, true, "sliding_window: got 128"},
		"sliding layer":        {object{"layer_types": []string{"full_attention", "sliding_attention"}}, true, "layer_types"},
		"sliding rope":         {object{"rope_theta": nil, "rope_parameters": object{"sliding_attention": object{"rope_theta": 1e4, "rope_type": "default"}}}, true, "rope_parameters.sliding_attention"},
		"interleaved":          {object{"rope_interleaved": true}, true, "rope_interleaved"},
		"partial and llama3":   {object{"partial_rotary_factor": 0.5, "rope_scaling": llama3}, true, "partial_rotary_factor: got 0.5"},
		"partial in block":     {object{"rope_scaling": with(llama3, "partial_rotary_factor", 0.5)}, true, "rope_scaling.partial_rotary_factor"},
		"switch on":            {object{"qk_layernorm": true}, true, "qk_layernorm: got true"},
		"another activation":   {object{"activation": "geglu"}, true, `activation: got "geglu"`},
		"architecture":         {object{"architectures": []string{"GPT2LMHeadModel"}}, true, `architectures: got "GPT2LMHeadModel", which is not supported, want one of CohereForCausalLM, GPTNeoX`},
		"two architectures":    {object{"architectures": []string{"LlamaForCausalLM", "X"}}, false, "architectures"},
		"no architectures":     {object{"architectures": nil}, false, "architectures: got nothing"},
		"model type":           {object{"model_type": "mistral"}, false, `model_type: got "mistral"`},
		"no layers":            {object{"num_hidden_layers": nil}, false, "num_hidden_layers: got nothing"},
		"zero heads":           {object{"num_attention_heads": 0}, false, "num_attention_heads: got 0"},
		"fraction":             {object{"hidden_size": 64.5}, false, "hidden_size: got 64.5"},
		"huge":                 {object{"num_hidden_layers": 1e18}, false, "num_hidden_layers"},
		"string number":        {object{"vocab_size": "100"}, false, `vocab_size: got "100"`},
		"string bool":          {object{"tie_word_embeddings": "yes"}, false, "tie_word_embeddings"},
		"negative eps":         {object{"rms_norm_eps": -1e-5}, false, "rms_norm_eps"},
		"hidden/heads":         {object{"hidden_size": 66}, false, "hidden_size: got 66, want a multiple of the 4 heads"},
		"vast head":            {object{"head_dim": 1 << 30}, false, "head_dim: got 1073741824, want an even number up to 65536"},
		"more heads than dims": {object{"hidden_size": 1, "num_attention_heads": 1, "num_key_value_heads": 1}, false, "head_dim: got 1"},
		"odd head":             {object{"head_dim": 15}, false, "head_dim"},
		"layer types length":   {object{"layer_types": []string{"full_attention"}}, false, `layer_types: got ["full_attention"], want one entry for each of the 2 layers`},
		"types disagree":       {object{"rope_scaling": with(llama3, "type", "default")}, false, "rope_scaling.type"},
		"thetas disagree":      {object{"rope_theta": 1e4, "rope_parameters": with(llama3, "rope_theta", 5e5)}, false, "rope_parameters.rope_theta: got 500000"},
		"two rope blocks":      {object{"rope_scaling": llama3, "rope_parameters": llama3}, false, "rope_parameters: got it beside rope_scaling"},
		"scaling without type": {object{"rope_scaling": object{"factor": 8}}, false, "rope_scaling.rope_type: got nothing"},
		"low above high":       {object{"rope_scaling": with(llama3, "low_freq_factor", 8)}, false, "high_freq_factor"},
		"eos outside":          {object{"eos_token_id": 100}, false, "eos_token_id: got 100"},
		"eos text":             {object{"eos_token_id": "</s>"}, false, "eos_token_id"},
	} {
		_, err := loader.ParseConfig(base(tc.change), nil)
		if err == nil || !strings.Contains(err.Error(), tc.contains) || isUnsupported(err) != tc.unsupported {
			t.Errorf("%s: got %v, want an error with %q, unsupported %v", name, err, tc.contains, tc.unsupported)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got more than one line: %v", name, err)
		}
	}
}

// Published configs are indented; the value in the message is not.
func TestErrorsAreOneLine(t *testing.T) {
	text := strings.Replace(string(base(nil)), "{", "{\"quantization_config\": {\n  \"bits\": 4,\n  \"modules\": [\n\""+strings.Repeat("x", 200)+"\"\n]},", 1)
	_, err := loader.ParseConfig([]byte(text), nil)
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), `got {"bits":4,`) || len(err.Error()) > 160 {
		t.Errorf("got %q, want one short line", err)
	}
}

func TestBrokenJSON(t *testing.T) {
	good := string(base(nil))
	for name, text := range map[string]string{
		"duplicate key":        strings.Replace(good, "{", `{"hidden_size":32,`, 1),
		"nested duplicate":     strings.Replace(good, "{", `{"task_specific_params":{"a":[{"b":1,"b":2}]},`, 1),
		"escaped duplicate":    strings.Replace(good, "{", `{"hidden_\u0073ize":32,`, 1),
		"deep nesting":         strings.Replace(good, "{", `{"task_specific_params":`+strings.Repeat("[", 1e5)+strings.Repeat("]", 1e5)+",", 1),
		"truncated":            good[:len(good)-1],
		"two values":           good + "{}",
		"null":                 "null",
		"list":                 "[1]",
		"empty":                "",
		"not a number in JSON": strings.Replace(good, "{", `{"router_jitter":NaN,`, 1),
	} {
		_, err := loader.ParseConfig([]byte(text), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "config.json: ") {
			t.Errorf("%s: got %v, want an error that names config.json", name, err)
		}
		if strings.Contains(name, "duplicate") && !strings.Contains(err.Error(), "twice") {
			t.Errorf("%s: got %v, want it to say twice", name, err)
		}
	}
}

func TestEndOfSequence(t *testing.T) {
	for name, tc := range map[string]struct{ config, generation, eos, bos string }{
		"config only":        {`2`, ``, "[2]", "[1]"},
		"config list":        {`[2,3]`, ``, "[2 3]", "[1]"},
		"generation wins":    {`2`, `{"eos_token_id":[5,6],"bos_token_id":9,"temperature":0.6}`, "[5 6]", "[9]"},
		"generation silent":  {`2`, `{"do_sample":true,"eos_token_id":null}`, "[2]", "[1]"},
		"none":               {`null`, `{}`, "[]", "[1]"},
		"generation outside": {`2`, `{"eos_token_id":100}`, "error", ""},
		"generation twice":   {`2`, `{"eos_token_id":1,"eos_token_id":2}`, "error", ""},
	} {
		var generation []byte
		if tc.generation != "" {
			generation = []byte(tc.generation)
		}
		s, err := loader.ParseConfig(base(object{"eos_token_id": json.RawMessage(tc.config), "bos_token_id": 1}), generation)
		if tc.eos == "error" {
			if err == nil || !strings.HasPrefix(err.Error(), "generation_config.json: ") {
				t.Errorf("%s: got %v, want an error that names generation_config.json", name, err)
			}
			continue
		}
		if err != nil || fmt.Sprint(s.EOS) != tc.eos || fmt.Sprint(s.BOS) != tc.bos {
			t.Errorf("%s: got %v, %v, %v, want %s, %s", name, s.EOS, s.BOS, err, tc.eos, tc.bos)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(base(nil), []byte(`{"eos_token_id":[1,2]}`))
	f.Add(base(object{"rope_scaling": llama3, "head_dim": 8}), []byte(nil))
	f.Add(base(object{"rope_theta": nil, "rope_parameters": object{"full_attention": with(llama3, "rope_theta", 5e5)}}), []byte(nil))
	configs, err := filepath.Glob("testdata/parity/*/config.json")
	if err != nil || len(configs) != cases {
		f.Fatalf("got %d configs (%v), want %d", len(configs), err, cases)
	}
	for _, path := range configs {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte(nil))
	}
	f.Fuzz(func(t *testing.T, config, generation []byte) {
		s, err := loader.ParseConfig(config, generation)
		if err != nil {
			return
		}
		if len(s.Kinds) != s.Layers {
			t.Errorf("got %d kinds of %d layers", len(s.Kinds), s.Layers)
		}
		for _, p := range append(s.Params.Outer(), s.Params.Layer(s.Layers-1).Q) {
			if p.Has() && p.Elements() <= 0 {
				t.Errorf("accepted a parameter of shape %v", p.Shape)
			}
		}
		if s.Layers <= 0 || s.Vocab <= 0 || s.Group()*s.KVHeads != s.Heads || s.HeadDim%2 != 0 {
			t.Errorf("accepted %+v", s)
		}
		for _, table := range s.Tables {
			if _, err := rope.New(table, s.HeadDim, s.MaxPositions); err != nil {
				t.Errorf("accepted a table that cannot be built: %v", err)
			}
		}
	})
}
