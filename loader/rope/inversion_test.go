package rope_test

import (
	"math"
	"testing"

	"github.com/headscope/headscope/loader/rope"
)

// TestInversions: the failure rates of isotropic content.
func TestInversions(t *testing.T) {
	type id struct {
		Table          string
		Base, N        float64
		D              int
		Factor, LF, HF float64
		Orig           int
	}
	make1 := func(c id) *rope.Table {
		switch c.Table {
		case "mobius":
			return rope.Moebius(c.D/2, c.N)
		case "periodic_P0":
			return rope.Periodic(c.D/2, c.N, 0)
		case "periodic_P1":
			return rope.Periodic(c.D/2, c.N, 1)
		case "nope":
			return rope.NoPE(c.D / 2)
		}
		cfg := rope.Config{Type: "default", Theta: c.Base}
		if c.Table == "llama3" {
			cfg = rope.Config{Type: "llama3", Theta: c.Base, Factor: c.Factor, LowFreqFactor: c.LF, HighFreqFactor: c.HF, OriginalMaxPositions: c.Orig}
		}
		tab, err := rope.New(cfg, c.D, 1)
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	var g struct {
		Tok []struct {
			id
			R, C []float64
			P    []float64 `json:"p_tok"`
		} `json:"p_tok"`
		Loc []struct {
			id
			R1, R2, Rho float64
			P           *float64 `json:"p_loc"`
		} `json:"p_loc"`
		Mean []struct {
			id
			L int
			P float64 `json:"mean_p_tok"`
		} `json:"mean_p_tok_over_0_to_L"`
	}
	readJSON(t, "testdata/kernels.json", &g)
	if len(g.Tok) != 14 || len(g.Loc) != 425 || len(g.Mean) != 12 {
		t.Errorf("the file has %d, %d and %d cases", len(g.Tok), len(g.Loc), len(g.Mean))
	}
	for _, c := range g.Tok {
		tab := make1(c.id)
		for i, r := range c.R {
			k := tab.Kernel(r)
			if math.Abs(k-c.C[i]) > 1e-12 {
				t.Errorf("%+v: c(%g): got %v, want %v", c.id, r, k, c.C[i])
			}
			tolerance := 1e-12
			if math.Abs(c.C[i]) > 1-1e-9 {
				tolerance = 1e-7 // the arc cosine of a rounded 1
			}
			if p := rope.TokenInversion(k); math.Abs(p-c.P[i]) > tolerance {
				t.Errorf("%+v: token inversion at %g: got %v, want %v", c.id, r, p, c.P[i])
			}
		}
	}
	undefined := 0
	for _, c := range g.Loc {
		p, ok := make1(c.id).LocalityInversion(c.R1, c.R2, c.Rho)
		switch {
		case ok != (c.P != nil):
			t.Errorf("%+v (%g, %g) rho %g: got %v, %v, want %v", c.id, c.R1, c.R2, c.Rho, p, ok, c.P)
		case !ok:
			undefined++
		case math.Abs(p-*c.P) > 1e-12:
			t.Errorf("%+v (%g, %g) rho %g: got %v, want %v", c.id, c.R1, c.R2, c.Rho, p, *c.P)
		}
	}
	if undefined != 57 {
		t.Errorf("%d undefined cases, want 57", undefined)
	}
	for _, c := range g.Mean {
		tab, sum := make1(c.id), 0.0
		for r := range c.L {
			sum += rope.TokenInversion(tab.Kernel(float64(r)))
		}
		if got := sum / float64(c.L); math.Abs(got-c.P) > 1e-10 {
			t.Errorf("%+v: mean token inversion up to %d: got %v, want %v", c.id, c.L, got, c.P)
		}
	}
}
