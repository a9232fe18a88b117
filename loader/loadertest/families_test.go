package loadertest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/safetensors"
)

type keys = map[string]any

// prompt is longer than every window, and repeats a token.
var prompt = []int32{7, 19, 3, 42, 7, 19, 55, 0, 63, 11, 30, 7, 28, 60}

// example is a checkpoint of a family and what the reference computes for the prompt.
type example struct {
	o     loadertest.Options
	c     *loader.Checkpoint
	plain *loadertest.Trace
}

// TestFamilies writes each family as it is usually configured, and in each change, and holds every law on it. The logits are those that
// transformers computes from the same files, which so are files that it reads: it finds every tensor and no other.
func TestFamilies(t *testing.T) {
	golden, err := safetensors.Open("testdata/families.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	withGolden := 0
	var usual [][]float64
	for _, v := range loadertest.Variants() {
		if v.Options.Family != withVision {
			withGolden++
		}
		if v.Usual {
			usual = nil
		}
		t.Run(v.Name, func(t *testing.T) {
			e := example{o: v.Options}
			e.c = openIn(t, *checkpoints, v.Name, e.o)
			e.plain = forward(t, e.c, prompt, loadertest.Gains{})
			if v.Usual {
				usual = e.plain.Logits
			} else if d := largest(usual, e.plain.Logits); usual != nil && d < 1e-3 { // nil: -run leaves it out
				t.Errorf("it changes the logits by %.1e only", d)
			}
			for law, holds := range laws {
				t.Run(law, func(t *testing.T) { holds(t, e) })
			}
			if e.o.Family != withVision && *checkpoints == "" {
				parityCase{arrays: golden}.compare(t, v.Name, tolState, e.plain.Logits[len(prompt)-1])
			}
		})
	}
	if *checkpoints == "" && withGolden != len(golden.Names()) {
		t.Errorf("there are %d families and changes, and %d in the golden file", withGolden, len(golden.Names()))
	}
}

// withVision is Gemma3ForCausalLM under other names; transformers asks for the vision model as well.
const withVision = "Gemma3ForConditionalGeneration"

var checkpoints = flag.String("checkpoints", "", "keep what TestFamilies writes in this folder, for testdata/make/make_families.py")

// openIn writes a checkpoint below root, or to a folder that goes with the test, and opens it.
func openIn(t *testing.T, root, name string, o loadertest.Options) *loader.Checkpoint {
	t.Helper()
	if root == "" {
		return loadertest.Open(t, o)
	}
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := loadertest.Write(dir, o); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
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

// Every switch of the spec is on in some family or change here, so that the laws above hold for all of them.
func TestLawsCoverTheSpec(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range loadertest.Variants() {
		s := loadertest.Open(t, v.Options).Spec
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
