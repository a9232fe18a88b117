package decoder

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// Head names one query head. It prints as "L13H4" and is [13,4] in JSON.
type Head struct{ Layer, Index int }

func (h Head) String() string { return fmt.Sprintf("L%dH%d", h.Layer, h.Index) }

// Less orders heads by layer, then index.
func (h Head) Less(o Head) bool {
	if h.Layer != o.Layer {
		return h.Layer < o.Layer
	}
	return h.Index < o.Index
}

var headForms = regexp.MustCompile(`^(?:[Ll](\d+)[Hh](\d+)|(\d+)-(\d+)|\[\s*(\d+)\s*,\s*(\d+)\s*\])$`)

// ParseHead reads "L13H4" (TransformerLens), "13-4" (Wu et al.) or "[13,4]" (the published profiles).
func ParseHead(s string) (Head, error) {
	m := headForms.FindStringSubmatch(s)
	if m == nil {
		return Head{}, fmt.Errorf("head %q: want the form L13H4, 13-4 or [13,4]", s)
	}
	var n []int
	for _, g := range m[1:] {
		if g == "" {
			continue
		}
		v, err := strconv.Atoi(g)
		if err != nil {
			return Head{}, fmt.Errorf("head %q: %w", s, err)
		}
		n = append(n, v)
	}
	return Head{n[0], n[1]}, nil
}

// MarshalJSON writes [layer, index].
func (h Head) MarshalJSON() ([]byte, error) { return json.Marshal([2]int{h.Layer, h.Index}) }

// UnmarshalJSON reads [layer, index] or one of the strings ParseHead knows.
func (h *Head) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		v, err := ParseHead(s)
		*h = v
		return err
	}
	var p []int
	if err := json.Unmarshal(b, &p); err != nil || len(p) != 2 {
		return fmt.Errorf("head %s: want [layer, index] or \"L13H4\"", b)
	}
	if p[0] < 0 || p[1] < 0 {
		return fmt.Errorf("head %s: negative number", b)
	}
	*h = Head{p[0], p[1]}
	return nil
}
