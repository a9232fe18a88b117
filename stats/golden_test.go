package stats

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goldenCase is one case of the reference files; testdata/stats-golden/README.md describes the layout.
type goldenCase struct {
	ID        string                     `json:"id"`
	In        map[string]json.RawMessage `json:"in"`
	Out       map[string]json.RawMessage `json:"out"`
	RelTol    float64                    `json:"rel_tol"`
	AbsTol    float64                    `json:"abs_tol"`
	Undefined map[string]string          `json:"undefined"`

	file    string
	t       *testing.T
	arrays  map[string][]float64
	others  map[string]*goldenCase // of the same file
	checked map[string]bool
}

// goldenHandlers compare one case each. Every file with cases has a handler, and a handler compares every number of a case.
var goldenHandlers = map[string]func(*goldenCase){
	"mcnemar.json":           goldenMcNemar,
	"effects.json":           goldenEffects,
	"correlation.json":       goldenCorrelation,
	"partial_spearman.json":  goldenPartial,
	"multiple_testing.json":  goldenMultiple,
	"proportions.json":       goldenProportions,
	"variance.json":          goldenVariance,
	"exact_permutation.json": goldenExact,
	"bootstrap.json":         goldenBootstrap,
	"cluster_bootstrap.json": goldenCluster,
	"layer_permutation.json": goldenLayers,
	"sets_gini_rouge.json":   goldenSets,
	"rank_effects.json":      goldenRanks,
	"description.json":       goldenDescription,
	"protocol.json":          goldenProtocol,
}

// goldenDirs are testdata and the folders of HEADSCOPE_GOLDEN that hold files of this layout.
func goldenDirs(t *testing.T) []string {
	t.Helper()
	dirs := []string{filepath.Join("testdata", "stats-golden")}
	for _, d := range filepath.SplitList(os.Getenv("HEADSCOPE_GOLDEN")) {
		for _, d := range []string{d, filepath.Join(d, "stats-golden")} {
			if _, err := os.Stat(filepath.Join(d, "arrays.json")); err == nil {
				dirs = append(dirs, d)
			}
		}
	}
	return dirs
}

// TestGolden compares every case of every reference file. A file or a number that nothing compares is a failure.
func TestGolden(t *testing.T) {
	for n, dir := range goldenDirs(t) {
		names, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, name := range names {
			file := filepath.Base(name)
			if file == "arrays.json" || file == "published.json" {
				continue
			}
			handler := goldenHandlers[file]
			if handler == nil {
				t.Errorf("%s: nothing compares its cases", name)
				continue
			}
			cases := readGolden(t, dir, file)
			t.Run(file, func(t *testing.T) {
				for _, c := range cases {
					t.Run(c.ID, func(t *testing.T) {
						c.t = t
						handler(c)
						c.checkAll()
					})
				}
			})
			total += len(cases)
			if len(cases) == 0 {
				t.Errorf("%s: no cases", name)
			}
		}
		t.Logf("%s: %d cases", dir, total)
		if n == 0 && total != 274 {
			t.Errorf("%s: %d cases, want 274", dir, total)
		}
	}
}

func readGolden(t *testing.T, dir, file string) []*goldenCase {
	t.Helper()
	var doc struct{ Cases []*goldenCase }
	readJSON(t, filepath.Join(dir, file), &doc)
	var shared struct{ Arrays map[string][]float64 }
	readJSON(t, filepath.Join(dir, "arrays.json"), &shared)
	others := map[string]*goldenCase{}
	for _, c := range doc.Cases {
		c.file, c.arrays, c.others, c.checked = file, shared.Arrays, others, map[string]bool{}
		others[c.ID] = c
	}
	return doc.Cases
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is missing", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func (c *goldenCase) has(key string) bool { _, ok := c.In[key]; return ok }

// in reads an input.
func in[T any](c *goldenCase, key string) T {
	c.t.Helper()
	return decode[T](c.t, c.In, key)
}

func (c *goldenCase) kind() string {
	if !c.has("kind") {
		return ""
	}
	return in[string](c, "kind")
}

func decode[T any](t *testing.T, m map[string]json.RawMessage, key string) T {
	t.Helper()
	var v T
	raw, ok := m[key]
	if !ok {
		t.Fatalf("no key %q", key)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return v
}

// floats reads an input list: numbers, null for NaN, or a reference into arrays.json.
func (c *goldenCase) floats(key string) []float64 {
	c.t.Helper()
	return c.list(c.In[key], key)
}

func (c *goldenCase) list(raw json.RawMessage, key string) []float64 {
	c.t.Helper()
	if strings.HasPrefix(string(raw), "{") {
		var at struct{ Ref string }
		if err := json.Unmarshal(raw, &at); err != nil {
			c.t.Fatal(err)
		}
		x, ok := c.arrays[at.Ref]
		if !ok {
			c.t.Fatalf("%s: no array %s", key, raw)
		}
		return x
	}
	var list []*float64
	if err := json.Unmarshal(raw, &list); err != nil {
		c.t.Fatalf("%s: %v", key, err)
	}
	x := make([]float64, len(list))
	for i, p := range list {
		x[i] = math.NaN()
		if p != nil {
			x[i] = *p
		}
	}
	return x
}

func (c *goldenCase) ints(key string) []int {
	c.t.Helper()
	var out []int
	for _, v := range c.floats(key) {
		out = append(out, int(v))
	}
	return out
}

func (c *goldenCase) bools(key string) []bool {
	c.t.Helper()
	var out []bool
	for _, v := range c.floats(key) {
		out = append(out, v != 0)
	}
	return out
}

// checkAll fails for every output that was not compared.
func (c *goldenCase) checkAll() {
	c.t.Helper()
	for key := range c.Out {
		if !c.checked[key] {
			c.t.Errorf("%s: nothing compares it", key)
		}
	}
}

// wants tells whether the case has an output, and marks it as compared.
func (c *goldenCase) wants(key string) bool {
	_, ok := c.Out[key]
	c.checked[key] = true
	return ok
}

// check compares a number with out[key], where the case has it; null there means that it is undefined.
func (c *goldenCase) check(key string, got Value) {
	c.t.Helper()
	if !c.wants(key) {
		return
	}
	want := decode[*float64](c.t, c.Out, key)
	x, ok := got.Get()
	switch {
	case want == nil && ok:
		c.t.Errorf("%s: got %v, want undefined (%s)", key, x, c.Undefined[key])
	case want != nil && !ok:
		c.t.Errorf("%s: got %v, want %v", key, got, *want)
	case want != nil:
		c.near(key, x, *want)
	}
}

func (c *goldenCase) checkNumber(key string, got float64) { c.t.Helper(); c.check(key, Number(got)) }

func (c *goldenCase) near(key string, got, want float64) {
	c.t.Helper()
	if d := math.Abs(got - want); !(d <= c.RelTol*math.Abs(want) || d <= c.AbsTol) {
		c.t.Errorf("%s: got %.17g, want %.17g (off by %.2g)", key, got, want, d)
	}
}

func (c *goldenCase) checkInterval(key string, got Interval) {
	c.t.Helper()
	if !c.wants(key) {
		return
	}
	want := decode[*[2]float64](c.t, c.Out, key)
	if want == nil {
		if got.Why == "" || !math.IsNaN(got.Lo) || !math.IsNaN(got.Hi) {
			c.t.Errorf("%s: got %v, want undefined (%s)", key, got, c.Undefined[key])
		}
		return
	}
	if got.Why != "" {
		c.t.Errorf("%s: got undefined (%s), want %v", key, got.Why, *want)
		return
	}
	c.near(key+" lower", got.Lo, want[0])
	c.near(key+" upper", got.Hi, want[1])
}

func (c *goldenCase) checkList(key string, got []Value) {
	c.t.Helper()
	if !c.wants(key) {
		return
	}
	want := decode[[]*float64](c.t, c.Out, key)
	if len(got) != len(want) {
		c.t.Fatalf("%s: got %d values, want %d", key, len(got), len(want))
	}
	for i := range want {
		x, ok := got[i].Get()
		if ok != (want[i] != nil) {
			c.t.Errorf("%s[%d]: got %v, want %v", key, i, got[i], want[i])
		} else if ok {
			c.near(key, x, *want[i])
		}
	}
}

// same compares an output that is no number.
func same[T any](c *goldenCase, key string, got T, equal func(a, b T) bool) {
	c.t.Helper()
	if !c.wants(key) {
		return
	}
	if want := decode[T](c.t, c.Out, key); !equal(got, want) {
		c.t.Errorf("%s: got %v, want %v", key, got, want)
	}
}

func numbers(x []float64) []Value {
	out := make([]Value, len(x))
	for i, v := range x {
		out[i] = Number(v)
	}
	return out
}

func panics(fn func()) (did bool) {
	defer func() { did = recover() != nil }()
	fn()
	return false
}

func equal[T comparable](a, b T) bool { return a == b }

func equalSlices[T comparable](a, b []T) bool { return slices.Equal(a, b) }
