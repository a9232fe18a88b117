package stats_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/headscope/headscope/stats"
)

// Of 200 prompts, 23 were answered only before the edit and none only after it.
func ExampleMcNemar() {
	r := stats.McNemar(23, 0)
	fmt.Printf("p = %.3g, mid-p = %.3g\n", r.P, r.MidP)
	// Output: p = 2.38e-07, mid-p = 1.19e-07
}

func ExampleDiscordant() {
	before := []bool{true, true, true, false}
	after := []bool{true, false, false, true}
	fmt.Println(stats.Discordant(before, after))
	// Output: 2 1
}

func ExampleWilson() {
	iv := stats.Wilson(35, 200, 0.95)
	fmt.Printf("%.4f to %.4f\n", iv.Lo, iv.Hi)
	// Output: 0.1286 to 0.2336
}

func ExampleClopperPearson() {
	iv := stats.ClopperPearson(20, 20, 0.95)
	fmt.Printf("%.4f to %.4f\n", iv.Lo, iv.Hi)
	// Output: 0.8316 to 1.0000
}

func ExamplePairedBootstrap() {
	before := []float64{-0.9, -1.1, -0.8, -1.0, -1.3}
	after := []float64{-4.1, -3.2, -5.0, -4.4, -3.9}
	rng := rand.New(rand.NewPCG(42, 0))
	e := stats.PairedBootstrap(before, after, stats.Resampling{N: 10000, Level: 0.95}, rng)
	fmt.Printf("%.2f (%.2f to %.2f)\n", e.Value, e.Lo, e.Hi)
	// Output: -3.10 (-3.72 to -2.50)
}

// The retrieval heads cost all recall; 19 matched control sets cost at most one prompt in twenty.
func ExampleHeadSetTest() {
	controls := make([]float64, 19)
	controls[4], controls[11] = 0.05, 0.05
	r := stats.HeadSetTest(1, controls)
	fmt.Printf("p = %.2f (%d of %d controls as harmful)\n", r.P, r.AtLeast, r.Controls)
	// Output: p = 0.05 (0 of 19 controls as harmful)
}

func ExampleQuantile() {
	fmt.Println(stats.Quantile([]float64{9, 1, 2, 4}, 0.5))
	// Output: 3
}

func ExampleJaccard() {
	fmt.Println(stats.Jaccard([]string{"L8H0", "L18H6"}, []string{"L18H6", "L23H2"}))
	// Output: 0.3333333333333333
}

func ExampleSpearman() {
	argmax := []float64{1, .975, .925, .9, .75}
	copying := []float64{1, .01, 0, .4, 0}
	fmt.Printf("%.3f\n", stats.Spearman(argmax, copying).R.Or(0))
	// Output: 0.616
}
