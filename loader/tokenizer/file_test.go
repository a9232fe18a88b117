package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type obj = map[string]any

// malformed are changes to a sound file, and what the error says.
var malformed = []struct {
	name        string
	top, model  obj
	added       []any
	want        string
	unsupported bool // rather than wrong
}{
	{name: "no model", top: obj{"model": nil}, want: "model: missing"},
	{name: "empty model", top: obj{"model": obj{}}, want: "model: vocab"},
	{name: "no vocab", model: obj{"vocab": nil}, want: "model: vocab"},
	{name: "unigram", model: obj{"type": "Unigram", "vocab": []any{}}, want: `model: type "Unigram"`, unsupported: true},
	{name: "wordpiece", model: obj{"type": "WordPiece"}, want: `model: type "WordPiece"`, unsupported: true},
	{name: "dropout", model: obj{"dropout": 0.1}, want: "dropout 0.1", unsupported: true},
	{name: "word prefix", model: obj{"continuing_subword_prefix": "##"}, want: "continuing_subword_prefix", unsupported: true},
	{name: "word suffix", model: obj{"end_of_word_suffix": "</w>"}, want: "end_of_word_suffix", unsupported: true},
	{name: "unk out of vocab", model: obj{"unk_token": "<nope>"}, want: `unk_token "<nope>"`},
	{name: "byte fallback and byte level", model: obj{"byte_fallback": true}, want: "byte_fallback", unsupported: true},
	{name: "merge left out of vocab", model: obj{"merges": []any{"ж a"}}, want: `merge 0 ("ж", "a"): "ж" is not in the vocabulary`},
	{name: "merge right out of vocab", model: obj{"merges": []any{"Ġ a", "a ж"}}, want: `merge 1 ("a", "ж"): "ж" is not in the vocabulary`},
	{name: "merge result out of vocab", model: obj{"merges": []any{[]any{"!", "?"}}}, want: `the result "!?" is not in the vocabulary`},
	{name: "merge of one", model: obj{"merges": []any{"ab"}}, want: "merge 0: got"},
	{name: "merge of three", model: obj{"merges": []any{"a b c"}}, want: "merge 0: got"},
	{name: "merge list of one", model: obj{"merges": []any{[]any{"a"}}}, want: "merge 0: got"},
	{name: "merge list of three", model: obj{"merges": []any{[]any{"a", "b", "c"}}}, want: "merge 0: got"},
	{name: "merge of numbers", model: obj{"merges": []any{1}}, want: "merge 0: got"},
	{name: "merges no array", model: obj{"merges": "a b"}, want: "merges: got"},
	{name: "id not a number", model: obj{"vocab": obj{"a": "1"}}, want: "vocab"},
	{name: "id not whole", model: obj{"vocab": obj{"a": 1.5}}, want: "vocab"},
	{name: "id negative", model: obj{"vocab": obj{"a": -1}}, want: "vocab"},
	{name: "id too large", model: obj{"vocab": obj{"a": 1 << 40}}, want: "vocab"},
	{name: "id claims a gigabyte", model: obj{"vocab": obj{"a": 1 << 30}, "merges": []any{}}, want: "id 1073741824"},
	{name: "id twice", model: obj{"vocab": obj{"a": 1, "b": 1}, "merges": []any{}}, want: "id 1: got two tokens"},
	{name: "added id twice", added: []any{obj{"id": 3, "content": "<x>"}}, want: "id 3: got two tokens"},
	{name: "added twice", added: []any{obj{"id": 2000, "content": "<x>"}, obj{"id": 2001, "content": "<x>"}}, want: `"<x>": got it twice`},
	{name: "added id differs", added: []any{obj{"id": 2000, "content": "a"}}, want: `"a": got id 2000`},
	{name: "added negative", added: []any{obj{"id": -7, "content": "<x>"}}, want: "id -7"},
	{name: "unknown normalizer", top: obj{"normalizer": obj{"type": "Precompiled"}}, want: `normalizer: node "Precompiled"`, unsupported: true},
	{name: "unknown nested normalizer", top: obj{"normalizer": obj{"type": "Sequence", "normalizers": []any{obj{"type": "NFC"}, obj{"type": "Lowercase"}}}}, want: `normalizer: node "Lowercase"`, unsupported: true},
	{name: "normalizer without type", top: obj{"normalizer": obj{}}, want: "normalizer: node without a type"},
	{name: "replace by regex", top: obj{"normalizer": obj{"type": "Replace", "pattern": obj{"Regex": "a"}, "content": ""}}, want: `node "Replace"`, unsupported: true},
	{name: "replace nothing", top: obj{"normalizer": obj{"type": "Replace", "pattern": obj{"String": ""}, "content": "x"}}, want: `node "Replace"`},
	{name: "unknown option", top: obj{"normalizer": obj{"type": "Prepend", "prepend": "x", "sometimes": true}}, want: "sometimes"},
	{name: "unknown pre-tokenizer", top: obj{"pre_tokenizer": obj{"type": "Whitespace"}}, want: `pre_tokenizer: node "Whitespace"`, unsupported: true},
	{name: "node after ByteLevel", top: obj{"pre_tokenizer": obj{"type": "Sequence", "pretokenizers": []any{obj{"type": "ByteLevel"}, obj{"type": "Digits"}}}}, want: `node "Digits" after ByteLevel`, unsupported: true},
	{name: "possessive regex", top: splitNode(obj{"Regex": `\p{L}++`}, "Isolated"), want: `node "Split": regular expression`, unsupported: true},
	{name: "split by nothing", top: splitNode(obj{}, "Isolated"), want: `node "Split": pattern`},
	{name: "unknown behavior", top: splitNode(obj{"String": "a"}, "Sideways"), want: `behavior "Sideways"`, unsupported: true},
	{name: "unknown scheme", top: obj{"pre_tokenizer": obj{"type": "Metaspace", "replacement": "_", "prepend_scheme": "often"}}, want: `prepend_scheme "often"`, unsupported: true},
	{name: "long replacement", top: obj{"pre_tokenizer": obj{"type": "Metaspace", "replacement": "__"}}, want: "replacement"},
	{name: "unknown post-processor", top: obj{"post_processor": obj{"type": "BertProcessing"}}, want: `post_processor: node "BertProcessing"`, unsupported: true},
	{name: "template without text", top: obj{"post_processor": obj{"type": "TemplateProcessing", "single": []any{}}}, want: "got the text 0 times"},
	{name: "template with unknown token", top: obj{"post_processor": obj{"type": "TemplateProcessing", "single": []any{obj{"SpecialToken": obj{"id": "<s>"}}}}}, want: `"<s>" is not in special_tokens`},
	{name: "template with an id out of range", top: obj{"post_processor": obj{"type": "TemplateProcessing",
		"single":         []any{obj{"SpecialToken": obj{"id": "<s>"}}, obj{"Sequence": obj{"id": "A"}}},
		"special_tokens": obj{"<s>": obj{"id": "<s>", "ids": []any{99999}}}}}, want: "id 99999, which is no token"},
	{name: "unknown decoder", top: obj{"decoder": obj{"type": "WordPiece"}}, want: `decoder: node "WordPiece"`, unsupported: true},
	{name: "strip of nothing", top: obj{"decoder": obj{"type": "Strip", "content": "", "start": 1}}, want: `node "Strip"`},
}

func splitNode(pattern, behavior any) obj {
	return obj{"pre_tokenizer": obj{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": false}}
}

func TestMalformed(t *testing.T) {
	for _, c := range malformed {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(patched(t, "tiny_gpt2", c.top, c.model, c.added), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "tokenizer.json: ") {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
			if got := errors.Is(err, ErrUnsupported); got != c.unsupported {
				t.Errorf("%v: got unsupported %v, want %v", err, got, c.unsupported)
			}
		})
	}
	const twice = `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "a": 2}, "merges": []}}`
	if _, err := Parse([]byte(twice), nil); err == nil || !strings.Contains(err.Error(), `vocab: "a": got it twice`) {
		t.Errorf("token twice: got error %v", err)
	}
	for _, data := range []string{"", "{", "[]", "null", `"x"`, `{"model": 3}`, `{"added_tokens": {}}`} {
		if _, err := Parse([]byte(data), nil); err == nil {
			t.Errorf("%q: got no error", data)
		}
	}
}

// TestGoldenConfig compares what tokenizer_config.json changes with transformers: nothing about BOS and EOS.
func TestGoldenConfig(t *testing.T) {
	var cases []struct {
		Base, Text, Skip string
		Config           json.RawMessage
		IDs              []int32
		IDsSpecial       []int32 `json:"ids_special"`
		Offsets          [][2]int
	}
	readJSON(t, "testdata/config.json", &cases)
	if len(cases) != 11 {
		t.Errorf("got %d cases, want 11", len(cases))
	}
	for _, c := range cases {
		tok, err := Parse([]byte(readFile(t, "testdata/tiny/"+c.Base+".tokenizer.json")), c.Config)
		if err != nil {
			t.Errorf("%s: %v", c.Config, err)
			continue
		}
		if got := encode(t, tok, c.Text, Options{}).IDs; !slices.Equal(got, c.IDs) {
			t.Errorf("%s: got ids %v, want %v", c.Config, got, c.IDs)
		}
		e := encode(t, tok, c.Text, Options{AddSpecial: true})
		if !slices.Equal(e.IDs, c.IDsSpecial) || !slices.Equal(e.RuneOffsets(), c.Offsets) {
			t.Errorf("%s: with special tokens: got ids %v, offsets %v, want %v, %v", c.Config, e.IDs, e.RuneOffsets(), c.IDsSpecial, c.Offsets)
		}
		if got := tok.Decode(e.IDs, true); got != c.Skip {
			t.Errorf("%s: got %q without special tokens, want %q", c.Config, got, c.Skip)
		}
	}
}

func TestConfig(t *testing.T) {
	llama := []byte(readFile(t, "testdata/tiny/tiny_llama2.tokenizer.json"))
	tok, err := Parse(llama, []byte(`{"bos_token": {"__type": "AddedToken", "content": "<s>", "lstrip": false}, "eos_token": "</s>", "pad_token": null}`))
	if err != nil || tok.BOS() != "<s>" || tok.EOS() != "</s>" || tok.PAD() != "" || !tok.AddsSpecial() {
		t.Errorf("got BOS %q, EOS %q, PAD %q, AddsSpecial %v, %v", tok.BOS(), tok.EOS(), tok.PAD(), tok.AddsSpecial(), err)
	}
	for config, want := range map[string]string{
		`{"bos_token": 3}`:     "tokenizer_config.json",
		`{"bos_token": {}}`:    "want a string or an object with content",
		`{"chat_template": 3}`: "chat_template",
		`{`:                    "tokenizer_config.json",
		`{"added_tokens_decoder": {"x": {"content": "<x>"}}}`: "added_tokens_decoder",
		`{"added_tokens_decoder": {"5": {"content": "<s>"}}}`: `"<s>": got id 5, want 1`,
	} {
		if _, err := Parse(llama, []byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", config, err, want)
		}
	}
}

func TestConfigAddedTokens(t *testing.T) {
	llama, err := os.ReadFile("testdata/tiny/tiny_llama2.tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(llama, []byte(`{"added_tokens_decoder": {
		"1": {"content": "<s>", "special": true, "rstrip": true},
		"1088": {"content": "<tool>", "special": false}}}`))
	if err != nil {
		t.Fatal(err)
	}
	e := encode(t, tok, "<s>  <tool>", Options{})
	if !slices.Equal(e.IDs, []int32{1, 1088}) || e.End[0] != 5 {
		t.Errorf("got ids %v, ends %v, want <s> with the white space after it, and the new token", e.IDs, e.End)
	}
	if tok.VocabSize() != 1089 {
		t.Errorf("got vocabulary %d, want 1089", tok.VocabSize())
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("empty folder: got error %v, want a missing tokenizer.json", err)
	}
	data, err := os.ReadFile("testdata/tiny/tiny_qwen2.tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer.json", data)
	tok, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if got, want := tok.SHA256(), hex.EncodeToString(sum[:]); got != want {
		t.Errorf("got SHA256 %q, want %s", got, want)
	}
	if tok.ChatTemplate() != "" || tok.AddsSpecial() {
		t.Errorf("got template %q, AddsSpecial %v, want none", tok.ChatTemplate(), tok.AddsSpecial())
	}
	if _, ok := tok.Token(-1); ok {
		t.Error("id -1: got a token")
	}
	if _, ok := tok.Token(int32(tok.VocabSize())); ok {
		t.Error("id past the end: got a token")
	}
	for id := range int32(tok.VocabSize()) {
		name, ok := tok.Token(id)
		back, found := tok.ID(name)
		if !ok || !found || back != id {
			t.Fatalf("id %d: got token %q and id %d back", id, name, back)
		}
	}
	template, _ := json.Marshal([]obj{{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}})
	write("tokenizer_config.json", []byte(`{"chat_template": `+string(template)+`}`))
	if tok, err = Load(dir); err != nil || tok.ChatTemplate() != "D" {
		t.Errorf("got template %q, %v, want the default one", tok.ChatTemplate(), err)
	}
	write("chat_template.jinja", []byte("J"))
	if tok, err = Load(dir); err != nil || tok.ChatTemplate() != "J" {
		t.Errorf("got template %q, %v, want that of the file", tok.ChatTemplate(), err)
	}
	write("tokenizer.json", data[:100])
	if _, err = Load(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("cut file: got error %v, want one that names the folder", err)
	}
}
