package harness

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/harness/needle"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

// Token is one token of a text.
type Token struct {
	ID    int32  `json:"id"`
	Token string `json:"token"` // as tokenizer.json writes it
	Start int    `json:"start"` // bytes of the text
	End   int    `json:"end"`
	Text  string `json:"text"`
	Added bool   `json:"added,omitempty"` // by the tokenizer, not in the text
}

// Tokenize lists the tokens of a text; addSpecial adds what the tokenizer adds by default.
func Tokenize(tok *tokenizer.Tokenizer, text string, addSpecial bool) ([]Token, error) {
	if tok == nil {
		return nil, errNoTokenizer()
	}
	enc, err := tok.Encode(text, tokenizer.Options{AddSpecial: addSpecial})
	if err != nil {
		return nil, err
	}
	out := make([]Token, len(enc.IDs))
	for i, id := range enc.IDs {
		t, _ := tok.Token(id)
		s, e := int(enc.Start[i]), int(enc.End[i])
		out[i] = Token{id, t, s, e, text[s:e], enc.Special[i]}
	}
	return out, nil
}

// UserTurn writes text as one user turn in the checkpoint's chat template, up to the model's answer, if chat asks for it. Such a text is
// whole: what the tokenizer adds by default is in it where the template wants it (written is true then).
func UserTurn(tok *tokenizer.Tokenizer, text string, chat needle.Chat) (out string, written bool, err error) {
	switch {
	case tok == nil:
		return "", false, errNoTokenizer()
	case chat == needle.Plain, chat == needle.Auto && tok.ChatTemplate() == "":
		return text, false, nil
	case chat != needle.Auto && chat != needle.Force:
		return "", false, usagef("want auto, plain or chat", "--chat %q", chat)
	}
	out, err = tok.Chat([]tokenizer.Message{{Role: "user", Content: text}}, tokenizer.ChatOptions{GenerationPrompt: true, Today: needle.Today()})
	if err != nil {
		return "", false, &hintError{err, "give --chat plain, with the text written in the model's own format"}
	}
	return out, true, nil
}

func errNoTokenizer() error {
	return &hintError{fmt.Errorf("the checkpoint has no tokenizer.json"), "texts need the model's tokenizer.json in its folder"}
}

// NextToken is a candidate for the token after a text.
type NextToken struct {
	ID      int32  `json:"id"`
	Text    string `json:"text"`
	Logit   Number `json:"logit"`
	LogProb Number `json:"logprob"` // natural logarithm
}

// Next is what a model says comes after a text.
type Next struct {
	Tokens    int         `json:"tokens"` // of the text
	LogSumExp Number      `json:"logsumexp"`
	Top       []NextToken `json:"top"`
}

// TextRequest is one text put to a model.
type TextRequest struct {
	Checkpoint *loader.Checkpoint
	Model      *decoder.Model
	Text       string
	NoSpecial  bool     // leave out what the tokenizer adds by default
	Passage    *Passage // in place of Text
	Edits      []decoder.Edit
}

// prompt tokenises the text and checks that it fits with maxNew more tokens, and that the edits make sense for it.
func (r *TextRequest) prompt(maxNew int) (*decoder.Prompt, error) {
	p := r.Passage
	if p == nil {
		var err error
		if p, err = NewPassage(r.Checkpoint, &PassageRequest{Text: r.Text, NoSpecial: r.NoSpecial}); err != nil {
			return nil, err
		}
	}
	if err := p.CheckEdits(&r.Checkpoint.Spec, r.Edits); err != nil {
		return nil, err
	}
	if err := (&Prompt{IDs: p.IDs, Answer: p.Answer}).fits(&r.Checkpoint.Spec, maxNew); err != nil {
		return nil, err
	}
	return p.ask(), nil
}

// NextTokens returns the k most likely next tokens.
func NextTokens(ctx context.Context, r *TextRequest, k int) (*Next, error) {
	p, err := r.prompt(0)
	if err != nil {
		return nil, err
	}
	tr, err := r.Model.Trace(ctx, p, r.Edits, decoder.TraceOptions{Logits: []int{len(p.IDs) - 1}, Hidden: -1})
	if err != nil {
		return nil, err
	}
	logits := tr.Logits[0]
	order := make([]int32, len(logits))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
	z := logSumExp(logits, float64(logits[order[0]]))
	if math.IsNaN(z) || math.IsInf(z, 0) {
		return nil, errNotFinite("the logits are")
	}
	out := &Next{Tokens: len(p.IDs), LogSumExp: Number(z)}
	for _, id := range order[:min(k, len(order))] {
		l := float64(logits[id])
		out.Top = append(out.Top, NextToken{id, r.Checkpoint.Tokenizer.Decode([]int32{id}, false), Number(l), Number(l - z)})
	}
	return out, nil
}

// errNotFinite is for numbers of which nothing can be said.
func errNotFinite(what string) error {
	return &hintError{fmt.Errorf("%s not finite numbers", what), "the weights hold NaN or infinities, or an edit's value overflows: try the unmodified model, and --dtype float32"}
}

func logSumExp(x []float32, largest float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - largest)
	}
	return largest + math.Log(sum)
}

// Continuation is a greedy answer to a text.
type Continuation struct {
	Prompt int     `json:"prompt_tokens"`
	IDs    []int32 `json:"ids"` // the end token included
	Text   string  `json:"text"`
	MinGap Number  `json:"min_gap"`
	Ended  bool    `json:"ended"` // by the end token, not by the limit
}

// Generate continues a text greedily by at most maxNew tokens.
func Generate(ctx context.Context, r *TextRequest, maxNew int) (*Continuation, error) {
	if maxNew < 1 {
		return nil, usagef("the greedy answer needs at least one token", "max-new %d is not positive", maxNew)
	}
	p, err := r.prompt(maxNew)
	if err != nil {
		return nil, err
	}
	out := &Continuation{Prompt: len(p.IDs)}
	o := decoder.AskOptions{MaxNew: maxNew, EOS: r.Checkpoint.Spec.EOS, DecodeBatch: 1}
	err = r.Model.Ask(ctx, []*decoder.Prompt{p}, []decoder.Condition{{Edits: r.Edits}}, o, func(_, _ int, reply *decoder.Reply) error {
		out.IDs, out.MinGap = reply.Greedy, Number(reply.MinGap())
		return nil
	})
	if err != nil {
		return nil, err
	}
	if math.IsNaN(float64(out.MinGap)) {
		return nil, errNotFinite("the logits are")
	}
	text := out.IDs
	if n := len(text); n > 0 && slices.Contains(o.EOS, text[n-1]) {
		text, out.Ended = text[:n-1], true
	}
	out.Text = r.Checkpoint.Tokenizer.Decode(text, false)
	return out, nil
}
