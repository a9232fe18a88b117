package tokenizer

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/ardanlabs/jinja"
)

// Message is a turn of a conversation.
type Message struct{ Role, Content string }

// ChatOptions say how a conversation is written out.
type ChatOptions struct {
	GenerationPrompt bool           // end with the header of the assistant's next turn (add_generation_prompt)
	Today            time.Time      // what a template that asks for the date is told; without one such a template is refused
	Vars             map[string]any // further variables, the keyword arguments of HF's apply_chat_template
}

// ErrChatTemplate is wrapped by the errors of Chat.
var ErrChatTemplate = errors.New("chat template")

// Chat writes a conversation in the checkpoint's chat template, as HF's apply_chat_template(tokenize=False) does. The template alone
// decides about BOS: encode its result with the zero Options, or there would be two.
//
// A template that uses a special token which tokenizer_config.json does not name is refused, as is one that the Jinja library cannot
// run; a template may itself refuse a conversation.
func (t *Tokenizer) Chat(messages []Message, o ChatOptions) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("%w: %v", ErrChatTemplate, r)
		}
	}()
	template, err := t.chat()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrChatTemplate, err)
	}
	turns := make([]jinja.Value, len(messages))
	for i, m := range messages {
		turns[i] = jinja.NewDict()
		turns[i].AsDict().Set("role", jinja.NewString(m.Role)) // the order that tojson and items() write
		turns[i].AsDict().Set("content", jinja.NewString(m.Content))
	}
	vars := map[string]jinja.Value{
		"messages":              jinja.NewList(turns),
		"tools":                 jinja.None(),
		"documents":             jinja.None(),
		"add_generation_prompt": jinja.NewBool(o.GenerationPrompt),
		"strftime_now":          jinja.NewCallable("strftime_now", o.strftime),
	}
	for name, token := range t.templateTokens() {
		if token != "" {
			vars[name] = jinja.NewString(token)
		}
	}
	for name, v := range o.Vars {
		vars[name] = jinja.FromGoValue(v)
	}
	if text, err = template.RenderValues(vars); err != nil {
		return "", fmt.Errorf("%w: %w", ErrChatTemplate, err)
	}
	return text, nil
}

// templateTokens are the special tokens that a template knows by name, "" where the checkpoint has none.
func (t *Tokenizer) templateTokens() map[string]string {
	return map[string]string{"bos_token": t.bos, "eos_token": t.eos, "pad_token": t.pad, "unk_token": t.unk}
}

var templateToken = regexp.MustCompile(`\b(bos|eos|pad|unk)_token\b`)

// compileChat reads the chat template.
func (t *Tokenizer) compileChat() (*jinja.Template, error) {
	if t.template == "" {
		return nil, errors.New("the tokenizer has none")
	}
	tokens := t.templateTokens()
	for _, name := range templateToken.FindAllString(t.template, -1) {
		if tokens[name] == "" {
			return nil, fmt.Errorf("it writes %s, and %s has none", name, configFile)
		}
	}
	source, err := plainJinja(t.template)
	if err != nil {
		return nil, err
	}
	return jinja.Compile(source)
}

// strftime is Python's strftime for the directives that templates use.
func (o *ChatOptions) strftime(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 || !args[0].IsString() {
		return jinja.Undefined(), errors.New("strftime_now: want a format")
	}
	if o.Today.IsZero() {
		return jinja.Undefined(), errors.New("strftime_now: the template writes today's date, and none is given")
	}
	layouts := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon"}
	format := args[0].AsString()
	var out []byte
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			out = append(out, format[i])
			continue
		}
		i++
		if i < len(format) && format[i] == '%' {
			out = append(out, '%')
			continue
		}
		layout := ""
		if i < len(format) {
			layout = layouts[format[i]]
		}
		if layout == "" {
			return jinja.Undefined(), fmt.Errorf("strftime_now: format %q: %w", format, ErrUnsupported)
		}
		out = o.Today.AppendFormat(out, layout)
	}
	return jinja.NewString(string(out)), nil
}
