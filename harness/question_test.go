package harness

import (
	"context"
	"fmt"
	"reflect"
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
	got, err := questionsOf([]condition{{}, off(true, 0), off(true, 1, 2), off(false, 0), mean, off(true, 2, 1), probed}, 2)
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

// TestEffective: what heads of the last layer put out at haystack rows reaches no answer: left out, the model says the same to the bit; heads
// before it and other rows stay.
func TestEffective(t *testing.T) {
	o := tinyOptions(t, 2)
	last := o.Checkpoint.Spec.Layers - 1
	parse := func(s string) decoder.Edit {
		e, err := decoder.ParseEdit(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	late, early := parse(fmt.Sprintf("zero:L%dH0,L%dH2@haystack", last, last)), parse(fmt.Sprintf("zero:L%dH1@haystack", last-1))
	both := parse(fmt.Sprintf("zero:L%dH1,L%dH0@haystack", last-1, last))
	for _, c := range []struct{ edits, want []decoder.Edit }{
		{[]decoder.Edit{late}, nil}, {[]decoder.Edit{both, late}, []decoder.Edit{early}},
		{[]decoder.Edit{parse(fmt.Sprintf("zero:L%dH0@all", last))}, []decoder.Edit{parse(fmt.Sprintf("zero:L%dH0@all", last))}},
		{[]decoder.Edit{parse(fmt.Sprintf("freeze:L%dH0:slow8@haystack", last))}, []decoder.Edit{parse(fmt.Sprintf("freeze:L%dH0:slow8@haystack", last))}},
	} {
		if got := effective(c.edits, last); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.edits, got, c.want)
		}
	}
	var asked []*decoder.Prompt
	for _, p := range mustTokenize(t, o) {
		asked = append(asked, p.ask())
	}
	conds := []decoder.Condition{{}, {Edits: []decoder.Edit{late}}, {Edits: []decoder.Edit{early}}, {Edits: []decoder.Edit{both}}}
	said := make([][]string, len(asked))
	err := o.Model.Ask(context.Background(), asked, conds, decoder.AskOptions{MaxNew: 2}, func(p, _ int, r *decoder.Reply) error {
		said[p] = append(said[p], fmt.Sprint(r.LogProb, r.Greedy))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range said {
		if s[0] != s[1] || s[2] != s[3] || s[0] == s[2] {
			t.Errorf("unmodified %s, last layer %s, one before it %s, both %s", s[0], s[1], s[2], s[3])
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
