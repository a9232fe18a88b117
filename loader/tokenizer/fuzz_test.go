package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzEncode checks on every pipeline that offsets are in order and in range, and on those that lose nothing that the text
// comes back.
func FuzzEncode(f *testing.F) {
	var cases []struct{ Name, Text string }
	readJSON(f, "testdata/cases.json", &cases)
	for _, c := range cases {
		f.Add(c.Text)
	}
	f.Add("\xff<|im_end|>\xe2\x82")
	files, _ := filepath.Glob("testdata/tiny/*.tokenizer.json")
	tokenizers := map[string]*Tokenizer{}
	for _, file := range files {
		tokenizers[strings.TrimSuffix(filepath.Base(file), ".tokenizer.json")] = parseFile(f, file)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, tok := range tokenizers {
			e, err := tok.Encode(text, Options{})
			if (err == nil) != utf8.ValidString(text) {
				t.Fatalf("%s: %q: got error %v", name, text, err)
			}
			if err != nil {
				e = encode(t, tok, text, Options{AllowInvalidUTF8: true, AddSpecial: true})
			}
			last := int32(0)
			for i := range e.IDs {
				if e.Special[i] {
					continue
				}
				if e.Start[i] < last || e.End[i] < e.Start[i] || int(e.End[i]) > len(text) {
					t.Fatalf("%s: %q: token %d: got span [%d,%d) after %d", name, text, i, e.Start[i], e.End[i], last)
				}
				last = e.Start[i]
			}
			e.RuneOffsets()
			decoded := tok.Decode(e.IDs, false)
			if lossless := name == "tiny_gpt2" || name == "tiny_llama3" || name == "tiny_olmo2"; lossless && err == nil && decoded != text {
				t.Fatalf("%s: %q: got %q back", name, text, decoded)
			}
		}
	})
}

// FuzzParse checks that no file makes Parse panic, and that what it accepts can be used.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"addedflags", "llama3", "smollm_drop", "mistral_metaspace", "qwen2"} {
		data, err := os.ReadFile("testdata/tiny/tiny_" + name + ".tokenizer.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte(`{"bos_token": "<s>", "add_bos_token": true}`))
	}
	f.Add([]byte(`{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}`), []byte(`{}`))
	f.Add([]byte(`{"model": {"vocab": {"\u0061": 0}, "merges": [["a", "\ud800"]]}, "decoder": {"type": "Fuse"}}`), []byte(``))
	f.Fuzz(func(t *testing.T, file, config []byte) {
		tok, err := Parse(file, config)
		if err != nil {
			return
		}
		e, err := tok.Encode("ab é 12\n", Options{AddSpecial: true})
		if err != nil {
			return
		}
		e.RuneOffsets()
		tok.Decode(e.IDs, true)
	})
}
