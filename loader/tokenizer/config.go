package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// configJSON is what is read of a tokenizer_config.json. Its add_bos_token and add_eos_token are left out on purpose: beside a
// tokenizer.json, transformers 5 goes by the post-processor of that file alone.
type configJSON struct {
	BOS          namedToken            `json:"bos_token"`
	EOS          namedToken            `json:"eos_token"`
	PAD          namedToken            `json:"pad_token"`
	UNK          namedToken            `json:"unk_token"`
	SEP          namedToken            `json:"sep_token"`
	CLS          namedToken            `json:"cls_token"`
	MASK         namedToken            `json:"mask_token"`
	ChatTemplate chatTemplate          `json:"chat_template"`
	Added        map[string]AddedToken `json:"added_tokens_decoder"`
}

// namedToken is a token given as a string, as an object with its content, or not at all (Content is "" then).
type namedToken AddedToken

func (n *namedToken) UnmarshalJSON(data []byte) error {
	if isNull(data) {
		return nil
	}
	n.Special = true
	if data[0] == '"' {
		return json.Unmarshal(data, &n.Content)
	}
	var v struct {
		Content                 *string
		LStrip, RStrip, Special bool
		SingleWord              bool `json:"single_word"`
		Normalized              *bool
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if v.Content == nil {
		return fmt.Errorf("token: got %.40s, want a string or an object with content", data)
	}
	*n = namedToken{Content: *v.Content, LStrip: v.LStrip, RStrip: v.RStrip, SingleWord: v.SingleWord, Normalized: !v.Special, Special: true}
	if v.Normalized != nil {
		n.Normalized = *v.Normalized
	}
	return nil
}

// chatTemplate is one template, or a list of named ones of which the one called default counts.
type chatTemplate string

func (c *chatTemplate) UnmarshalJSON(data []byte) error {
	if isNull(data) {
		return nil
	}
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(c))
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("chat_template: %w", err)
	}
	for _, v := range list {
		if v.Name == "default" {
			*c = chatTemplate(v.Template)
		}
	}
	return nil
}

func readConfig(data []byte) (*configJSON, error) {
	c := &configJSON{}
	if len(bytes.TrimSpace(data)) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, err
	}
	return c, nil
}

// mergeAdded joins the added tokens of the two files. As in HF, the flags in the config win and its new tokens are added; the
// same content under two ids is an error.
func (c *configJSON) mergeAdded(tokens []AddedToken) ([]AddedToken, error) {
	at := make(map[string]int, len(tokens))
	for i, tok := range tokens {
		at[tok.Content] = i
	}
	var extra []AddedToken
	for key, tok := range c.Added {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("added_tokens_decoder: got id %q, want a number of 0 or more", key)
		}
		tok.ID = int32(id)
		i, ok := at[tok.Content]
		switch {
		case !ok:
			extra = append(extra, tok)
		case tokens[i].ID != tok.ID:
			return nil, fmt.Errorf("added_tokens_decoder: %q: got id %d, want %d as in tokenizer.json", tok.Content, tok.ID, tokens[i].ID)
		default:
			tokens[i] = tok
		}
	}
	slices.SortFunc(extra, func(a, b AddedToken) int { return int(a.ID) - int(b.ID) })
	return append(tokens, extra...), nil
}

// mergeNamed adds the special tokens that have names and are in the vocabulary but not among the added tokens: as in HF, they are looked
// for in the text. Those that are no tokens at all would need rows of the embedding that are not there, and are left out.
func (c *configJSON) mergeNamed(tokens []AddedToken, vocab map[string]int32) []AddedToken {
	for _, n := range []namedToken{c.BOS, c.EOS, c.UNK, c.SEP, c.PAD, c.CLS, c.MASK} {
		id, known := vocab[n.Content]
		if !known || slices.ContainsFunc(tokens, func(a AddedToken) bool { return a.Content == n.Content }) {
			continue
		}
		n.ID = id
		tokens = append(tokens, AddedToken(n))
	}
	return tokens
}
