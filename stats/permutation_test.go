package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The closed-form moments are those of the enumerated arrangements, with several layers of several groups.
func TestMomentsAreThoseOfTheArrangements(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 0))
	for range 10 {
		d := randomTable(rng)
		for name, strata := range map[string][]stratum{
			"choice": {&choice{values: d.x[:5], k: 2}, &choice{values: d.x[5:9], k: 4}, &choice{values: d.x[9:], k: 0}},
			"sign":   {sign(d.x[0]), sign(d.x[1]), sign(d.x[2])},
			"deal":   {&deal{sums: [][]float64{d.x[:3], d.x[3:6], d.x[6:9]}}, &deal{sums: [][]float64{d.y[:2], d.y[2:4]}}},
		} {
			sums := []float64{0}
			var mean, variance, log10 float64
			for _, g := range strata {
				m, v := g.moments()
				mean, variance, log10 = mean+m, variance+v, log10+g.log10()
				var next []float64
				for _, a := range sums {
					for _, b := range g.all() {
						next = append(next, a+b)
					}
				}
				sums = next
			}
			e := Describe(sums)
			if !nearly(e.Mean.Or(0), mean) || !nearly(e.VarN.Or(0), variance) || !nearly(math.Log10(float64(len(sums))), log10) {
				t.Errorf("%s: %d arrangements have mean %v and variance %v; closed forms 10^%v, %v, %v", name, len(sums), e.Mean, e.VarN, log10, mean, variance)
			}
		}
	}
}

// Drawing meets the shares that enumeration finds.
func TestDrawsFollowTheArrangements(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 0))
	d := randomTable(rng)
	for name, g := range map[string]stratum{
		"choice": &choice{values: d.x[:6], k: 2}, "almost all": &choice{values: d.x[:6], k: 5}, "all": &choice{values: d.x[:6], k: 6},
		"sign": sign(3), "deal": &deal{sums: [][]float64{d.x[:3], d.x[3:6], d.y[:3]}},
	} {
		all := g.all()
		slices.Sort(all)
		const n = 40000
		for _, at := range []float64{all[0], all[len(all)/3], all[len(all)/2]} {
			share, hits := 0.0, 0
			for _, v := range all {
				if v <= at+1e-9 {
					share += 1 / float64(len(all))
				}
			}
			for range n {
				if g.draw(rng) <= at+1e-9 {
					hits++
				}
			}
			if se := math.Sqrt(share*(1-share)/n) + 1e-12; math.Abs(float64(hits)/n-share) > 5*se {
				t.Errorf("%s: %v of the draws are at most %v, want %v", name, float64(hits)/n, at, share)
			}
		}
	}
}

// Above MaxExact the tests sample: add-one p, a standard error, generator and seed in the result, the same bits again.
func TestSampledAboveTheLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 0))
	x, y := make([]float64, 12), make([]float64, 10)
	for i := range x {
		x[i] = rng.NormFloat64() + 1
	}
	for i := range y {
		y[i] = 2 * rng.NormFloat64()
	}
	s := Sampling{B: 4000, Source: Source{Seed: 5, Stream: 6}}
	long := slices.Concat(x, y)
	for name, run := range map[string]func() Permutation{
		"mean difference": func() Permutation { return MeanDifference(x, y, s) },
		"variance":        func() Permutation { return LogVarianceRatio(x, y, s).Permutation },
		"signs":           func() Permutation { return SignFlip(long, s) },
	} {
		r := run()
		d := r.Draws
		if d.Exact || d.N != s.B || d.Generator != Generator || d.Seed == nil || *d.Seed != s.Source || d.Log10 <= 5 {
			t.Errorf("%s: %+v", name, d)
		}
		p := r.PAbs.Or(math.NaN())
		if want := float64(r.CountAbs+1) / float64(s.B+1); p != want || r.SEAbs.Or(0) != math.Sqrt(p*(1-p)/float64(s.B)) {
			t.Errorf("%s: p = %v with se %v of %d, want %v", name, p, r.SEAbs, r.CountAbs, want)
		}
		sameNumbers(t, name+" again", run(), r)
	}
	exact := MeanDifference(x[:9], y[:8], s)
	if !exact.Draws.Exact || exact.Draws.N != 24310 || exact.Draws.Seed != nil || exact.SE.Why() != ReasonExact {
		t.Errorf("17 choose 9 is enumerated: %+v, se %v", exact.Draws, exact.SE)
	}
	// The same test both ways: p of the sample within four standard errors of the exact one.
	l := twoGroups([]stratum{&choice{values: slices.Concat(x[:9], y[:8]), k: 9}}, slices.Concat(x[:9], y[:8]), 9, Mean(x[:9])-Mean(y[:8]))
	count := tails{t: l.observed, slack: l.slack}
	g := l.strata[0]
	for range s.B {
		count.add(l.scale*g.draw(rng) + l.shift)
	}
	p := exact.PAbs.Or(0)
	if got := float64(count.abs) / float64(s.B); math.Abs(got-p) > 4*math.Sqrt(p*(1-p)/float64(s.B)) {
		t.Errorf("sampled p = %v, exact %v", got, p)
	}
}

// The published p is near 1 for an effect that points against the layers' differences; the centred one finds it.
func TestCentredFindsWhatLegacyHides(t *testing.T) {
	var values []float64
	var layers []int
	var labels []bool
	for layer := range 8 {
		for h := range 16 {
			labelled := h < layer // more labels in layers of larger values
			v := 10*float64(layer) + float64(h%4)
			if labelled {
				v -= 3
			}
			values, layers, labels = append(values, v), append(layers, layer), append(labels, labelled)
		}
	}
	r := PermuteLayers(values, layers, labels, Sampling{B: 2000})
	if r.Legacy().Or(0) < 0.9 || r.PCentred.Or(1) > 0.001 || r.Z.Or(0) > -4 || r.NullMean.Or(0) <= 0 || r.T.Or(0) < 0 {
		t.Errorf("legacy %v, centred %v, z %v", r.Legacy(), r.PCentred, r.Z)
	}
	if r.Layers != 8 || r.Uninformative != 1 {
		t.Errorf("%d of %d layers are uninformative, want 1 of 8: the first has no labels", r.Uninformative, r.Layers)
	}
}

// Groups of key/value heads: by hand, two layers of two groups of two.
func TestPermuteGroupsByHand(t *testing.T) {
	values := []float64{1, 2, 3, 5, 10, 20, 30, 40}
	layers := []int{0, 0, 0, 0, 1, 1, 1, 1}
	groups := []int{0, 0, 1, 1, 2, 2, 3, 3}
	labels := []bool{true, false, false, false, true, true, true, true}
	r := PermuteGroups(values, layers, groups, labels, Sampling{B: 1})
	// Layer 1 is labelled throughout. In layer 0 the label is on head 0 (1) or on the first head of the other group (3).
	low := (1+100.)/5 - (2+3+5.)/3
	high := (3+100.)/5 - (1+2+5.)/3
	if !nearly(r.T.Or(0), low) || !nearly(r.NullMean.Or(0), (low+high)/2) || r.Uninformative != 1 {
		t.Errorf("T %v, null mean %v, %d uninformative; want %v, %v, 1", r.T, r.NullMean, r.Uninformative, low, (low+high)/2)
	}
	if r.PLess.Or(0) != 0.5 || r.PGreater.Or(0) != 1 || r.Draws.N != 4 {
		t.Errorf("p less %v, greater %v of %d; want 0.5, 1 of 2! 2!", r.PLess, r.PGreater, r.Draws.N)
	}
}

// Under the null p <= alpha happens no more often than alpha.
func TestPermutationIsValidUnderTheNull(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 0))
	const runs, alpha = 1500, 0.1
	hits := map[string]int{}
	layers := []int{0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}
	for range runs {
		labels := make([]bool, len(layers))
		for _, i := range []int{0, 4, 5, 9, 10, 11} {
			labels[i] = true
		}
		values := make([]float64, len(layers))
		for i := range values {
			values[i] = 5*float64(layers[i]) + rng.ExpFloat64()
		}
		r := PermuteLayers(values, layers, labels, Sampling{B: 1})
		if r.PCentred.Or(1) <= alpha {
			hits["centred"]++
		}
		if r.PTwiceMin.Or(1) <= alpha {
			hits["twice"]++
		}
	}
	for name, n := range hits {
		if share := float64(n) / runs; share > alpha+4*math.Sqrt(alpha*(1-alpha)/runs) || share < 0.05 {
			t.Errorf("%s: p <= %v in %v of null runs", name, alpha, share)
		}
	}
}
