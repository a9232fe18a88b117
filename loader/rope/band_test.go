package rope_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/rope"
)

func planesOf(t *testing.T, name string, tab *rope.Table) []int {
	t.Helper()
	b, err := rope.ParseBand(name)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != name {
		t.Errorf("%s prints as %s", name, b)
	}
	planes, err := b.Planes(tab)
	if err != nil {
		t.Fatal(err)
	}
	return planes
}

// TestBands on planes of different speeds, not sorted, of which planes 4 and 5 tie and plane 6 does not turn.
func TestBands(t *testing.T) {
	tab := &rope.Table{InvFreq: []float64{1, 0.25, 0.5, 0.03125, 0.125, 0.125, 0, 0.01}, Scale: 1, RotaryDim: 16} // order 6 7 3 4 5 1 2 0
	for name, want := range map[string][]int{
		"slow2": {6}, "slow8": {3, 4, 6, 7}, "slow16": {0, 1, 2, 3, 4, 5, 6, 7}, "fast2": {0}, "fast8": {0, 1, 2, 5}, "mid4": {4, 5}, "mid6": {3, 4, 5}, "mid16": {0, 1, 2, 3, 4, 5, 6, 7},
		"window0-0": {6}, "window2-4": {3, 4, 5}, "window7-7": {0},
		"wave0-10": {0}, "wave-10": {0}, "wave10-100": {1, 2, 4, 5}, "wave100-": {3, 6, 7}, "wave1000-": {6}, "wave6.25-13": {0, 2},
	} {
		if got := planesOf(t, name, tab); !slices.Equal(got, want) {
			t.Errorf("%s: got planes %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"": "want slowK", "slow": "want slowK", "slow7": "even", "slow0": "even", "slow016": "want slowK", "mid3": "even", "fast-2": "want slowK", "random16": "want slowK", "random7/1": "even", "random8/": "want slowK",
		"window4": "want slowK", "window4-2": "slower end first", "wave-": "none", "wave10-10": "longer one", "wave100-10": "shorter wavelength first", "wave1e3-": "want slowK", "wave01-2": "none", "wave1.50-2": "none",
		"Slow16": "want slowK", "slow16 ": "want slowK", "slow99999999999999999999": "too large",
	} {
		if b, err := rope.ParseBand(name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, %v, want an error with %q", name, b, err, want)
		}
	}
	for name, want := range map[string]string{
		"slow18": "band slow18: the model rotates 16 dimensions", "random18/1": "the model rotates 16 dimensions", "window3-8": "ranks 0-7", "wave1-2": "the model's are 6.28319 to +Inf tokens",
	} {
		b, err := rope.ParseBand(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Planes(tab); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want an error with %q", name, got, err, want)
		}
	}
	if p, err := (rope.Band{}).Planes(tab); err == nil {
		t.Errorf("no band: got %v", p)
	}
}

// TestRandomBands: seeded, whole planes, and every plane is drawn about equally often. The planes of one seed are pinned: results name them so.
func TestRandomBands(t *testing.T) {
	tab := rope.Moebius(32, 64)
	if got, want := planesOf(t, "random16/7", tab), []int{2, 5, 14, 20, 24, 25, 30, 31}; !slices.Equal(got, want) {
		t.Errorf("random16/7 of 32 planes: got %v, want %v", got, want)
	}
	rng, drawn := rand.New(rand.NewPCG(1, 2)), make([]int, 32)
	for range 4000 {
		for _, p := range rope.RandomPlanes(rng, 32, 8) {
			drawn[p]++
		}
	}
	for p, n := range drawn { // 1000 expected, sd 27
		if n < 870 || n > 1130 {
			t.Errorf("plane %d was drawn %d times, want about 1000", p, n)
		}
	}
}

// TestTouched: what random dimensions hit on average, and the wrong order that the first version of the published code took.
func TestTouched(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		dims           int
		touched, whole float64 // expectations of a hypergeometric draw from 64 planes
	}{{16, 15.055, 0.945}, {32, 28.094, 3.906}, {64, 48.126, 15.874}} {
		touched, whole := 0, 0
		const draws = 4000
		for range draws {
			a, b := rope.RotateHalf.Touched(rope.RandomDims(rng, 128, c.dims), 128)
			touched, whole = touched+a, whole+b
		}
		if a, b := float64(touched)/draws, float64(whole)/draws; math.Abs(a-c.touched) > .1 || math.Abs(b-c.whole) > .1 {
			t.Errorf("%d random dims: got %.3f planes touched, %.3f whole, want %.3f, %.3f", c.dims, a, b, c.touched, c.whole)
		}
	}
	var g struct {
		Wrong []struct {
			D       int
			Dims    []int
			Touched []int `json:"rotate_half_planes_touched"`
			Whole   int   `json:"whole_planes"`
		} `json:"interleaved_order_applied_to_rotate_half"`
	}
	readJSON(t, "testdata/planes.json", &g)
	if len(g.Wrong) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range g.Wrong {
		if touched, whole := rope.RotateHalf.Touched(c.Dims, c.D); touched != len(c.Touched) || whole != c.Whole {
			t.Errorf("dims %v: got %d planes touched, %d whole, want %d, %d", c.Dims, touched, whole, len(c.Touched), c.Whole)
		}
	}
	for _, c := range []struct {
		l         rope.Layout
		dim, want int
	}{{rope.RotateHalf, 0, 0}, {rope.RotateHalf, 9, 1}, {rope.RotateHalf, 15, 7}, {rope.RotateHalf, 16, -1}, {rope.RotateHalf, -1, -1}, {rope.Interleaved, 9, 4}, {rope.Interleaved, 16, -1}} {
		if got := c.l.Plane(c.dim, 16); got != c.want {
			t.Errorf("%s: dim %d of 16: got plane %d, want %d", c.l, c.dim, got, c.want)
		}
	}
	if err := rope.Layout("half").Check(); err == nil || !strings.Contains(err.Error(), `want "rotate_half" or "interleaved"`) {
		t.Errorf("layout half: got %v", err)
	}
}

// TestMatched: sets are disjoint from the band, of its size, and near its energy wherever that is possible.
func TestMatched(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	energy := make([]float64, 64)
	for i := range energy {
		energy[i] = math.Exp(rng.NormFloat64())
	}
	for _, k := range []int{1, 4, 8, 16, 32} {
		band := rope.RandomPlanes(rng, 64, k)
		got, ratio, err := rope.Matched(rng, energy, band)
		if err != nil {
			t.Fatal(err)
		}
		sum, target := 0.0, 0.0
		for i := range k {
			sum, target = sum+energy[got[i]], target+energy[band[i]]
			if slices.Contains(band, got[i]) || i > 0 && got[i] <= got[i-1] {
				t.Fatalf("band %v: got %v", band, got)
			}
		}
		if len(got) != k || math.Abs(sum/target-ratio) > 1e-12 {
			t.Errorf("%d planes: got %d, ratio %v, want %v", k, len(got), ratio, sum/target)
		}
		if k > 1 && k < 32 && math.Abs(ratio-1) > .01 { // 32 others leave no choice
			t.Errorf("%d planes: ratio %v", k, ratio)
		}
	}
	if got, ratio, err := rope.Matched(rng, []float64{8, 1, 1, 4, 2}, []int{0}); err != nil || !slices.Equal(got, []int{3}) || ratio != .5 {
		t.Errorf("no match: got %v, %v, %v, want plane 3 at half the energy", got, ratio, err)
	}
	for want, c := range map[string]struct {
		energy []float64
		band   []int
	}{
		"a band of 2":                       {[]float64{1, 1, 1}, []int{0, 1}},
		"a band of 0":                       {[]float64{1, 1, 1}, nil},
		"no energy":                         {[]float64{0, 1, 1}, []int{0}},
		"got energy NaN":                    {[]float64{1, math.NaN()}, []int{0}},
		"got energy -1":                     {[]float64{1, -1}, []int{0}},
		"plane 5 does not exist: there are": {[]float64{1, 1}, []int{5}},
	} {
		if got, _, err := rope.Matched(rng, c.energy, c.band); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v of %v: got %v, %v, want an error with %q", c.band, c.energy, got, err, want)
		}
	}
}

// TestLargestAngle: what the slowest planes turn by over 4096 tokens, to the digits that are known from elsewhere.
func TestLargestAngle(t *testing.T) {
	llama := rope.Config{Type: "llama3", Theta: 5e5, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}
	for _, c := range []struct {
		config rope.Config
		want   map[string]float64
	}{
		{rope.Config{Type: "default", Theta: 5e5}, map[string]float64{"slow8": .019, "slow16": .042, "slow32": .218, "slow48": 1.12, "slow64": 5.79}},
		{rope.Config{Type: "default", Theta: 1e6}, map[string]float64{"slow8": .0097, "slow16": .023, "slow32": .130, "slow48": .73, "slow64": 4.10}},
		{llama, map[string]float64{"slow8": .0023, "slow16": .0053, "slow32": .027, "slow48": .14, "slow64": 2.15}},
		{rope.Config{Type: "default", Theta: 1e4}, map[string]float64{"slow8": .73, "slow16": 1.30, "slow32": 4.10, "slow48": 12.95, "slow64": 40.96}},
	} {
		tab, err := rope.New(c.config, 128, 1)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range c.want {
			if got := tab.LargestAngle(planesOf(t, name, tab), 4096); relDiff(got, want) > .03 {
				t.Errorf("%s %g: %s: got %.4g, want %.4g", c.config.Type, c.config.Theta, name, got, want)
			}
		}
	}
}

// FuzzBand: nothing panics; what is read prints as it was written, and its planes exist and ascend.
func FuzzBand(f *testing.F) {
	for _, s := range []string{"slow16", "fast2", "mid4", "random8/9", "window0-3", "wave10-100", "wave-5", "wave5.5-", "slow", "wave.-.", "random4/99999999999999999999"} {
		f.Add(s)
	}
	tab := rope.Moebius(16, 64)
	f.Fuzz(func(t *testing.T, s string) {
		b, err := rope.ParseBand(s)
		if err != nil {
			return
		}
		if b.String() != s || !rope.IsBand(s) {
			t.Errorf("%q prints as %q", s, b)
		}
		planes, err := b.Planes(tab)
		if err == nil && (len(planes) == 0 || !slices.IsSorted(planes) || planes[0] < 0 || planes[len(planes)-1] > 15) {
			t.Errorf("%q: got planes %v", s, planes)
		}
	})
}
