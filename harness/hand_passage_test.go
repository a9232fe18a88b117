package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPassageOfPrompt: spans are where the file says, whatever of them a variant leaves out.
func TestPassageOfPrompt(t *testing.T) {
	const with = "The code is K1Q. The other one is Z1X. What is the code? The code is"
	const without = "The sea is far. The other one is Z1X. What is the code? The code is"
	path := filepath.Join(t.TempDir(), "p.jsonl")
	lines := `{"id": "whole", "text": "` + with + `", "needle": [0, 16], "answer": "K1Q", "question": [39, 56], "decoys": [{"answer": "Z1X", "span": [34, 37]}]}
{"id": "plain", "text": "` + with + `", "needle": [0, 16], "answer": "K1Q"}
{"id": "absent", "variant": "decoy_only", "text": "` + without + `", "answer": "K1Q", "decoys": [{"answer": "Z1X", "span": [33, 36]}]}
`
	if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]map[string]string{
		"whole":  {"needle": "The code is K1Q.", "code": " K1Q", "question": " What is the code?", "decoy": " Z1X", "answer": " K1Q"},
		"plain":  {"needle": "The code is K1Q.", "code": " K1Q", "answer": " K1Q"},
		"absent": {"decoy": " Z1X", "answer": " K1Q"},
	} {
		p := tinyPassage(t, PassageRequest{Prompts: path, Prompt: id, WithAnswer: true})
		if len(p.Spans) != len(want) || len(p.Tokens) != p.T() || p.Source.Prompt != id || (p.Question > 0) != (id == "whole") {
			t.Errorf("%s: %d spans, %d of %d tokens, source %+v, question %d", id, len(p.Spans), len(p.Tokens), p.T(), p.Source, p.Question)
		}
		for _, s := range p.Spans {
			text := ""
			for _, tok := range p.Tokens[s.Rows[0]:s.Rows[1]] {
				text += tok.Text
			}
			if strings.TrimSpace(text) != strings.TrimSpace(want[s.Name]) {
				t.Errorf("%s: %s is %q, want %q", id, s.Name, text, want[s.Name])
			}
		}
	}
}
