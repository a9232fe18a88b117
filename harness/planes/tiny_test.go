package planes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/loadertest"
)

// tiny is a random model with a real tokenizer on the pure-Go backend, and a file of n prompts.
func tiny(t *testing.T, o loadertest.Options, n int) (*loader.Checkpoint, *decoder.Model, string) {
	t.Helper()
	dir := t.TempDir()
	o.Vocab, o.MaxPositions = 960, 512
	if err := loadertest.Write(dir, o); err != nil {
		t.Fatal(err)
	}
	tok, err := os.ReadFile(filepath.Join("..", "testdata", "tiny", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), tok, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: "go"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := decoder.New(be, c, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "prompts.jsonl")
	if err := os.WriteFile(path, promptLines(t, n), 0o644); err != nil {
		t.Fatal(err)
	}
	return c, m, path
}

func promptLines(t *testing.T, n int) []byte {
	var b strings.Builder
	for i := range n {
		answer := fmt.Sprintf("K%dQ", i)
		needle := "The code is " + answer + "."
		text := "The sea is far. " + needle + " The word is R7W." + " " + strings.Repeat("The sun is warm. ", i+1) + "What is the code?"
		line, err := json.Marshal(map[string]any{
			"id": fmt.Sprint("p", i), "text": text + " The code is", "needle": [2]int{16, 16 + len(needle)},
			"question": [2]int{len(text) - len("What is the code?"), len(text)}, "answer": answer, "decoys": []any{map[string]any{"answer": "R7W", "span": [2]int{strings.Index(text, "R7W"), strings.Index(text, "R7W") + 3}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return []byte(b.String())
}

func readPrompts(t *testing.T, path string) *harness.PromptFile {
	t.Helper()
	f, err := harness.ReadPrompts(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// valid holds a document against its JSON Schema.
func valid(t *testing.T, schema func() ([]byte, error), document any) {
	t.Helper()
	text, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", parsed); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Error(err)
	}
}
