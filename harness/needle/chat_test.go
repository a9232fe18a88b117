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
func chatTok(t *testing.T, name, template, bos string, markers ...string) *tokenizer.Tokenizer {
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

// The formats, each by the smallest template that writes it. want is what the template's own Jinja gives for one user turn "TEXT" and
// the assistant's header; for Llama 2 and Mistral the space before the answer follows.
var chatCases = []struct {
	name, tok, bos, template, want string
	markers                        []string
}{
	{
		name: "chatml", tok: "smollm", markers: []string{"<|im_start|>", "<|im_end|>"},
		template: `{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}`,
		want:     "<|im_start|>user\nTEXT<|im_end|>\n<|im_start|>assistant\n",
	},
	{
		name: "chatml", tok: "qwen2", markers: []string{"<|im_start|>", "<|im_end|>"},
		template: `{% if messages[0]['role'] == 'system' %}{{ '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}{% else %}{{ '<|im_start|>system\nYou are kind. Be brief.<|im_end|>\n' }}{% endif %}{{ '<|im_start|>assistant\n' }}`,
		want:     "<|im_start|>system\nYou are kind. Be brief.<|im_end|>\n<|im_start|>user\nTEXT<|im_end|>\n<|im_start|>assistant\n",
	},
	{
		name: "chatml", tok: "qwen2", markers: []string{"<|im_start|>", "<|im_end|>"},
		template: `{{ '<|im_start|>assistant\n' }}{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{{ '<|im_end|>' }}`,
		want:     "<|im_start|>user\nTEXT<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
	},
	{
		name: "llama3", tok: "llama3", bos: "<|begin_of_text|>", markers: []string{"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
		template: `{{ bos_token }}{{ '<|start_header_id|>' + role + '<|end_header_id|>\n\n' + content + '<|eot_id|>' }}`,
		want:     "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nTEXT<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
	},
	{
		name: "llama3", tok: "llama3", bos: "<|begin_of_text|>", markers: []string{"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
		template: `{{- bos_token }}{%- set date_string = "26 Jul 2024" %}{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}{{- "Cutting Knowledge Date: December 2023\n" }}{{- "Today Date: " + date_string + "\n\n" }}{{- "<|eot_id|>" }}`,
		want: "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|>" +
			"<|start_header_id|>user<|end_header_id|>\n\nTEXT<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
	},
	{
		name: "inst", tok: "llama2", bos: "<s>",
		template: `{{ bos_token + '[INST] ' + message['content'].strip() + ' [/INST]' }}`,
		want:     "<s>[INST] TEXT [/INST] ",
	},
	{
		name: "inst", tok: "mistral_metaspace", bos: "<s>", markers: []string{"[INST]", "[/INST]"},
		template: `{{- bos_token }}{{- "[INST] " + message["content"] + "[/INST]" }}`,
		want:     "<s>[INST] TEXT[/INST] ",
	},
	{
		name: "inst", tok: "mistral_metaspace", bos: "<s>", markers: []string{"[INST]", "[/INST]"},
		template: `{{- bos_token }}{{- "[INST]" + message["content"] + "[/INST]" }}`,
		want:     "<s>[INST]TEXT[/INST]",
	},
	{
		name: "gemma", tok: "gemma2", bos: "<bos>", markers: []string{"<start_of_turn>", "<end_of_turn>"},
		template: `{{ bos_token }}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{{ '<start_of_turn>model\n' }}`,
		want:     "<bos><start_of_turn>user\nTEXT<end_of_turn>\n<start_of_turn>model\n",
	},
	{
		name: "olmo2", tok: "olmo2", bos: "<|endoftext|>",
		template: `{{ bos_token }}{% if message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '\n' }}{% endif %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}`,
		want:     "<|endoftext|><|user|>\nTEXT\n<|assistant|>\n",
	},
}

func TestChatFormats(t *testing.T) {
	for _, c := range chatCases {
		tok := chatTok(t, c.tok, c.template, c.bos, c.markers...)
		f, err := chatFrame(tok)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := f.head + "TEXT" + f.tail; got != c.want || f.name != c.name {
			t.Errorf("%s:\ngot  %s %q\nwant %q", c.name, f.name, got, c.want)
		}
		s := specs(t, Options{Seed: 2, Split: Test, N: 10})
		set := realised(t, tok, s, RealiseOptions{Tokens: 420, CodeTokens: tinyCodeTokens, Variants: Variants(), Donors: true})
		if len(set.Refusals) > 0 || set.Report.Chat != c.name {
			t.Errorf("%s: refusals %v, format %s", c.name, set.Refusals, set.Report.Chat)
		}
		for i := range set.Prompts {
			p := &set.Prompts[i]
			head, tail, _ := strings.Cut(c.want, "TEXT")
			if !strings.HasPrefix(p.Text, head) || !strings.HasPrefix(p.Text[p.Question[1]:], tail) || p.AddSpecial == nil || *p.AddSpecial {
				t.Errorf("%s: %s: %q", c.name, p.ID, p.Text)
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

// Formats that look like a known one are not taken for it.
func TestChatFormatsNotRecognised(t *testing.T) {
	markers := []string{"<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}
	for what, template := range map[string]string{
		"other":           `{{ 'Human: ' + content + ' Assistant:' }}`,
		"zephyr":          `{{ '<|user|>\n' + message['content'] + eos_token }}{{ '<|assistant|>\n' }}`,
		"phi3":            `{{ '<|user|>\n' + message['content'] + '<|end|>\n<|assistant|>\n' }}`,
		"phi4":            `{{ '<|im_start|>user<|im_sep|>' + content + '<|im_end|><|im_start|>assistant<|im_sep|>' }}`,
		"computed system": `{{ '<|im_start|>system\nYou are a model. Your tools are ' + tools + '<|im_end|>\n' }}{{ '<|im_start|>assistant\n' }}`,
		"mistral 7":       `{{ '[SYSTEM_PROMPT]' + system + '[/SYSTEM_PROMPT]' }}{{ '[INST] ' + content + '[/INST]' }}`,
		"llama3 thinking": `{{ '<|start_header_id|>user<|end_header_id|>\n\n' + content + '<|eot_id|>' }}{{ '<think>' }}`,
		"llama3 no date":  `{{ '<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n' + date + '<|eot_id|>' }}`,
	} {
		tok := chatTok(t, "llama3", template, "", markers...)
		if f, err := chatFrame(tok); !errors.Is(err, ErrChatFormat) {
			t.Errorf("%s: format %q, error %v", what, f.name, err)
		}
	}
	tok := chatTok(t, "gpt2", chatCases[0].template, "")
	if _, err := chatFrame(tok); err == nil || !strings.Contains(err.Error(), "no token <|im_start|>") {
		t.Errorf("markers that are no tokens: %v", err)
	}
	tok = chatTok(t, "llama2", chatCases[5].template, "")
	if _, err := chatFrame(tok); err == nil || !strings.Contains(err.Error(), "bos_token") {
		t.Errorf("a template that writes an unknown BOS: %v", err)
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
