package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A vocabulary and its merges are megabytes of JSON in a fixed, flat shape. The types here read that shape directly;
// encoding/json has checked the syntax before it hands over the bytes.

// vocabJSON is the object {"token": id, ...} of a BPE model.
type vocabJSON struct {
	ids   map[string]int32
	isMap bool // false for the vocabularies of other models
}

func (v *vocabJSON) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '{' {
		return nil
	}
	v.isMap = true
	v.ids = make(map[string]int32, len(data)/16)
	f := flat{data: string(data), pos: 1}
	for count := 1; f.more(); count++ {
		key, err := f.string()
		if err != nil {
			return err
		}
		word := f.word()
		id, err := strconv.ParseInt(word, 10, 32)
		if err != nil || id < 0 {
			return fmt.Errorf("vocab: %q: got id %.40s, want a number of 0 or more", key, word)
		}
		if v.ids[key] = int32(id); len(v.ids) < count {
			return fmt.Errorf("vocab: %q: got it twice", key)
		}
	}
	return nil
}

// mergesJSON is the array of merges, each "left right" or ["left", "right"].
type mergesJSON struct{ data string }

func (m *mergesJSON) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return fmt.Errorf("merges: got %.20s, want an array", data)
	}
	m.data = string(data)
	return nil
}

// each calls f with the parts of each merge in order of rank.
func (m *mergesJSON) each(visit func(rank int, left, right string) error) error {
	if m.data == "" {
		return nil
	}
	f := flat{data: m.data, pos: 1}
	for rank := 0; f.more(); rank++ {
		left, right, err := f.merge()
		if err != nil {
			return fmt.Errorf("merge %d: %w", rank, err)
		}
		if err := visit(rank, left, right); err != nil {
			return fmt.Errorf("merge %d (%q, %q): %w", rank, left, right, err)
		}
	}
	return nil
}

// flat walks over valid JSON of which it knows the shape.
type flat struct {
	data string
	pos  int
}

// more skips separators and says whether a value follows before the closing bracket.
func (f *flat) more() bool {
	for ; f.pos < len(f.data); f.pos++ {
		switch f.data[f.pos] {
		case ' ', '\t', '\r', '\n', ',', ':':
		case '}', ']':
			return false
		default:
			return true
		}
	}
	return false
}

// string reads a string value.
func (f *flat) string() (string, error) {
	if !f.more() || f.data[f.pos] != '"' {
		return "", fmt.Errorf("got %.20s, want a string", f.data[f.pos:])
	}
	start := f.pos + 1
	end, plain := start, true
	for f.data[end] != '"' {
		if f.data[end] == '\\' {
			plain = false
			end++
		}
		end++
	}
	f.pos = end + 1
	if s := f.data[start:end]; plain && utf8.ValidString(s) {
		return s, nil
	}
	var s string
	err := json.Unmarshal([]byte(f.data[start-1:end+1]), &s)
	return s, err
}

// word reads a value that is neither a string nor an array, as it is written.
func (f *flat) word() string {
	f.more()
	start := f.pos
	for f.pos < len(f.data) && strings.IndexByte(" \t\r\n,:]}", f.data[f.pos]) < 0 {
		f.pos++
	}
	return f.data[start:f.pos]
}

func (f *flat) merge() (left, right string, err error) {
	if f.data[f.pos] != '[' {
		s, err := f.string()
		if err != nil {
			return "", "", err
		}
		left, right, ok := strings.Cut(s, " ")
		if !ok || strings.Contains(right, " ") {
			return "", "", fmt.Errorf("got %q, want two parts with one space between", s)
		}
		return left, right, nil
	}
	f.pos++
	if left, err = f.string(); err != nil {
		return "", "", err
	}
	if right, err = f.string(); err != nil {
		return "", "", err
	}
	if f.more() {
		return "", "", fmt.Errorf("got more than two parts")
	}
	f.pos++
	return left, right, nil
}

// isNull says whether a JSON value is absent or null.
func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}
