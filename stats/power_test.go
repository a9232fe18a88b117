package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestDetectableMean: a simulated t test finds an effect of that size four times out of five.
func TestDetectableMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{10, 20, 40, 100} {
		d := DetectableMean(n, 0.8, 0.05).Or(0)
		crit := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975)
		const runs = 20000
		found := 0
		x := make([]float64, n)
		for range runs {
			for i := range x {
				x[i] = d + rng.NormFloat64()
			}
			if math.Abs(Mean(x))/SD(x)*math.Sqrt(float64(n)) > crit {
				found++
			}
		}
		// Three standard errors of a simulated power, 0.0085, and what the approximation costs.
		if p := float64(found) / runs; math.Abs(p-0.8) > 0.0085+0.012 {
			t.Errorf("n = %d: d = %.4f has a power of %.4f", n, d, p)
		}
	}
}

func TestFewestDiscordant(t *testing.T) {
	for alpha, want := range map[float64]int{0.5: 2, 0.05: 6, 0.01: 8, 0.001: 11} { // 2^(1-b) <= alpha
		if got := FewestDiscordant(alpha); got != want {
			t.Errorf("alpha %g: got %d, want %d", alpha, got, want)
		}
	}
}
