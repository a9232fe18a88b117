package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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

// postProcessor is what happens to the tokens of a text in the end.
type postProcessor struct {
	prefix, suffix []int32 // ids that go before and after
	trim           bool    // ByteLevel's trim_offsets: white space at the ends of a token is not part of its span
	prefixSpace    bool    // ByteLevel's add_prefix_space: a single space before the text's first token was added, and stands for no white space
}

func buildPostProcessor(raw json.RawMessage) (p postProcessor, err error) {
	nodes, err := flatten(raw, "processors")
	if err != nil {
		return p, err
	}
	templates := 0
	for _, n := range nodes {
		switch n.kind {
		case "ByteLevel":
			var v byteLevelJSON
			if err := n.read(&v); err != nil {
				return p, err
			}
			if v.TrimOffsets != nil && !*v.TrimOffsets {
				continue
			}
			if templates > 0 || p.trim {
				return p, fmt.Errorf("node %q with trim_offsets after another processor: %w", n.kind, ErrUnsupported)
			}
			p.trim, p.prefixSpace = true, v.AddPrefixSpace
		case "TemplateProcessing":
			var v templateJSON
			if err := n.read(&v); err != nil {
				return p, err
			}
			before, after, err := v.single()
			if err != nil {
				return p, fmt.Errorf("node %q: %w", n.kind, err)
			}
			templates++
			p.prefix, p.suffix = append(before, p.prefix...), append(p.suffix, after...)
		default:
			return p, unsupported(n.kind)
		}
	}
	return p, nil
}

// trimSpan takes the white space at the ends of a token off its span. The reference counts characters of the token and takes
// as many characters of the text.
func (p *postProcessor) trimSpan(text, token string, first bool, at span) span {
	white := func(r rune) bool { return r == byteToRune(' ') || unicode.IsSpace(r) }
	inner := strings.TrimLeftFunc(token, white)
	leading := utf8.RuneCountInString(token) - utf8.RuneCountInString(inner)
	trailing := utf8.RuneCountInString(token) - utf8.RuneCountInString(strings.TrimRightFunc(token, white))
	if leading == 1 && p.prefixSpace && (first || at.start == 0) {
		leading = 0
	}
	for ; leading > 0 && at.start < at.end; leading-- {
		_, n := utf8.DecodeRuneInString(text[at.start:])
		at.start += int32(n)
	}
	end := at.end
	for ; trailing > 0 && end > 0; trailing-- {
		_, n := utf8.DecodeLastRuneInString(text[:end])
		end -= int32(n)
	}
	if trailing == 0 {
		at.end = max(end, at.start)
	}
	return at
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
