package loader_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

// minimal is a config with nothing but sizes. 32 heads suit the numbers of key/value heads that classes take for themselves.
func minimal(arch, modelType string, change object) object {
	o := object{
		"architectures": []string{arch}, "model_type": modelType, "num_hidden_layers": 8, "num_attention_heads": 32, "hidden_size": 512,
		"intermediate_size": 96, "vocab_size": 260000,
	}
	maps.Copy(o, change)
	return o
}

// What classes take for absent keys, from the configuration classes of transformers 5.24.0. "heads" are query and key/value heads and head_dim;
// "windows" the visible keys by layer; "rope" base, type and rotated dimensions of each table.
var classDefaults = []struct {
	arch, modelType      string
	heads, windows, rope string
	rest                 string // longest sequence, epsilon, activation, tied, end and begin tokens
	switches             string
}{
	{"LlamaForCausalLM", "llama", "32/32x16", "0", "10000 default 16", "2048 1e-06 silu false [2] [1]", "rms"},
	{"MistralForCausalLM", "mistral", "32/8x16", "4096", "10000 default 16", "131072 1e-06 silu false [2] [1]", "rms"},
	{"Qwen2ForCausalLM", "qwen2", "32/32x16", "0", "10000 default 16", "32768 1e-06 silu false [] []", "rms qkv bias"},
	{"Qwen3ForCausalLM", "qwen3", "32/32x128", "0", "10000 default 128", "32768 1e-06 silu false [] []", "rms shared"},
	{"OlmoForCausalLM", "olmo", "32/32x16", "0", "10000 default 16", "2048 1e-05 silu false [50279] []", "layer_plain float"},
	{"Olmo2ForCausalLM", "olmo2", "32/32x16", "0", "10000 default 16", "2048 1e-05 silu false [50279] []", "rms_float full float post"},
	{"Olmo3ForCausalLM", "olmo3", "32/32x16", "4096 4096 4096 0 4096 4096 4096 0", "500000 default 16", "2048 1e-05 silu false [50279] []", "rms_float full float post"},
	{"GemmaForCausalLM", "gemma", "32/16x256", "0", "10000 default 256", "8192 1e-06 gelu_tanh true [1] [2]", "rms_offset embed round"},
	{"Gemma2ForCausalLM", "gemma2", "32/4x256", "4096 0 4096 0 4096 0 4096 0", "10000 default 256", "8192 1e-06 gelu_tanh true [1] [2]", "rms_offset embed round cap 50 30 score 0.0625 post"},
	{"Gemma3ForCausalLM", "gemma3_text", "32/4x256", "4096 4096 4096 4096 4096 0 4096 4096", "10000 default 256, 1e+06 default 256", "131072 1e-06 gelu_tanh true [1] [2]", "rms_offset embed round shared score 0.0625 post"},
	{"Phi3ForCausalLM", "phi3", "32/32x16", "0", "10000 default 16", "4096 1e-05 silu false [32000] [1]", "rms"},
	{"StableLmForCausalLM", "stablelm", "32/32x16", "0", "10000 default 4", "4096 1e-05 silu false [0] [0]", "layer norm bias"},
	{"GPTNeoXForCausalLM", "gpt_neox", "32/32x16", "0", "10000 default 4", "2048 1e-05 gelu false [2] [0]", "layer norm bias parallel branches_first qkv bias plain mlp"},
	{"SmolLM3ForCausalLM", "smollm3", "32/4x16", "0", "2e+06 default 16", "32768 1e-06 silu true [128001] [128000]", "rms unrotated 3,7"},
	{"GraniteForCausalLM", "granite", "32/32x16", "0", "10000 default 16", "2048 1e-06 silu false [2] [1]", "rms score 1"},
	{"CohereForCausalLM", "cohere", "32/32x16", "0", "500000 default 16", "8192 1e-05 silu true [255001] [5]", "layer float interleaved parallel residual_first logits 0.0625"},
	{"GlmForCausalLM", "glm", "32/2x128", "0", "10000 default 64", "131072 1.5625e-07 silu false [151329 151336 151338] []", "rms interleaved qkv bias"},
	{"Glm4ForCausalLM", "glm4", "32/2x128", "0", "10000 default 64", "131072 1.5625e-07 silu false [151329 151336 151338] []", "rms interleaved qkv bias post"},
}

func TestClassDefaults(t *testing.T) {
	seen := []string{withVision} // whose text model is that of gemma3_text
	for _, want := range classDefaults {
		seen = append(seen, want.arch)
		s, err := parse(t, minimal(want.arch, want.modelType, nil))
		if err != nil {
			t.Errorf("%s: %v", want.arch, err)
			continue
		}
		windows := make([]string, len(s.Kinds))
		for l, k := range s.Kinds {
			windows[l] = fmt.Sprint(k.Window)
		}
		if len(slices.Compact(slices.Clone(windows))) == 1 {
			windows = windows[:1]
		}
		var tables []string
		for _, r := range s.Tables {
			tables = append(tables, fmt.Sprint(r.Theta, " ", r.Type, " ", r.RotaryDim))
		}
		got := fmt.Sprintf("%d/%dx%d | %s | %s | %d %v %s %v %v %v | %s", s.Heads, s.KVHeads, s.HeadDim, strings.Join(windows, " "), strings.Join(tables, ", "),
			s.MaxPositions, s.NormEps, s.Activation, s.Tied, s.EOS, s.BOS, strings.Join(switches(&s), " "))
		if line := strings.Join([]string{want.heads, want.windows, want.rope, want.rest, want.switches}, " | "); got != line {
			t.Errorf("%s:\ngot  %s\nwant %s", want.arch, got, line)
		}
	}
	slices.Sort(seen)
	if !slices.Equal(seen, loader.Architectures()) {
		t.Errorf("defaults are written down for %v, want all of %v", seen, loader.Architectures())
	}
}

// switches names what in a spec is not as in Llama.
func switches(s *loader.Spec) []string {
	out := []string{string(s.Norm)}
	add := func(yes bool, format string, args ...any) {
		if yes {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	l := s.Params.Layer(0)
	add(s.EmbedScale != 1, "embed")
	add(s.EmbedRound, "round")
	add(s.QKNorm != "", "%s", s.QKNorm)
	add(s.RotateFloat, "float")
	add(s.Interleaved, "interleaved")
	add(l.PreAttnBias.Has(), "norm bias")
	add(s.Parallel != "", "parallel %s", s.Parallel)
	add(l.QBias.Has(), "qkv bias")
	add(!s.Gated, "plain mlp")
	add(s.ScoreCap != 0, "cap %v %v", s.ScoreCap, s.LogitCap)
	add(s.ScoreScale*s.ScoreScale*float64(s.HeadDim) < 0.999 || s.ScoreScale*s.ScoreScale*float64(s.HeadDim) > 1.001 || s.Norms.PreMLP && s.Norms.PostAttn && s.EmbedRound, "score %v", s.ScoreScale)
	add(s.Norms.PostAttn, "post")
	add(s.LogitScale != 1, "logits %v", s.LogitScale)
	var still []string
	for i, k := range s.Kinds {
		if k.Table == loader.Unrotated {
			still = append(still, fmt.Sprint(i))
		}
	}
	add(len(still) > 0, "unrotated %s", strings.Join(still, ","))
	return out
}

// What the README of the golden cases says of transformers 5.24.0 beyond class defaults, a line each.
func TestTransformersTraps(t *testing.T) {
	yarn := object{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32}
	longrope := object{"type": "longrope", "short_factor": []int{1, 1, 1, 1, 1, 1, 1, 1}, "long_factor": []int{2, 2, 2, 2, 2, 2, 2, 2}}
	for name, tc := range map[string]struct {
		arch, modelType string
		change          object
		check           func(s *loader.Spec) bool // nil: refused
		contains        string
	}{
		"neox reads rotary_emb_base":     {"GPTNeoXForCausalLM", "gpt_neox", object{"rotary_emb_base": 500, "rotary_pct": 0.5}, func(s *loader.Spec) bool { return s.Tables[0].Theta == 500 && s.Tables[0].RotaryDim == 8 }, ""},
		"neox and rope_theta":            {"GPTNeoXForCausalLM", "gpt_neox", object{"rope_theta": 500}, nil, "rope_theta: got 500"},
		"neox and partial_rotary_factor": {"GPTNeoXForCausalLM", "gpt_neox", object{"partial_rotary_factor": 0.5}, nil, "partial_rotary_factor: got 0.5"},
		"neox, serial":                   {"GPTNeoXForCausalLM", "gpt_neox", object{"use_parallel_residual": false}, func(s *loader.Spec) bool { return s.Parallel == loader.Sequential && s.Norms.PreMLP }, ""},
		"neox without attention bias": {"GPTNeoXForCausalLM", "gpt_neox", object{"attention_bias": false}, func(s *loader.Spec) bool {
			l := s.Params.Layer(0)
			return !l.QBias.Has() && !l.OBias.Has() && l.UpBias.Has()
		}, ""},
		"olmo3, rope_theta at the root": {"Olmo3ForCausalLM", "olmo3", object{"rope_theta": 1e4}, func(s *loader.Spec) bool {
			return s.Tables[s.Kinds[0].Table].Theta == 5e5 && s.Tables[s.Kinds[3].Table].Theta == 1e4
		}, ""},
		"olmo3, rope_scaling at the root": {"Olmo3ForCausalLM", "olmo3", object{"rope_scaling": yarn}, func(s *loader.Spec) bool {
			return s.Tables[s.Kinds[0].Table].Type == "default" && s.Tables[s.Kinds[3].Table].Type == "yarn"
		}, ""},
		"olmo3, flat rope_parameters": {"Olmo3ForCausalLM", "olmo3", object{"rope_parameters": object{"rope_theta": 1e4}}, nil, "rope_parameters: got "},
		"nested truncate":             {"Olmo3ForCausalLM", "olmo3", object{"rope_scaling": with(yarn, "truncate", false)}, nil, "rope_scaling.truncate: got false"},
		"nested truncate, llama":      {"LlamaForCausalLM", "llama", object{"rope_parameters": object{"full_attention": with(yarn, "truncate", false)}}, nil, "truncate: got false"},
		"flat truncate, llama":        {"LlamaForCausalLM", "llama", object{"rope_scaling": with(yarn, "truncate", false)}, func(s *loader.Spec) bool { return s.Tables[0].Untruncated }, ""},
		"gemma3 local base": {"Gemma3ForCausalLM", "gemma3_text", object{"rope_local_base_freq": 500}, func(s *loader.Spec) bool {
			return s.Tables[s.Kinds[0].Table].Theta == 500 && s.Tables[s.Kinds[5].Table].Theta == 1e6
		}, ""},
		"gemma3 pattern":                        {"Gemma3ForCausalLM", "gemma3_text", object{"sliding_window_pattern": 2}, func(s *loader.Spec) bool { return s.Kinds[0].Window == 4096 && s.Kinds[1].Window == 0 }, ""},
		"gemma3, a pattern nobody reads":        {"Gemma3ForCausalLM", "gemma3_text", object{"_sliding_window_pattern": 2}, nil, "_sliding_window_pattern: got 2"},
		"gemma3, a cap nobody reads":            {"Gemma3ForCausalLM", "gemma3_text", object{"attn_logit_softcapping": 50}, nil, "attn_logit_softcapping: got 50"},
		"gemma3, both ways":                     {"Gemma3ForCausalLM", "gemma3_text", object{"use_bidirectional_attention": true}, nil, "use_bidirectional_attention: got true"},
		"gemma2, caps off":                      {"Gemma2ForCausalLM", "gemma2", object{"attn_logit_softcapping": nil, "final_logit_softcapping": nil}, func(s *loader.Spec) bool { return s.ScoreCap == 0 && s.LogitCap == 0 }, ""},
		"gemma2, window off":                    {"Gemma2ForCausalLM", "gemma2", object{"sliding_window": nil}, nil, "sliding_window: got null"},
		"gemma: gelu is tanh":                   {"GemmaForCausalLM", "gemma", object{"hidden_act": "gelu"}, func(s *loader.Spec) bool { return s.Activation == loader.GELUTanh }, ""},
		"gemma: hidden_activation is not read":  {"GemmaForCausalLM", "gemma", object{"hidden_act": "gelu", "hidden_activation": "silu"}, nil, `hidden_activation: got "silu"`},
		"partial with a plain llama":            {"LlamaForCausalLM", "llama", object{"partial_rotary_factor": 0.5}, func(s *loader.Spec) bool { return s.Tables[0].RotaryDim == 16 }, ""},
		"partial with a scaled llama":           {"LlamaForCausalLM", "llama", object{"partial_rotary_factor": 0.5, "rope_scaling": yarn}, nil, "partial_rotary_factor: got 0.5"},
		"partial with a scaled glm":             {"GlmForCausalLM", "glm", object{"rope_scaling": yarn}, func(s *loader.Spec) bool { return s.Tables[0].RotaryDim == 64 && s.Tables[0].Type == "yarn" }, ""},
		"phi3 longrope":                         {"Phi3ForCausalLM", "phi3", object{"rope_scaling": longrope, "original_max_position_embeddings": 12}, func(s *loader.Spec) bool { return s.Tables[0].VariesBeyond() == 12 }, ""},
		"phi3 yarn is longrope":                 {"Phi3ForCausalLM", "phi3", object{"rope_scaling": with(longrope, "type", "yarn")}, func(s *loader.Spec) bool { return s.Tables[0].Type == "longrope" && s.Tables[0].VariesBeyond() == 4096 }, ""},
		"phi3 su is longrope":                   {"Phi3ForCausalLM", "phi3", object{"rope_scaling": with(longrope, "type", "su")}, func(s *loader.Spec) bool { return s.Tables[0].Type == "longrope" }, ""},
		"phi3, root length before the block's":  {"Phi3ForCausalLM", "phi3", object{"rope_scaling": with(longrope, "original_max_position_embeddings", 99), "original_max_position_embeddings": 12}, func(s *loader.Spec) bool { return s.Tables[0].OriginalMaxPositions == 12 }, ""},
		"phi3, class length before the block's": {"Phi3ForCausalLM", "phi3", object{"rope_scaling": with(longrope, "original_max_position_embeddings", 99)}, nil, "rope_scaling.original_max_position_embeddings: got 99"},
		"phi3 linear":                           {"Phi3ForCausalLM", "phi3", object{"rope_scaling": object{"type": "linear", "factor": 2}}, nil, `got "linear"`},
		"phi3 window":                           {"Phi3ForCausalLM", "phi3", object{"sliding_window": 2047}, func(s *loader.Spec) bool { return s.Kinds[7].Window == 2047 }, ""},
		"longrope outside phi3":                 {"LlamaForCausalLM", "llama", object{"rope_scaling": with(longrope, "original_max_position_embeddings", 64)}, func(s *loader.Spec) bool { return s.Tables[0].VariesBeyond() == 64 }, ""},
		"yarn without the original length":      {"LlamaForCausalLM", "llama", object{"rope_scaling": object{"rope_type": "yarn", "factor": 4}}, func(s *loader.Spec) bool { return s.Tables[0].OriginalMaxPositions == 2048 }, ""},
		"yarn with a null factor":               {"LlamaForCausalLM", "llama", object{"rope_scaling": with(yarn, "factor", nil)}, func(s *loader.Spec) bool { return s.Tables[0].Factor == 0 && s.Tables[0].MaxPositions == 2048 }, ""},
		"yarn without a factor":                 {"LlamaForCausalLM", "llama", object{"rope_scaling": object{"rope_type": "yarn"}}, nil, "rope_scaling.factor: got nothing"},
		"llama, null base":                      {"LlamaForCausalLM", "llama", object{"rope_theta": nil}, nil, "rope_theta: got null, want a value, or no such key, which stands for 10000"},
		"gemma3, null local base":               {"Gemma3ForCausalLM", "gemma3_text", object{"rope_local_base_freq": nil}, nil, "rope_local_base_freq: got null"},
		"glm4, null part":                       {"Glm4ForCausalLM", "glm4", object{"partial_rotary_factor": nil}, nil, "partial_rotary_factor: got null"},
		"cohere, null scale":                    {"CohereForCausalLM", "cohere", object{"logit_scale": nil}, nil, "logit_scale: got null"},
		"gpt_neox, null serial":                 {"GPTNeoXForCausalLM", "gpt_neox", object{"use_parallel_residual": nil}, nil, "use_parallel_residual: got null"},
		"gemma, null activation":                {"GemmaForCausalLM", "gemma", object{"hidden_act": nil}, nil, "hidden_act: got null"},
		"qwen2, null layers":                    {"Qwen2ForCausalLM", "qwen2", object{"max_window_layers": nil}, nil, "max_window_layers: got null"},
		"olmo, null unused epsilon":             {"OlmoForCausalLM", "olmo", object{"rms_norm_eps": nil, "clip_qkv": nil}, func(s *loader.Spec) bool { return s.NormEps == 1e-5 && s.QKVClip == 0 }, ""},
		"mistral, null window":                  {"MistralForCausalLM", "mistral", object{"sliding_window": nil}, func(s *loader.Spec) bool { return s.Kinds[0].Window == 0 }, ""},
		"mistral, null kv heads":                {"MistralForCausalLM", "mistral", object{"num_key_value_heads": nil}, nil, "num_key_value_heads: got null, want a value, or no such key, which stands for 8"},
		"qwen2, null kv heads":                  {"Qwen2ForCausalLM", "qwen2", object{"num_attention_heads": 16, "num_key_value_heads": nil}, func(s *loader.Spec) bool { return s.KVHeads == 16 }, ""},
		"gemma, null head_dim":                  {"GemmaForCausalLM", "gemma", object{"head_dim": nil}, nil, "head_dim: got null"},
		"llama3 without the original length":    {"LlamaForCausalLM", "llama", object{"rope_scaling": object{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}}, func(s *loader.Spec) bool { return s.Tables[0].OriginalMaxPositions == 2048 }, ""},
		"mistral, mixed layers":                 {"MistralForCausalLM", "mistral", object{"layer_types": strings.Fields("sliding_attention full_attention sliding_attention full_attention sliding_attention full_attention sliding_attention full_attention")}, nil, "layer_types"},
		"qwen2, layer_types":                    {"Qwen2ForCausalLM", "qwen2", object{"use_sliding_window": true, "sliding_window": 9, "layer_types": strings.Fields(strings.Repeat("full_attention sliding_attention ", 4))}, func(s *loader.Spec) bool { return s.Kinds[0].Window == 0 && s.Kinds[1].Window == 9 }, ""},
		"qwen2, sliding layers without window":  {"Qwen2ForCausalLM", "qwen2", object{"layer_types": strings.Fields(strings.Repeat("full_attention sliding_attention ", 4))}, nil, "sliding_window"},
		"smollm3 window":                        {"SmolLM3ForCausalLM", "smollm3", object{"use_sliding_window": true, "sliding_window": 9}, func(s *loader.Spec) bool { return s.Kinds[0].Window == 0 && s.Kinds[3].Window == 9 }, ""},
		"olmo, epsilon":                         {"OlmoForCausalLM", "olmo", object{"layer_norm_eps": 1e-6}, nil, "layer_norm_eps"},
		"cohere q/k norm": {"CohereForCausalLM", "cohere", object{"use_qk_norm": true}, func(s *loader.Spec) bool {
			return s.QKNorm == loader.QKNormPerHead && fmt.Sprint(s.Params.Layer(0).KNorm.Shape) == "[32 16]"
		}, ""},
		"glm, attention bias of q, k, v": {"GlmForCausalLM", "glm", nil, func(s *loader.Spec) bool { l := s.Params.Layer(0); return l.QBias.Has() && !l.OBias.Has() }, ""},
		"stablelm with a head_dim":       {"StableLmForCausalLM", "stablelm", object{"head_dim": 32}, nil, "head_dim: got 32"},
		"dynamic":                        {"LlamaForCausalLM", "llama", object{"rope_scaling": object{"type": "dynamic", "factor": 2}}, func(s *loader.Spec) bool { return s.Tables[0].VariesBeyond() == 2048 }, ""},
	} {
		s, err := parse(t, minimal(tc.arch, tc.modelType, tc.change))
		switch {
		case tc.check == nil && (err == nil || !strings.Contains(err.Error(), tc.contains)):
			t.Errorf("%s: got %v, want an error with %q", name, err, tc.contains)
		case tc.check != nil && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.check != nil && !tc.check(&s):
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

// longrope has two tables, dynamic one for each length beyond the trained one, the rest one.
func TestTablesVaryBeyond(t *testing.T) {
	for _, dir := range goldenFolders(t)[:cases] {
		s, err := parse(t, configOf(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Tables {
			limit := c.VariesBeyond()
			at := func(length int) string {
				tab, err := rope.New(c, s.HeadDim, length)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(tab.InvFreq)
			}
			switch {
			case limit == 0 && at(1) != at(1<<20):
				t.Errorf("%s: the table varies and VariesBeyond is 0", dir)
			case limit > 0 && (at(1) != at(limit) || at(limit) == at(limit+1)):
				t.Errorf("%s: the table does not vary from %d on", dir, limit)
			case limit > 0 && (at(limit+1) == at(limit+2)) != (c.Type == "longrope"):
				t.Errorf("%s: %s: the table beyond %d", dir, c.Type, limit)
			}
		}
	}
}
