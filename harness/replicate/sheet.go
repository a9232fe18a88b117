package replicate

import (
	"math"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/stats"
)

// Item is one number of a file, or one list of numbers, computed again.
type Item struct {
	Name       string           `json:"item"`
	Path       string           `json:"path"` // where the file stores it
	Stored     []harness.Number `json:"stored"`
	Recomputed []harness.Number `json:"recomputed"`
	Tolerance  float64          `json:"tolerance"` // relative; beside it 1e-12 absolute
	Agrees     bool             `json:"agrees"`
	Note       string           `json:"note,omitempty"` // why it is undefined, or what was taken
}

// Tolerances: p values far in a tail lose digits in the libraries that published them.
const (
	exact    = 1e-9
	tail     = 1e-6
	tailRho  = 1e-7
	absolute = 1e-12
)

// sheet collects what is said of one file.
type sheet struct {
	f      *file
	items  []Item
	absent []string // stored paths that the file lacks
	faults []Fault
}

// compare adds an item. A path that the file lacks makes it absent: nothing is stored to compare with.
func (s *sheet) compare(name, path string, got stats.Value, tolerance float64) {
	v, ok := s.f.at(path)
	if _, number := v.(float64); !ok || v != nil && !number {
		s.absent = append(s.absent, path)
		return
	}
	s.add(Item{Name: name, Path: path, Tolerance: tolerance}.compared([]float64{asNumber(v)}, []stats.Value{got}))
}

func (s *sheet) number(name, path string, got float64) {
	s.compare(name, path, stats.Number(got), exact)
}

func (s *sheet) add(it Item) { s.items = append(s.items, it) }

// compared is the item with both lists and whether they agree. Undefined on both sides agrees.
func (it Item) compared(stored []float64, got []stats.Value) Item {
	it.Agrees = len(stored) == len(got)
	for i, g := range got {
		x := g.Or(math.NaN())
		it.Recomputed = append(it.Recomputed, harness.Number(x))
		if g.Why() != "" && it.Note == "" {
			it.Note = string(g.Why())
		}
		if it.Agrees {
			it.Agrees = same(stored[i], x, it.Tolerance)
		}
	}
	for _, x := range stored {
		it.Stored = append(it.Stored, harness.Number(x))
	}
	return it
}

func same(a, b, relative float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return math.IsNaN(a) && math.IsNaN(b)
	}
	return math.Abs(a-b) <= max(relative*max(math.Abs(a), math.Abs(b)), absolute)
}

// truth compares a statement about a list in the file: 1 is true.
func (s *sheet) truth(name, path string, holds bool, why string) {
	if !s.f.there(path) {
		s.absent = append(s.absent, path)
		return
	}
	it := Item{Name: name, Path: path}
	got := stats.Number(1)
	if !holds {
		got, it.Note = stats.Number(0), why
	}
	s.add(it.compared([]float64{1}, []stats.Value{got}))
}

func (s *sheet) fault(code, path, text string) {
	s.faults = append(s.faults, Fault{code, path, text})
}
