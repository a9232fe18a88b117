package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/loadertest"
)

// tinyDir holds a random model of 3 layers and 4 heads with a real tokenizer.
var tinyDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "headscope-harness-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if tinyDir = dir; writeTiny(dir) != nil {
			panic("cannot write the test model")
		}
		return m.Run()
	}())
}

func writeTiny(dir string) error {
	if err := loadertest.Write(dir, loadertest.Options{Layers: 3, Heads: 12, KVHeads: 3, Vocab: 960, MaxPositions: 512, Seed: 7}); err != nil {
		return err
	}
	tok, err := os.ReadFile(filepath.Join("testdata", "tiny", "tokenizer.json"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "tokenizer.json"), tok, 0o644)
}

// openTiny opens it once for all tests: its programs are compiled once.
var openTiny = sync.OnceValues(func() (*loader.Checkpoint, *decoder.Model) {
	c, err := loader.Open(tinyDir)
	if err != nil {
		panic(err)
	}
	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: "go"})
	if err != nil {
		panic(err)
	}
	m, err := decoder.New(be, c, decoder.Options{})
	if err != nil {
		panic(err)
	}
	return c, m
})

func tinyModel(t testing.TB) (*loader.Checkpoint, *decoder.Model) {
	t.Helper()
	return openTiny()
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

const tinyRepeats = 2

// inUnits is a study that writes its trials two prompts at a time, so that few prompts are several units.
func inUnits(t testing.TB, o Options) *Study {
	t.Helper()
	s, err := NewStudy(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.Plan.Run.Unit = 2
	if d := s.Plan.Detect; d != nil && d.Repeat != nil {
		d.Repeat.Sequences = tinyRepeats // to save time
	}
	if s.Key, err = s.Plan.Key(); err != nil {
		t.Fatal(err)
	}
	return s
}

func runStudy(t testing.TB, o Options) (*Study, *Result) {
	t.Helper()
	s := inUnits(t, o)
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
