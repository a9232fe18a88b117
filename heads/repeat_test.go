package heads

import (
	"math"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
)

// TestRepeat: heads made to look at one key each get a score of one there and the rest's weight elsewhere.
func TestRepeat(t *testing.T) {
	const n, start, keys = 5, 1, 11
	offsets := []int{-n + 1, -n, -1} // induction, duplicate, previous
	var layer []float32
	for _, o := range offsets {
		for i := range n {
			row := make([]float32, keys)
			at := start + n + i
			row[0], row[at+o] = 0.25, 0.75
			layer = append(layer, row...)
		}
	}
	r, err := NewRepeat([][]float32{layer, layer}, 3, n, start)
	if err != nil {
		t.Fatal(err)
	}
	scores, err := RepeatScores(2, 3, []Repeat{r, r})
	if err != nil {
		t.Fatal(err)
	}
	for k, s := range scores {
		for l := range 2 {
			for h := range 3 {
				want := 0.0
				if h == k {
					want = 0.75
				}
				if got := s.At(decoder.Head{Layer: l, Index: h}); math.Abs(got-want) > 1e-6 {
					t.Errorf("%s L%dH%d: got %g, want %g", s.Detector, l, h, got, want)
				}
			}
		}
		if s.N != 2 {
			t.Errorf("%s: n = %d", s.Detector, s.N)
		}
	}
	if _, err := NewRepeat([][]float32{layer[:len(layer)-1]}, 3, n, start); err == nil {
		t.Error("a short layer was accepted")
	}
	if _, err := RepeatScores(2, 3, nil); err == nil {
		t.Error("no sequence was accepted")
	}
	if _, err := RepeatScores(3, 3, []Repeat{r}); err == nil {
		t.Error("another shape was accepted")
	}
}

func TestTopShare(t *testing.T) {
	s := NewScores("x", 1, 10)
	for i := range s.Data {
		s.Data[i] = float64(i)
	}
	if got := s.TopShare(0.05).String(); got != "L0H9" {
		t.Errorf("5 %% of 10: got %s", got)
	}
	s.Data[8] = 9
	if got := s.TopShare(0.1).String(); got != "L0H8,L0H9" {
		t.Errorf("a tie at the cut: got %s", got)
	}
	if got := len(s.TopShare(0.2)); got != 2 {
		t.Errorf("20 %% of 10: got %d heads", got)
	}
}
