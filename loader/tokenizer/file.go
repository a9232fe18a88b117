package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrUnsupported is wrapped by the errors for what a tokenizer.json may hold and this package does not do.
var ErrUnsupported = errors.New("not supported")

// fileJSON is a tokenizer.json. Truncation and padding are left out on purpose: HF's tokenizers switch both off unless a
// call asks for them.
type fileJSON struct {
	AddedTokens   []AddedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         *modelJSON      `json:"model"`
}

type modelJSON struct {
	Type         string     `json:"type"`
	Dropout      *float64   `json:"dropout"`
	UnkToken     *string    `json:"unk_token"`
	WordPrefix   *string    `json:"continuing_subword_prefix"`
	WordSuffix   *string    `json:"end_of_word_suffix"`
	FuseUnk      bool       `json:"fuse_unk"`
	ByteFallback bool       `json:"byte_fallback"`
	IgnoreMerges bool       `json:"ignore_merges"`
	Vocab        vocabJSON  `json:"vocab"`
	Merges       mergesJSON `json:"merges"`
}

// patternJSON is {"String": ...} or {"Regex": ...}.
type patternJSON struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// node is a stage of the pipeline as the file writes it.
type node struct {
	kind string
	raw  json.RawMessage
}

func unsupported(kind string) error { return fmt.Errorf("node %q: %w", kind, ErrUnsupported) }

// newNode reads the type of a node.
func newNode(raw json.RawMessage) (node, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return node{}, err
	}
	if head.Type == "" {
		return node{}, fmt.Errorf("node without a type")
	}
	return node{head.Type, raw}, nil
}

// read fills into, a struct with a field for each key that the node may have.
func (n node) read(into any) error {
	d := json.NewDecoder(bytes.NewReader(n.raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("node %q: %w", n.kind, err)
	}
	return nil
}

// flatten lists the nodes of a part of the pipeline, sequences opened. list names the key that holds a sequence's nodes.
func flatten(raw json.RawMessage, list string) ([]node, error) {
	if isNull(raw) {
		return nil, nil
	}
	n, err := newNode(raw)
	if err != nil {
		return nil, err
	}
	if n.kind != "Sequence" {
		return []node{n}, nil
	}
	var seq map[string]json.RawMessage
	if err := json.Unmarshal(raw, &seq); err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(seq[list], &items); err != nil {
		return nil, fmt.Errorf("node %q: %s: %w", n.kind, list, err)
	}
	var out []node
	for _, item := range items {
		inner, err := flatten(item, list)
		if err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}

func buildNormalizers(raw json.RawMessage) (normalizers, error) {
	nodes, err := flatten(raw, "normalizers")
	if err != nil {
		return nil, err
	}
	var out normalizers
	for _, n := range nodes {
		switch n.kind {
		case "Prepend":
			var v struct{ Type, Prepend string }
			if err := n.read(&v); err != nil {
				return nil, err
			}
			out = append(out, prepend{v.Prepend})
		case "Replace":
			pattern, content, err := n.replacement()
			if err != nil {
				return nil, err
			}
			out = append(out, replace{pattern, content})
		case "NFC":
			out = append(out, nfc{})
		default:
			return nil, unsupported(n.kind)
		}
	}
	return out, nil
}

// replacement reads a Replace node, which normalizers and decoders share.
func (n node) replacement() (pattern, content string, err error) {
	var v struct {
		Type    string
		Pattern patternJSON
		Content string
	}
	if err := n.read(&v); err != nil {
		return "", "", err
	}
	if v.Pattern.String == nil {
		return "", "", fmt.Errorf("node %q: pattern that is not a String: %w", n.kind, ErrUnsupported)
	}
	if *v.Pattern.String == "" {
		return "", "", fmt.Errorf("node %q: empty pattern", n.kind)
	}
	return *v.Pattern.String, v.Content, nil
}

// buildPreTokenizers also says whether the words it cuts are to be read as bytes.
func buildPreTokenizers(raw json.RawMessage) (out []preTokenizer, byteLevel bool, err error) {
	nodes, err := flatten(raw, "pretokenizers")
	if err != nil {
		return nil, false, err
	}
	for _, n := range nodes {
		if byteLevel {
			return nil, false, fmt.Errorf("node %q after ByteLevel: %w", n.kind, ErrUnsupported)
		}
		var pt preTokenizer
		switch n.kind {
		case "Split":
			pt, err = n.split()
		case "Digits":
			var v struct {
				Type       string
				Individual bool `json:"individual_digits"`
			}
			err = n.read(&v)
			pt = digits(v.Individual)
		case "Metaspace":
			pt, err = n.metaspace()
		case "ByteLevel":
			var v byteLevelJSON
			if err = n.read(&v); err != nil {
				break
			}
			byteLevel = true
			if v.AddPrefixSpace {
				out = append(out, leadingSpace{})
			}
			if v.UseRegex != nil && !*v.UseRegex {
				continue
			}
			var re regex
			re, err = newRegex(byteLevelPattern)
			pt = split{pattern: re, behavior: isolated}
		default:
			err = unsupported(n.kind)
		}
		if err != nil {
			return nil, false, err
		}
		out = append(out, pt)
	}
	return out, byteLevel, nil
}

type byteLevelJSON struct {
	Type           string
	AddPrefixSpace bool  `json:"add_prefix_space"`
	TrimOffsets    *bool `json:"trim_offsets"`
	UseRegex       *bool `json:"use_regex"`
}

func (n node) split() (preTokenizer, error) {
	var v struct {
		Type     string
		Pattern  patternJSON
		Behavior behavior
		Invert   bool
	}
	if err := n.read(&v); err != nil {
		return nil, err
	}
	switch v.Behavior {
	case removed, isolated, mergedWithPrevious, mergedWithNext, contiguous:
	default:
		return nil, fmt.Errorf("node %q: behavior %q: %w", n.kind, v.Behavior, ErrUnsupported)
	}
	s := split{behavior: v.Behavior, invert: v.Invert}
	switch {
	case v.Pattern.String != nil && *v.Pattern.String != "":
		s.pattern = literal(*v.Pattern.String)
	case v.Pattern.Regex != nil:
		re, err := newRegex(*v.Pattern.Regex)
		if err != nil {
			return nil, fmt.Errorf("node %q: %w", n.kind, err)
		}
		s.pattern = re
	default:
		return nil, fmt.Errorf("node %q: pattern: got neither a String nor a Regex", n.kind)
	}
	return s, nil
}

func (n node) metaspace() (preTokenizer, error) {
	v := struct {
		Type           string
		Replacement    string
		AddPrefixSpace *bool   `json:"add_prefix_space"` // before prepend_scheme
		PrependScheme  *string `json:"prepend_scheme"`
		Split          *bool
	}{}
	if err := n.read(&v); err != nil {
		return nil, err
	}
	m := metaspace{replacement: v.Replacement, scheme: "always", split: true}
	if v.AddPrefixSpace != nil && !*v.AddPrefixSpace {
		m.scheme = "never"
	}
	if v.PrependScheme != nil {
		m.scheme = *v.PrependScheme
	}
	if v.Split != nil {
		m.split = *v.Split
	}
	switch m.scheme {
	case "always", "first", "never":
	default:
		return nil, fmt.Errorf("node %q: prepend_scheme %q: %w", n.kind, m.scheme, ErrUnsupported)
	}
	if utf8.RuneCountInString(m.replacement) != 1 {
		return nil, fmt.Errorf("node %q: replacement: got %q, want one character", n.kind, m.replacement)
	}
	return m, nil
}

// buildDecoder returns nil when the file names none.
func buildDecoder(raw json.RawMessage) (decoder, error) {
	nodes, err := flatten(raw, "decoders")
	if err != nil || nodes == nil {
		return nil, err
	}
	var out decoders
	for _, n := range nodes {
		switch n.kind {
		case "ByteLevel":
			out = append(out, byteLevelDecoder{})
		case "ByteFallback":
			out = append(out, byteFallbackDecoder{})
		case "Fuse":
			out = append(out, fuseDecoder{})
		case "Replace":
			pattern, content, err := n.replacement()
			if err != nil {
				return nil, err
			}
			out = append(out, replaceDecoder{pattern, content})
		case "Strip":
			var v struct {
				Type, Content string
				Start, Stop   int
			}
			if err := n.read(&v); err != nil {
				return nil, err
			}
			if utf8.RuneCountInString(v.Content) != 1 || v.Start < 0 || v.Stop < 0 {
				return nil, fmt.Errorf("node %q: got content %q, start %d, stop %d, want one character and counts of 0 or more", n.kind, v.Content, v.Start, v.Stop)
			}
			out = append(out, stripDecoder{v.Content, v.Start, v.Stop})
		default:
			return nil, unsupported(n.kind)
		}
	}
	return out, nil
}
