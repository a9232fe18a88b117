package harness

import (
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// TestQuestions: conditions that ask the same are one question, which is decoded where one of them wants an answer.
func TestQuestions(t *testing.T) {
	set := func(is ...int) heads.Set {
		var out []decoder.Head
		for _, i := range is {
			out = append(out, decoder.Head{Layer: 1, Index: i})
		}
		return out
	}
	off := func(scoreOnly bool, is ...int) condition {
		return condition{edits: patch.ZeroHeads(set(is...), decoder.ScopeAll), scoreOnly: scoreOnly}
	}
	mean := condition{edits: []decoder.Edit{{Op: decoder.OpMean, Heads: set(0), Scope: decoder.ScopeAll}}, scoreOnly: true}
	probed := off(true, 0)
	probed.probe = true
	got, err := questionsOf([]condition{{}, off(true, 0), off(true, 1, 2), off(false, 0), mean, off(true, 2, 1), probed})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		of        []int
		scoreOnly bool
	}{{[]int{0}, false}, {[]int{1, 3}, false}, {[]int{2, 5}, true}, {[]int{4}, true}, {[]int{6}, true}}
	if len(got) != len(want) {
		t.Fatalf("got %d questions, want %d", len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; len(g.of) != len(w.of) || g.of[0] != w.of[0] || g.of[len(g.of)-1] != w.of[len(w.of)-1] || g.ScoreOnly != w.scoreOnly {
			t.Errorf("question %d: got conditions %v, score only %t, want %v, %t", i, g.of, g.ScoreOnly, w.of, w.scoreOnly)
		}
	}
}

// TestMostSets: of 8 heads in one layer there are at most 15 control sets, of two heads each.
func TestMostSets(t *testing.T) {
	for _, c := range [][3]int{{1, 8, 15}, {2, 8, 225}, {3, 4, 27}, {1, 1, 1}, {80, 64, maxControls}} {
		if got := mostSets(c[0], c[1]); got != c[2] {
			t.Errorf("%d layers of %d heads: got %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
