package stats

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// table is data of one shape for every law below: heads in layers and groups, some of them labelled, with ties.
type table struct {
	x, y           []float64
	layers, groups []int
	labels         []bool
}

func randomTable(rng *rand.Rand) table {
	var d table
	for layer := range 3 {
		for h := range 4 {
			d.x = append(d.x, math.Round(rng.NormFloat64()*8)/8+float64(layer))
			d.y = append(d.y, math.Round(rng.NormFloat64()*4)/4)
			d.layers, d.groups = append(d.layers, layer), append(d.groups, layer*10+h/2)
			d.labels = append(d.labels, rng.IntN(3) == 0)
		}
	}
	d.labels[0], d.labels[1] = true, false
	return d
}

// every computes all statistics of a table that do not depend on a seed.
func (d table) every() map[string]any { return d.everyFor(Sampling{B: 100}) }

// numbersOf lists every number of a result in its order, with NaN where it is undefined.
func numbersOf(v any) (out []float64) {
	var visit func(v reflect.Value)
	visit = func(v reflect.Value) {
		switch x := v.Interface().(type) {
		case Value:
			out = append(out, x.Or(math.NaN()))
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					visit(v.Field(i))
				}
			}
		case reflect.Pointer:
			if !v.IsNil() {
				visit(v.Elem())
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				visit(v.Index(i))
			}
		case reflect.Float64:
			out = append(out, v.Float())
		case reflect.Int:
			out = append(out, float64(v.Int()))
		}
	}
	visit(reflect.ValueOf(v))
	return out
}

func nearly(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*(1+math.Abs(a))
}

func sameNumbers(t *testing.T, name string, got, want any) {
	t.Helper()
	a, b := numbersOf(got), numbersOf(want)
	if len(a) == 0 || len(a) != len(b) || !slices.EqualFunc(a, b, nearly) {
		t.Errorf("%s: got %+v, want %+v", name, got, want)
	}
}

// The order of the data says nothing.
func TestOrderDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 0))
	for range 20 {
		d := randomTable(rng)
		want := d.every()
		p := rng.Perm(len(d.x))
		var e table
		for _, i := range p {
			e.x, e.y, e.layers = append(e.x, d.x[i]), append(e.y, d.y[i]), append(e.layers, d.layers[i])
			e.groups, e.labels = append(e.groups, d.groups[i]), append(e.labels, d.labels[i])
		}
		for name, got := range e.every() {
			if name == "groups" {
				continue // a head's place inside its group is part of the data
			}
			sameNumbers(t, name, got, want[name])
		}
	}
}

// A change of unit and origin leaves p values and standardised effects alone.
func TestUnitsDoNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 0))
	for range 20 {
		d := randomTable(rng)
		e := d
		e.x, e.y = slices.Clone(d.x), slices.Clone(d.y)
		for i := range e.x {
			e.x[i], e.y[i] = 8*e.x[i]+3, 8*e.y[i]+3
		}
		a, b := d.every(), e.every()
		for _, name := range []string{"ranks", "matched", "pearson", "spearman", "kendall", "partial", "f", "welch", "levene", "brown", "fligner", "bartlett", "obrien", "variance"} {
			sameNumbers(t, name, b[name], a[name])
		}
		for _, name := range []string{"layers", "groups"} {
			p, q := a[name].(LayerPermutation), b[name].(LayerPermutation)
			sameNumbers(t, name, []Value{q.PCentred, q.PGreater, q.PLess, q.Z}, []Value{p.PCentred, p.PGreater, p.PLess, p.Z})
			sameNumbers(t, name+" in the new unit", q.T, Number(8*p.T.Or(0)))
		}
		sameNumbers(t, "d", []Value{b["cohen"].(Effects).CohenD, b["demeaned"].(Effects).HedgesG}, []Value{a["cohen"].(Effects).CohenD, a["demeaned"].(Effects).HedgesG})
	}
}

// Swapping the groups turns the sign and keeps two-sided p values.
func TestComplement(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 0))
	for range 20 {
		d := randomTable(rng)
		e := d
		e.labels = make([]bool, len(d.labels))
		for i, y := range d.labels {
			e.labels[i] = !y
		}
		a, b := d.every(), e.every()
		p, q := a["layers"].(LayerPermutation), b["layers"].(LayerPermutation)
		sameNumbers(t, "layers", []Value{q.PCentred, q.PAbs, q.PGreater, q.PLess, q.T, q.NullMean}, []Value{p.PCentred, p.PAbs, p.PLess, p.PGreater, minus(p.T), minus(p.NullMean)})
		m, n := a["mean"].(Permutation), b["mean"].(Permutation)
		sameNumbers(t, "mean", []Value{n.PAbs, n.PGreater, n.PTwiceMin}, []Value{m.PAbs, m.PLess, m.PTwiceMin})
		v, w := a["variance"].(VarianceRatio), b["variance"].(VarianceRatio)
		sameNumbers(t, "variance", []Value{w.T, w.PAbs, w.PLess}, []Value{minus(v.T), v.PAbs, v.PGreater})
		r, s := a["ranks"].(RankEffects), b["ranks"].(RankEffects)
		sameNumbers(t, "ranks", []Value{s.CliffsDelta, s.AUROC, s.PExact, s.PAsymptotic}, []Value{minus(r.CliffsDelta), Number(1 - r.AUROC.Or(0)), r.PExact, r.PAsymptotic})
		sameNumbers(t, "d", b["cohen"].(Effects).CohenD, minus(a["cohen"].(Effects).CohenD))
		sameNumbers(t, "welch", b["welch"].(WelchT).P, a["welch"].(WelchT).P)
		for _, name := range []string{"levene", "brown", "fligner", "bartlett", "obrien"} {
			sameNumbers(t, name, b[name], a[name])
		}
		if f, g := a["f"].(FRatio), b["f"].(FRatio); f.F.Why() == "" && g.F.Why() == "" {
			sameNumbers(t, "f", g.PTwoSided, f.PTwoSided)
		}
	}
	for n := 1; n < 30; n += 7 {
		for k := range n + 1 {
			for _, interval := range []func(k, n int, level float64) Interval{Wilson, ClopperPearson} {
				a, b := interval(k, n, 0.9), interval(n-k, n, 0.9)
				if !nearly(a.Lo, 1-b.Hi) || !nearly(a.Hi, 1-b.Lo) || !a.Contains(float64(k)/float64(n)) {
					t.Errorf("%d of %d: %v and %v", k, n, a, b)
				}
			}
		}
	}
	for b := range 12 {
		for c := range 12 {
			if p, q := McNemar(b, c), McNemar(c, b); p.P != q.P || p.MidP != q.MidP || p.P < p.MidP {
				t.Errorf("McNemar(%d, %d): %+v and %+v", b, c, p, q)
			}
		}
	}
}

func minus(v Value) Value {
	if x, ok := v.Get(); ok {
		return Number(-x)
	}
	return v
}

// Adjusted p values are in the order of the p values, at least as large, and BH's never above Holm's.
func TestAdjustmentLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 0))
	for range 50 {
		p := make([]float64, 1+rng.IntN(20))
		for i := range p {
			p[i] = math.Round(rng.Float64()*rng.Float64()*100) / 100
		}
		h, b := Holm(p), BenjaminiHochberg(p)
		for i := range p {
			hi, bi := h.P[i].Or(-1), b.P[i].Or(-1)
			if !(p[i] <= bi && bi <= hi && hi <= 1) {
				t.Fatalf("p %v: bh %v, holm %v", p[i], bi, hi)
			}
			for j := range p {
				if p[i] < p[j] && (hi > h.P[j].Or(-1) || bi > b.P[j].Or(-1)) {
					t.Fatalf("the order of %v and %v is not kept", p[i], p[j])
				}
			}
		}
	}
}

// With one p value the exact tests of this package and textbook identities agree.
func TestIdentities(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 0))
	for range 20 {
		d := randomTable(rng)
		one := make([]int, len(d.x))
		x1, x0 := byLabel(d.x, d.labels)
		s := Sampling{B: 1}
		a, b := PermuteLayers(d.x, one, d.labels, s), MeanDifference(x1, x0, s)
		sameNumbers(t, "one layer", a.Permutation, b)
		alone := make([]int, len(d.x))
		for i := range alone {
			alone[i] = i
		}
		g, h := PermuteGroups(d.x, d.layers, alone, d.labels, s), PermuteLayers(d.x, d.layers, d.labels, s)
		sameNumbers(t, "groups of one", []Value{g.PCentred, g.PGreater, g.PLess, g.NullMean, g.NullSD}, []Value{h.PCentred, h.PGreater, h.PLess, h.NullMean, h.NullSD})
		r := CompareRanks(x1, x0)
		sameNumbers(t, "Cliff's delta", r.CliffsDelta, Number(2*r.AUROC.Or(0)-1))
		k := SpearmanByLayer(d.x, d.y, one)
		sameNumbers(t, "one layer", []Value{k.DemeanRank, k.RankDemean}, []Value{Spearman(d.x, d.y).R, Spearman(d.x, d.y).R})
	}
	z := tango{7, 3, 40}.z(0)
	if want := (7 - 3.) / math.Sqrt(10); !nearly(z, want) {
		t.Errorf("Tango's score at 0 is %v, McNemar's statistic %v", z, want)
	}
}
