package replicate

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/headscope/headscope/heads"
)

// file is one published file: its JSON as a tree, and what it says of heads.
type file struct {
	path string
	base string // name without .json
	tree any
	list *heads.Document // of a profile, else nil
}

func open(path string) (*file, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &file{path: path, base: strings.TrimSuffix(filepath.Base(path), ".json")}
	if err := heads.DecodeJSON(b, &f.tree); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if f.kind() == kindProfile {
		if f.list, err = heads.Decode(b); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, detector := range []string{"argmax_last", "copy_tf"} {
			if x, ok := f.list.Detector(detector); !ok || x.Scores == nil || x.Heads == nil {
				return nil, fmt.Errorf("%s: %s: got no heads or no scores, want both", path, detector)
			}
		}
	}
	return f, nil
}

// Kinds of published files, told apart by their keys.
const (
	kindProfile     = "profile"
	kindCoverage    = "coverage"
	kindUtility     = "utility"
	kindBehaviour   = "behavior"
	kindInheritance = "inheritance"
	kindReliability = "reliability"
	kindPrediction  = "prediction"
	kindSweep       = "knockout sweep"
	kindNone        = ""
)

func (f *file) kind() string {
	for _, k := range []struct{ path, kind string }{
		{"argmax_scores", kindProfile}, {"utility.partial_spearman", kindUtility}, {"behavior.niah_matrix", kindBehaviour}, {"rings", kindInheritance},
		{"reliability", kindReliability}, {"single_correlations", kindPrediction},
	} {
		if f.has(k.path) {
			return k.kind
		}
	}
	m, ok := f.tree.(map[string]any)
	if !ok || len(m) == 0 {
		return kindNone
	}
	each := func(keys ...string) bool {
		for _, v := range m {
			row, ok := v.(map[string]any)
			if !ok {
				return false
			}
			for _, k := range keys {
				if _, ok := row[k]; !ok {
					return false
				}
			}
		}
		return true
	}
	switch {
	case each("window_centers", "recall", "baseline"):
		return kindCoverage
	case each("curve", "baseline"):
		return kindSweep
	}
	return kindNone
}

// at returns what lies at a dotted path, whose keys may have dots themselves (0.3.recall). A number is an index into a list.
func (f *file) at(path string) (any, bool) { return walk(f.tree, path) }

func walk(v any, path string) (any, bool) {
	if path == "" {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			if rest, ok := strings.CutPrefix(path, key); ok && (rest == "" || rest[0] == '.') {
				if x, ok := walk(e, strings.TrimPrefix(rest, ".")); ok {
					return x, true
				}
			}
		}
	case []any:
		first, rest, _ := strings.Cut(path, ".")
		if i, err := strconv.Atoi(first); err == nil && i >= 0 && i < len(v) {
			return walk(v[i], rest)
		}
	}
	return nil, false
}

func (f *file) has(path string) bool { _, ok := f.at(path); return ok }

// there reports whether a value lies at the path that is not null.
func (f *file) there(path string) bool { v, ok := f.at(path); return ok && v != nil }

// number returns the number at a path, NaN where it is null, absent or of another type.
func (f *file) number(path string) float64 {
	v, _ := f.at(path)
	return asNumber(v)
}

func asNumber(v any) float64 {
	if x, ok := v.(float64); ok {
		return x
	}
	return math.NaN()
}

func (f *file) text(path string) string {
	v, _ := f.at(path)
	s, _ := v.(string)
	return s
}

// numbers returns the numbers of a list, of lists in it one after the other; null is NaN.
func (f *file) numbers(path string) []float64 {
	v, _ := f.at(path)
	return flatten(v)
}

func flatten(v any) (out []float64) {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	for _, e := range list {
		if inner, ok := e.([]any); ok {
			out = append(out, flatten(inner)...)
		} else {
			out = append(out, asNumber(e))
		}
	}
	return out
}

// column returns one key of each row of a list; a row without it is NaN.
func (f *file) column(list, key string) []float64 {
	rows := f.rows(list)
	out := make([]float64, len(rows))
	for i, r := range rows {
		out[i] = asNumber(r[key])
	}
	return out
}

func (f *file) rows(list string) []map[string]any {
	v, _ := f.at(list)
	all, _ := v.([]any)
	out := make([]map[string]any, len(all))
	for i, e := range all {
		out[i], _ = e.(map[string]any)
	}
	return out
}

// keys returns the keys of an object in order: numbers by value.
func (f *file) keys(path string) []string {
	v, _ := f.at(path)
	m, _ := v.(map[string]any)
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b string) int {
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		if errX == nil && errY == nil && x != y {
			if x < y {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return out
}

// set returns a list of [layer, head].
func (f *file) set(path string) (heads.Set, bool) {
	x := f.numbers(path)
	if !f.there(path) || len(x)%2 != 0 {
		return nil, false
	}
	var list heads.Ranking
	for i := 0; i < len(x); i += 2 {
		if x[i] != math.Trunc(x[i]) || x[i+1] != math.Trunc(x[i+1]) { // NaN too
			return nil, false
		}
		h := heads.Ranking{{Layer: int(x[i]), Index: int(x[i+1])}}
		list = append(list, h...)
	}
	return list.Set(), true
}
