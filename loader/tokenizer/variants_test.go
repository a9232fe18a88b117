package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"testing"
)

func join[T int | int32](vs []T) string {
	words := make([]string, len(vs))
	for i, v := range vs {
		words[i] = strconv.FormatInt(int64(v), 10)
	}
	return strings.Join(words, ",")
}

// patched returns a tiny tokenizer.json with changes to its top level and to its model.
func patched(t testing.TB, base string, top, model map[string]any, added []any) []byte {
	t.Helper()
	return changed(t, &change{Base: base, Top: top, Model: model, Added: added})
}

// change is what a tiny tokenizer is changed in: keys of the file and of its model, tokens dropped from the vocabulary, added tokens.
type change struct {
	Base       string
	Top, Model map[string]any
	Drop       []string
	Added      []any
}

func changed(t testing.TB, c *change) []byte {
	t.Helper()
	var file map[string]any
	readJSON(t, "testdata/tiny/"+c.Base+".tokenizer.json", &file)
	maps.Copy(file, c.Top)
	if m, ok := file["model"].(map[string]any); ok {
		maps.Copy(m, c.Model)
		for _, tok := range c.Drop {
			delete(m["vocab"].(map[string]any), tok)
		}
	}
	if len(c.Added) > 0 {
		file["added_tokens"] = append(file["added_tokens"].([]any), c.Added...)
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestGoldenVariants covers what the pipelines of the tiny tokenizers do not: each option of each node.
func TestGoldenVariants(t *testing.T) {
	var cases []struct{ Name, Text string }
	readJSON(t, "testdata/cases.json", &cases)
	var variants []struct {
		change
		Name    string
		Digests map[string]string
	}
	readJSON(t, "testdata/variants.json", &variants)
	if len(variants) < 29 {
		t.Fatalf("got %d variants, want 29 or more", len(variants))
	}
	for _, v := range variants {
		t.Run(v.Name, func(t *testing.T) {
			tok, err := Parse(changed(t, &v.change), nil)
			if err != nil {
				t.Fatal(err)
			}
			var wrong []string
			for _, c := range cases {
				e := encode(t, tok, c.Text, Options{})
				s := encode(t, tok, c.Text, Options{AddSpecial: true})
				line := join(e.IDs) + "|" + join(flatten2(e.RuneOffsets())) + "|" + join(s.IDs)
				sum := sha256.Sum256([]byte(line))
				if got := hex.EncodeToString(sum[:8]); got != v.Digests[c.Name] {
					wrong = append(wrong, c.Name)
					t.Logf("%s: %q: got digest %s, want %s, of %s", c.Name, c.Text, got, v.Digests[c.Name], line)
				}
			}
			if len(wrong) > 0 {
				t.Errorf("differences in %v", wrong)
			}
		})
	}
}
