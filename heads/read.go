package heads

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/headscope/headscope/loader/decoder"
)

// Parse reads a set written as a list of heads, "L1H2,L3H4", in any form that decoder.ParseHead knows,
// separated by commas or white space; or as JSON, [[1,2],[3,4]]; or "none". An empty string is an error, and
// so is a head that is listed twice.
func Parse(list string) (Set, error) {
	r, err := ParseRanking(list)
	return r.Set(), err
}

// ParseRanking is [Parse] for a list whose order means something.
func ParseRanking(list string) (Ranking, error) {
	list = strings.TrimSpace(list)
	switch {
	case list == "":
		return nil, errors.New(`no heads named; want a list such as L18H6,L20H3, or "none"`)
	case list == none:
		return Ranking{}, nil
	case isJSONList(list):
		var r Ranking
		err := json.Unmarshal([]byte(list), &r)
		return r, err
	}
	depth := 0 // a comma inside [13,4] does not separate heads
	fields := strings.FieldsFunc(list, func(c rune) bool {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		}
		return depth == 0 && (c == ',' || unicode.IsSpace(c))
	})
	r := make(Ranking, 0, len(fields))
	for _, f := range fields {
		h, err := decoder.ParseHead(f)
		if err != nil {
			return nil, err
		}
		r = append(r, h)
	}
	if len(r) == 0 {
		return nil, fmt.Errorf("no heads in %q", list)
	}
	return r, noRepeats(r)
}

// isJSONList tells [[13,4]] and ["L13H4"] from the single head [13,4].
func isJSONList(s string) bool {
	inner, ok := strings.CutPrefix(s, "[")
	if !ok {
		return false
	}
	inner = strings.TrimSpace(inner)
	return strings.HasPrefix(inner, "[") || strings.HasPrefix(inner, `"`) || inner == "]"
}

// ReadSet reads the heads that a file is about, in any format of [ReadDocument]: a list, a result of ours, a
// published profile, head scores. Errors name the file.
func ReadSet(path string) (Set, error) {
	r, err := ReadRanking(path)
	return r.Set(), err
}

// ReadRanking is [ReadSet] for a file whose order means something; our results list heads best first.
func ReadRanking(path string) (Ranking, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err // an *fs.PathError names the file
	}
	r, err := DecodeRanking(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
