package patch_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

func ExampleZeroHeads() {
	set, err := heads.Parse("L18H6,L20H3")
	fmt.Println(patch.ZeroHeads(set, decoder.ScopeQuestion)[0], err)
	// Output: zero:L18H6,L20H3@question <nil>
}

// Two layers of four heads; L0H1 and L1H3 are detected. Each control set takes one other head of each layer.
func ExampleMatchedSets() {
	argmax := heads.Scores{Detector: "argmax_last", Layers: 2, Heads: 4, N: 40,
		Data: []float64{0, .9, 0, .05, 0, 0, .025, 1}}
	detected := argmax.AtLeast(0.1)
	pool := patch.LayerPool(argmax, 0.1)

	sets, report, err := patch.MatchedSets(pool, detected, 3, rand.New(rand.NewPCG(42, 1)))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range sets {
		fmt.Println(s)
	}
	fmt.Printf("%d of %s possible sets, overlap %.2f at most\n", len(sets), report.Possible, report.MaxOverlap)

	_, _, err = patch.MatchedSets(pool, detected, 99, rand.New(rand.NewPCG(42, 1)))
	fmt.Println(err)
	// Output:
	// L0H0,L1H1
	// L0H2,L1H1
	// L0H3,L1H0
	// 3 of 9 possible sets, overlap 0.50 at most
	// too few control sets: asked for 99, only 9 distinct layer-matched sets of 2 heads exist
}
