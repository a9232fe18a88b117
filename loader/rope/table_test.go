package rope_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/rope"
)

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// fragment is what a config.json says of rotation, in the spellings of the golden file.
type fragment struct {
	MaxPositions int      `json:"max_position_embeddings"`
	Original     int      `json:"original_max_position_embeddings"`
	Scaling      *scaling `json:"rope_scaling"`
	Parameters   *scaling `json:"rope_parameters"`
}

type scaling struct {
	Factor          float64   `json:"factor"`
	Low             float64   `json:"low_freq_factor"`
	High            float64   `json:"high_freq_factor"`
	Original        int       `json:"original_max_position_embeddings"`
	BetaFast        float64   `json:"beta_fast"`
	BetaSlow        float64   `json:"beta_slow"`
	MScale          float64   `json:"mscale"`
	MScaleAllDim    float64   `json:"mscale_all_dim"`
	Truncate        *bool     `json:"truncate"`
	AttentionFactor float64   `json:"attention_factor"`
	Short           []float64 `json:"short_factor"`
	Long            []float64 `json:"long_factor"`
	Partial         float64   `json:"partial_rotary_factor"`
}

// config is the case's table; the golden file gives type, base and rotated dimensions beside the fragment.
func (f fragment) config(ropeType string, base float64, rotaryDim int) rope.Config {
	c := rope.Config{Type: ropeType, Theta: base, RotaryDim: rotaryDim, MaxPositions: f.MaxPositions}
	s := f.Scaling
	if s == nil {
		s = f.Parameters
	}
	if s == nil || ropeType == "default" {
		if ropeType == "proportional" {
			c.Proportion = 0.25 // the class default of gemma4_text
		}
		return c
	}
	c.Factor, c.LowFreqFactor, c.HighFreqFactor = s.Factor, s.Low, s.High
	c.BetaFast, c.BetaSlow, c.MScale, c.MScaleAllDim = s.BetaFast, s.BetaSlow, s.MScale, s.MScaleAllDim
	c.Untruncated = s.Truncate != nil && !*s.Truncate
	c.AttentionFactor, c.ShortFactor, c.LongFactor = s.AttentionFactor, s.Short, s.Long
	for _, n := range []int{f.Original, s.Original, f.MaxPositions} { // in transformers' order of priority
		if n != 0 {
			c.OriginalMaxPositions = n
			break
		}
	}
	if ropeType == "proportional" {
		c.Proportion = s.Partial
	}
	return c
}

func relDiff(got, want float64) float64 {
	if got == want {
		return 0
	}
	return math.Abs(got-want) / math.Abs(want)
}

func TestTransformersTables(t *testing.T) {
	var g struct {
		Cases []struct {
			ID        string                              `json:"id"`
			RopeType  string                              `json:"rope_type"`
			Config    fragment                            `json:"config"`
			SeqLen    *int                                `json:"seq_len"`
			HeadDim   int                                 `json:"head_dim"`
			RotaryDim int                                 `json:"rotary_dim"`
			Base      float64                             `json:"base"`
			Counts    *struct{ Same, Smooth, Scaled int } `json:"counts"`
			Scale     float64                             `json:"attention_scaling_f64"`
			F32       []float64                           `json:"inv_freq_f32"`
			F64       []float64                           `json:"inv_freq_f64"`
		} `json:"cases"`
	}
	readJSON(t, "testdata/hf.json", &g)
	ran := map[string]int{}
	for _, c := range g.Cases {
		cfg := c.Config.config(c.RopeType, c.Base, c.RotaryDim)
		length := 1
		if c.SeqLen != nil {
			length = *c.SeqLen
		}
		tab, err := rope.New(cfg, c.HeadDim, length)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		ran[c.RopeType]++
		if relDiff(tab.Scale, c.Scale) > 1e-15 || tab.RotaryDim != c.RotaryDim || tab.Planes() != len(c.F64) {
			t.Errorf("%s: got scale %v, %d dims, %d planes", c.ID, tab.Scale, tab.RotaryDim, tab.Planes())
			continue
		}
		for i, w := range tab.InvFreq {
			if d := relDiff(w, c.F64[i]); d > 1e-13 {
				t.Errorf("%s: plane %d: got %v, want %v (float64, off by %.2g)", c.ID, i, w, c.F64[i], d)
			}
			if d := relDiff(w, c.F32[i]); d > 1e-6 {
				t.Errorf("%s: plane %d: got %v, want %v (float32, off by %.2g)", c.ID, i, w, c.F32[i], d)
			}
		}
		if c.Counts == nil {
			continue
		}
		plain, err := rope.New(rope.Config{Type: "default", Theta: c.Base, RotaryDim: c.RotaryDim}, c.HeadDim, 1)
		if err != nil {
			t.Fatal(err)
		}
		var same, smooth, scaled int
		for i, w := range tab.InvFreq {
			switch w {
			case plain.InvFreq[i]:
				same++
			case plain.InvFreq[i] / cfg.Factor:
				scaled++
			default:
				smooth++
			}
		}
		if same != c.Counts.Same || smooth != c.Counts.Smooth || scaled != c.Counts.Scaled {
			t.Errorf("%s: got %d kept, %d smoothed, %d divided, want %+v", c.ID, same, smooth, scaled, *c.Counts)
		}
	}
	t.Logf("cases compared by type: %v of %d", ran, len(g.Cases))
	if want := map[string]int{"default": 22, "dynamic": 8, "linear": 3, "llama3": 6, "longrope": 8, "proportional": 5, "yarn": 19}; !maps.Equal(ran, want) {
		t.Errorf("compared %v, want %v", ran, want)
	}
}

// TestPlaneSets: the slowest and the fastest dimensions of every case, by name of their band. Odd numbers, which cut a plane, are refused.
func TestPlaneSets(t *testing.T) {
	var g struct {
		Cases []struct {
			ID     string      `json:"id"`
			Layout rope.Layout `json:"layout"`
			D, R   int
			Base   float64   `json:"base"`
			Table  []float64 `json:"table"`
			Order  []int     `json:"order_planewise"`
			Sets   []struct {
				K          int    `json:"k"`
				Rule       string `json:"rule"`
				Low, High  []int
				LowPlanes  []int `json:"low_planes"`
				HighPlanes []int `json:"high_planes"`
			} `json:"sets"`
		} `json:"cases"`
	}
	readJSON(t, "testdata/planes.json", &g)
	compared, refused := 0, 0
	for _, c := range g.Cases {
		cfg := rope.Config{Type: "default", Theta: c.Base, RotaryDim: c.R}
		switch {
		case c.Table != nil:
			cfg = rope.Config{Type: "exact", Exact: c.Table, RotaryDim: c.R}
		case strings.Contains(c.ID, "proportional"): // planes.json: p = 0.25
			cfg.Type, cfg.Proportion = "proportional", 0.25
		}
		tab, err := rope.New(cfg, c.D, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Layout.Dims(tab.SlowestPlanes(c.R), c.R); !slices.Equal(got, c.Order) {
			t.Errorf("%s: order: got %v, want %v", c.ID, got, c.Order)
		}
		for _, s := range c.Sets {
			if s.Rule != "planewise" {
				continue // the argsort over dimensions, which takes one member of planes that tie
			}
			for name, want := range map[string][2][]int{"slow": {s.LowPlanes, s.Low}, "fast": {s.HighPlanes, s.High}} {
				band, err := rope.ParseBand(fmt.Sprint(name, s.K))
				if s.K%2 != 0 {
					if refused++; err == nil || !strings.Contains(err.Error(), "even") {
						t.Errorf("%s%d: got %v, %v, want it refused", name, s.K, band, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				planes, err := band.Planes(tab)
				if s.K > c.R {
					t.Fatalf("%s: k=%d of %d", c.ID, s.K, c.R)
				}
				if err != nil || !slices.Equal(planes, want[0]) {
					t.Errorf("%s: %s: got planes %v, %v, want %v", c.ID, band, planes, err, want[0])
				}
				dims := c.Layout.Dims(planes, c.R)
				if touched, whole := c.Layout.Touched(want[1], c.R); touched != s.K/2 || whole != s.K/2 || !slices.Equal(sorted(dims), sorted(want[1])) {
					t.Errorf("%s: %s: got dims %v, want %v", c.ID, band, dims, want[1])
				}
				compared++
			}
		}
	}
	if compared != 2*98 || refused == 0 {
		t.Errorf("compared %d sets and refused %d, want both ends of the 98 of the file that are plane-wise and even", compared, refused)
	}
	tab := &rope.Table{InvFreq: []float64{1, .5}, RotaryDim: 4}
	for _, k := range []int{-2, 3, 6} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("SlowestPlanes(%d) did not panic", k)
				}
			}()
			tab.SlowestPlanes(k)
		}()
	}
}

func sorted(list []int) []int { return slices.Sorted(slices.Values(list)) }

func TestCosSin(t *testing.T) {
	tab := &rope.Table{InvFreq: []float64{1, 1.0 / 3}, Scale: 1.25, RotaryDim: 4}
	const n = 4097
	c32, s32 := tab.CosSin(n, rope.Float32Angles)
	c64, s64 := tab.CosSin(n, rope.Float64Angles)
	if len(c32) != n*2 || len(s32) != n*2 || len(c64) != n*2 || len(s64) != n*2 {
		t.Fatalf("got lengths %d %d %d %d, want %d", len(c32), len(s32), len(c64), len(s64), n*2)
	}
	p := n - 1
	third := float32(1.0) / 3
	for q := range n {
		angle := float64(float32(q) * third)
		if got, want := c32[2*q+1], float32(math.Cos(angle))*1.25; got != want {
			t.Fatalf("float32 angle at %d: cos got %v, want %v", q, got, want)
		}
	}
	if got, want := s64[2*p+1], float32(1.25*math.Sin(float64(p)*(1.0/3))); got != want {
		t.Errorf("float64 angle: sin got %v, want %v", got, want)
	}
	if s32[2*p+1] == s64[2*p+1] {
		t.Error("the two precisions agree at position 4096: the option does nothing")
	}
	if c32[0] != 1.25 || s32[0] != 0 {
		t.Errorf("position 0: got %v, %v, want 1.25, 0", c32[0], s32[0])
	}
}

func TestNewRefuses(t *testing.T) {
	llama3 := rope.Config{Type: "llama3", Theta: 5e5, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}
	edit := func(f func(*rope.Config)) rope.Config { c := llama3; f(&c); return c }
	for name, tc := range map[string]struct {
		cfg     rope.Config
		headDim int
		names   string
	}{
		"negative theta":          {rope.Config{Type: "default", Theta: -10000}, 64, "rope_theta"},
		"zero theta":              {rope.Config{Type: "default"}, 64, "rope_theta"},
		"nan theta":               {rope.Config{Type: "default", Theta: math.NaN()}, 64, "rope_theta"},
		"odd head":                {rope.Config{Type: "default", Theta: 1e4}, 63, "even"},
		"odd rotary":              {rope.Config{Type: "default", Theta: 1e4, RotaryDim: 5}, 16, "even"},
		"rotary > head":           {rope.Config{Type: "default", Theta: 1e4, RotaryDim: 32}, 16, "rotary"},
		"no head":                 {rope.Config{Type: "default", Theta: 1e4}, 0, "rotary"},
		"no factor":               {edit(func(c *rope.Config) { c.Factor = 0 }), 64, "llama3: factor"},
		"no low":                  {edit(func(c *rope.Config) { c.LowFreqFactor = 0 }), 64, "low_freq_factor"},
		"no high":                 {edit(func(c *rope.Config) { c.HighFreqFactor = 0 }), 64, "high_freq_factor"},
		"no original":             {edit(func(c *rope.Config) { c.OriginalMaxPositions = 0 }), 64, "original_max_position_embeddings"},
		"low = high":              {edit(func(c *rope.Config) { c.LowFreqFactor = 4 }), 64, "high_freq_factor"},
		"linear, no factor":       {rope.Config{Type: "linear", Theta: 1e4}, 64, "linear: factor"},
		"dynamic, no factor":      {rope.Config{Type: "dynamic", Theta: 1e4, MaxPositions: 16}, 64, "dynamic: factor"},
		"dynamic, no length":      {rope.Config{Type: "dynamic", Theta: 1e4, Factor: 2}, 64, "max_position_embeddings"},
		"dynamic, one plane":      {rope.Config{Type: "dynamic", Theta: 1e4, Factor: 2, MaxPositions: 16}, 2, "want at least 4"},
		"yarn, no length":         {rope.Config{Type: "yarn", Theta: 1e4, Factor: 2}, 64, "original_max_position_embeddings"},
		"yarn, no factor":         {rope.Config{Type: "yarn", Theta: 1e4, OriginalMaxPositions: 16}, 64, "yarn: factor"},
		"yarn, negative beta":     {rope.Config{Type: "yarn", Theta: 1e4, Factor: 2, OriginalMaxPositions: 16, BetaFast: -1}, 64, "beta_fast"},
		"yarn, base 1":            {rope.Config{Type: "yarn", Theta: 1, Factor: 2, OriginalMaxPositions: 16}, 64, "rope_theta"},
		"yarn, negative scale":    {rope.Config{Type: "yarn", Theta: 1e4, Factor: 2, OriginalMaxPositions: 16, AttentionFactor: -1}, 64, "factor on cosine and sine"},
		"longrope, no length":     {rope.Config{Type: "longrope", Theta: 1e4, ShortFactor: []float64{1, 1}, LongFactor: []float64{1, 1}}, 4, "original_max_position_embeddings"},
		"longrope, short list":    {rope.Config{Type: "longrope", Theta: 1e4, Factor: 2, OriginalMaxPositions: 16, ShortFactor: []float64{1}, LongFactor: []float64{1, 1}}, 4, "short_factor: got 1 factors, want 2"},
		"longrope, no long list":  {rope.Config{Type: "longrope", Theta: 1e4, Factor: 2, OriginalMaxPositions: 16, ShortFactor: []float64{1, 1}}, 4, "long_factor: got 0 factors"},
		"longrope, zero":          {rope.Config{Type: "longrope", Theta: 1e4, Factor: 2, OriginalMaxPositions: 16, ShortFactor: []float64{1, 1}, LongFactor: []float64{1, 0}}, 4, "long_factor: got 0 at plane 1"},
		"proportional, too large": {rope.Config{Type: "proportional", Theta: 1e4, Proportion: 1.5}, 4, "partial_rotary_factor"},
		"unknown type":            {rope.Config{Type: "spiral", Theta: 1e4}, 64, `"spiral"`},
		"no type":                 {rope.Config{Theta: 1e4}, 64, `""`},
	} {
		tab, err := rope.New(tc.cfg, tc.headDim, 1)
		if err == nil || !strings.Contains(err.Error(), tc.names) {
			t.Errorf("%s: got %v, %v, want an error with %q", name, tab, err, tc.names)
		}
	}
	if _, err := rope.New(llama3, 64, 0); err == nil {
		t.Error("context length 0 accepted")
	}
}

func TestVariesBeyond(t *testing.T) {
	for _, tc := range []struct {
		c    rope.Config
		want int
	}{
		{rope.Config{Type: "default", MaxPositions: 16, OriginalMaxPositions: 8}, 0}, {rope.Config{Type: "yarn", MaxPositions: 16, OriginalMaxPositions: 8}, 0},
		{rope.Config{Type: "dynamic", MaxPositions: 16, OriginalMaxPositions: 8}, 16}, {rope.Config{Type: "longrope", MaxPositions: 16, OriginalMaxPositions: 8}, 8},
	} {
		if got := tc.c.VariesBeyond(); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.c.Type, got, tc.want)
		}
	}
}
