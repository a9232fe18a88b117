package decoder

import (
	"fmt"
	"math"
	"testing"
)

// TestFork: sets of heads that begin alike are computed once as far as they are alike, and score as they do one by one.
func TestFork(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		sets := 20 // two groups up to layer 1, four up to layer 2
		if be.Kind != KindGo && !slow() {
			sets = 16 // one batch
		}
		var conds []Condition
		for i := range sets {
			forms := edits(t, fmt.Sprintf("zero:L0H%d,L1H%d@question", i%2, i/2%2), fmt.Sprintf("scale=0.%d:L2H1@question", 5+i/4))
			conds = append(conds, Condition{Edits: forms, ScoreOnly: true})
		}
		p := &Prompt{IDs: tokens(210, 60), Question: 51, Answer: tokens(211, 4), Decoy: tokens(212, 4)}
		o := AskOptions{Batch: 1, MaxNew: 6, DecodeBatch: 1}

		before := m.Work()
		got := ask(t, m, []*Prompt{p}, conds, o)[0]
		together := m.Work().CacheLayerRows - before.CacheLayerRows
		rows := int64(60 - 51 + 4 + 3)
		if want := rows * int64(2+4+sets); together != want { // 2 groups through layer 0, 4 through layer 1, all sets through layer 2
			t.Errorf("%d sets: %d rows x layers, want %d", sets, together, want)
		}
		for k, c := range conds {
			alone := ask(t, m, []*Prompt{p}, []Condition{c}, o)[0][0]
			for i, want := range append(alone.LogProb, alone.Decoy...) {
				have := append(append([]float64{}, got[k].LogProb...), got[k].Decoy...)[i]
				if math.Abs(have-want) > 1e-5 {
					t.Errorf("set %d, score %d: %v together, %v alone", k, i, have, want)
				}
			}
		}
	})
}

// TestSweep: hundreds of conditions that only score have the scores that they have one by one, in as many rows as that takes: row T-1 and
// those of the fed answer but its last token, from the first layer that is edited.
func TestSweep(t *testing.T) {
	backends := []string{"go"}
	if slow() {
		backends = append(backends, "cpu")
	}
	for _, name := range backends {
		m := model(t, backend(t, name), "float32")
		var conds []Condition
		for l := range 3 {
			for h := range 4 {
				conds = append(conds, Condition{Edits: edits(t, fmt.Sprintf("zero:L%dH%d@answer", l, h)), ScoreOnly: true})
			}
		}
		p := &Prompt{IDs: tokens(210, 60), Question: 51, Answer: tokens(211, 4)}
		before := m.Work()
		got := ask(t, m, []*Prompt{p}, conds, AskOptions{Batch: 1, MaxNew: 6, Sweep: true})[0]
		if rows, most := m.Work().CacheLayerRows-before.CacheLayerRows, int64(4*12*3); rows > most || rows%4 != 0 {
			t.Errorf("%d rows x layers, want at most %d", rows, most)
		}
		for k, c := range conds {
			alone := ask(t, m, []*Prompt{p}, []Condition{c}, AskOptions{Batch: 1})[0][0]
			if len(got[k].LogProb) != 4 || len(got[k].Argmax) != 4 {
				t.Fatalf("condition %d: %d scores of %d rows, want 4 of 4", k, len(got[k].LogProb), len(got[k].Argmax))
			}
			for i, want := range alone.LogProb {
				if math.Abs(got[k].LogProb[i]-want) > 1e-5 || got[k].Argmax[i] != alone.Argmax[i] {
					t.Errorf("condition %d, score %d: %v together, %v alone", k, i, got[k].LogProb[i], want)
				}
			}
		}
	}
}

// TestBestFork: nothing is forked that saves less than a twentieth.
func TestBestFork(t *testing.T) {
	set := func(layers ...int) *job {
		c := &condition{layers: map[int]*layerEdit{}, first: layers[0]}
		for i, l := range layers {
			c.layers[l] = &layerEdit{key: fmt.Sprint(i)}
		}
		return &job{c: c}
	}
	alike := []*job{set(2, 5), set(2, 6), set(2, 7), set(2, 8)}
	to, groups := bestFork(alike, 2, 10, maxConditions)
	if to != 6 || len(groups) != 2 {
		t.Errorf("four sets that part from layer 5 on: fork to %d with %d groups, want 6 with 2", to, len(groups))
	}
	if to, groups := bestFork([]*job{groups[0][0], groups[1][0]}, 2, to, maxConditions); to != 5 || len(groups) != 1 {
		t.Errorf("these groups: fork to %d with %d groups, want 5 with 1", to, len(groups))
	}
	apart := []*job{set(2), set(3), set(4), set(5)}
	if _, groups := bestFork(apart[:1], 2, 10, maxConditions); groups != nil {
		t.Errorf("one set: %d groups, want no fork", len(groups))
	}
}
