package replicate

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// TestPublished: every number that the reference compares is compared here too, with the reference's value, and agrees with the file.
func TestPublished(t *testing.T) {
	r, err := Run(context.Background(), []string{profilesDir})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Item{}
	for _, f := range r.Files {
		rel, err := filepath.Rel(profilesDir, f.Path)
		if err != nil {
			t.Fatal(err)
		}
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
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	n := 0
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
	if n != 1145 || n != want.NCompared || r.Compared != n || r.Disagreements != 0 {
		t.Errorf("compared %d of the reference's %d numbers, %d in all, %d disagree", n, want.NCompared, r.Compared, r.Disagreements)
	}
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
