package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/loadertest"
)

// tinyModel is a random model of 3 layers and 4 heads with a real tokenizer, on the pure-Go backend.
func tinyModel(t testing.TB) (*loader.Checkpoint, *decoder.Model) {
	t.Helper()
	dir := t.TempDir()
	if err := loadertest.Write(dir, loadertest.Options{Layers: 3, KVHeads: 2, Vocab: 960, MaxPositions: 512, Seed: 7}); err != nil {
		t.Fatal(err)
	}
	tok, err := os.ReadFile(filepath.Join("testdata", "tiny", "tokenizer.json"))
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
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
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
	})
	return c, m
}

// tinyPrompts writes n short prompts, each with a needle, a question and a decoy.
func tinyPrompts(t testing.TB, n int) *PromptFile {
	t.Helper()
	var b strings.Builder
	for i := range n {
		answer, decoy := fmt.Sprintf("K%dQ", i), fmt.Sprintf("Z%dX", i)
		text := "The sea is far. "
		needle := len(text)
		text += "The code is " + answer + "."
		end := len(text)
		text += " The other one is " + decoy + "."
		question := len(text) + 1
		text += " What is the code?"
		span := [2]int{end - 1 - len(answer), end - 1}
		at := strings.Index(text, decoy)
		line, err := json.Marshal(map[string]any{
			"id": fmt.Sprint("p", i), "text": text + " The code is", "needle": [2]int{needle, end}, "question": [2]int{question, len(text)},
			"answer": answer, "answer_span": span, "decoys": []any{map[string]any{"answer": decoy, "span": [2]int{at, at + len(decoy)}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	f, err := parsePrompts("tiny.jsonl", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func tinyOptions(t testing.TB, prompts int) Options {
	c, m := tinyModel(t)
	return Options{
		Verb: "study", Stages: []string{StageDetect, StageKnockout}, Checkpoint: c, Model: m, Prompts: tinyPrompts(t, prompts),
		Threshold: 0.1, Top: 2, Controls: 1, Scopes: []decoder.Scope{decoder.ScopeAll, decoder.ScopeQuestion}, MaxNew: 4, Batch: 1, Seed: 3,
		Out: t.TempDir(),
	}
}

func runStudy(t testing.TB, o Options) (*Study, *Result) {
	t.Helper()
	s, err := NewStudy(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s, res
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
