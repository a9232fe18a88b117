package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// chatGolden is a template with what transformers renders of it; a want of null is a refusal.
type chatGolden struct {
	Name, Template, File, SHA256 string
	Renderings                   []struct {
		Messages         []Message
		GenerationPrompt bool `json:"generation_prompt"`
		Vars             obj
		Want             *string
	}
}

var goldenToday = time.Date(2024, 7, 26, 12, 0, 0, 0, time.UTC)

// template returns the source: in the entry, beside the file, or in a fetched file.
func (g *chatGolden) source(t *testing.T, dir string) string {
	if g.Template != "" {
		return g.Template
	}
	if g.File == "" {
		return readFile(t, filepath.Join(dir, "chat", g.Name+".jinja"))
	}
	data, err := os.ReadFile(filepath.Join(cacheDir(t), g.File))
	if err != nil {
		t.Skipf("NOT RUN: %v: run make model and scripts/fetch.sh tokenizers", err)
	}
	var config struct {
		Template string `json:"chat_template"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256([]byte(config.Template)); hex.EncodeToString(sum[:]) != g.SHA256 {
		t.Fatalf("%s: got another template than the one that was rendered", g.File)
	}
	return config.Template
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// chatTokenizer is a tiny tokenizer with a chat template and special tokens of its own.
func chatTokenizer(t testing.TB, base, template string, tokens map[string]string) *Tokenizer {
	t.Helper()
	config := map[string]string{"chat_template": template}
	maps.Copy(config, tokens)
	tok, err := Parse([]byte(readFile(t, "testdata/tiny/tiny_"+base+".tokenizer.json")), marshal(t, config, nil))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestGoldenChat compares with transformers' renderings, of testdata and of the folders in HEADSCOPE_GOLDEN that hold a chat.json.
func TestGoldenChat(t *testing.T) {
	tokens := map[string]string{"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
	for i, dir := range append([]string{"testdata"}, filepath.SplitList(os.Getenv("HEADSCOPE_GOLDEN"))...) {
		file := filepath.Join(dir, "chat.json")
		if _, err := os.Stat(file); err != nil && i > 0 {
			continue
		}
		var goldens []chatGolden
		readJSON(t, file, &goldens)
		if i == 0 && len(goldens) < 13 {
			t.Errorf("%s: got %d templates, want 13", file, len(goldens))
		}
		renderings := 0
		for _, g := range goldens {
			t.Run(g.Name, func(t *testing.T) {
				tok := chatTokenizer(t, "llama2", g.source(t, dir), tokens)
				for _, r := range g.Renderings {
					got, err := tok.Chat(r.Messages, ChatOptions{GenerationPrompt: r.GenerationPrompt, Today: goldenToday, Vars: r.Vars})
					switch {
					case r.Want == nil && !errors.Is(err, ErrChatTemplate):
						t.Errorf("%v: got %q, %v, want a refusal", r.Messages, got, err)
					case r.Want != nil && (err != nil || got != *r.Want):
						t.Errorf("%v, prompt %t: %v\n got %q\nwant %q", r.Messages, r.GenerationPrompt, err, got, *r.Want)
					}
					renderings++
				}
			})
		}
		t.Logf("golden %s: %d renderings of %d templates", file, renderings, len(goldens))
	}
}

// TestChatBOS: a rendered conversation, encoded without AddSpecial, has as many BOS as its template writes; AddSpecial would double it.
func TestChatBOS(t *testing.T) {
	for _, c := range []struct {
		template, base, bos, eos string
		want                     int
	}{
		{"llama2", "llama2", "<s>", "</s>", 1},
		{"mistral_v03", "mistral_metaspace", "<s>", "</s>", 1},
		{"llama3_2", "llama3", "<|begin_of_text|>", "", 1},
		{"gemma2", "gemma2", "<bos>", "", 1},
		{"olmo2", "olmo2", "<|endoftext|>", "<|im_end|>", 1},
		{"qwen2_5", "qwen2", "<|endoftext|>", "", 0}, // its config names no BOS
	} {
		tok := chatTokenizer(t, c.base, readFile(t, "testdata/chat/"+c.template+".jinja"), map[string]string{"bos_token": c.bos, "eos_token": c.eos})
		text, err := tok.Chat([]Message{{"user", "hello"}}, ChatOptions{GenerationPrompt: true, Today: goldenToday})
		if err != nil {
			t.Errorf("%s: %v", c.template, err)
			continue
		}
		bos, _ := tok.ID(c.bos)
		count := func(o Options) (n int) {
			for _, id := range encode(t, tok, text, o).IDs {
				if id == bos {
					n++
				}
			}
			return n
		}
		if got := count(Options{}); got != c.want {
			t.Errorf("%s: %q: got %d BOS, want %d", c.template, text, got, c.want)
		}
		twice := c.want
		if tok.AddsSpecial() {
			twice++
		}
		if got := count(Options{AddSpecial: true}); got != twice {
			t.Errorf("%s: %q: got %d BOS with AddSpecial, want %d", c.template, text, got, twice)
		}
	}
}

func TestChatRefusals(t *testing.T) {
	for _, c := range []struct{ name, template, want string }{
		{"none", "", "has none"},
		{"unnamed token", "{{ eos_token }}", "eos_token"},
		{"date", "{{ strftime_now('%d') }}", "today's date"},
		{"own refusal", "{{ raise_exception('no, thanks') }}", "no, thanks"},
		{"syntax", "{% if %}", ""},
		{"never closed", "a\n{{ 'x'", "line 2"},
		{"raw", "{% raw %}{{ x }}{% endraw %}", `"raw"`},
		{"line of an error", "a\n\n  {% if true %}\n{# b\n #}\n{% set %}{% endif %}", "line 6"},
		{"unknown filter", "{{ messages | frobnicate }}", "frobnicate"},
		{"unknown function", "{{ frobnicate() }}", ""},
		{"map by a filter's name", "{{ messages | map(attribute='content') | map('trim') | join }}", "map_by_filter"},
	} {
		tok := chatTokenizer(t, "gpt2", c.template, nil)
		if text, err := tok.Chat([]Message{{"user", "x"}}, ChatOptions{}); !errors.Is(err, ErrChatTemplate) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v, want an error with %q", c.name, text, err, c.want)
		}
	}
	tok := chatTokenizer(t, "gpt2", "{{ strftime_now('%d %b %Y, %H:%M %%') }}{{ strftime_now('%j') }}", nil)
	if _, err := tok.Chat(nil, ChatOptions{Today: goldenToday}); err == nil || !strings.Contains(err.Error(), "%j") {
		t.Errorf("unknown directive: got %v", err)
	}
	tok = chatTokenizer(t, "gpt2", "{{ strftime_now('%d %b %Y, %H:%M %%') }}", nil)
	if got, err := tok.Chat(nil, ChatOptions{Today: goldenToday}); got != "26 Jul 2024, 12:00 %" || err != nil {
		t.Errorf("date: got %q, %v", got, err)
	}
}

// TestChatValues: what Python and Jinja write for these, by hand.
func TestChatValues(t *testing.T) {
	for template, want := range map[string]string{
		"{{ messages | tojson }}": `[{"role": "user", "content": "x"}]`,
		"{% for k, v in messages[0] | items %}{{ k }}={{ v }} {% endfor %}": "role=user content=x ",
		`{{ "\u0041\x42\\u0041\x22\u005c\x0A|\r" }}`:                        "AB\\u0041\"\\\n|\r",
		"{{ 'a\\'\\\"b' }}{{ messages | map(attribute='role') | join }}":    `a'"buser`,
	} {
		tok := chatTokenizer(t, "gpt2", template, nil)
		if got, err := tok.Chat([]Message{{"user", "x"}}, ChatOptions{}); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", template, got, err, want)
		}
	}
}

// FuzzChat: no template makes Chat panic, and text without tags comes out as it is, less a line break at its end.
func FuzzChat(f *testing.F) {
	files, _ := filepath.Glob("testdata/chat/*.jinja")
	for _, file := range files {
		f.Add(readFile(f, file))
	}
	f.Add("{{-'}}'-}} {%+if a-%} {#{{#} {{ \"\\\"}}")
	data := []byte(readFile(f, "testdata/tiny/tiny_gpt2.tokenizer.json"))
	base, err := Parse(data, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, template string) {
		if slices.ContainsFunc([]string{"range", "for", "macro", "*"}, func(s string) bool { return strings.Contains(template, s) }) {
			return // may run for ever, in HF's Jinja too
		}
		tok := &Tokenizer{template: template, model: base.model}
		tok.chat = tok.compileChat
		got, err := tok.Chat([]Message{{"user", "hello"}}, ChatOptions{})
		if template != "" && !strings.ContainsAny(template, "{\r") && !strings.Contains(template, "_token") {
			if want := strings.TrimSuffix(template, "\n"); err != nil || got != want {
				t.Fatalf("%q: got %q, %v", template, got, err)
			}
		}
	})
}

func ExampleTokenizer_Chat() {
	const config = `{"bos_token": "<s>", "chat_template": "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"}`
	data, _ := os.ReadFile("testdata/tiny/tiny_llama2.tokenizer.json")
	tok, err := Parse(data, []byte(config))
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := tok.Chat([]Message{{Role: "user", Content: "hello"}}, ChatOptions{})
	fmt.Println(text, err)
	// Output: <s>[user] hello <nil>
}
