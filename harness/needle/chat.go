package needle

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/headscope/headscope/loader/tokenizer"
)

// Chat says whether prompts are written in the checkpoint's chat format.
type Chat string

// Auto takes the chat format where the checkpoint has a chat template, plain text else.
const (
	Auto  Chat = "auto"
	Plain Chat = "plain"
	Force Chat = "chat"
)

// ErrChatFormat is wrapped by the error for a chat template that is none of the known ones.
var ErrChatFormat = errors.New("chat template not recognised")

// frame is the text around haystack and question: head haystack mid question tail prefix.
type frame struct {
	name            string
	head, mid, tail string
	addSpecial      *bool
}

// plainFrame is for base models: the tokenizer adds what it adds to any text.
func plainFrame() frame {
	return frame{name: string(Plain), mid: "\n\nQuestion: ", tail: "\nAnswer: "}
}

// chatFormat is a chat format that is recognised by the text of its template. One user turn is all that is asked of it.
type chatFormat struct {
	name   string
	has    []string // all stand in the template, read without white space, quotes and escapes
	lacks  []string // none does
	tokens []string // are single tokens
	write  func(template string) (head, tail string, err error)
}

// chatFormats are tried in order; their conditions exclude each other.
var chatFormats = []chatFormat{
	{
		name:   "chatml", // SmolLM2, Qwen2, Qwen2.5, Qwen3
		has:    []string{"<|im_start|>", "<|im_end|>", "assistant"},
		lacks:  []string{"<|im_sep|>", "##Metadata", "[INST]"},
		tokens: []string{"<|im_start|>", "<|im_end|>"},
		write:  chatML,
	},
	{
		name:   "llama3",
		has:    []string{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
		lacks:  []string{"think"},
		tokens: []string{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
		write:  llama3,
	},
	{
		name:  "inst", // Llama 2, Mistral
		has:   []string{"[INST]", "[/INST]"},
		lacks: []string{"[SYSTEM_PROMPT]", "<|im_start|>"},
		write: inst,
	},
	{
		name:   "gemma",
		has:    []string{"<start_of_turn>", "<end_of_turn>"},
		tokens: []string{"<start_of_turn>", "<end_of_turn>"},
		write: func(string) (string, string, error) {
			return "<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n", nil
		},
	},
	{
		name:  "olmo2", // OLMo 2, Tulu 3: the markers are plain text
		has:   []string{"<|user|>+message[content]+}}", "<|assistant|>}}"},
		lacks: []string{"<|end|>", "<|im_start|>", "[INST]"},
		write: func(string) (string, string, error) {
			return "<|user|>\n", "\n<|assistant|>\n", nil
		},
	},
}

// chatFrame returns the text around haystack and question that the checkpoint's own template would write for one user turn and the
// assistant's header. As with HF's apply_chat_template, the template alone decides about BOS, and nothing else is added.
func chatFrame(tok *tokenizer.Tokenizer) (frame, error) {
	template := tok.ChatTemplate()
	if template == "" {
		return frame{}, fmt.Errorf("needle: the tokenizer has no chat template; use plain text")
	}
	bare := bareTemplate(template)
	for i := range chatFormats {
		c := &chatFormats[i]
		if !c.fits(bare) {
			continue
		}
		for _, t := range c.tokens {
			if _, ok := tok.ID(t); !ok {
				return frame{}, fmt.Errorf("needle: chat format %s: the tokenizer has no token %s", c.name, t)
			}
		}
		head, tail, err := c.write(template)
		if err != nil {
			return frame{}, fmt.Errorf("needle: chat format %s: %w", c.name, err)
		}
		if strings.Contains(template, "bos_token") {
			if tok.BOS() == "" {
				return frame{}, fmt.Errorf("needle: chat format %s: the template writes bos_token, and tokenizer_config.json has none", c.name)
			}
			head = tok.BOS() + head
		}
		return frame{c.name, head, "\n\n", tail, new(bool)}, nil
	}
	return frame{}, fmt.Errorf("needle: %w; use plain text, or give a prompt file", ErrChatFormat)
}

func (c *chatFormat) fits(bare string) bool {
	for _, s := range c.has {
		if !strings.Contains(bare, s) {
			return false
		}
	}
	for _, s := range c.lacks {
		if strings.Contains(bare, s) {
			return false
		}
	}
	return true
}

// bareTemplate takes white space, quotes and written-out line breaks out of a template, which differ between copies of one.
func bareTemplate(s string) string {
	return strings.NewReplacer(`\n`, "", " ", "", "\n", "", "\t", "", "\r", "", `"`, "", "'", "").Replace(s)
}

// The system turn of ChatML: what stands between its header and the next quote, end marker or brace.
var chatMLSystem = regexp.MustCompile(`<\|im_start\|>system(?:\\n|\n)([^<{}'"]*)(<\|im_end\|>)?`)

// chatML writes the default system turn of a template that has one as a literal (SmolLM2, Qwen2.5). A literal that does not end with its
// turn is put together by code, which is not run here.
func chatML(template string) (head, tail string, err error) {
	for _, m := range chatMLSystem.FindAllStringSubmatch(template, -1) {
		switch {
		case m[1] == "": // the user's own
		case m[2] == "":
			return "", "", fmt.Errorf("the default system turn is not one literal: %w", ErrChatFormat)
		default:
			head = "<|im_start|>system\n" + m[1] + "<|im_end|>\n"
		}
	}
	head += "<|im_start|>user\n"
	tail = "<|im_end|>\n<|im_start|>assistant\n"
	if strings.Contains(template, "enable_thinking") {
		tail += "<think>\n\n</think>\n\n" // what Qwen3 writes for an answer without a train of thought
	}
	return head, tail, nil
}

// Llama 3.1 and later always write a system turn, with this date where the caller gives none.
var llama3Date = regexp.MustCompile(`date_string\s*=\s*"(\d{1,2} [A-Z][a-z]{2} \d{4})"`)

func llama3(template string) (head, tail string, err error) {
	if strings.Contains(template, "Cutting Knowledge Date") {
		m := llama3Date.FindStringSubmatch(template)
		if m == nil || !strings.Contains(template, "Cutting Knowledge Date: December 2023") {
			return "", "", fmt.Errorf("the system turn's dates are not where they are looked for: %w", ErrChatFormat)
		}
		head = "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: " + m[1] + "\n\n<|eot_id|>"
	}
	head += "<|start_header_id|>user<|end_header_id|>\n\n"
	return head, "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", nil
}

// inst differs in its spaces: Llama 2 and Mistral 0.1 and 0.2 have them on all sides, Mistral 0.3 not before [/INST], Nemo nowhere.
func inst(template string) (head, tail string, err error) {
	switch {
	case strings.Contains(template, " [/INST]"):
		return "[INST] ", " [/INST] ", nil
	case strings.Contains(template, "[INST] "):
		return "[INST] ", "[/INST] ", nil
	}
	return "[INST]", "[/INST]", nil
}
