package harness

import (
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// TestUnreachable: layers whose window ends before every needle give no controls; one that reaches a single needle does.
func TestUnreachable(t *testing.T) {
	s := &loader.Spec{Layers: 3, Kinds: []loader.LayerKind{{Window: 20}, {}, {Window: 50}}}
	prompts := []*Prompt{ // the last tokens of the needles stand 70 and 49 rows before the last row
		{IDs: make([]int32, 100), Needle: heads.Span{20, 30}},
		{IDs: make([]int32, 100), Needle: heads.Span{40, 51}},
	}
	got := unreachableLayers(s, prompts)
	if !slices.Equal(got, []int{0}) {
		t.Errorf("layers %v, want [0]: a window of 50 keys sees 49 rows back", got)
	}
	if got := unreachableLayers(s, prompts[:1]); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("layers %v, want [0 2]", got)
	}
	k := &controlled{PlanTarget: &PlanTarget{Unreachable: []int{0}}, shape: Shape{3, 2, 2}}
	pool, about := k.pool()
	want := heads.NewSet(decoder.Head{Layer: 1}, decoder.Head{Layer: 1, Index: 1}, decoder.Head{Layer: 2}, decoder.Head{Layer: 2, Index: 1})
	if !pool.Equal(want) || !strings.Contains(about, "outside the 1 layers whose window") {
		t.Errorf("pool %v, %q, want %v", pool, about, want)
	}
}
