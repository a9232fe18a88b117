package tokenizer

import (
	"encoding/json"
	"fmt"
)

// templateJSON is a TemplateProcessing node, of which only the form for a single text is used.
type templateJSON struct {
	Type          string
	Single        []templateItem
	Pair          json.RawMessage
	SpecialTokens map[string]struct {
		ID     string
		IDs    []int32
		Tokens []string
	} `json:"special_tokens"`
}

// templateItem is {"SpecialToken": {"id": name}} or {"Sequence": {"id": "A"}}.
type templateItem struct {
	SpecialToken, Sequence *struct {
		ID     string
		TypeID int `json:"type_id"`
	}
}

// buildPostProcessor returns the ids that go before and after a text.
func buildPostProcessor(raw json.RawMessage) (prefix, suffix []int32, err error) {
	nodes, err := flatten(raw, "processors")
	if err != nil {
		return nil, nil, err
	}
	for _, n := range nodes {
		switch n.kind {
		case "ByteLevel":
			var v byteLevelJSON
			if err := n.read(&v); err != nil {
				return nil, nil, err
			}
			if v.TrimOffsets == nil || *v.TrimOffsets {
				return nil, nil, fmt.Errorf("node %q: trim_offsets true: %w", n.kind, ErrUnsupported)
			}
		case "TemplateProcessing":
			var v templateJSON
			if err := n.read(&v); err != nil {
				return nil, nil, err
			}
			before, after, err := v.single()
			if err != nil {
				return nil, nil, fmt.Errorf("node %q: %w", n.kind, err)
			}
			prefix, suffix = append(before, prefix...), append(suffix, after...)
		default:
			return nil, nil, unsupported(n.kind)
		}
	}
	return prefix, suffix, nil
}

func (t *templateJSON) single() (before, after []int32, err error) {
	texts := 0
	for _, item := range t.Single {
		switch {
		case item.Sequence != nil && item.Sequence.ID == "A":
			texts++
		case item.SpecialToken != nil:
			tok, ok := t.SpecialTokens[item.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("single: special token %q is not in special_tokens", item.SpecialToken.ID)
			}
			if texts == 0 {
				before = append(before, tok.IDs...)
			} else {
				after = append(after, tok.IDs...)
			}
		default:
			return nil, nil, fmt.Errorf("single: got an item that is neither a special token nor sequence A")
		}
	}
	if texts != 1 {
		return nil, nil, fmt.Errorf("single: got the text %d times, want once", texts)
	}
	return before, after, nil
}
