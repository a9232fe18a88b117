package planes

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/rope"
)

// dumped are the arrays of every prompt as dump writes them, by prompt and name.
func dumped(t *testing.T, c *loader.Checkpoint, m *decoder.Model, path string, ids ...string) []map[string]harness.Array {
	t.Helper()
	var out []map[string]harness.Array
	for _, id := range ids {
		p, err := harness.NewPassage(c, &harness.PassageRequest{Prompts: path, Prompt: id})
		if err != nil {
			t.Fatal(err)
		}
		choice, err := harness.ChooseHeads(&c.Spec, "", "")
		if err != nil {
			t.Fatal(err)
		}
		rows, err := p.Rows("all")
		if err != nil {
			t.Fatal(err)
		}
		d, err := harness.Dump(context.Background(), &harness.DumpRequest{Checkpoint: c, Model: m, Passage: p, What: []string{"q", "k"}, Choice: choice, Rows: rows})
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]harness.Array{}
		for _, a := range d.Arrays {
			byName[a.Name] = a
		}
		out = append(out, byName)
	}
	return out
}

// TestFrequencies compares every number with a float64 computation from the arrays that dump writes.
func TestFrequencies(t *testing.T) {
	for _, o := range []loadertest.Options{
		{Layers: 2, KVHeads: 2, Seed: 3},
		{Family: "SmolLM3ForCausalLM", Layers: 3, KVHeads: 2, Seed: 4, Config: map[string]any{"no_rope_layer_interval": 2}},
		{Family: "GPTNeoXForCausalLM", Seed: 5, Config: map[string]any{"rotary_pct": 0.5}},
	} {
		c, m, path := tiny(t, o, 2)
		f, err := MeasureFrequencies(context.Background(), &FrequencyRequest{Checkpoint: c, Model: m, Prompts: readPrompts(t, path)})
		if err != nil {
			t.Fatal(err)
		}
		arrays := dumped(t, c, m, path, "p0", "p1")
		s := &c.Spec
		rotated := 0
		for l := range s.Layers {
			if !s.Unrotated(l) {
				rotated++
			}
		}
		if len(f.Heads) != rotated*s.Heads || len(f.Unrotated) != s.Layers-rotated {
			t.Fatalf("%s: %d heads, %d layers left out", s.Family, len(f.Heads), len(f.Unrotated))
		}
		for _, p := range f.Heads {
			q := normsOf(arrays, p.Head.Layer, "q", p.Head.Index, len(p.Q))
			k := normsOf(arrays, p.Head.Layer, "k", p.Head.Index/s.Group(), len(p.K))
			product, sum := make([]float64, len(p.Q)), 0.0
			for i := range product {
				product[i] = q[i] * k[i]
				sum += product[i]
			}
			best, mass := 0, 0.0
			for i := range product {
				if product[i] > product[best] {
					best = i
				}
			}
			for i := max(0, best-2); i <= min(len(product)-1, best+2); i++ {
				mass += product[i] / sum
			}
			for i := range product {
				near(t, "q", p.Q[i], q[i])
				near(t, "k", p.K[i], k[i])
				near(t, "product", p.Product[i], product[i])
				near(t, "profile", p.Profile[i], product[i]/sum)
			}
			near(t, "rest q", p.RestQ, q[len(p.Q)])
			near(t, "rest k", p.RestK, k[len(p.K)])
			near(t, "mass", float64(p.BandMass), mass)
			w := f.Tables[p.Table].InvFreq[best]
			if *p.Dominant != best || float64(p.Frequency) != w || math.Abs(float64(p.Wavelength)-2*math.Pi/w) > 1e-9 {
				t.Errorf("%s: dominant plane %d of frequency %g, want %d", p.Head, *p.Dominant, float64(p.Frequency), best)
			}
		}
		if o.Config["rotary_pct"] != nil && f.Heads[0].RestQ == 0 {
			t.Error("half of the dimensions do not rotate, and none has a norm")
		}
		valid(t, FrequenciesSchema, f)
		var b strings.Builder
		if err := f.Write(&b, FrequencyView{Top: 3, Map: true}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "|\n") + strings.Count(b.String(), "| "); n < len(f.Heads) {
			t.Errorf("%d heads in the map, want %d:\n%s", n, len(f.Heads), b.String())
		}
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-5*math.Max(1e-3, math.Abs(want))) {
		t.Errorf("%s: got %g, want %g", what, got, want)
	}
}

// normsOf are means over all rows of all prompts of the norm of each plane of a rotate_half head, and of its other dimensions.
func normsOf(prompts []map[string]harness.Array, layer int, what string, head, planes int) []float64 {
	out := make([]float64, planes+1)
	rows := 0
	for _, arrays := range prompts {
		a := arrays[layerName(layer, what)]
		t, n, d := a.Shape[0], a.Shape[1], a.Shape[2]
		rows += t
		for r := range t {
			x := a.Floats[(r*n+head)*d:][:d]
			for i := range planes {
				out[i] += math.Hypot(float64(x[i]), float64(x[i+planes]))
			}
			rest := 0.0
			for _, v := range x[2*planes:] {
				rest += float64(v) * float64(v)
			}
			out[planes] += math.Sqrt(rest)
		}
	}
	for i := range out {
		out[i] /= float64(rows)
	}
	return out
}

func layerName(layer int, what string) string { return "layer0" + string(rune('0'+layer)) + "/" + what }

// TestFrequencyOrder: with a learned table the planes stand in the order of their frequencies, and so does the dominant one's band.
func TestFrequencyOrder(t *testing.T) {
	table := planeTable(&rope.Table{InvFreq: []float64{0.5, 0, 1, 0.25, 0.75, 0.1}, Scale: 1, RotaryDim: 12})
	if want := []int{2, 4, 0, 3, 5, 1}; !slices.Equal(table.Order, want) {
		t.Fatalf("got %v, want %v", table.Order, want)
	}
	p := PlaneProfile{Q: []float64{1, 1, 2, 1, 1, 1}, K: []float64{1, 1, 1, 1, 1, 1}}
	p.finish(&table, 1)
	if *p.Dominant != 2 || math.Abs(float64(p.BandMass)-4.0/7) > 1e-15 { // planes 2, 4 and 0
		t.Errorf("got plane %d, band %g", *p.Dominant, float64(p.BandMass))
	}
	p = PlaneProfile{Q: []float64{1, 9, 2, 1, 1, 3}, K: []float64{1, 1, 1, 1, 1, 1}}
	p.finish(&table, 1)
	if *p.Dominant != 1 || !math.IsNaN(float64(p.Wavelength)) || math.Abs(float64(p.BandMass)-13.0/17) > 1e-15 { // planes 3, 5 and 1
		t.Errorf("got plane %d of wavelength %g, band %g", *p.Dominant, float64(p.Wavelength), float64(p.BandMass))
	}
	p = PlaneProfile{Q: make([]float64, 6), K: []float64{1, 1, 1, 1, 1, 1}}
	p.finish(&table, 1)
	if p.Dominant != nil || p.Reason == "" || p.BandMass == p.BandMass || p.Frequency == p.Frequency {
		t.Errorf("queries of 0: %+v", p)
	}
	var b strings.Builder
	if err := (&Frequencies{Heads: []PlaneProfile{p}, Tables: []PlaneTable{table}}).Write(&b, FrequencyView{Top: 1, Map: true}); err != nil || !strings.Contains(b.String(), "L0H0   none ") {
		t.Errorf("%v: %s", err, b.String())
	}
}

func TestFrequencyRefusals(t *testing.T) {
	c, m, path := tiny(t, loadertest.Options{Family: "SmolLM3ForCausalLM", Layers: 2, KVHeads: 2, Config: map[string]any{"no_rope_layer_interval": 2}}, 1)
	r := &FrequencyRequest{Checkpoint: c, Model: m, Prompts: readPrompts(t, path), Heads: []decoder.Head{{Layer: 1, Index: 0}}}
	if _, err := MeasureFrequencies(context.Background(), r); err == nil || !strings.Contains(err.Error(), "layers [1] do not") {
		t.Errorf("got %v", err)
	}
	l, err := KeepLedger(context.Background(), &LedgerRequest{Checkpoint: c, Model: m, Prompts: r.Prompts, Edits: parsed(t, "freeze:L0H1,L1H0:fast4")})
	if err != nil || len(l.Edits) != 1 || len(l.Skipped) != 1 || l.Skipped[0].Layer != 1 {
		t.Errorf("a ledger of an edit with a head that does not turn: %v, %+v", err, l)
	}
	if _, err := KeepLedger(context.Background(), &LedgerRequest{Checkpoint: c, Model: m, Prompts: r.Prompts, Edits: parsed(t, "freeze:L1H0:fast4")}); err == nil || !strings.Contains(err.Error(), "none of its 1 heads") {
		t.Errorf("with no other head: got %v", err)
	}
	r.Heads = []decoder.Head{{Layer: 7, Index: 0}}
	if _, err := MeasureFrequencies(context.Background(), r); err == nil || !strings.Contains(err.Error(), "L7H0") {
		t.Errorf("got %v", err)
	}
}
