package rope_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
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

type scaling struct {
	Factor float64 `json:"factor"`
	Low    float64 `json:"low_freq_factor"`
	High   float64 `json:"high_freq_factor"`
	Orig   int     `json:"original_max_position_embeddings"`
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
			ID       string `json:"id"`
			RopeType string `json:"rope_type"`
			Config   struct {
				RopeScaling *scaling `json:"rope_scaling"`
			} `json:"config"`
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
		cfg := rope.Config{Type: c.RopeType, Theta: c.Base, RotaryDim: c.RotaryDim}
		if s := c.Config.RopeScaling; s != nil {
			cfg.Factor, cfg.LowFreqFactor, cfg.HighFreqFactor, cfg.OriginalMaxPositions = s.Factor, s.Low, s.High, s.Orig
		}
		tab, err := rope.New(cfg, c.HeadDim, 1)
		var unsupported *rope.UnsupportedError
		if errors.As(err, &unsupported) {
			if unsupported.Type != c.RopeType || slices.Contains(rope.Types(), c.RopeType) {
				t.Errorf("%s: %v", c.ID, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		ran[c.RopeType]++
		if tab.Scale != c.Scale || tab.RotaryDim != c.RotaryDim || tab.Planes() != len(c.F64) {
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
	if ran["default"] != 22 || ran["llama3"] != 6 {
		t.Errorf("compared %v, want 22 default and 6 llama3", ran)
	}
}

func TestParityTables(t *testing.T) {
	files, err := filepath.Glob("../testdata/parity/*/golden.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no parity goldens: %v", err)
	}
	for _, f := range files {
		var g struct {
			Shape struct {
				HeadDim int `json:"head_dim"`
			}
			Sequences []struct {
				Rope map[string]struct {
					InvFreq []float64 `json:"inv_freq"`
					Scale   float64   `json:"attention_scaling"`
				}
			}
		}
		readJSON(t, f, &g)
		var c struct {
			Theta   float64  `json:"rope_theta"`
			Scaling *scaling `json:"rope_scaling"`
		}
		readJSON(t, filepath.Join(filepath.Dir(f), "config.json"), &c)
		cfg := rope.Config{Type: "default", Theta: c.Theta}
		if s := c.Scaling; s != nil {
			cfg = rope.Config{Type: "llama3", Theta: c.Theta, Factor: s.Factor, LowFreqFactor: s.Low, HighFreqFactor: s.High, OriginalMaxPositions: s.Orig}
		}
		tab, err := rope.New(cfg, g.Shape.HeadDim, 64)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range g.Sequences {
			want := s.Rope["all"]
			if len(want.InvFreq) != tab.Planes() || want.Scale != tab.Scale {
				t.Fatalf("%s: sequence %d: got %d planes, scale %v, want %d, %v", f, i, tab.Planes(), tab.Scale, len(want.InvFreq), want.Scale)
			}
			for j, w := range tab.InvFreq {
				if d := relDiff(w, want.InvFreq[j]); d > 1e-6 {
					t.Errorf("%s: sequence %d: plane %d: got %v, want %v", f, i, j, w, want.InvFreq[j])
				}
			}
		}
	}
}

func TestSlowestPlanes(t *testing.T) {
	var g struct {
		Cases []struct {
			ID    string    `json:"id"`
			R     int       `json:"R"`
			Base  float64   `json:"base"`
			Table []float64 `json:"table"`
			Order []int     `json:"order_planewise"`
			Sets  []struct {
				K         int    `json:"k"`
				Rule      string `json:"rule"`
				Low       []int  `json:"low"`
				LowPlanes []int  `json:"low_planes"`
			} `json:"sets"`
		} `json:"cases"`
	}
	readJSON(t, "testdata/planes.json", &g)
	compared := 0
	for _, c := range g.Cases {
		tab := &rope.Table{InvFreq: c.Table, Scale: 1, RotaryDim: c.R}
		switch {
		case strings.Contains(c.ID, "proportional"): // a quarter of the ladder, then zeros: planes.json README
			tab.InvFreq = make([]float64, c.R/2)
			for i := range c.R / 8 {
				tab.InvFreq[i] = math.Pow(c.Base, -2*float64(i)/float64(c.R))
			}
		case c.Table == nil:
			built, err := rope.New(rope.Config{Type: "default", Theta: c.Base}, c.R, 1)
			if err != nil {
				t.Fatal(err)
			}
			tab = built
		}
		member := func(plane int) (int, int) {
			if strings.HasPrefix(c.ID, "interleaved") {
				return 2 * plane, 2*plane + 1
			}
			return plane, plane + c.R/2
		}
		dims := func(planes []int) (out []int) {
			for _, p := range planes {
				a, b := member(p)
				out = append(out, a, b)
			}
			return out
		}
		if got := dims(tab.SlowestPlanes(c.R)); !slices.Equal(got, c.Order) {
			t.Errorf("%s: order: got %v, want %v", c.ID, got, c.Order)
		}
		for _, s := range c.Sets {
			if s.Rule != "planewise" || s.K%2 != 0 {
				continue
			}
			compared++
			got := tab.SlowestPlanes(s.K)
			if !slices.Equal(dims(got), s.Low) {
				t.Errorf("%s: k=%d: got dims %v, want %v", c.ID, s.K, dims(got), s.Low)
			}
			slices.Sort(got)
			if !slices.Equal(got, s.LowPlanes) {
				t.Errorf("%s: k=%d: got planes %v, want %v", c.ID, s.K, got, s.LowPlanes)
			}
		}
	}
	if compared != 98 {
		t.Errorf("compared %d sets, want the 98 of the file that are plane-wise and even", compared)
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
		"negative theta": {rope.Config{Type: "default", Theta: -10000}, 64, "rope_theta"},
		"zero theta":     {rope.Config{Type: "default"}, 64, "rope_theta"},
		"nan theta":      {rope.Config{Type: "default", Theta: math.NaN()}, 64, "rope_theta"},
		"odd head":       {rope.Config{Type: "default", Theta: 1e4}, 63, "even"},
		"odd rotary":     {rope.Config{Type: "default", Theta: 1e4, RotaryDim: 5}, 16, "even"},
		"rotary > head":  {rope.Config{Type: "default", Theta: 1e4, RotaryDim: 32}, 16, "rotary"},
		"no head":        {rope.Config{Type: "default", Theta: 1e4}, 0, "rotary"},
		"no factor":      {edit(func(c *rope.Config) { c.Factor = 0 }), 64, "llama3: factor"},
		"no low":         {edit(func(c *rope.Config) { c.LowFreqFactor = 0 }), 64, "low_freq_factor"},
		"no high":        {edit(func(c *rope.Config) { c.HighFreqFactor = 0 }), 64, "high_freq_factor"},
		"no original":    {edit(func(c *rope.Config) { c.OriginalMaxPositions = 0 }), 64, "original_max_position_embeddings"},
		"low = high":     {edit(func(c *rope.Config) { c.LowFreqFactor = 4 }), 64, "high_freq_factor"},
		"unknown type":   {rope.Config{Type: "spiral", Theta: 1e4}, 64, `"spiral"`},
		"no type":        {rope.Config{Theta: 1e4}, 64, `""`},
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
