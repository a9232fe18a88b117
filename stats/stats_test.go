package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestDiscordant(t *testing.T) {
	y, n := true, false
	b, c := Discordant([]bool{y, y, n, n, y, y}, []bool{y, n, y, n, n, n})
	if b != 3 || c != 1 {
		t.Errorf("got b=%d c=%d, want 3 and 1", b, c)
	}
}

// The exact interval must cover at least its level for every p; Wilson comes close on average but not always.
func TestClopperPearsonCovers(t *testing.T) {
	const n = 12
	for p := 0.01; p < 1; p += 0.01 {
		cover, pmf := 0.0, math.Pow(1-p, n)
		for k := 0; k <= n; k++ {
			if ClopperPearson(k, n, 0.9).Contains(p) {
				cover += pmf
			}
			pmf *= p / (1 - p) * float64(n-k) / float64(k+1)
		}
		if cover < 0.9 {
			t.Errorf("p=%.2f: covered %.4f of the time, want at least 0.9", p, cover)
		}
	}
}

func TestPairedBootstrapIsDeterministicAndCovers(t *testing.T) {
	r := Resampling{N: 400, Level: 0.9}
	data := rand.New(rand.NewPCG(1, 0))
	const runs, n, shift = 300, 25, -0.7
	covered := 0
	for i := range runs {
		before, after := make([]float64, n), make([]float64, n)
		for j := range before {
			before[j] = data.NormFloat64() * 3
			after[j] = before[j] + shift + data.NormFloat64()
		}
		e := PairedBootstrap(before, after, r, rand.New(rand.NewPCG(7, uint64(i))))
		if again := PairedBootstrap(before, after, r, rand.New(rand.NewPCG(7, uint64(i)))); again != e {
			t.Fatalf("run %d: same seed gave %v and %v", i, e, again)
		}
		if e.Contains(shift) {
			covered++
		}
	}
	// Percentile intervals of 25 values cover about .87 at level .9; four standard errors of 300 runs are .08.
	if share := float64(covered) / runs; share < 0.79 || share > 0.96 {
		t.Errorf("covered the true difference in %.3f of runs", share)
	}
}

func TestHeadSetTest(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		name     string
		observed float64
		controls []float64
		atLeast  int
		p        float64 // negative: undefined
	}{
		{"none as large", 1, []float64{0, .05, 0}, 0, 1. / 4},
		{"ties count", 1, []float64{1, .5, 1, 0}, 2, 3. / 5},
		{"a tie up to rounding counts", .3, []float64{.1 + .2 - 1e-16, 0, .29}, 1, 2. / 4},
		{"no controls", 1, nil, 0, 1},
		{"negative drops", -.2, []float64{-.3, -.1, 0}, 2, 3. / 4},
		{"all zero", 0, []float64{0, 0}, 2, 1},
		{"unbounded drop", inf, []float64{inf, 3}, 1, 2. / 3},
		{"failed control", 1, []float64{0, nan}, 0, -1},
		{"failed run", nan, []float64{0, 1}, 0, -1},
	} {
		r := HeadSetTest(tt.observed, tt.controls)
		want := Number(tt.p)
		if tt.p < 0 {
			want = NoValue(ReasonMissing)
		}
		if r.P != want || r.AtLeast != tt.atLeast || r.Controls != len(tt.controls) {
			t.Errorf("%s: got %+v, want p=%v with %d at least as large", tt.name, r, want, tt.atLeast)
		}
	}
}

// Under the null the observed set is one more draw, so P <= alpha must happen with probability at most alpha.
func TestHeadSetTestIsValidUnderTheNull(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const runs, r = 4000, 19
	hits := 0
	for range runs {
		controls := make([]float64, r)
		for i := range controls {
			controls[i] = math.Floor(rng.Float64()*40) / 40 // ties, as in recalls of 40 prompts
		}
		if HeadSetTest(math.Floor(rng.Float64()*40)/40, controls).P.Or(1) <= 0.1 {
			hits++
		}
	}
	// alpha + 4 standard errors
	if share := float64(hits) / runs; share > 0.1+4*math.Sqrt(.1*.9/runs) || share < 0.02 {
		t.Errorf("p <= 0.1 in %.4f of null runs", share)
	}
}

func TestRanks(t *testing.T) {
	got := Ranks([]float64{3, math.NaN(), 1, 3, 2, 3})
	want := []float64{4, math.NaN(), 1, 4, 2, 4}
	for i := range want {
		if got[i] != want[i] && !(math.IsNaN(got[i]) && math.IsNaN(want[i])) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestUndefinedIsNaN(t *testing.T) {
	nan := math.NaN()
	r := Resampling{N: 10, Level: .95}
	rng := rand.New(rand.NewPCG(1, 1))
	holed := []float64{1, nan, 3}
	for name, got := range map[string]float64{
		"mean of nothing":         Mean(nil),
		"mean with NaN":           Mean(holed),
		"sd of one":               SD([]float64{4}),
		"sd with NaN":             SD(holed),
		"quantile of nothing":     Quantile(nil, .5),
		"quantile with NaN":       Quantile(holed, 1),
		"bootstrap of nothing":    PairedBootstrap(nil, nil, r, rng).Lo,
		"bootstrap with NaN":      PairedBootstrap(holed, []float64{1, 2, 3}, r, rng).Hi,
		"wilson of nothing":       Wilson(0, 0, .95).Lo,
		"clopper-pearson of none": ClopperPearson(0, 0, .95).Hi,
	} {
		if !math.IsNaN(got) {
			t.Errorf("%s: got %v, want NaN", name, got)
		}
	}
	if undefined(ReasonNoData).Contains(0) {
		t.Error("an undefined interval contains nothing")
	}
	if got := Quantile([]float64{math.Inf(-1), 2, 7}, .5); got != 2 {
		t.Errorf("median beside an infinity: got %v, want 2", got)
	}
}

func TestWrongUsePanics(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	two, three := []float64{1, 2}, []float64{1, 2, 3}
	for name, fn := range map[string]func(){
		"negative pairs":   func() { McNemar(-1, 2) },
		"discordant":       func() { Discordant(make([]bool, 2), make([]bool, 3)) },
		"k above n":        func() { Wilson(3, 2, .95) },
		"negative k":       func() { ClopperPearson(-1, 2, .95) },
		"level 1":          func() { Wilson(1, 2, 1) },
		"too many trials":  func() { ClopperPearson(5e8, 1e9, .95) },
		"level NaN":        func() { ClopperPearson(1, 2, math.NaN()) },
		"quantile 1.5":     func() { Quantile(two, 1.5) },
		"quantile NaN":     func() { Quantile(two, math.NaN()) },
		"pairs differ":     func() { PairedBootstrap(two, three, Resampling{10, .95}, rng) },
		"no resamples":     func() { PairedBootstrap(two, two, Resampling{0, .95}, rng) },
		"bootstrap level":  func() { PairedBootstrap(two, two, Resampling{10, 95}, rng) },
		"spearman lengths": func() { Spearman(two, three) },
	} {
		if !panics(fn) {
			t.Errorf("%s: did not panic", name)
		}
	}
}
