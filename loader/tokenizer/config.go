package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// configJSON is what is read of a tokenizer_config.json.
type configJSON struct {
	BOS          tokenName             `json:"bos_token"`
	EOS          tokenName             `json:"eos_token"`
	PAD          tokenName             `json:"pad_token"`
	UNK          tokenName             `json:"unk_token"`
	AddBOS       *bool                 `json:"add_bos_token"`
	AddEOS       *bool                 `json:"add_eos_token"`
	ChatTemplate chatTemplate          `json:"chat_template"`
	Added        map[string]AddedToken `json:"added_tokens_decoder"`
}

// tokenName is a token given as a string, as an object with its content, or not at all.
type tokenName string

func (n *tokenName) UnmarshalJSON(data []byte) error {
	if isNull(data) {
		return nil
	}
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(n))
	}
	var v struct{ Content *string }
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if v.Content == nil {
		return fmt.Errorf("token: got %.40s, want a string or an object with content", data)
	}
	*n = tokenName(*v.Content)
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

// addSpecial applies add_bos_token and add_eos_token, where present, to what the post-processor adds.
func (c *configJSON) addSpecial(t *Tokenizer) error {
	if c.AddBOS != nil {
		id, known := t.ID(t.bos)
		has := known && len(t.post.prefix) > 0 && t.post.prefix[0] == id
		switch {
		case *c.AddBOS && !known:
			return fmt.Errorf("add_bos_token: bos_token %q is not in the vocabulary", t.bos)
		case *c.AddBOS && !has:
			t.post.prefix = slices.Insert(t.post.prefix, 0, id)
		case !*c.AddBOS && has:
			t.post.prefix = t.post.prefix[1:]
		}
	}
	if c.AddEOS != nil {
		id, known := t.ID(t.eos)
		n := len(t.post.suffix)
		has := known && n > 0 && t.post.suffix[n-1] == id
		switch {
		case *c.AddEOS && !known:
			return fmt.Errorf("add_eos_token: eos_token %q is not in the vocabulary", t.eos)
		case *c.AddEOS && !has:
			t.post.suffix = append(t.post.suffix, id)
		case !*c.AddEOS && has:
			t.post.suffix = t.post.suffix[:n-1]
		}
	}
	return nil
}
