package gguf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// vocabularyOf reads tokens, types and merges out of a tokenizer.json; special added tokens are control tokens, the others
// user-defined ones, as llama.cpp's converter has it.
func vocabularyOf(t *testing.T, file map[string]any) (tokens []string, kinds []int32, merges []string) {
	t.Helper()
	model := file["model"].(map[string]any)
	ids := map[string]int{}
	for token, id := range model["vocab"].(map[string]any) {
		ids[token] = int(id.(float64))
	}
	added := map[string]int32{}
	for _, a := range file["added_tokens"].([]any) {
		a := a.(map[string]any)
		ids[a["content"].(string)] = int(a["id"].(float64))
		added[a["content"].(string)] = tokenUserDefined
		if a["special"].(bool) {
			added[a["content"].(string)] = tokenControl
		}
	}
	tokens, kinds = make([]string, len(ids)), make([]int32, len(ids))
	for token, id := range ids {
		tokens[id], kinds[id] = token, 1
		if kind, ok := added[token]; ok {
			kinds[id] = kind
		}
	}
	for _, m := range model["merges"].([]any) {
		if pair, ok := m.([]any); ok {
			merges = append(merges, pair[0].(string)+" "+pair[1].(string))
		} else {
			merges = append(merges, m.(string))
		}
	}
	return tokens, kinds, merges
}

// TestTokenizerPipelines puts the vocabulary of a tokenizer.json into a GGUF file and expects the same pipeline back. In GGUF all
// tokens are in one list, so added tokens are in the vocabulary too; merges may be spelled as pairs or as text.
func TestTokenizerPipelines(t *testing.T) {
	for _, test := range []struct {
		file, pre string
		bos       string // beginning of text, by the pipeline
		post      any    // nil: as in the file
	}{
		{file: "smollm", pre: "smollm"},
		{file: "llama3", pre: "llama-bpe", bos: "<|begin_of_text|>"},
		{file: "qwen2", pre: "qwen2"},
		// The published GPT-2 file has a post-processor that keeps offsets untrimmed; the small test tokenizer has none.
		{file: "gpt2", pre: "gpt-2", post: map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false,
			"use_regex": true}},
	} {
		t.Run(test.file, func(t *testing.T) {
			want := readJSON(t, filepath.Join("testdata", "tokenizer", "tiny_"+test.file+".tokenizer.json"))
			tokens, kinds, merges := vocabularyOf(t, want)
			m := tinyShape()
			m.vocab = len(tokens)
			b, _ := tinyBuilder(m)
			b.set("tokenizer.ggml.tokens", tokens).set("tokenizer.ggml.token_type", kinds).set("tokenizer.ggml.merges", merges).
				set("tokenizer.ggml.pre", test.pre)
			for i, token := range tokens {
				if token == test.bos {
					b.set("tokenizer.ggml.bos_token_id", uint32(i))
				}
			}
			dir, _ := imported(t, b)
			got := readJSON(t, filepath.Join(dir, "tokenizer.json"))
			gotTokens, _, gotMerges := vocabularyOf(t, got)
			if !reflect.DeepEqual(gotTokens, tokens) || !reflect.DeepEqual(gotMerges, merges) {
				t.Error("vocabulary or merges differ")
			}
			// The reference conversion calls user-defined tokens special too: that matters only to decoding without special tokens.
			for _, a := range want["added_tokens"].([]any) {
				a.(map[string]any)["special"] = true
			}
			if test.post != nil {
				want["post_processor"] = test.post
			}
			for _, key := range []string{"version", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation",
				"padding"} {
				if !reflect.DeepEqual(got[key], want[key]) {
					t.Errorf("%s: got %v, want %v", key, got[key], want[key])
				}
			}
			gotModel, wantModel := got["model"].(map[string]any), want["model"].(map[string]any)
			for key := range wantModel {
				if key != "vocab" && key != "merges" && !reflect.DeepEqual(gotModel[key], wantModel[key]) {
					t.Errorf("model %s: got %v, want %v", key, gotModel[key], wantModel[key])
				}
			}
		})
	}
}

// The file's own switches win over what the pipeline does by itself.
func TestTokenizerSwitches(t *testing.T) {
	b, _ := tinyBuilder(tinyShape())
	b.set("tokenizer.ggml.pre", "llama-bpe").set("tokenizer.ggml.add_bos_token", false).set("tokenizer.ggml.add_eos_token", true).
		set("tokenizer.ggml.padding_token_id", uint32(3)).set("tokenizer.chat_template", "{% for m in messages %}é\"{% endfor %}\n").
		set("tokenizer.chat_template.tools", "x").set("tokenizer.ggml.eot_token_id", uint32(99))
	dir, _ := imported(t, b)
	post, err := json.Marshal(readJSON(t, filepath.Join(dir, "tokenizer.json"))["post_processor"].(map[string]any)["processors"].([]any)[1])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"pair":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<|end|>","type_id":0}},` +
		`{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"<|end|>","type_id":1}}],` +
		`"single":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<|end|>","type_id":0}}],` +
		`"special_tokens":{"<|end|>":{"id":"<|end|>","ids":[99],"tokens":["<|end|>"]}},"type":"TemplateProcessing"}`
	if strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(post)) != want {
		t.Errorf("post-processor: got %s, want %s", post, want)
	}
	config := readJSON(t, filepath.Join(dir, "tokenizer_config.json"))
	for key, value := range map[string]any{"chat_template": "{% for m in messages %}é\"{% endfor %}\n", "pad_token": "$", "add_eos_token": true,
		"bos_token": "<|start|>", "unk_token": nil, "model_max_length": 512.0, "add_bos_token": nil} {
		if config[key] != value {
			t.Errorf("%s: got %v, want %v", key, config[key], value)
		}
	}
}

func TestTokenizerRefuses(t *testing.T) {
	checkRefusals(t, []refusal{
		{"model", `tokenizer.ggml.model: got "llama"`, true, func(b *builder) { b.set("tokenizer.ggml.model", "llama") }},
		{"pre", `tokenizer.ggml.pre: got "tekken"`, true, func(b *builder) { b.set("tokenizer.ggml.pre", "tekken") }},
		{"no pre", `tokenizer.ggml.pre: got ""`, true, func(b *builder) { b.unset("tokenizer.ggml.pre") }},
		{"key", "tokenizer.ggml.lowercase: key is not understood: true", true, func(b *builder) { b.set("tokenizer.ggml.lowercase", true) }},
		{"space prefix", "add_space_prefix: got true", true, func(b *builder) { b.set("tokenizer.ggml.add_space_prefix", true) }},
		{"no tokens", "tokenizer.ggml.tokens: key is missing", false, func(b *builder) { b.unset("tokenizer.ggml.tokens") }},
		{"no merges", "tokenizer.ggml.merges: key is missing", false, func(b *builder) { b.unset("tokenizer.ggml.merges") }},
		{"token twice", `token 1, "a", is there twice`, false, func(b *builder) {
			b.set("tokenizer.ggml.tokens", []string{"a", "a"}).set("tokenizer.ggml.token_type", []int32{1, 1})
		}},
		{"token types", "got 1 types for 100 tokens", false, func(b *builder) { b.set("tokenizer.ggml.token_type", []int32{1}) }},
		{"byte token", "token 0 has type 6", true, func(b *builder) {
			_, kinds, _ := byteTokens()
			kinds[0] = 6
			b.set("tokenizer.ggml.token_type", kinds)
		}},
		{"not UTF-8", "tokenizer.ggml.tokens: element 0 is not UTF-8", false, func(b *builder) {
			b.set("tokenizer.ggml.tokens", []string{"\xff"})
		}},
		{"more tokens than rows", "got 100 tokens, token_embd.weight has 60 rows", false, func(b *builder) {
			m := tinyShape()
			m.vocab = 60
			rebuild(b, m)
		}},
		{"merge of no tokens", `merge 0, "a b": no token "ab"`, false, func(b *builder) { b.set("tokenizer.ggml.merges", []string{"a b"}) }},
		{"merge of one", `merge 0, "a"`, false, func(b *builder) { b.set("tokenizer.ggml.merges", []string{"a"}) }},
		{"id", "eos_token_id: got 100, want an id below 100", false, func(b *builder) { b.set("tokenizer.ggml.eos_token_id", uint32(100)) }},
		{"no bos", "tokenizer.ggml.bos_token_id: key is missing", false, func(b *builder) {
			b.set("tokenizer.ggml.pre", "llama-bpe").unset("tokenizer.ggml.bos_token_id")
		}},
	})
}

// "default" is written, but not in silence.
func TestDefaultPreTokenizerIsNoted(t *testing.T) {
	b, _ := tinyBuilder(tinyShape())
	b.set("tokenizer.ggml.pre", "default")
	c, err := newConversion(b.open(t))
	if err != nil {
		t.Fatal(err)
	}
	if notes := c.report("").Notes; len(notes) != 1 || !strings.Contains(notes[0], "tokenizer.ggml.pre") {
		t.Errorf("got notes %q", notes)
	}
}

// What Python's json.dump writes, seen once and kept: floats by repr, control characters as \u00XX, empty lists on one line.
func TestWriteJSON(t *testing.T) {
	value := object{{"floats", []any{0.0, 1e-5, 0.0001, 1e16, 123456789.0, -2.5, 1e22}}, {"text", "é\x01\x7f\"\\\n\t\r\b\f/<"}, {"none", []any{}},
		{"nothing", object{}}, {"nil", nil}, {"list", []string{"a", "b"}}}
	path := filepath.Join(t.TempDir(), "x")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := writeJSON(f, value, 0); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(f, value[2:], 2); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"floats": [0.0, 1e-05, 0.0001, 1e+16, 123456789.0, -2.5, 1e+22], "text": "é\u0001` + "\x7f" + `\"\\\n\t\r\b\f/<", ` +
		`"none": [], "nothing": {}, "nil": null, "list": ["a", "b"]}` +
		"{\n  \"none\": [],\n  \"nothing\": {},\n  \"nil\": null,\n  \"list\": [\n    \"a\",\n    \"b\"\n  ]\n}"
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if err := writeJSON(f, []any{uint8(1)}, 0); err == nil {
		t.Error("a type without a JSON form: no error")
	}
}
