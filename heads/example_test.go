package heads_test

import (
	"fmt"
	"os"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

func ExampleParse() {
	set, err := heads.Parse("L18H6, 8-0, [14,3]")
	fmt.Println(set, err)
	fmt.Println(set.Validate(16, 9))
	// Output:
	// L8H0,L14H3,L18H6 <nil>
	// no such head: L18H6; the model has 16 layers (from 0) of 9 heads (from 0)
}

// Two heads reach 0.9; which of them is the second best is the tie-breaker's word.
func ExampleScores_Ranking() {
	argmax := heads.Scores{Detector: "argmax_last", Layers: 2, Heads: 2, N: 10, Data: []float64{.9, .1, 1, .9}}
	mass := heads.Scores{Detector: "mass_last", Layers: 2, Heads: 2, N: 10, Data: []float64{.2, .3, .5, .4}}
	fmt.Println(argmax.Ranking(mass))
	fmt.Println("top 2:", argmax.Ranking(mass).Top(2), "tied at the cut:", argmax.TiesAt(2))
	fmt.Println("at least 0.1:", argmax.AtLeast(0.1), "one prompt away:", argmax.Borderline(0.1))
	// Output:
	// L1H0,L1H1,L0H0,L0H1
	// top 2: L1H0,L1H1 tied at the cut: L0H0,L1H1
	// at least 0.1: L0H0,L0H1,L1H0,L1H1 one prompt away: L0H1
}

func ExampleScores_Heatmap() {
	s := heads.Scores{Detector: "argmax_last", Layers: 3, Heads: 4, N: 40,
		Data: []float64{0, 0, .1, 0, 0, .4, 0, 0, 1, 0, 0, .7}}
	if err := s.Heatmap(os.Stdout, heads.HeatmapOptions{Marked: s.AtLeast(0.3)}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// argmax_last (n=40)  · 0  ░ to 0.25  ▒ to 0.5  ▓ to 0.75  █ to 1  [ ] marked (3)
	//     0  1  2  3
	// L0  ·  ·  ░  ·
	// L1  · [▒] ·  ·
	// L2 [█] ·  · [▓]
}

// A prompt of six tokens with the needle at [1, 5) and the code at [3, 5). Head 0 looks at the code; head 1 at
// a word that the prompt ends in.
func ExampleObservations_Hits() {
	obs, err := heads.NewObservations(1, 2, []heads.Observation{{
		Needle: heads.Span{1, 5}, Code: heads.Span{3, 5}, Tokens: []int{50, 60, 70, 80, 81, 70},
		Rows: []heads.Row{{Argmax: []int32{3, 2}, Gap: []float32{.4, .2}, SpanMass: []float32{.8, .5}}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	found := obs.ArgmaxLast().AtLeast(0.1)
	for _, h := range obs.Hits(found) {
		fmt.Println(h.Head, h.Offsets, h.Label)
	}
	// Output:
	// L0H0 [0 0 1 0] code
	// L0H1 [0 1 0 0] repeated-word
}

func ExampleSet_KVSiblings() {
	fmt.Println(heads.NewSet(decoder.Head{Layer: 18, Index: 6}).KVSiblings(3))
	// Output: L18H6,L18H7,L18H8
}
