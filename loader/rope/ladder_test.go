package rope_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/rope"
)

// ladders is testdata/ladders.json.
type ladders struct {
	Ladders []struct {
		D, N, M int
		Facts   struct {
			HalfWidth float64 `json:"main_lobe_half_width"`
			Interior  float64 `json:"max_abs_c_on_quarter_to_three_quarters"`
			Envelope  float64 `json:"envelope_at_quarter"`
			Lowest    float64 `json:"lowest_c_on_first_half"`
			LowestN   int     `json:"lowest_c_at_n"`
		} `json:"mobius_facts"`
		Tables map[string]struct {
			Draws    []float64 `json:"draws"`
			W        []float64 `json:"w"`
			N        []float64 `json:"kernel_n"`
			Kernel   []float64 `json:"kernel"`
			Holonomy struct {
				N     rope.Holonomy `json:"N"`
				N2    rope.Holonomy `json:"2N"`
				MinN  float64       `json:"min_cos_N"`
				MaxN  float64       `json:"max_cos_N"`
				Min2N float64       `json:"min_cos_2N"`
				Max2N float64       `json:"max_cos_2N"`
			} `json:"holonomy"`
		} `json:"tables"`
	} `json:"ladders"`
	Theta []struct {
		Base, M float64
		R       int
		Llama3  *struct{ Factor, LF, HF, Orig float64 }
		W       []float64
		Before  []float64 `json:"w_before_scaling"`
		After   []float64 `json:"w_after_scaling"`
	} `json:"theta_times_m"`
	NTK []struct {
		Base, Factor float64
		R            int
		W            []float64
	} `json:"static_ntk"`
}

// build makes the table of a name of the golden file, by a rule wherever the rule needs no random number.
func build(t *testing.T, name string, draws []float64, planes int, n float64) (*rope.Table, *rope.Rule) {
	t.Helper()
	switch name {
	case "aperiodic_U":
		return rope.Uniform(n, draws), nil
	case "aperiodic_J":
		return rope.Jitter(n, draws), nil
	}
	form := map[string]string{
		"mobius": "moebius%g", "periodic_P0": "periodic%g/0", "periodic_P1": "periodic%g", "aperiodic_G": "geometric%g", "nope": "nope",
		"standard_1e4": "theta10000", "standard_5e5": "theta500000",
	}[name]
	if strings.Contains(form, "%") {
		form = fmt.Sprintf(form, n)
	}
	rule, err := rope.ParseRule(form)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	tab, err := rule.Apply(rope.NoPE(planes))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tab, &rule
}

// TestLadders: every table of the golden file, its kernel, the kernel's closed form, and the rotation over N and 2N.
func TestLadders(t *testing.T) {
	var g ladders
	readJSON(t, "testdata/ladders.json", &g)
	tables, kernels, closed := 0, 0, 0
	var worstKernel, worstClosed float64
	for _, l := range g.Ladders {
		n := float64(l.N)
		for name, want := range l.Tables {
			id := fmt.Sprintf("D=%d N=%d %s", l.D, l.N, name)
			tab, rule := build(t, name, want.Draws, l.M, n)
			tables++
			if tab.Planes() != len(want.W) || tab.RotaryDim != l.D || tab.Scale != 1 {
				t.Fatalf("%s: got %d planes in %d dims, scale %g", id, tab.Planes(), tab.RotaryDim, tab.Scale)
			}
			for i, w := range tab.InvFreq {
				if d := relDiff(w, want.W[i]); d > 1e-14 {
					t.Errorf("%s: plane %d: got %v, want %v (off by %.2g)", id, i, w, want.W[i], d)
				}
			}
			var form func(float64) float64
			if rule != nil {
				form = rule.Closed(l.M)
			}
			for i, x := range want.N {
				d := math.Abs(tab.Kernel(x) - want.Kernel[i])
				kernels, worstKernel = kernels+1, max(worstKernel, d)
				if d > 1e-12 {
					t.Errorf("%s: c(%g): got %v, want %v", id, x, tab.Kernel(x), want.Kernel[i])
				}
				if form == nil {
					continue
				}
				d = math.Abs(form(x) - want.Kernel[i])
				closed, worstClosed = closed+1, max(worstClosed, d)
				if d > 1e-15 {
					t.Errorf("%s: closed form at %g: got %v, want %v (off by %.2g)", id, x, form(x), want.Kernel[i], d)
				}
			}
			for _, h := range []struct {
				at, low, high float64
				want          rope.Holonomy
			}{{n, want.Holonomy.MinN, want.Holonomy.MaxN, want.Holonomy.N}, {2 * n, want.Holonomy.Min2N, want.Holonomy.Max2N, want.Holonomy.N2}} {
				got, low, high := tab.Holonomy(h.at)
				if got != h.want || math.Abs(low-h.low) > 1e-12 || math.Abs(high-h.high) > 1e-12 {
					t.Errorf("%s: rotation over %g: got %s, cosines %v to %v, want %s, %v to %v", id, h.at, got, low, high, h.want, h.low, h.high)
				}
			}
		}
	}
	t.Logf("%d tables; %d kernel values, off by up to %.2g; %d by closed form, by up to %.2g", tables, kernels, worstKernel, closed, worstClosed)
	if tables != 72 || kernels != 1287 || closed != 572 {
		t.Errorf("compared %d tables, %d kernel values and %d closed ones, want all of the file", tables, kernels, closed)
	}
}

// TestDirectEqualsClosed: over every whole distance of two periods, as a table's plot takes them.
func TestDirectEqualsClosed(t *testing.T) {
	worst := 0.0
	for _, planes := range []int{1, 4, 8, 16, 32, 64, 128} {
		for _, n := range []float64{7, 64, 512, 1000, 2048} {
			for _, form := range []string{"moebius%g", "periodic%g", "periodic%g/0", "periodic%g/5"} {
				rule, err := rope.ParseRule(fmt.Sprintf(form, n))
				if err != nil {
					t.Fatal(err)
				}
				tab, err := rule.Apply(rope.NoPE(planes))
				if err != nil {
					t.Fatal(err)
				}
				for x := range int(2*n) + 1 {
					d := math.Abs(tab.Kernel(float64(x)) - rule.Closed(planes)(float64(x)))
					if worst = max(worst, d); d > 1e-12 {
						t.Fatalf("%s of %d planes at %d: off by %.2g", rule, planes, x, d)
					}
				}
			}
		}
	}
	t.Logf("largest |direct - closed|: %.2g", worst)
}

// TestMoebiusFacts: half-width, envelope and the lowest value, from the table alone.
func TestMoebiusFacts(t *testing.T) {
	var g ladders
	readJSON(t, "testdata/ladders.json", &g)
	for _, l := range g.Ladders {
		tab := rope.Moebius(l.M, float64(l.N))
		half, ok := tab.HalfWidth(float64(l.N))
		if !ok || relDiff(half, l.Facts.HalfWidth) > 1e-12 {
			t.Errorf("D=%d N=%d: half-width: got %v, %v, want %v", l.D, l.N, half, ok, l.Facts.HalfWidth)
		}
		interior, lowest := 0.0, 1.0
		for n := range l.N {
			c := tab.Kernel(float64(n))
			if 4*n >= l.N && 4*n <= 3*l.N {
				interior = max(interior, math.Abs(c))
			}
			if 2*n <= l.N {
				lowest = min(lowest, c)
			}
			if x := math.Pi * float64(n) / float64(l.N); n > 0 && math.Abs(c) > 1/(float64(l.D)*math.Sin(x))+1e-12 {
				t.Errorf("D=%d N=%d: c(%d) = %v is above the envelope", l.D, l.N, n, c)
			}
		}
		if math.Abs(interior-l.Facts.Interior) > 1e-12 || math.Abs(lowest-l.Facts.Lowest) > 1e-12 || math.Abs(tab.Kernel(float64(l.Facts.LowestN))-lowest) > 1e-12 {
			t.Errorf("D=%d N=%d: got interior %v, lowest %v, want %+v", l.D, l.N, interior, lowest, l.Facts)
		}
	}
	if n, ok := rope.NoPE(4).HalfWidth(1e6); ok {
		t.Errorf("half-width of nope: got %v", n)
	}
}
