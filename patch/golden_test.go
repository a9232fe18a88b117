package patch

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headscope/headscope/heads"
)

// The reference drew its controls with other code: each of its sets must be one that ours could draw, and ours
// must obey the same rule on the real model's scores.
func TestMatchedSetsOnRealScores(t *testing.T) {
	dirs := append([]string{filepath.Join("testdata", "smollm2")}, filepath.SplitList(os.Getenv("HEADSCOPE_GOLDEN"))...)
	for _, dir := range dirs {
		var ref struct {
			Detectors struct {
				N          int
				ArgmaxLast [][]float64 `json:"argmax_last"`
			}
			Interventions map[string]struct {
				Heads     json.RawMessage // a list, or a word such as "all"
				ControlOf string          `json:"control_of"`
			}
		}
		b, err := os.ReadFile(filepath.Join(dir, "reference.json"))
		if errors.Is(err, os.ErrNotExist) && dir != dirs[0] {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &ref); err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		m := ref.Detectors.ArgmaxLast
		if len(m) == 0 {
			continue // a reference of another package
		}
		scores := heads.Scores{Detector: "argmax_last", Layers: len(m), Heads: len(m[0]), Data: slices.Concat(m...), N: ref.Detectors.N}
		pool := LayerPool(scores, 0.1)
		checked := 0
		for name, iv := range ref.Interventions {
			target, ok := ref.Interventions[iv.ControlOf]
			if !ok || len(iv.Heads) == 0 || iv.Heads[0] != '[' {
				continue
			}
			var control, of heads.Set
			if err := errors.Join(json.Unmarshal(iv.Heads, &control), json.Unmarshal(target.Heads, &of)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(control.Minus(pool)) > 0 || len(control.Intersect(of)) > 0 || !sameCounts(control, of) {
				t.Errorf("%s: %s is no matched set for %s", name, control, of)
			}
			checked++
		}
		if checked < 3 {
			t.Errorf("%s: %d control sets checked", dir, checked)
		}
		target := scores.AtLeast(0.1)
		sets, report, err := MatchedSets(pool, target, 99, seeded(42))
		if err != nil {
			t.Fatal(err)
		}
		checkSets(t, sets, report, pool, target, 99)
		t.Logf("%s: %d stored sets checked; %d heads, %s possible sets, overlap %.3f on average, %.3f at most",
			dir, checked, len(target), report.Possible, report.MeanOverlap, report.MaxOverlap)
	}
}
