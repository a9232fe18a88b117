package heads

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// isScoredList tells [["13-4", 3.25], ...] from other JSON lists.
func isScoredList(text string) bool {
	inner, ok := strings.CutPrefix(text, "[")
	if !ok {
		return false
	}
	inner, ok = strings.CutPrefix(strings.TrimLeft(inner, " \t\r\n"), "[")
	return ok && strings.HasPrefix(strings.TrimLeft(inner, " \t\r\n"), `"`)
}

// isTable tells a table of numbers from a list of heads, which are never plain numbers.
func isTable(text string) bool {
	first := strings.Fields(text)[0]
	_, err := strconv.ParseFloat(first, 64)
	return err == nil
}

// decodeDuo reads a table of gates, a row a layer and a column a key/value head. A gate of 1 keeps the whole cache. A table of nothing but
// 0 and 1 is a mask and lists the heads with a 1; trained gates list none, since DuoAttention cuts them at a quantile of the user's choice.
func decodeDuo(text string) (*Document, error) {
	s := Scores{Detector: "duo_gate"}
	for i, row := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		cells := strings.Fields(row)
		if i == 0 {
			s.Heads = len(cells)
		}
		if len(cells) != s.Heads {
			return nil, fmt.Errorf("line %d: got %d columns, want %d as in line 1", i+1, len(cells), s.Heads)
		}
		for j, c := range cells {
			x, err := strconv.ParseFloat(c, 64)
			if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
				return nil, fmt.Errorf("line %d, column %d: got %q, want a number", i+1, j+1, c)
			}
			s.Data = append(s.Data, x)
		}
		s.Layers++
	}
	d := &Document{Format: FormatDuo, KV: true, Shape: Shape{Layers: s.Layers, KVHeads: s.Heads}, Detectors: []Detected{{Detector: s.Detector, Scores: &s}}}
	if !slices.ContainsFunc(s.Data, func(x float64) bool { return x != 0 && x != 1 }) {
		d.Detectors[0].Heads = Ranking(s.AtLeast(1))
	}
	return d, d.check()
}

var yamlKey = regexp.MustCompile(`(?m)^(attn_head_set|model_base_class)[ \t]*:`)

// decodeYAML reads the two keys of a QRHead config that this package needs: the list of heads, best first, and the model's name. They
// are plain or quoted scalars on one line each; comments follow " #".
func decodeYAML(text string) (*Document, error) {
	d := &Document{Format: FormatQRHead}
	for i, row := range strings.Split(text, "\n") {
		m := yamlKey.FindStringSubmatch(row)
		if m == nil {
			continue
		}
		value, err := scalar(row[len(m[0]):])
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", i+1, m[1], err)
		}
		if m[1] == "model_base_class" {
			d.Model = value
			continue
		}
		if d.Detectors != nil {
			return nil, fmt.Errorf("line %d: %s is there twice", i+1, m[1])
		}
		r, err := ParseRanking(value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", i+1, m[1], err)
		}
		d.Detectors = []Detected{{Detector: "qr", Heads: r, Ordered: true}}
	}
	if d.Detectors == nil {
		return nil, errors.New("got no key attn_head_set")
	}
	return d, d.check()
}

func scalar(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" || s[0] != '"' && s[0] != '\'' {
		s, _, _ = strings.Cut(s, " #")
		return strings.TrimSpace(s), nil
	}
	inner, rest, ok := strings.Cut(s[1:], s[:1])
	if rest = strings.TrimSpace(rest); !ok || rest != "" && rest[0] != '#' {
		return "", fmt.Errorf("got %s, want one quoted value", s)
	}
	return inner, nil
}

// DecodeRanking reads the heads to work on out of what such a file holds: those of its first detector, best first. A file of key/value
// heads is an error, as it names no query heads.
func DecodeRanking(b []byte) (Ranking, error) {
	text := strings.TrimSpace(string(b))
	if text == "" {
		return ParseRanking(text)
	}
	if strings.HasPrefix(text, "{") { // of a result no more than its heads is wanted
		var r struct {
			Heads *json.RawMessage `json:"heads"`
		}
		if err := DecodeJSON(b, &r); err == nil && r.Heads != nil {
			var list Ranking
			if err := json.Unmarshal(*r.Heads, &list); err != nil {
				return nil, fmt.Errorf(`key "heads": %w`, err)
			}
			return list, nil
		}
	}
	d, err := Decode(b)
	if err != nil {
		return nil, err
	}
	if d.KV {
		return nil, errors.New("the file is about key/value heads: want query heads")
	}
	if d.Detectors[0].Heads == nil {
		return nil, fmt.Errorf("%s has scores without a threshold: want a list of heads", d.Detectors[0].Detector)
	}
	return d.Detectors[0].Heads, nil
}
