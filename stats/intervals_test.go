package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestBootstrapIntervals(t *testing.T) {
	r := Resampling{N: 1000, Level: 0.9}
	data := rand.New(rand.NewPCG(31, 0))
	const runs, n = 250, 25
	covered := map[string]int{}
	for i := range runs {
		x := make([]float64, n)
		for j := range x {
			x[j] = data.ExpFloat64()
		}
		src := Source{Seed: 3, Stream: uint64(i)}
		b := Bootstrap([][]float64{x}, MeanOf, r, src)
		if i == 0 {
			sameNumbers(t, "again", Bootstrap([][]float64{x}, MeanOf, r, src), b)
			if len(b.Replicates()) != r.N || b.Seed != src || b.Generator != Generator {
				t.Errorf("%d replicates, seed %v", len(b.Replicates()), b.Seed)
			}
			if se := SD(x) * math.Sqrt(float64(n-1)) / n; math.Abs(b.SE.Or(0)/se-1) > 0.1 {
				t.Errorf("se %v, want about %v", b.SE, se)
			}
		}
		if b.Percentile.Contains(1) {
			covered["percentile"]++
		}
		if b.BCa.Contains(1) {
			covered["bca"]++
		}
	}
	// At 25 exponential values both cover less than their level: about .85 and .86. Four standard errors of 250 runs are .09.
	for name, n := range covered {
		if share := float64(n) / runs; share < 0.76 || share > 0.97 {
			t.Errorf("%s intervals covered in %.3f of runs", name, share)
		}
	}
}

// A cluster bootstrap of clusters of one is the plain one in distribution; of equal clusters its error is that of the cluster means.
func TestClusterBootstrap(t *testing.T) {
	rng := rand.New(rand.NewPCG(32, 0))
	var x, means []float64
	var ids []int
	for c := range 20 {
		centre := 3 * rng.NormFloat64()
		sum := 0.0
		for range 5 {
			v := centre + 0.1*rng.NormFloat64()
			x, ids, sum = append(x, v), append(ids, c), sum+v
		}
		means = append(means, sum/5)
	}
	mean := func(members, _ []int) Value {
		s := 0.0
		for _, m := range members {
			s += x[m]
		}
		return Number(s / float64(len(members)))
	}
	b := ClusterBootstrap(ids, mean, Resampling{N: 4000, Level: 0.95}, Source{Seed: 1})
	if want := SD(means) * math.Sqrt(19.0/20) / math.Sqrt(20); math.Abs(b.SE.Or(0)/want-1) > 0.06 {
		t.Errorf("se %v, want that of 20 cluster means, %v", b.SE, want)
	}
	if b.BCa.Why != "" || !b.BCa.Contains(b.Estimate.Or(0)) {
		t.Errorf("BCa %v of %v", b.BCa, b.Estimate)
	}
}

// Tango's q is the likeliest rate, found here by a grid; the interval is where the test does not reject.
func TestTangoScore(t *testing.T) {
	for _, c := range []tango{{12, 3, 60}, {0, 4, 25}, {5, 5, 10}, {0, 0, 30}, {9, 0, 9}} {
		for _, d := range []float64{-0.4, -0.1, 0.05, 0.3} {
			best, at := math.Inf(-1), 0.0
			for i := range 200000 {
				q := math.Max(0, -d) + (float64(i)+0.5)/200000*(1-math.Abs(d))/2
				term := func(k, p float64) float64 {
					if k == 0 {
						return 0
					}
					return k * math.Log(p)
				}
				if ll := term(c.b, q+d) + term(c.c, q) + term(c.n-c.b-c.c, 1-2*q-d); ll > best {
					best, at = ll, q
				}
			}
			want := (c.b - c.c - c.n*d) / math.Sqrt(c.n*(2*at+d*(1-d)))
			if got := c.z(d); math.Abs(got-want) > 2e-3*(1+math.Abs(want)) {
				t.Errorf("%+v: z(%v) = %v, want %v from the grid", c, d, got, want)
			}
		}
		e := EquivalentProportions(int(c.b), int(c.c), int(c.n), 0.2, 0.05)
		for _, end := range []float64{e.Interval.Lo, e.Interval.Hi} {
			if z := math.Abs(c.z(end)); math.Abs(end) < 1-1e-9 && math.Abs(z-1.6448536269514722) > 1e-6 {
				t.Errorf("%+v: |z| = %v at the end %v of the interval", c, z, end)
			}
		}
		if inside := e.Interval.Lo > -0.2 && e.Interval.Hi < 0.2; inside != e.Equivalent {
			t.Errorf("%+v: interval %v, equivalent %v", c, e.Interval, e.Equivalent)
		}
	}
}

// At a true difference on the margin TOST errs at most alpha of the time.
func TestEquivalenceKeepsItsLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 0))
	const runs, n, margin, alpha = 4000, 30, 0.6, 0.05
	wrong, right, agree := 0, 0, 0
	for range runs {
		d, e := make([]float64, n), make([]float64, n)
		for i := range d {
			d[i] = margin + rng.NormFloat64()
			e[i] = rng.NormFloat64()
		}
		a, b := EquivalentMeans(d, margin, alpha), EquivalentMeans(e, margin, alpha)
		if a.Equivalent {
			wrong++
		}
		if b.Equivalent {
			right++
		}
		if (b.Interval.Lo > -margin && b.Interval.Hi < margin) == b.Equivalent {
			agree++
		}
	}
	if share := float64(wrong) / runs; share > alpha+4*math.Sqrt(alpha*(1-alpha)/runs) || share < 0.02 {
		t.Errorf("called equivalent in %v of runs at the margin", share)
	}
	if agree != runs || float64(right)/runs < 0.8 {
		t.Errorf("found equal in %d of %d runs; interval and test agree in %d", right, runs, agree)
	}
}

// mpmath 1.3.0, 30 digits: the noncentral t distribution as an integral over the chi distribution.
func TestPowerOfMean(t *testing.T) {
	for _, c := range []struct {
		n                  int
		d, alpha, power, e float64
	}{
		{5, 1.5, .05, 0.710702673926, 1e-9}, {10, 1, .05, 0.803096856633, 1e-9}, {20, .5, .05, 0.564504418439, 1e-9}, {34, .5, .05, 0.807777501279, 1e-9},
		{40, .3, .01, 0.224109630125, 1e-9}, {200, .2, .05, 0.803666660586, 1e-9},
	} {
		if got := PowerOfMean(c.n, c.d, c.alpha).Or(0); math.Abs(got-c.power) > c.e {
			t.Errorf("n = %d, d = %v, alpha = %v: power %.12f, want %.12f", c.n, c.d, c.alpha, got, c.power)
		}
		if c.power >= 0.5 {
			if d := DetectableMean(c.n, c.power, c.alpha).Or(0); math.Abs(d-c.d) > 1e-7 {
				t.Errorf("n = %d: detectable %v, want %v", c.n, d, c.d)
			}
		}
	}
	// scipy 1.17.1: the same integral over the normal part of T, by quad, solved by brentq. Effects of many deviations, and critical
	// values far out.
	for _, c := range []struct {
		n               int
		power, alpha, d float64
	}{
		{3, .8, .001, 23.16061335627847}, {3, .99, .05 / 84, 50.78710002719407}, {4, .8, .001, 8.078626611002429}, {5, .9, 1e-8, 97.60885692344857},
		{2, .95, .005, 176.46056959308999}, {3, .95, 1e-4, 99.92967623378176}, {100000, .8, 1e-8, 0.020785302451911392}, {1000000, .8, 1e-8, 0.006572404063342959},
	} {
		if d := DetectableMean(c.n, c.power, c.alpha).Or(0); math.Abs(d-c.d) > 1e-8*c.d {
			t.Errorf("n = %d, power %v, alpha %v: detectable %v, want %v", c.n, c.power, c.alpha, d, c.d)
		}
	}
	for _, n := range []int{2, 3, 5, 1000, 100000} {
		d, ok := DetectableMean(n, 0.8, 0.05).Get()
		if p := PowerOfMean(n, d, 0.05).Or(0); !ok || math.Abs(p-0.8) > 1e-6 {
			t.Errorf("n = %d: d = %v has the power %v", n, d, p)
		}
	}
	if DetectableMean(1, 0.8, 0.05).Why() != ReasonTooFew {
		t.Error("one pair has no standard deviation")
	}
}

// Power by simulation of whole studies, and the smallest loss that reaches it.
func TestPowerOfLoss(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 0))
	const runs = 4000
	for _, c := range []struct {
		n            int
		lost, gained float64
	}{{20, 0.4, 0}, {40, 0.3, 0.05}, {120, 0.15, 0.05}} {
		found := 0
		for range runs {
			b, d := 0, 0
			for range c.n {
				switch u := rng.Float64(); {
				case u < c.lost:
					b++
				case u < c.lost+c.gained:
					d++
				}
			}
			if McNemar(b, d).P <= 0.05 {
				found++
			}
		}
		want, got := float64(found)/runs, PowerOfLoss(c.n, c.lost, c.gained, 0.05)
		if math.Abs(got-want) > 4*math.Sqrt(0.25/runs) {
			t.Errorf("%+v: power %v, simulated %v", c, got, want)
		}
		if loss := DetectableLoss(c.n, c.gained, got, 0.05).Or(0); got >= 0.5 && math.Abs(loss-(c.lost-c.gained)) > 1e-6 {
			t.Errorf("%+v: detectable %v at its own power", c, loss)
		}
	}
	if v := DetectableLoss(5, 0, 0.8, 0.05); v.Why() != ReasonNoSuchEffect {
		t.Errorf("five prompts cannot give p <= 0.05: got %v", v)
	}
	if v := DetectableLoss(6, 0, 0.8, 0.05); math.Abs(v.Or(0)-math.Pow(0.8, 1.0/6)) > 1e-9 { // all six have to be lost
		t.Errorf("six prompts: got %v, want %v", v, math.Pow(0.8, 1.0/6))
	}
}

func TestReliability(t *testing.T) {
	r := TestRetest([]float64{1, 2, 3, 4}, []float64{2, 3, 4, 5})
	// Mean squares by hand: rows 10/3, columns 2, rest 0.
	if !nearly(r.Pearson.R.Or(0), 1) || !nearly(r.ICC.Or(0), (10./3)/(10./3+1)) || !nearly(r.Bias.Or(0), 1) || !nearly(r.Limits.Lo, 1) {
		t.Errorf("a shift of one: %+v", r)
	}
	// Judges 1 and 2 of Shrout and Fleiss's (1979) table.
	a, b := []float64{9, 6, 8, 7, 10, 6}, []float64{2, 1, 4, 1, 5, 2}
	rows, columns, rest := meanSquares(a, b)
	if got := TestRetest(a, b).ICC.Or(0); !nearly(got, (rows-rest)/(rows+rest+2*(columns-rest)/6)) {
		t.Errorf("ICC %v of mean squares %v, %v, %v", got, rows, columns, rest)
	}

	same := [][]float64{{1, 5, 2}, {1, 5, 2}, {1, 5, 2}, {1, 5, 2}}
	s := SplitHalf(same, Sampling{B: 100})
	if !s.Exact || s.Splits != 3 || !nearly(s.Pearson.Or(0), 1) || !nearly(s.SpearmanBrown.Or(0), 1) {
		t.Errorf("equal prompts: %+v", s)
	}
	// Heads of variance 1 seen through noise of variance 3 by 24 prompts: reliability 1/(1 + 3/24).
	rng := rand.New(rand.NewPCG(35, 0))
	heads := make([]float64, 2000)
	for i := range heads {
		heads[i] = rng.NormFloat64()
	}
	scores := make([][]float64, 24)
	for p := range scores {
		for _, h := range heads {
			scores[p] = append(scores[p], h+math.Sqrt(3)*rng.NormFloat64())
		}
	}
	s = SplitHalf(scores, Sampling{B: 20, Source: Source{Seed: 2}})
	if s.Exact || s.Splits != 20 || math.Abs(s.SpearmanBrown.Or(0)-1/(1+3./24)) > 0.02 {
		t.Errorf("got %+v, want a reliability of %v", s, 1/(1+3./24))
	}
}

// meanSquares of two columns, from the definitions.
func meanSquares(a, b []float64) (rows, columns, rest float64) {
	n := float64(len(a))
	grand := (Mean(a) + Mean(b)) / 2
	for i := range a {
		m := (a[i] + b[i]) / 2
		rows += 2 * (m - grand) * (m - grand) / (n - 1)
		for j, x := range []float64{a[i], b[i]} {
			c := []float64{Mean(a), Mean(b)}[j]
			rest += (x - m - c + grand) * (x - m - c + grand) / (n - 1)
		}
	}
	for _, c := range []float64{Mean(a), Mean(b)} {
		columns += n * (c - grand) * (c - grand)
	}
	return rows, columns, rest
}

func TestCompareHeadSets(t *testing.T) {
	h := HeadSets{
		Baseline: []float64{1, 1, 1, 1, 0, 1}, Edited: []float64{0, 0, 0, 1, 0, 0},
		Controls: [][]float64{{1, 1, 1, 1, 0, 1}, {1, 0, 1, 1, 0, 1}, {0, 0, 0, 0, 0, 1}},
	}
	r := CompareHeadSets(h, Resampling{N: 2000, Level: 0.95}, Source{Seed: 4})
	if !nearly(r.Drop.Or(0), 4./6) || r.AtLeast != 1 || r.P.Or(0) != 0.5 || r.Exact || r.Lost != 4 || r.Gained != 0 || r.McNemarP.Or(0) != McNemar(4, 0).P {
		t.Errorf("got %+v", r)
	}
	if _, ok := r.SE.Get(); !ok || !r.Mixed.SetsDrawn || r.Mixed.Interval.Lo > r.Excess.Or(0) || r.Mixed.Interval.Hi < r.Excess.Or(0) {
		t.Errorf("mixed %+v of %v", r.Mixed, r.Excess)
	}
	h.Possible = 3
	all := CompareHeadSets(h, Resampling{N: 2000, Level: 0.95}, Source{Seed: 4})
	if !all.Exact || all.SE.Why() != ReasonExact || all.P != r.P || all.Mixed.SetsDrawn || all.Mixed.SE.Or(9) >= r.Mixed.SE.Or(0) {
		t.Errorf("all sets that there are: %+v", all)
	}
	h.Edited[0] = 0.5
	if v := CompareHeadSets(h, Resampling{N: 10, Level: 0.95}, Source{}).McNemarP; v.Why() != ReasonNotBinary {
		t.Errorf("McNemar of a half: %v", v)
	}
}

// The mixed interval has the variance of both draws: of prompts and of control sets.
func TestMixedVariance(t *testing.T) {
	rng := rand.New(rand.NewPCG(36, 0))
	const n, sets = 60, 30
	h := HeadSets{Baseline: make([]float64, n), Edited: make([]float64, n)}
	for i := range n {
		h.Edited[i] = rng.NormFloat64()
	}
	var effects []float64
	for range sets {
		e := rng.NormFloat64()
		effects = append(effects, e)
		c := make([]float64, n)
		for i := range c {
			c[i] = e
		}
		h.Controls = append(h.Controls, c)
	}
	m := CompareHeadSets(h, Resampling{N: 6000, Level: 0.95}, Source{Seed: 5}).Mixed
	want := math.Sqrt(squares(h.Edited)/n/n + squares(effects)/sets/sets)
	if math.Abs(m.SE.Or(0)/want-1) > 0.05 {
		t.Errorf("se %v, want %v", m.SE, want)
	}
}
