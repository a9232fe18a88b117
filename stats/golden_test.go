package stats

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
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

	arrays map[string][]float64
}

// forGolden runs fn on every case of one reference file, in testdata and in each folder of HEADSCOPE_GOLDEN.
func forGolden(t *testing.T, file string, fn func(t *testing.T, c goldenCase)) {
	t.Helper()
	dirs := append([]string{filepath.Join("testdata", "stats-golden")}, filepath.SplitList(os.Getenv("HEADSCOPE_GOLDEN"))...)
	for _, dir := range dirs {
		cases, err := readGolden(dir, file)
		if errors.Is(err, fs.ErrNotExist) && dir != dirs[0] {
			continue // HEADSCOPE_GOLDEN also names folders of other packages
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(cases) == 0 {
			t.Fatalf("%s: no cases", filepath.Join(dir, file))
		}
		t.Logf("%s: %d cases", filepath.Join(dir, file), len(cases))
		for _, c := range cases {
			t.Run(c.ID, func(t *testing.T) { fn(t, c) })
		}
	}
}

func readGolden(dir, file string) ([]goldenCase, error) {
	var doc struct{ Cases []goldenCase }
	if err := readJSON(filepath.Join(dir, file), &doc); err != nil {
		return nil, err
	}
	var shared struct{ Arrays map[string][]float64 }
	if err := readJSON(filepath.Join(dir, "arrays.json"), &shared); err != nil {
		return nil, err
	}
	for i := range doc.Cases {
		doc.Cases[i].arrays = shared.Arrays
	}
	return doc.Cases, nil
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
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
func (c goldenCase) floats(t *testing.T, key string) []float64 {
	t.Helper()
	raw := string(c.In[key])
	if strings.HasPrefix(raw, "{") {
		x, ok := c.arrays[decode[struct{ Ref string }](t, c.In, key).Ref]
		if !ok {
			t.Fatalf("%s: no array %s", key, raw)
		}
		return x
	}
	x := []float64{}
	for _, p := range decode[[]*float64](t, c.In, key) {
		if p == nil {
			x = append(x, math.NaN())
		} else {
			x = append(x, *p)
		}
	}
	return x
}

// check compares a number with out[key]; null there means that it is undefined, for which we return NaN.
func (c goldenCase) check(t *testing.T, key string, got float64) {
	t.Helper()
	want := decode[*float64](t, c.Out, key)
	if want == nil {
		if !math.IsNaN(got) {
			t.Errorf("%s: got %v, want NaN (%s)", key, got, c.Undefined[key])
		}
		return
	}
	c.near(t, key, got, *want)
}

func (c goldenCase) near(t *testing.T, key string, got, want float64) {
	t.Helper()
	if d := math.Abs(got - want); !(d <= c.RelTol*math.Abs(want) || d <= c.AbsTol) {
		t.Errorf("%s: got %.17g, want %.17g (off by %.2g)", key, got, want, d)
	}
}

func (c goldenCase) checkInterval(t *testing.T, key string, got Interval) {
	t.Helper()
	want := decode[*[2]float64](t, c.Out, key)
	if want == nil {
		if !math.IsNaN(got.Lo) || !math.IsNaN(got.Hi) {
			t.Errorf("%s: got %v, want NaN (%s)", key, got, c.Undefined[key])
		}
		return
	}
	c.near(t, key+" lower", got.Lo, want[0])
	c.near(t, key+" upper", got.Hi, want[1])
}

func panics(fn func()) (did bool) {
	defer func() { did = recover() != nil }()
	fn()
	return false
}
