package loadertest_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/rope"
)

type keys = map[string]any

var longrope = keys{"type": "longrope", "short_factor": []float64{1, 1, 1.1, 1.2, 1.4, 1.5, 1.8, 2}, "long_factor": []float64{1, 1.3, 1.9, 2.7, 3.3, 3.9, 4.4, 5}}

// changes are, by family, configs that have to give other numbers than the family's usual one. They are read and computed, or the change
// would not show.
var changes = map[string]map[string]keys{
	"LlamaForCausalLM":               {"dynamic": {"max_position_embeddings": 8, "rope_scaling": keys{"type": "dynamic", "factor": 2.0}}, "theta": {"rope_theta": 50.0}},
	"MistralForCausalLM":             {"window": {"sliding_window": nil}, "narrower": {"sliding_window": 7}},
	"Qwen2ForCausalLM":               {"window": {"use_sliding_window": true}, "theta": {"rope_theta": 50.0}},
	"Qwen3ForCausalLM":               {"eps": {"rms_norm_eps": 0.1}, "bias": {"attention_bias": true}},
	"OlmoForCausalLM":                {"clip": {"clip_qkv": nil}},
	"Olmo2ForCausalLM":               {"eps": {"rms_norm_eps": 0.1}},
	"Olmo3ForCausalLM":               {"yarn": {"rope_scaling": nil}, "layers": {"layer_types": []string{"full_attention", "full_attention"}}},
	"GemmaForCausalLM":               {"activation": {"hidden_act": "silu"}, "untied": {"tie_word_embeddings": false}},
	"Gemma2ForCausalLM":              {"scores": {"attn_logit_softcapping": 1.0}, "logits": {"final_logit_softcapping": 3.0}, "scale": {"query_pre_attn_scalar": 16}, "window": {"sliding_window": 7, "sliding_window_size": 7}},
	"Gemma3ForCausalLM":              {"local": {"rope_local_base_freq": 50.0}, "global": {"rope_theta": 50.0}, "pattern": {"sliding_window_pattern": 3}},
	"Gemma3ForConditionalGeneration": {"local": {"rope_local_base_freq": 50.0}},
	"Phi3ForCausalLM":                {"longrope": {"rope_scaling": longrope, "original_max_position_embeddings": 64}, "long": {"rope_scaling": longrope, "original_max_position_embeddings": 8}},
	"StableLmForCausalLM":            {"parallel": {"use_parallel_residual": true}, "head norms": {"qk_layernorm": true}, "part": {"partial_rotary_factor": 0.5}, "bias": {"use_qkv_bias": false}},
	"GPTNeoXForCausalLM":             {"sequential": {"use_parallel_residual": false}, "part": {"rotary_pct": 0.5}, "base": {"rotary_emb_base": 50.0}},
	"SmolLM3ForCausalLM":             {"rotation": {"no_rope_layer_interval": 3}},
	"GraniteForCausalLM":             {"scores": {"attention_multiplier": 0.25}, "embedding": {"embedding_multiplier": 1.0}, "residual": {"residual_multiplier": 1.0}, "logits": {"logits_scaling": 1.0}},
	"CohereForCausalLM":              {"logits": {"logit_scale": 0.25}, "head norms": {"use_qk_norm": true}},
	"GlmForCausalLM":                 {"part": {"partial_rotary_factor": 1.0}},
	"Glm4ForCausalLM":                {"part": {"partial_rotary_factor": 1.0}, "bias": {"attention_bias": false}},
}

func family(name string, config keys) loadertest.Options {
	o := loadertest.Options{Family: name, KVHeads: 2, Seed: 11, Config: config}
	if name == "GPTNeoXForCausalLM" {
		o.KVHeads = 0
	}
	return o
}

// everyFamily runs a test on each family as it is usually configured, and in each change.
func everyFamily(t *testing.T, law func(t *testing.T, o loadertest.Options)) {
	t.Helper()
	for _, name := range loader.Architectures() {
		configs := map[string]keys{"usual": nil}
		maps.Copy(configs, changes[name])
		for _, change := range slices.Sorted(maps.Keys(configs)) {
			t.Run(strings.TrimSuffix(name, "ForCausalLM")+"/"+change, func(t *testing.T) { law(t, family(name, configs[change])) })
		}
	}
}

// prompt is longer than every window, and repeats a token.
var prompt = []int32{7, 19, 3, 42, 7, 19, 55, 0, 63, 11, 30, 7, 28, 60}

func TestChangesMatter(t *testing.T) {
	for _, name := range loader.Architectures() {
		plain := forward(t, loadertest.Open(t, family(name, nil)), prompt, loadertest.Gains{}).Logits
		if len(changes[name]) == 0 {
			t.Errorf("%s: no change is tried", name)
		}
		for change, config := range changes[name] {
			if d := largest(plain, forward(t, loadertest.Open(t, family(name, config)), prompt, loadertest.Gains{}).Logits); d < 1e-3 {
				t.Errorf("%s: %s: largest change of the logits is %.1e", name, change, d)
			}
		}
	}
}

// Where attention is uniform or on one key, edits of it show little.
func TestAttentionIsSpread(t *testing.T) {
	everyFamily(t, func(t *testing.T, o loadertest.Options) {
		tr := forward(t, loadertest.Open(t, o), prompt, loadertest.Gains{})
		for l, heads := range tr.Attention {
			sum := 0.0
			for _, rows := range heads {
				sum += perplexity(rows[len(prompt)-1])
			}
			if mean := sum / float64(len(heads)); mean < 1.3 || mean > 13 {
				t.Errorf("layer %d: the last row's attention has a mean perplexity of %.1f keys", l, mean)
			}
		}
	})
}

func perplexity(p []float64) float64 {
	sum := 0.0
	for _, v := range p {
		if v > 0 {
			sum -= v * math.Log(v)
		}
	}
	return math.Exp(sum)
}

func TestWriteRefusesWhatAFamilyLacks(t *testing.T) {
	for _, o := range []loadertest.Options{
		{Family: "LlamaModel"}, {Family: "MistralForCausalLM", AttentionBias: true}, {Family: "Qwen2ForCausalLM", MLPBias: true},
		{Family: "GPTNeoXForCausalLM", KVHeads: 2}, {Family: "CohereForCausalLM", Llama3: true}, {Family: "StableLmForCausalLM", HeadDim: 16, Hidden: 32},
		{Family: "GemmaForCausalLM", Tied: true, Config: keys{"tie_word_embeddings": false}}, {Config: keys{"colour": "red"}},
	} {
		if err := loadertest.Write(t.TempDir(), o); err == nil {
			t.Errorf("%+v: written", o)
		}
	}
}

// A head without output is the model whose output projection has zeros in that head's columns.
func TestZeroHeadEqualsZeroColumns(t *testing.T) {
	const layer, head = 0, 2
	everyFamily(t, func(t *testing.T, o loadertest.Options) {
		c := loadertest.Open(t, o)
		s := &c.Spec
		edited := forward(t, c, prompt, loadertest.Gains{Head: func(l, h, _ int) float64 {
			if l == layer && h == head {
				return 0
			}
			return 1
		}})
		zeroed := rewrite(t, o, s.Params.Layer(layer).O.Views[0].Tensor, func(_, column int) bool { return column/s.HeadDim == head })
		if d := largest(edited.Logits, forward(t, zeroed, prompt, loadertest.Gains{}).Logits); d > 1e-12 {
			t.Errorf("gain and weights disagree by %g", d)
		}
		if d := largest(edited.Logits, forward(t, c, prompt, loadertest.Gains{}).Logits); d < 1e-3 {
			t.Errorf("the head changes the logits by %g only", d)
		}
	})
}

// Query planes at zero leave scores without those planes' terms, and nothing else of the head changes.
func TestZeroPlanesRemoveTheirTerms(t *testing.T) {
	const layer, head, row = 1, 3, 12
	everyFamily(t, func(t *testing.T, o loadertest.Options) {
		c := loadertest.Open(t, o)
		s := &c.Spec
		planes := planesOf(s)
		plain := forward(t, c, prompt, loadertest.Gains{})
		for name, removed := range map[string]func(plane int) bool{
			"fastest": func(plane int) bool { return plane == 0 },
			"slowest": func(plane int) bool { return plane == planes-1 },
			"rest":    func(plane int) bool { return plane == planes }, // the dimensions that do not rotate
		} {
			if name == "rest" && 2*planes == s.HeadDim {
				continue
			}
			edited := forward(t, c, prompt, loadertest.Gains{Q: func(l, h, plane, _ int) float64 {
				if l == layer && h == head && removed(plane) {
					return 0
				}
				return 1
			}})
			want := attentionWithout(s, plain, [3]int{layer, head, row}, func(d int) bool { return removed(planeOf(s, d)) })
			if d := largest([][]float64{want}, [][]float64{edited.Attention[layer][head][row]}); d > 1e-12 {
				t.Errorf("%s: attention is off by %g", name, d)
			}
			if d := largest([][]float64{want}, [][]float64{plain.Attention[layer][head][row]}); d < 1e-6 {
				t.Errorf("%s: the terms change attention by %g only", name, d)
			}
			if d := largest(edited.Attention[layer][head-1], plain.Attention[layer][head-1]); d != 0 {
				t.Errorf("%s: the head beside it changes by %g", name, d)
			}
		}
	})
}

// attentionWithout computes one row of attention, at [layer, head, row], from rotated queries and keys without some dimensions.
func attentionWithout(s *loader.Spec, tr *loadertest.Trace, at [3]int, without func(dim int) bool) []float64 {
	layer, head, row := at[0], at[1], at[2]
	out, sum := make([]float64, row+1), 0.0
	for key := range out {
		if w := s.Kinds[layer].Window; w > 0 && row-key >= w {
			continue
		}
		score := 0.0
		for d, q := range tr.QRot[layer][head][row] {
			if !without(d) {
				score += q * tr.KRot[layer][head/s.Group()][key][d] * s.ScoreScale
			}
		}
		if s.ScoreCap > 0 {
			score = s.ScoreCap * math.Tanh(score/s.ScoreCap)
		}
		out[key] = math.Exp(score)
		sum += out[key]
	}
	for key := range out {
		out[key] /= sum
	}
	return out
}

func planesOf(s *loader.Spec) int {
	if s.Tables[0].RotaryDim > 0 {
		return s.Tables[0].RotaryDim / 2
	}
	return s.HeadDim / 2
}

// planeOf returns the plane of a dimension, the number of planes for one that does not rotate.
func planeOf(s *loader.Spec, dim int) int {
	planes := planesOf(s)
	switch {
	case dim >= 2*planes:
		return planes
	case s.Interleaved:
		return dim / 2
	}
	return dim % planes
}

// Scores depend on positions by the distance alone: those of the trace are the sum over planes of the closed form, which knows no other
// position. So a shift of all positions leaves them as they are.
func TestScoresDependOnDistance(t *testing.T) {
	everyFamily(t, func(t *testing.T, o loadertest.Options) {
		c := loadertest.Open(t, o)
		r := reference(t, c)
		r.Precision = rope.Float64Angles
		tr, err := r.Forward(prompt, loadertest.Gains{})
		if err != nil {
			t.Fatal(err)
		}
		for l, kind := range c.Spec.Kinds {
			table := &rope.Table{InvFreq: make([]float64, planesOf(&c.Spec)), Scale: 1} // frequency 0 where nothing turns
			if kind.Table != loader.Unrotated {
				if table, err = rope.New(c.Spec.Tables[kind.Table], c.Spec.HeadDim, len(prompt)); err != nil {
					t.Fatal(err)
				}
			}
			for h := range c.Spec.Heads {
				kv := h / c.Spec.Group()
				for i := range prompt {
					for j := range i + 1 {
						got := 0.0
						for d, q := range tr.QRot[l][h][i] {
							got += q * tr.KRot[l][kv][j][d]
						}
						want := scoreAtDistance(&c.Spec, table, tr.QPre[l][h][i], tr.KPre[l][kv][j], i-j)
						if math.Abs(got-want) > 1e-5 { // cosines are float32
							t.Fatalf("L%dH%d: row %d, key %d: got %v, want %v", l, h, i, j, got, want)
						}
					}
				}
			}
		}
	})
}

// scoreAtDistance is the real part of q times the conjugate of k times e^(i w distance), summed over planes.
func scoreAtDistance(s *loader.Spec, table *rope.Table, q, k []float64, distance int) float64 {
	sum := 0.0
	members := make([][]int, len(table.InvFreq)+1)
	for d := range q {
		members[planeOf(s, d)] = append(members[planeOf(s, d)], d)
	}
	for p, w := range table.InvFreq {
		a, b := members[p][0], members[p][1]
		sin, cos := math.Sincos(w * float64(distance))
		sum += table.Scale * table.Scale * ((q[a]*k[a]+q[b]*k[b])*cos + (q[a]*k[b]-q[b]*k[a])*sin)
	}
	for _, d := range members[len(table.InvFreq)] {
		sum += q[d] * k[d]
	}
	return sum
}

// No row sees a later one, or a key outside of its window; tables that depend on the length apart.
func TestRowsSeeTheirKeysOnly(t *testing.T) {
	everyFamily(t, func(t *testing.T, o loadertest.Options) {
		c := loadertest.Open(t, o)
		whole := forward(t, c, prompt, loadertest.Gains{})
		for l, kind := range c.Spec.Kinds {
			for h, rows := range whole.Attention[l] {
				for row, p := range rows {
					for key, v := range p {
						if visible := kind.Window == 0 || row-key < kind.Window; visible != (v > 0) {
							t.Fatalf("L%dH%d: row %d, key %d: got weight %g with a window of %d", l, h, row, key, v, kind.Window)
						}
					}
				}
			}
		}
		if beyond := c.Spec.Tables[0].VariesBeyond(); beyond > 0 && beyond < len(prompt) {
			return
		}
		part := forward(t, c, prompt[:9], loadertest.Gains{})
		if d := largest(part.Logits, whole.Logits[:9]); d != 0 {
			t.Errorf("later tokens change earlier logits by %g", d)
		}
	})
}

// Every switch of the spec is on in some family or change here, so that the laws above hold for all of them.
func TestLawsCoverTheSpec(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range loader.Architectures() {
		configs := []keys{nil}
		for _, config := range changes[name] {
			configs = append(configs, config)
		}
		for _, config := range configs {
			s := loadertest.Open(t, family(name, config)).Spec
			for switches, on := range map[string]bool{
				"norm " + string(s.Norm): true, "query norm " + string(s.QKNorm): true, "order " + string(s.Parallel): true,
				"activation " + string(s.Activation): true, fmt.Sprint("gated ", s.Gated): true, fmt.Sprint("tied ", s.Tied): true,
				fmt.Sprint("norms ", s.Norms): true, "clip": s.QKVClip > 0, "score cap": s.ScoreCap > 0, "logit cap": s.LogitCap > 0,
				"embed scale": s.EmbedScale != 1, "residual scale": s.ResidualScale != 1, "logit scale": s.LogitScale != 1,
				"logit divide": s.LogitDivide != 1, "tables": len(s.Tables) > 1, "interleaved": s.Interleaved,
				"partial": 2*planesOf(&s) < s.HeadDim, "window": s.Kinds[0].Window > 0, "unrotated": s.Kinds[1].Table == loader.Unrotated,
				"fused": len(s.Params.Layer(0).Q.Views) == 1 && s.Params.Layer(0).Q.Views[0].Times > 0,
			} {
				seen[switches] = seen[switches] || on
			}
		}
	}
	for _, want := range []string{
		"norm rms", "norm rms_float", "norm rms_offset", "norm layer", "norm layer_plain", "query norm ", "query norm shared",
		"query norm per_head", "query norm full", "order ", "order residual_first", "order branches_first", "activation silu",
		"activation gelu", "activation gelu_tanh", "gated true", "gated false", "tied true", "tied false",
	} {
		if !seen[want] {
			t.Errorf("%q: in no family", want)
		}
	}
	for switches, on := range seen {
		if !on {
			t.Errorf("%q: in no family", switches)
		}
	}
}
