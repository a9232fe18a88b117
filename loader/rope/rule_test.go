package rope_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/rope"
)

// TestThetaTimesM: the base times m before and after llama3's scaling, which differ, and static NTK.
func TestThetaTimesM(t *testing.T) {
	var g ladders
	readJSON(t, "testdata/ladders.json", &g)
	compared := 0
	for _, c := range g.Theta {
		cfg := rope.Config{Type: "default", Theta: c.Base}
		before, after := c.W, c.W
		if l := c.Llama3; l != nil {
			cfg = rope.Config{Type: "llama3", Theta: c.Base, Factor: l.Factor, LowFreqFactor: l.LF, HighFreqFactor: l.HF, OriginalMaxPositions: int(l.Orig)}
			before, after = c.Before, c.After
		}
		for form, want := range map[string][]float64{"thetatimes%g": before, "tilt%g": after} {
			compared++
			compareRule(t, fmt.Sprintf(form, c.M), cfg, c.R, want)
		}
	}
	for _, c := range g.NTK {
		compared++
		compareRule(t, fmt.Sprintf("ntk%g", c.Factor), rope.Config{Type: "default", Theta: c.Base}, c.R, c.W)
	}
	if compared != 75 {
		t.Errorf("compared %d tables, want 75", compared)
	}
}

func compareRule(t *testing.T, name string, cfg rope.Config, r int, want []float64) {
	t.Helper()
	own, err := rope.New(cfg, r, 1)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := rope.ParseRule(name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := rule.Apply(own)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.InvFreq) != len(want) {
		t.Fatalf("%s: got %d planes, want %d", name, len(got.InvFreq), len(want))
	}
	for i, w := range got.InvFreq {
		if d := relDiff(w, want[i]); d > 1e-12 {
			t.Errorf("%s of base %g, R=%d: plane %d: got %v, want %v (off by %.2g)", name, cfg.Theta, r, i, w, want[i], d)
		}
	}
}

// TestRules: names, the tables that the golden file does not have, and what is refused.
func TestRules(t *testing.T) {
	own, err := rope.New(rope.Config{Type: "default", Theta: 10000}, 64, 1)
	if err != nil {
		t.Fatal(err)
	}
	scaled := *own
	scaled.Scale = 1.25
	apply := func(name string, own *rope.Table) *rope.Table {
		t.Helper()
		r, err := rope.ParseRule(name)
		if err != nil {
			t.Fatal(err)
		}
		again, err := rope.ParseRule(r.String())
		if err != nil || again != r {
			t.Errorf("%s prints as %s, which reads as %v, %v", name, r, again, err)
		}
		out, err := r.Apply(own)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, change := range map[string]func(w []float64){
		"own":          func([]float64) {},
		"nope":         func(w []float64) { clear(w) },
		"times0.5":     func(w []float64) { scaleAll(w, .5) },
		"moved2048":    func(w []float64) { w[23] = math.Pi / 2048 }, // 10000^(-46/64) = .001334, next to .001534 of pi/2048
		"moved2048/3":  func(w []float64) { w[3] = math.Pi / 2048 },
		"theta1e4":     func([]float64) {},
		"tilt1":        func([]float64) {},
		"moebius2048":  func(w []float64) { copy(w, rope.Moebius(32, 2048).InvFreq) },
		"periodic2048": func(w []float64) { copy(w, rope.Periodic(32, 2048, 1).InvFreq) },
	} {
		got, want := apply(name, &scaled), slices.Clone(own.InvFreq)
		change(want)
		if !slices.Equal(got.InvFreq, want) || got.Scale != 1.25 || got.RotaryDim != 64 {
			t.Errorf("%s: got %v, scale %g", name, got.InvFreq, got.Scale)
		}
	}
	if w := own.InvFreq[0]; w != 1 {
		t.Errorf("a rule changed the table that it started from: %v", w)
	}
	yarn := apply("yarn4/2048", own)
	want, err := rope.New(rope.Config{Type: "yarn", Theta: 10000, Factor: 4, OriginalMaxPositions: 2048}, 64, 1)
	if err != nil || !slices.Equal(yarn.InvFreq, want.InvFreq) || yarn.Scale != want.Scale {
		t.Errorf("yarn4/2048: got %v, want %v, %v", yarn, want, err)
	}
	for _, form := range []string{"uniform2048/%d", "jitter2048/%d"} {
		one, again, other := apply(fmt.Sprintf(form, 1), own), apply(fmt.Sprintf(form, 1), own), apply(fmt.Sprintf(form, 2), own)
		if !slices.Equal(one.InvFreq, again.InvFreq) || slices.Equal(one.InvFreq, other.InvFreq) {
			t.Errorf("%s: seeds 1, 1, 2 give %v, %v, %v", form, one.InvFreq, again.InvFreq, other.InvFreq)
		}
		if m := rope.Moebius(32, 2048).InvFreq; !slices.IsSorted(one.InvFreq) || one.InvFreq[0] < 0 || one.InvFreq[31] > m[31]+m[0] {
			t.Errorf("%s: got %v", form, one.InvFreq)
		}
	}
	if w := rope.Geometric(1, 64).InvFreq; len(w) != 1 || w[0] != math.Pi/64 {
		t.Errorf("geometric of one plane: got %v", w)
	}
	for name, want := range map[string]string{
		"": "want one of", "ladder": "moebiusN", "theta": "the base", "thetax": "want one of", "theta0": "> 0", "theta-1": "> 0", "theta1e999": "> 0", "thetaInf": `got "Inf"`,
		"moebius": `got ""`, "nope1": "takes no number", "own1": "takes no number", "times2/3": "takes one number", "uniform64": "a seed", "jitter64/": "a seed",
		"jitter64/-1": "integer >= 0", "jitter64/1.5": "integer", "jitter64/1/2": "integer", "yarn4": "positions before scaling", "yarn4/0": "got 0 positions", "periodic8/x": "first harmonic",
		"moved9/99999999999": "the plane", "Moebius64": "want one of", "moebius 64": `got " 64"`,
	} {
		if r, err := rope.ParseRule(name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, %v, want an error with %q", name, r, err, want)
		}
	}
	llama3, err := rope.New(rope.Config{Type: "llama3", Theta: 5e5, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}, 64, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		own  *rope.Table
		want string
	}{
		{"thetatimes2", rope.NoPE(4), "no base"}, {"ntk2", rope.NoPE(4), "no base"}, {"yarn2/64", llama3, "type llama3"}, {"moved64", rope.NoPE(4), "moved64/0"},
		{"moved64/32", own, "planes 0-31"}, {"times1e308", rope.Moebius(4, 1e-2), "finite"}, {"moebius1e-320", own, "finite"}, {"thetatimes1e308", llama3, "rope_theta"},
	} {
		r, err := rope.ParseRule(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := r.Apply(c.own); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want an error with %q", c.name, out, err, c.want)
		}
	}
}

func scaleAll(w []float64, f float64) {
	for i := range w {
		w[i] *= f
	}
}

// FuzzRule: nothing panics, what is read prints as a name that reads back the same, and its table is finite or refused.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"own", "nope", "theta1e4", "moebius2048", "periodic64/0", "geometric7", "uniform64/1", "jitter64/2", "moved64", "moved64/3", "times.5", "tilt2", "thetatimes1e300", "ntk4", "yarn4/64", "yarn1e-300/1", "theta+3", "/"} {
		f.Add(s)
	}
	own, err := rope.New(rope.Config{Type: "default", Theta: 10000}, 16, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := rope.ParseRule(s)
		if err != nil {
			if !strings.Contains(s, "\n") && strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: error of several lines: %v", s, err)
			}
			return
		}
		if again, err := rope.ParseRule(r.String()); err != nil || again != r {
			t.Errorf("%q prints as %s, which reads as %v, %v", s, r, again, err)
		}
		out, err := r.Apply(own)
		if err != nil {
			return
		}
		for i, w := range out.InvFreq {
			if !(w >= 0) || math.IsInf(w, 0) {
				t.Errorf("%s: plane %d: frequency %v", r, i, w)
			}
		}
	})
}
