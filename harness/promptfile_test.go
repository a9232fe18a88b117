package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/harness/needle"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

func TestPromptErrors(t *testing.T) {
	good := `{"id": "a", "text": "The code is K1Q. Which?", "needle": [0, 16], "answer": "K1Q"}`
	for line, want := range map[string]string{
		`{`: "not a JSON object",
		`{"text": "x", "needle": [0, 1], "answer": "x"}`:                                                         `"id" is missing`,
		`{"id": null, "text": "x", "needle": [0, 1], "answer": "x"}`:                                             `"id": got null`,
		`{"id": "b", "needle": [0, 1], "answer": "x"}`:                                                           `"text" is missing`,
		`{"id": "b", "text": "x", "answer": "x"}`:                                                                `"needle" is missing`,
		`{"id": "b", "text": "x", "needle": [0, 1]}`:                                                             `"answer" is missing`,
		`{"id": "b", "text": "x", "needle": "x", "answer": "x"}`:                                                 "want a span",
		`{"id": "b", "text": "x", "needle": [0], "answer": "x"}`:                                                 "want a span",
		`{"id": "b", "text": "x", "needle": [0, 2], "answer": "x"}`:                                              "not inside the text of 1 bytes",
		`{"id": "b", "text": "x", "needle": [-1, 1], "answer": "x"}`:                                             "not inside",
		`{"id": "b", "text": "x", "needle": [1, 1], "answer": "x"}`:                                              "not inside",
		`{"id": "b", "text": "äx", "needle": [1, 3], "answer": "x"}`:                                             "cuts a character",
		`{"id": "b", "text": "x", "needle": [0, 1], "answer": ""}`:                                               "stands",
		`{"id": "b", "text": "xx", "needle": [0, 2], "answer": "x"}`:                                             "stands 2 times",
		`{"id": "b", "text": "xy", "needle": [0, 1], "answer": "y"}`:                                             "stands 0 times",
		`{"id": "b", "text": "x", "needle": [0, 1], "answer": "x", "answer_span": [0, 9]}`:                       "answer_span [0, 9)",
		`{"id": "b", "text": "x", "needle": [0, 1], "answer": "x", "question": [0, 9]}`:                          "question [0, 9)",
		`{"id": "b", "text": "x", "needle": [0, 1], "answer": "x", "decoys": [{"answer": "q", "span": [0, 7]}]}`: "decoy 0 [0, 7)",
		`{"id": "b", "text": "x", "needle": [0, 1], "answer": "x", "decoys": [{"span": [0, 1]}]}`:                "no answer",
		`{"id": "b", "text": "x", "needle_bytes": [0, 1], "needle": "x"}`:                                        `"code" is missing`,
		`{"id": "a", "text": "x", "needle": [0, 1], "answer": "x"}`:                                              "same id as on line 1",
		"{\"id\": \"b\", \"text\": \"\xff\", \"needle\": [0, 1], \"answer\": \"x\"}":                             "not UTF-8",
		`{"id": "b", "text": "x", "needle": [0, 1], "answer": "x", "add_special": "yes"}`:                        `"add_special"`,
	} {
		_, err := parsePrompts("f.jsonl", []byte(good+"\n\n"+line+"\n"))
		var pe *PromptError
		if !errors.As(err, &pe) || pe.Line != 3 || pe.Hint() == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want line 3 and %q", line, err, want)
		}
	}
	if _, err := parsePrompts("f.jsonl", nil); err == nil {
		t.Error("no prompts, and no error")
	}
	if _, err := ReadPrompts("builtin:other"); err == nil {
		t.Error("an unknown set was read")
	}
	f, err := parsePrompts("f.jsonl", []byte(good))
	if err != nil || f.Specs[0].AnswerSpan != [2]int{12, 15} {
		t.Errorf("got %+v, %v", f, err)
	}
}

// TestPromptTokenization: spans are found in the tokens, and prompts that do not fit are named.
func TestPromptTokenization(t *testing.T) {
	c, _ := tinyModel(t)
	f := tinyPrompts(t, 2)
	ps, err := f.Tokenize(&c.Spec, c.Tokenizer, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		s := p.Spec
		if got := c.Tokenizer.Decode(p.IDs[p.Code[0]:p.Code[1]], false); !strings.HasPrefix(got, " "+s.Answer) {
			t.Errorf("code tokens read %q, want %q with its space", got, s.Answer)
		}
		if got := c.Tokenizer.Decode(p.IDs[p.Question:], false); !strings.HasPrefix(strings.TrimLeft(got, " "), "What is the code?") {
			t.Errorf("question rows read %q", got)
		}
	}
	long := *f
	long.Specs = slices.Clone(f.Specs)
	long.Specs[1].Text += strings.Repeat(" and so on", 400)
	_, err = long.Tokenize(&c.Spec, c.Tokenizer, 4)
	if err == nil || !strings.Contains(err.Error(), "prompt p1") || !strings.Contains(err.Error(), "window of 512") {
		t.Errorf("too long a prompt: got %v", err)
	}
	first := *f
	first.Specs = slices.Clone(f.Specs)
	first.Specs[0].Question = &[2]int{0, 3}
	if _, err = first.Tokenize(&c.Spec, c.Tokenizer, 4); err == nil || !strings.Contains(err.Error(), "first token") {
		t.Errorf("a question at the first token: got %v", err)
	}
	if _, err := f.Tokenize(&c.Spec, nil, 4); err == nil {
		t.Error("no tokenizer, and no error")
	}
}

// TestLostSpan: a tokenizer that lacks the token of a byte and drops it leaves no token for its span.
func TestLostSpan(t *testing.T) {
	tok, err := tokenizer.Parse(readFile(t, "testdata/tiny/drop.tokenizer.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := &loader.Spec{MaxPositions: 512}
	f, err := parsePrompts("f.jsonl", []byte(`{"id": "a", "text": "The code is \t\t K1Q. The code is", "needle": [12, 14], "answer": "K1Q", "answer_span": [15, 18]}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Tokenize(spec, tok, 4)
	var h interface{ Hint() string }
	if err == nil || !strings.Contains(err.Error(), "lost in tokenisation") || !errors.As(err, &h) {
		t.Errorf("got %v", err)
	}
}

// TestNoCopy: where the answer's tokens are not those of the text, copy_tf is refused for that prompt, with the reason.
func TestNoCopy(t *testing.T) {
	c, _ := tinyModel(t)
	f, err := parsePrompts("f.jsonl", []byte(`{"id": "a", "text": "The code is(K1Q). What? The code is", "needle": [0, 17], "answer": "K1Q"}`))
	if err != nil {
		t.Fatal(err)
	}
	ps, err := f.Tokenize(&c.Spec, c.Tokenizer, 4)
	if err != nil {
		t.Fatal(err)
	}
	if ps[0].NoCopy == "" {
		t.Fatalf("the answer is %v, the text has %v, and copy_tf is not refused", ps[0].Answer, ps[0].IDs[ps[0].Code[0]:ps[0].Code[1]])
	}
}

// smolTokenizer is the real model's, where `make model` has put it.
func smolTokenizer(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(smolDir())
	if err != nil {
		t.Skipf("SKIPPED: no SmolLM2 tokenizer (%v): run make model, or set HEADSCOPE_SMOLLM2 to its folder", err)
	}
	return tok
}

func smolDir() string {
	if dir := os.Getenv("HEADSCOPE_SMOLLM2"); dir != "" {
		return dir
	}
	return filepath.Join(decoder.CacheDir(), "models", "SmolLM2-135M-Instruct")
}

// TestGoldenPrompts: the stored reference's layout is read, its token spans and answer ids come out for all 40 prompts, and the
// embedded set is the same prompts with a question span.
func TestGoldenPrompts(t *testing.T) {
	tok := smolTokenizer(t)
	stored, err := ReadPrompts("verify/testdata/smollm2/prompts_512.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := ReadPrompts(BuiltinPrompts)
	if err != nil {
		t.Fatal(err)
	}
	want := readGoldenPrompts(t)
	if len(stored.Specs) != 40 || len(embedded.Specs) != 40 || len(want) != 40 {
		t.Fatalf("got %d, %d and %d prompts, want 40", len(stored.Specs), len(embedded.Specs), len(want))
	}
	spec := &loader.Spec{MaxPositions: 8192}
	for name, f := range map[string]*PromptFile{"stored": stored, "embedded": embedded} {
		ps, err := f.Tokenize(spec, tok, 16)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range ps {
			w := want[i]
			if !slices.Equal(p.IDs, w.IDs) || p.Needle != w.Needle || p.Code != w.Code || !slices.Equal(p.Answer, w.Answer) || p.NoCopy != "" {
				t.Errorf("%s %d: got needle %v, code %v, answer %v (%s), want %v, %v, %v", name, i, p.Needle, p.Code, p.Answer, p.NoCopy, w.Needle, w.Code, w.Answer)
			}
			if name == "stored" {
				if p.Question != 0 {
					t.Errorf("stored %d: question row %d, the file has none", i, p.Question)
				}
				continue
			}
			if p.Spec.ID != fmt.Sprintf("needle512-%02d", i) || p.Spec.Text != stored.Specs[i].Text {
				t.Errorf("embedded %d is %s", i, p.Spec.ID)
			}
			if got := tok.Decode(p.IDs[p.Question:], false); !strings.HasPrefix(got, "What is the secret passphrase?<|im_end|>") {
				t.Errorf("embedded %d: question rows read %q", i, got)
			}
		}
	}
}

type goldenPrompt struct {
	IDs    []int32    `json:"token_ids"`
	Needle heads.Span `json:"needle_tokens"`
	Code   heads.Span `json:"code_tokens"`
	Answer []int32    `json:"code_ids"`
}

// TestGeneratedPrompts: both splits tokenise into what was promised, share nothing, and have the hash of the file that they would be.
func TestGeneratedPrompts(t *testing.T) {
	c, _ := tinyModel(t)
	o := NeedleOptions{Seed: 1, N: 12, Tokens: 420, CodeTokens: 8, Chat: "plain", Variants: true}
	g, err := GeneratePrompts(context.Background(), c.Tokenizer, o, needle.Test, needle.Detect)
	if err != nil {
		t.Fatal(err)
	}
	if g.Test.Total+len(g.Refused) < o.N || g.Test.Total == 0 || g.Detect.Total == 0 {
		t.Fatalf("%d test and %d detect prompts, %d refused: %v", g.Test.Total, g.Detect.Total, len(g.Refused), g.Refused)
	}
	tests, err := g.Test.Tokenize(&c.Spec, c.Tokenizer, 8)
	if err != nil {
		t.Fatal(err)
	}
	detects, err := g.Detect.Tokenize(&c.Spec, c.Tokenizer, 8)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	count := map[string]int{}
	for _, p := range tests {
		count[p.Spec.Variant]++
		seen[p.Spec.Answer] = true
		if len(p.Decoy) != 8 || len(p.Answer) != 8 || p.Question == 0 || p.Spec.Template == "" || p.Spec.Depth < 0 {
			t.Errorf("%s: answer %v, decoy %v, question %d, %+v", p.Spec.ID, p.Answer, p.Decoy, p.Question, p.NoDecoy)
		}
		if p.Spec.Variant == "" && p.NoCopy != "" {
			t.Errorf("%s: %s", p.Spec.ID, p.NoCopy)
		}
	}
	for _, v := range []string{"", VariantAbsent, VariantDecoyOnly, VariantNoDecoy} {
		if count[v] == 0 {
			t.Errorf("no prompt of variant %q", v)
		}
	}
	for _, p := range detects {
		if seen[p.Spec.Answer] {
			t.Errorf("code %s stands in both splits", p.Spec.Answer)
		}
	}
	again, err := GeneratePrompts(context.Background(), c.Tokenizer, o, needle.Test)
	if err != nil || again.Test.SHA256 != g.Test.SHA256 || again.Detect != nil {
		t.Errorf("made again: %v, another hash or split", err)
	}
	if _, err := GeneratePrompts(context.Background(), c.Tokenizer, NeedleOptions{N: 1, Tokens: 420, Templates: []string{"none"}, Chat: "plain"}, needle.Test); err == nil {
		t.Error("a template that does not exist was accepted")
	}
	if _, err := GeneratePrompts(context.Background(), nil, o, needle.Test); err == nil {
		t.Error("no tokenizer, and no error")
	}
}
