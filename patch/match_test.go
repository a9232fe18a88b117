package patch

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

func sizes(layers, n int, f func(l, h int) float64) heads.Scores {
	s := heads.NewScores("write_norm", layers, n)
	for i := range s.Data {
		s.Data[i] = f(i/n, i%n)
	}
	return s
}

// TestSizeMatchedSets: of the sets that exist, those closest in size are kept; the rest of the contract is MatchedSets's.
func TestSizeMatchedSets(t *testing.T) {
	size := sizes(2, 16, func(l, h int) float64 { return float64(1 + h) })
	pool := LayerPool(heads.NewScores("none", 2, 16), 1)
	target := heads.NewSet(decoder.Head{Layer: 0, Index: 15}, decoder.Head{Layer: 1, Index: 15})
	sets, report, m, err := SizeMatchedSets(pool, target, 5, size, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	if len(sets) != 5 || report.Pairs != 10 || m.Candidates != 50 || m.Target != 32 {
		t.Fatalf("got %d sets, %+v, %+v", len(sets), report, m)
	}
	seen := map[string]bool{}
	for _, s := range sets {
		if len(s) != 2 || s[0].Layer != 0 || s[1].Layer != 1 || len(s.Intersect(target)) > 0 || seen[s.String()] {
			t.Errorf("set %s", s)
		}
		seen[s.String()] = true
	}
	if !(m.Mismatch < m.Unmatched/2) || m.Largest < m.Mismatch {
		t.Errorf("matching gained little: %+v", m)
	}
	again, _, _, _ := SizeMatchedSets(pool, target, 5, size, rand.New(rand.NewPCG(1, 2)))
	for i := range sets {
		if !again[i].Equal(sets[i]) {
			t.Errorf("set %d differs in a second drawing", i)
		}
	}
	// 15 x 15 sets exist: all are candidates for 100, and too few for 300.
	if _, _, m, err = SizeMatchedSets(pool, target, 100, size, rand.New(rand.NewPCG(1, 2))); err != nil || m.Candidates != 225 {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, _, _, err = SizeMatchedSets(pool, target, 300, size, rand.New(rand.NewPCG(1, 2))); !errors.Is(err, ErrTooFewSets) {
		t.Errorf("got %v, want %v", err, ErrTooFewSets)
	}
	flat := sizes(2, 16, func(int, int) float64 { return 0 })
	if _, _, m, err = SizeMatchedSets(pool, target, 5, flat, rand.New(rand.NewPCG(1, 2))); err != nil || m.Mismatch != 0 {
		t.Errorf("heads that write nothing: %+v, %v", m, err)
	}
}

func TestDisjointKV(t *testing.T) {
	pool := LayerPool(heads.NewScores("none", 2, 8), 1)
	got := DisjointKV(pool, heads.NewSet(decoder.Head{Layer: 0, Index: 1}, decoder.Head{Layer: 1, Index: 7}), 4)
	if got.String() != "L0H4,L0H5,L0H6,L0H7,L1H0,L1H1,L1H2,L1H3" {
		t.Errorf("got %s", got)
	}
	if n := len(DisjointKV(pool, nil, 4)); n != 16 {
		t.Errorf("nothing touched: %d heads", n)
	}
}
