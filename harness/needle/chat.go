package needle

import (
	"errors"
	"fmt"
	"strings"
	"time"

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

// ErrChatFormat is wrapped by the error for a chat template that cannot be used.
var ErrChatFormat = errors.New("the chat template cannot be used")

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

// Today is the date of every prompt whose template writes one: the date that Llama's templates fall back to. A prompt must not change
// from one day to the next.
func Today() time.Time { return time.Date(2024, time.July, 26, 0, 0, 0, 0, time.UTC) }

// What stands for the user's text and the answer while a template is looked at.
const (
	userMark   = "HEADSCOPEUSER"
	answerMark = "HEADSCOPEANSWER"
)

// chatFrame returns the text around haystack and question that the checkpoint's own template writes for one user turn, up to where the
// answer begins. As with HF's apply_chat_template, the template alone decides about BOS, and nothing else is added. A template that lets
// the model think first is told not to.
func chatFrame(tok *tokenizer.Tokenizer) (frame, error) {
	if tok.ChatTemplate() == "" {
		return frame{}, fmt.Errorf("needle: the tokenizer has no chat template; use plain text")
	}
	head, tail, err := chatEnds(tok)
	if err != nil {
		return frame{}, fmt.Errorf("needle: %w: %w; use plain text, or give a prompt file", ErrChatFormat, err)
	}
	return frame{string(Force), head, "\n\n", tail, new(bool)}, nil
}

// chatEnds returns what the template writes before the user's text and between it and the answer.
func chatEnds(tok *tokenizer.Tokenizer) (head, tail string, err error) {
	o := tokenizer.ChatOptions{GenerationPrompt: true, Today: Today(), Vars: map[string]any{"enable_thinking": false}}
	user := tokenizer.Message{Role: "user", Content: userMark}
	asked, err := tok.Chat([]tokenizer.Message{user}, o)
	if err != nil {
		return "", "", err
	}
	head, tail, found := strings.Cut(asked, userMark)
	if !found || strings.Contains(tail, userMark) {
		return "", "", fmt.Errorf("it writes the user's text %d times, want once", strings.Count(asked, userMark))
	}
	o.GenerationPrompt = false
	answered, err := tok.Chat([]tokenizer.Message{user, {Role: "assistant", Content: answerMark}}, o)
	if err != nil {
		return head, tail, nil // a template that takes no answers still writes the question
	}
	// White space that the template puts before an answer is part of the prompt (Llama 2, Mistral: a space).
	before, _, found := strings.Cut(strings.TrimPrefix(answered, head+userMark), answerMark)
	if found && strings.HasPrefix(before, tail) && strings.TrimSpace(before[len(tail):]) == "" {
		tail = before
	}
	return head, tail, nil
}
