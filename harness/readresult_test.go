package harness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
)

func storedResult(t *testing.T) []byte {
	t.Helper()
	s := heads.NewScores("argmax_last", 2, 3)
	r := &Result{
		Schema: schemaVersion, Key: "0123456789ab", Plan: &Plan{}, Model: ModelInfo{Layers: 2, Heads: 3, KVHeads: 3}, Scores: &s,
		Heads: heads.Ranking{{Layer: 1, Index: 2}}, Conditions: []ConditionResult{}, Failures: []PromptFailure{},
		Example: &Example{Tokens: []string{"a", "b"}, Needle: heads.Span{0, 1}, Heads: []ExampleHead{{Weights: floats{0.25, 0.75}}}},
	}
	data, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReadResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	good := string(storedResult(t))
	read := func(text string) (*Result, error) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return ReadResult(path)
	}
	r, err := read(good)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != good || r.Path != path {
		t.Errorf("read back as\n%s\nwant\n%s", again, good)
	}
	change := func(old, now string) string {
		if strings.Count(good, old) != 1 {
			t.Fatalf("%q is there %d times", old, strings.Count(good, old))
		}
		return strings.Replace(good, old, now, 1)
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "empty"},
		{"cut short", good[:len(good)/2], "cut short"},
		{"no JSON", "heads", "not JSON"},
		{"a list", "[1, 2]", "not a result"},
		{"another object", `{"heads": [[1, 2]]}`, "lacks schema"},
		{"no plan", `{"schema": 1, "key": "x", "plan": null, "model": {}}`, "lacks schema"},
		{"two results", good + good, "more follows"},
		{"a newer schema", change(`"schema": 1,`+"\n \"tool\"", `"schema": 2,`+"\n \"tool\""), "schema 2, want at most 1"},
		{"another type", change(`"key": "0123456789ab"`, `"key": 7`), "not a result"},
		{"scores of another shape", change(`"layers": 2`, `"layers": 5`), "shape [2, 3], want [5, 3]"},
		{"a head that is not there", change("2\n  ]\n ],\n \"scores\"", "9\n  ]\n ],\n \"scores\""), "L1H9"},
		{"a weight too few", change("0.25,", ""), "1 weights, want 2"},
	} {
		_, err := read(c.text)
		var h interface{ Hint() string }
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		} else if !errors.As(err, &h) || h.Hint() == "" {
			t.Errorf("%s: no hint", c.name)
		}
	}
	if _, err := ReadResult(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
