package needle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/headscope/headscope/loader/tokenizer"
)

// tinyNames are pipelines that differ where it matters here: byte-level with and without a digit rule, Metaspace, a prepended "▁", BOS.
var tinyNames = []string{"gpt2", "smollm", "llama3", "qwen2", "olmo2", "llama2", "llama2_normtrue", "mistral_metaspace", "gemma2"}

// tinyCodeTokens: with 700 merges hardly any two characters of a code are one token.
const tinyCodeTokens = 6

// tiny loads one of the tokenizer package's tokenizers, with a chat template and BOS if given.
func tiny(t testing.TB, name string, config map[string]string) *tokenizer.Tokenizer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "loader", "tokenizer", "testdata", "tiny", "tiny_"+name+".tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var conf []byte
	if config != nil {
		if conf, err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Parse(data, conf)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// smolLM2 is a real tokenizer of 49,152 tokens, where it is in the cache.
func smolLM2(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip("NOT RUN: no cache folder:", err)
	}
	dir := filepath.Join(cache, "headscope", "models", "SmolLM2-135M-Instruct")
	if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Skip("NOT RUN: no SmolLM2 tokenizer in the cache:", err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
