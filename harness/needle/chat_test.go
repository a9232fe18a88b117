package needle

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/tokenizer"
)

// chatTok is a tiny tokenizer with a chat template, a BOS and the markers of a chat format as special tokens.
func chatTok(t *testing.T, name, template, bos, eos string, markers ...string) *tokenizer.Tokenizer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "loader", "tokenizer", "testdata", "tiny", "tiny_"+name+".tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	added, _ := file["added_tokens"].([]any)
	for i, m := range markers {
		if slices.ContainsFunc(added, func(a any) bool { return a.(map[string]any)["content"] == m }) {
			continue
		}
		added = append(added, map[string]any{"id": 5000 + i, "content": m, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
	}
	file["added_tokens"] = added
	if data, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	conf := map[string]any{"chat_template": template}
	if bos != "" {
		conf["bos_token"] = bos
	}
	if eos != "" {
		conf["eos_token"] = eos
	}
	config, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(data, config)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// chatCases are the templates of loader/tokenizer's golden data, each with a tokenizer of its family. want is what the template writes
// for one user turn "TEXT" up to an answer.
var chatCases = []struct {
	template, tok, bos, eos, want string
	markers                       []string
}{
	{
		template: "qwen2_5", tok: "qwen2", markers: []string{"<|im_start|>", "<|im_end|>"},
		want: "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n<|im_start|>user\nTEXT<|im_end|>\n<|im_start|>assistant\n",
	},
	{
		template: "llama3_2", tok: "llama3", bos: "<|begin_of_text|>", markers: []string{"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
		want: "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|>" +
			"<|start_header_id|>user<|end_header_id|>\n\nTEXT<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
	},
	{template: "llama2", tok: "llama2", bos: "<s>", eos: "</s>", want: "<s>[INST] TEXT [/INST] "},
	{template: "mistral_v03", tok: "mistral_metaspace", bos: "<s>", eos: "</s>", markers: []string{"[INST]", "[/INST]"}, want: "<s>[INST] TEXT[/INST] "},
	{template: "mistral_nemo", tok: "mistral_metaspace", bos: "<s>", eos: "</s>", markers: []string{"[INST]", "[/INST]"}, want: "<s>[INST]TEXT[/INST]"},
	{
		template: "gemma2", tok: "gemma2", bos: "<bos>", markers: []string{"<start_of_turn>", "<end_of_turn>"},
		want: "<bos><start_of_turn>user\nTEXT<end_of_turn>\n<start_of_turn>model\n",
	},
	{template: "olmo2", tok: "olmo2", bos: "<|endoftext|>", eos: "<|pad|>", want: "<|endoftext|><|user|>\nTEXT\n<|assistant|>\n"},
}

func storedTemplate(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "loader", "tokenizer", "testdata", "chat", name+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestChatFormats(t *testing.T) {
	for _, c := range chatCases {
		tok := chatTok(t, c.tok, storedTemplate(t, c.template), c.bos, c.eos, c.markers...)
		f, err := chatFrame(tok)
		if err != nil {
			t.Errorf("%s: %v", c.template, err)
			continue
		}
		if got := f.head + "TEXT" + f.tail; got != c.want || f.name != "chat" {
			t.Errorf("%s:\ngot  %s %q\nwant %q", c.template, f.name, got, c.want)
		}
		s := specs(t, Options{Seed: 2, Split: Test, N: 10})
		set := realised(t, tok, s, RealiseOptions{Tokens: 420, CodeTokens: tinyCodeTokens, Variants: Variants(), Donors: true})
		if len(set.Refusals) > 0 || set.Report.Chat != "chat" {
			t.Errorf("%s: refusals %v, format %s", c.template, set.Refusals, set.Report.Chat)
		}
		for i := range set.Prompts {
			p := &set.Prompts[i]
			head, tail, _ := strings.Cut(c.want, "TEXT")
			if !strings.HasPrefix(p.Text, head) || !strings.HasPrefix(p.Text[p.Question[1]:], tail) || p.AddSpecial == nil || *p.AddSpecial {
				t.Errorf("%s: %s: %q", c.template, p.ID, p.Text)
			}
			l := newLaw(t, tok, p, tinyCodeTokens)
			l.length(420, 4)
			l.shape()
			if c.bos != "" {
				id, ok := tok.ID(c.bos)
				if n := count(l.enc.IDs, id); !ok || n != 1 || l.enc.IDs[0] != id {
					t.Errorf("%s: %d BOS tokens, the first token is %d, BOS %d", p.ID, n, l.enc.IDs[0], id)
				}
			}
		}
		plain := realised(t, tok, s, RealiseOptions{Tokens: 420, CodeTokens: tinyCodeTokens, Chat: Plain})
		for i := range plain.Prompts {
			if p := &plain.Prompts[i]; p.Chat != "plain" || p.AddSpecial != nil || strings.Contains(p.Text, strings.Fields(c.want)[0]) {
				t.Errorf("%s: plain text: %q", p.ID, p.Text)
			}
		}
	}
}

func count(ids []int32, id int32) int {
	n := 0
	for _, x := range ids {
		if x == id {
			n++
		}
	}
	return n
}

func TestChatFormatsRefused(t *testing.T) {
	const turns = "{% for m in messages %}{{ m.content }}{% endfor %}"
	for what, c := range map[string]struct{ template, want string }{
		"syntax":      {"{% for m in messages %}", "chat template"},
		"refusal":     {"{{ raise_exception('no user turns') }}", "no user turns"},
		"no text":     {"<|im_start|>user", "0 times"},
		"text twice":  {turns + turns, "2 times"},
		"other text":  {"{{ messages[0].content | lower }}", "0 times"},
		"unknown BOS": {"{{ bos_token }}" + turns, "bos_token"},
		"filter":      {"{{ messages[0].content | frobnicate }}", "frobnicate"},
	} {
		tok := chatTok(t, "llama3", c.template, "", "")
		if f, err := chatFrame(tok); !errors.Is(err, ErrChatFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: head %q, tail %q, error %v, want one with %q", what, f.head, f.tail, err, c.want)
		}
	}
}

// Templates that think first, refuse an answer, or put something other than space before it.
func TestChatTail(t *testing.T) {
	for what, c := range map[string]struct{ template, tail string }{
		"thinking":  {"{{ messages[0].content }}|{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}", "|<think></think>"},
		"no answer": {"{% if messages|length > 1 %}{{ raise_exception('one') }}{% endif %}{{ messages[0].content }}|", "|"},
		"space":     {"{{ messages[0].content }}|{% if messages|length > 1 %} {{ messages[1].content }}{% endif %}", "| "},
		"name":      {"{{ messages[0].content }}|{% if messages|length > 1 %}AI: {{ messages[1].content }}{% endif %}", "|"},
	} {
		f, err := chatFrame(chatTok(t, "llama3", c.template, "", ""))
		if err != nil || f.tail != c.tail || f.head != "" {
			t.Errorf("%s: head %q, tail %q, error %v, want tail %q", what, f.head, f.tail, err, c.tail)
		}
	}
}

// SmolLM2's own template: the system turn that its Jinja inserts.
func TestSmolLM2Chat(t *testing.T) {
	f, err := chatFrame(smolLM2(t))
	if err != nil {
		t.Fatal(err)
	}
	want := "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\nTEXT<|im_end|>\n<|im_start|>assistant\n"
	if got := f.head + "TEXT" + f.tail; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
