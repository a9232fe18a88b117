package heads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func scoresOf(n int, rows ...[]float64) Scores { return matrix("test", rows, n) }

// The case topk_ties of the reference for ranks: the threshold is inclusive, ties keep (layer, head) order.
func TestRankingWithTies(t *testing.T) {
	s := scoresOf(40, []float64{.5, .1, .5}, []float64{.1, .9, .1}, []float64{.5, 0, .0999999})
	want := Ranking{h(1, 1), h(0, 0), h(0, 2), h(2, 0), h(0, 1), h(1, 0), h(1, 2)}
	found := s.AtLeast(.1)
	if got := s.Ranking().Only(found); !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := s.Ranking().Top(3); !got.Equal(NewSet(want[:3]...)) {
		t.Errorf("top 3: got %s", got)
	}
	// The tie-breaker turns the order of the tied heads round and touches no other.
	tie := scoresOf(40, []float64{.1, 9, .2}, []float64{9, 0, 9}, []float64{.3, 9, 9})
	if got := s.Ranking(tie)[:4]; !slices.Equal(got, Ranking{h(1, 1), h(2, 0), h(0, 2), h(0, 0)}) {
		t.Errorf("with a tie-breaker: got %s", got)
	}
	for k, want := range map[int]Set{
		0: {}, 1: {}, 2: {h(0, 0), h(0, 2), h(2, 0)}, 3: {h(0, 0), h(0, 2), h(2, 0)}, 4: {}, 5: {h(0, 1), h(1, 0), h(1, 2)}, 9: {}, 50: {},
	} {
		if got := s.TiesAt(k); !got.Equal(want) {
			t.Errorf("ties at %d: got %s, want %s", k, got, want)
		}
	}
	if got := s.Ranking().Top(100); len(got) != 9 {
		t.Errorf("top 100 of 9: got %d heads", len(got))
	}
}

func TestHeadsWithoutScore(t *testing.T) {
	s := scoresOf(10, []float64{math.NaN(), -1}, []float64{0, math.NaN()})
	if got := s.Ranking(); !slices.Equal(got, Ranking{h(1, 0), h(0, 1), h(0, 0), h(1, 1)}) {
		t.Errorf("got %s, want those without a score last", got)
	}
	if got := s.AtLeast(-5); !got.Equal(Set{h(0, 1), h(1, 0)}) {
		t.Errorf("at least -5: got %s", got)
	}
}

func TestBorderlineIsOneObservation(t *testing.T) {
	// Of 40 prompts: 2, 3, 4, 5, 40 hits; the threshold is 4 hits.
	s := scoresOf(40, []float64{2. / 40, 3. / 40, 4. / 40, 5. / 40, 1})
	if got := s.Borderline(.1); !got.Equal(Set{h(0, 1), h(0, 2)}) {
		t.Errorf("got %s, want the heads with 3 and 4 hits", got)
	}
	// A threshold between two counts, for every n: the counts below and above it are borderline and no other.
	for n := 1; n <= 300; n++ {
		all := make([]float64, n+1)
		for k := range all {
			all[k] = float64(k) / float64(n)
		}
		s := scoresOf(n, all)
		in := s.AtLeast(.1)
		want := Set{h(0, in[0].Index-1), in[0]}
		if got := s.Borderline(.1); !got.Equal(want) {
			t.Fatalf("n=%d: got %s, want %s", n, got, want)
		}
	}
}

func TestScoresJSON(t *testing.T) {
	s := Scores{Detector: "copy_tf", Layers: 2, Heads: 3, N: 176, Data: []float64{0, 1. / 3, 1, math.NaN(), .1, 1e-17}}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"detector":"copy_tf","shape":[2,3],"n":176,"data":[[0,0.3333333333333333,1],[null,0.1,1e-17]]}`
	if string(b) != want {
		t.Errorf("got %s\nwant %s", b, want)
	}
	var back Scores
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(back) != fmt.Sprint(s) {
		t.Errorf("got %v, want %v", back, s)
	}
	for text, msg := range map[string]string{
		`{"detector":"x","shape":[2],"n":1,"data":[]}`:              "shape",
		`{"detector":"x","shape":[1,-2],"n":1,"data":[[]]}`:         "shape",
		`{"detector":"x","shape":[2,1],"n":1,"data":[[0]]}`:         "got 1 rows, want 2",
		`{"detector":"x","shape":[2,2],"n":1,"data":[[0,1],[0]]}`:   "layer 1: got 1 heads, want 2",
		`{"detector":"x","shape":[1,1],"n":-1,"data":[[0]]}`:        "n: got -1",
		`{"detector":"x","shape":[1,1],"n":1,"data":[["0"]]}`:       "scores",
		`{"detector":"x","shape":[999999999,999999999],"data":[]}`:  "got 0 rows",
		`{"detector":"x","shape":[1,999999999],"n":1,"data":[[0]]}`: "got 1 heads",
	} {
		if err := json.Unmarshal([]byte(text), &back); err == nil || !strings.Contains(err.Error(), msg) {
			t.Errorf("%s: got %v, want %q", text, err, msg)
		}
	}
	if _, err := json.Marshal(Scores{Layers: 2, Heads: 2, Data: []float64{1}}); err == nil {
		t.Error("a matrix with missing values was written")
	}
}

func TestWrongUsePanics(t *testing.T) {
	s := scoresOf(1, []float64{1, 2})
	for name, fn := range map[string]func(){
		"no such head":            func() { s.At(h(1, 0)) },
		"other shape":             func() { s.Ranking(scoresOf(1, []float64{1, 2, 3})) },
		"missing values":          func() { Scores{Layers: 3, Heads: 2, Data: []float64{1}}.Ranking() },
		"borderline of nothing":   func() { scoresOf(0, []float64{1}).Borderline(.1) },
		"no query heads to a key": func() { Set{}.KVSiblings(0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: did not panic", name)
				}
			}()
			fn()
		}()
	}
}

func TestHeatmapPicture(t *testing.T) {
	s := scoresOf(40, []float64{0, .25, .251, .5}, []float64{.75, 1, math.NaN(), 0})
	var out bytes.Buffer
	if err := s.Heatmap(&out, HeatmapOptions{Marked: NewSet(h(0, 3), h(1, 1), h(1, 3))}); err != nil {
		t.Fatal(err)
	}
	const want = `test (n=40)  · 0  ░ to 0.25  ▒ to 0.5  ▓ to 0.75  █ to 1  ? no score  [ ]
marked (3)
    0  1  2  3
L0  ·  ░  ▒ [▒]
L1  ▓ [█] ? [·]
`
	got := out.String()
	if strings.ReplaceAll(strings.ReplaceAll(got, "\n", " "), "  ", " ") != strings.ReplaceAll(strings.ReplaceAll(want, "\n", " "), "  ", " ") || !strings.HasSuffix(got, want[strings.Index(want, "    0"):]) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestHeatmapFits(t *testing.T) {
	for _, tt := range []struct{ layers, heads, width, limit int }{
		{30, 9, 0, 80}, {32, 32, 0, 80}, {80, 64, 0, 80}, {126, 128, 0, 80}, {32, 32, 40, 40}, {1, 1, 20, 20},
	} {
		s := NewScores("argmax_last", tt.layers, tt.heads)
		s.N = 40
		var marked Set
		for i := range s.Data {
			s.Data[i] = float64(i%11) / 10
			if i%11 == 10 {
				marked = append(marked, s.head(i))
			}
		}
		for _, color := range []bool{false, true} {
			var out bytes.Buffer
			if err := s.Heatmap(&out, HeatmapOptions{Marked: marked, Width: tt.width, Color: color}); err != nil {
				t.Fatal(err)
			}
			text := out.String()
			if strings.Contains(text, "\x1b") != color {
				t.Errorf("%+v color=%v: escape sequences: %v", tt, color, strings.Contains(text, "\x1b"))
			}
			cells := 0
			for line := range strings.Lines(text) {
				line = strings.TrimRight(line, "\n")
				if n := columns(line); n > tt.limit {
					t.Errorf("%+v: line of %d columns: %s", tt, n, line)
				}
				if strings.HasPrefix(line, "L") {
					cells += strings.Count(line, "·") + strings.Count(line, "░") + strings.Count(line, "▒") + strings.Count(line, "▓") + strings.Count(line, "█")
				}
			}
			narrow := tt.heads > 38 || tt.width == 40 // a star stands in the place of the shade
			if want := tt.layers * tt.heads; !narrow && cells != want || narrow && cells != want-len(marked) {
				t.Errorf("%+v: %d cells, want %d with %d marked", tt, cells, want, len(marked))
			}
		}
	}
}

func TestHeatmapErrors(t *testing.T) {
	s := NewScores("x", 2, 2)
	if err := s.Heatmap(&bytes.Buffer{}, HeatmapOptions{Marked: NewSet(h(2, 0))}); !errors.Is(err, ErrNoSuchHead) {
		t.Errorf("marked head that does not exist: got %v", err)
	}
	if err := s.Heatmap(&bytes.Buffer{}, HeatmapOptions{Width: 3}); err == nil {
		t.Error("three columns were enough")
	}
	if err := s.Heatmap(fullDisk{}, HeatmapOptions{}); !errors.Is(err, errFull) {
		t.Errorf("write error: got %v", err)
	}
}

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }
