package replicate

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// profilesDir holds the published files; golden has what NumPy, SciPy and statsmodels make of them.
var (
	profilesDir = filepath.Join("..", "..", "stats", "testdata", "published-profiles")
	golden      = filepath.Join("..", "..", "stats", "testdata", "stats-golden", "published.json")
)

type goldenItem struct {
	Item   string          `json:"item"`
	Value  json.RawMessage `json:"value"`
	Stored *string         `json:"stored"`
	Agrees *bool           `json:"agrees"`
}

// TestPublished: every number that the reference compares is compared here too, with the reference's value, and agrees or differs as there.
// Folders of HEADSCOPE_GOLDEN with a published.json are run too if their profiles lie in published-profiles beside or below them.
func TestPublished(t *testing.T) {
	if n, compared := published(t, golden, profilesDir); n != 1145 || compared != n {
		t.Errorf("compared %d of the reference's numbers, %d in all, want 1145", n, compared)
	}
	for _, dir := range filepath.SplitList(os.Getenv("HEADSCOPE_GOLDEN")) {
		file := filepath.Join(dir, "published.json")
		for _, root := range []string{filepath.Join(dir, "..", "published-profiles"), filepath.Join(dir, "published-profiles")} {
			_, errFile := os.Stat(file)
			_, errRoot := os.Stat(root)
			if errFile == nil && errRoot == nil {
				n, _ := published(t, file, root)
				t.Logf("%s: %d numbers", file, n)
				break
			}
		}
	}
}

// published returns how many numbers of the reference were compared, and how many Run compared in the reference's files.
func published(t *testing.T, file, root string) (n, compared int) {
	t.Helper()
	paths := []string{root}
	if filepath.Clean(root) != profilesDir { // inheritance may refer to the profiles of this repository
		more, err := filepath.Glob(filepath.Join(profilesDir, "profile", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range more {
			if _, err := os.Stat(filepath.Join(root, "profile", filepath.Base(p))); err != nil {
				paths = append(paths, p)
			}
		}
	}
	r, err := Run(context.Background(), paths)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Item{}
	for _, f := range r.Files {
		rel, err := filepath.Rel(root, f.Path)
		if err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		compared += len(f.Items)
		for _, it := range f.Items {
			if _, twice := got[rel+" "+it.Name]; twice {
				t.Errorf("%s: %s is there twice", rel, it.Name)
			}
			got[rel+" "+it.Name] = it
		}
		if len(f.Absent) > 0 {
			t.Errorf("%s: absent: %v", rel, f.Absent)
		}
	}
	var want struct {
		NCompared int `json:"n_compared"`
		Files     []struct {
			File  string
			Items []goldenItem
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	for _, f := range want.Files {
		for _, g := range f.Items {
			if g.Agrees == nil {
				continue
			}
			it, ok := got[f.File+" "+g.Item]
			if !ok {
				t.Errorf("%s: %s is not compared", f.File, g.Item)
				continue
			}
			n++
			compareGolden(t, f.File, g, it)
		}
	}
	if n != want.NCompared {
		t.Errorf("%s: compared %d numbers, want %d", file, n, want.NCompared)
	}
	return n, compared
}

func compareGolden(t *testing.T, file string, g goldenItem, it Item) {
	t.Helper()
	value := g.Value
	if value[0] != '[' {
		value = json.RawMessage("[" + string(value) + "]")
	}
	var want []*float64
	if err := json.Unmarshal(value, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != len(it.Recomputed) {
		t.Fatalf("%s: %s: got %v, want %s", file, g.Item, it.Recomputed, g.Value)
	}
	for i, w := range want {
		x := math.NaN()
		if w != nil {
			x = *w
		}
		if !same(float64(it.Recomputed[i]), x, max(it.Tolerance, exact)) {
			t.Errorf("%s: %s: got %v, want %v", file, g.Item, it.Recomputed[i], x)
		}
	}
	if it.Agrees != *g.Agrees {
		t.Errorf("%s: %s: agrees %t, want %t", file, g.Item, it.Agrees, *g.Agrees)
	}
	if g.Stored != nil && !strings.HasPrefix(*g.Stored, it.Path) {
		t.Errorf("%s: %s: stored at %s, want %s", file, g.Item, it.Path, *g.Stored)
	}
}

// TestEveryChangeIsFound: whatever stored number is changed, its item disagrees.
func TestEveryChangeIsFound(t *testing.T) {
	ctx := context.Background()
	files, err := openAll(ctx, []string{profilesDir})
	if err != nil {
		t.Fatal(err)
	}
	profiles := map[string]*file{}
	done := map[string]bool{}
	for _, f := range files {
		if f.kind() == kindProfile {
			profiles[f.base] = f
		}
	}
	changed := 0
	for _, f := range files {
		plain := f.report(profiles)
		if done[plain.Kind] || len(plain.Items) < 2 {
			continue
		}
		done[plain.Kind] = true
		for _, it := range plain.Items {
			key, ok := parentOf(f.tree, it.Path)
			if !ok {
				continue // a list of heads, or a column
			}
			changed++
			old := key.get()
			for _, now := range []any{asNumber(old)*1.0001 + 1e-5, nil} {
				if now == nil && old == nil {
					now = 1.0
				}
				if x, isNumber := now.(float64); isNumber && math.IsNaN(x) {
					now = 0.5
				}
				key.set(now)
				items := f.report(profiles).Items
				i := slices.IndexFunc(items, func(x Item) bool { return x.Name == it.Name })
				if i < 0 || items[i].Agrees {
					t.Errorf("%s: %s: %v in place of %v agrees", f.path, it.Path, now, old)
				}
			}
			key.set(old)
		}
	}
	if len(done) != 7 || changed != 193 {
		t.Errorf("changed %d numbers of %v", changed, done)
	}
}

type place struct {
	m   map[string]any
	key string
}

func (p place) get() any  { return p.m[p.key] }
func (p place) set(v any) { p.m[p.key] = v }

// parentOf finds the object that holds the number at a path.
func parentOf(tree any, path string) (place, bool) {
	for i := len(path); i > 0; i-- {
		if path[i-1] != '.' {
			continue
		}
		v, ok := walk(tree, path[:i-1])
		if m, isMap := v.(map[string]any); ok && isMap {
			x, has := m[path[i:]]
			_, isNumber := x.(float64)
			return place{m, path[i:]}, has && (isNumber || x == nil)
		}
	}
	return place{}, false
}

// TestFaults: what is known of the published files is said, and nothing of the others.
func TestFaults(t *testing.T) {
	r, err := Run(context.Background(), []string{profilesDir})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	at := map[string]string{}
	for _, f := range r.Files {
		for _, x := range f.Faults {
			count[x.Code]++
			at[filepath.Base(f.Path)+" "+x.Code] += x.Text
		}
	}
	for code, want := range map[string]int{
		FaultUncentred: 18, FaultCoverageCap: 18, FaultFailureAsMiss: 7, FaultNoDrop: 9, FaultSharedKeys: 5, FaultTies: 1, FaultFirstControl: 7, FaultBaselineFloor: 0, FaultZeroValues: 1, FaultCodes: 17,
	} {
		if count[code] != want {
			t.Errorf("%s: %d times, want %d", code, count[code], want)
		}
	}
	for key, want := range map[string]string{
		"olmo2_7b_instruct_seed42.json specificity-no-drop": "perplexity fell",
		"mistral7b_v03_seed42.json specificity-no-drop":     "1 of 120 samples",
		"llama31_8b_seed42.json specificity-no-drop":        "no drop to divide by",
		"qwen25_3b_seed123.json shared-keys":                "control heads lose 0.958 of recall 1",
		"qwen25_7b_seed42.json first-control-only":          "leaves recall 0; all leave 0.795",
		"qwen25_7b.json coverage-cap":                       "57 heads; 30 were patched",
		"llama31_8b_seed42.json uncentred-permutation":      "p 0.9993",
		"phi35_mini_seed42.json uncentred-permutation":      "nothing to test",
		"olmo2_7b_seed42.json failure-as-miss":              "8192, 16384 tokens and up to 1 below, and missing at 32768",
	} {
		if !strings.Contains(at[key], want) {
			t.Errorf("%s: got %q, want %q", key, at[key], want)
		}
	}
}

// TestFaultsOfOneFile: a model that fails by itself is said; a file without faults has none.
func TestFaultsOfOneFile(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(profilesDir, "profile", "gemma2_2b_seed42.json"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(text string) FileReport {
		path := filepath.Join(t.TempDir(), "gptq4_seed42.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Run(context.Background(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		return r.Files[0]
	}
	if f := run(string(b)); len(f.Faults) != 0 {
		t.Errorf("got %v", f.Faults)
	}
	low := strings.ReplaceAll(string(b), `"baseline": 1.0`, `"baseline": 0.67`)
	if f := run(low); len(f.Faults) < 3 || f.Faults[0].Code != FaultBaselineFloor || !strings.Contains(f.Faults[0].Text, "0.67") {
		t.Errorf("got %v", f.Faults)
	}
}

func TestRunErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for text, want := range map[string]string{
		`{"a": 1}`:             "of no kind that is known",
		`{"argmax_scores": [`:  "line 1",
		"{\n\"a\": [1,\n2":     "line 3",
		`{"argmax_scores": 1}`: "cannot unmarshal",
		`{"n_layers": 1, "n_heads": 1, "n_kv_heads": 1, "argmax_scores": [[0]], "argmax_heads": []}`: "copy_tf: got no heads or no scores",
	} {
		path := write("x.json", text)
		if _, err := Run(context.Background(), []string{path}); err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := Run(context.Background(), []string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no .json files") {
		t.Errorf("an empty folder: got %v", err)
	}
}

// TestSchema: a report is valid for a validator that is not ours, and one with another key is not.
func TestSchema(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", parsed); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), []string{profilesDir})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Error(err)
	}
	v.(map[string]any)["files"].([]any)[0].(map[string]any)["extra"] = 1
	if s.Validate(v) == nil {
		t.Error("an unknown key is valid")
	}
}
