package harness

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// tinyKeep keeps heads of the tiny model, 3 layers of 12 heads with 3 key/value heads.
func tinyKeep(t testing.TB, prompts int) Options {
	t.Helper()
	o := tinyOptions(t, prompts)
	o.Verb, o.Stages, o.Top, o.Controls, o.Scopes, o.Texts, o.MaxNew = "keep", []string{StageKeep}, 0, 0, nil, tinyTexts(t, 1), 1
	var err error
	o.Keep, err = PlanKeeping(&o.Checkpoint.Spec, KeepOptions{
		Heads: heads.Ranking{{Layer: 1, Index: 1}, {Layer: 0, Index: 2}, {Layer: 1, Index: 7}}, Sizes: []int{2, 3}, Sink: 1, Recent: 3, Controls: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestKeep: each condition streams all heads but the set; control sets are of its size, those of pool layer with as many in each layer and
// none of the set; areas and ranks are those of the points.
func TestKeep(t *testing.T) {
	_, r := runStudy(t, tinyKeep(t, 1))
	sets := map[string][]string{}
	for _, c := range r.Conditions {
		if c.Name == baseline {
			continue
		}
		streaming := heads.NewSet(c.Edits[0].Heads...)
		if c.Edits[0].Op != decoder.OpStreaming || len(c.Edits) != 1 || len(streaming)+len(c.Heads) != 36 || len(streaming.Intersect(c.Heads)) > 0 {
			t.Errorf("%s: %v", c.Name, c.Edits)
		}
		sets[c.ControlOf+" "+c.Pool] = append(sets[c.ControlOf+" "+c.Pool], c.Heads.String())
		if c.Pool != PoolLayer {
			continue
		}
		own := r.Plan.Keep.Heads.Top(len(c.Heads))
		if len(own.Intersect(c.Heads)) > 0 || !slices.Equal(own.Layers(), c.Heads.Layers()) {
			t.Errorf("%s: %v is no control of %v", c.Name, c.Heads, own)
		}
	}
	for _, of := range []string{"keep 2 heads", "keep 3 heads"} {
		for _, pool := range keepPools {
			list := sets[of+" "+pool]
			if slices.Sort(list); len(list) != 2 || len(slices.Compact(list)) != 2 {
				t.Errorf("%s, pool %s: sets %v", of, pool, list)
			}
		}
	}
	exportsParts(t, r, map[string]int{"keep.csv": 3 + 4, "texts.csv": len(r.Texts)})
	k := r.Keep
	if k.Units != 36 || len(k.Points) != 3 || k.Points[0].Controls != nil || len(k.Points[2].Controls) != 2 || len(k.Areas) != 3 {
		t.Fatalf("got %+v", k)
	}
	p := k.Points
	a, b, c := float64(p[0].Primary.Value), float64(p[1].Primary.Value), float64(p[2].Primary.Value)
	if want := ((a+b)*2/2 + (b+c)/2) / 3; math.Abs(float64(k.Areas[0].Primary)-want) > 1e-12 {
		t.Errorf("area %v, want %g", k.Areas[0].Primary, want)
	}
	for _, x := range p[2].Controls {
		n := 0
		for _, cond := range r.Conditions {
			if cond.ControlOf == p[2].Condition && cond.Pool == x.Pool && cond.Metrics.Margin.Value >= p[2].Primary.Value {
				n++
			}
		}
		if x.AtLeast != n || x.Sets != 2 || x.P != nil || x.Reason == "" {
			t.Errorf("got %+v, want %d at least", x, n)
		}
	}
	if len(r.Texts) != 1+3+2*2*2 {
		t.Errorf("%d conditions on texts", len(r.Texts))
	}
	var table strings.Builder
	if err := r.Write(&table, View{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"area, pool random", "  2 sets, pool layer, mean", "the first 1 and the last 3", "needs >= 19 controls"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}

// TestKeepAll: with every head kept the model is the unmodified one.
func TestKeepAll(t *testing.T) {
	k := &PlanKeep{Sink: 4, Recent: 64}
	s := Shape{2, 4, 2}
	if c := k.keeping("all", k.allUnits(s), s); len(c.edits) != 0 || len(c.heads) != 8 {
		t.Errorf("got %+v", c)
	}
	k.KVGroups = true
	if c := k.keeping("one", heads.NewSet(decoder.Head{Layer: 1, Index: 1}), s); c.heads.String() != "L1H2,L1H3" || len(c.edits[0].Heads) != 6 {
		t.Errorf("got %+v", c)
	}
	k.Heads = heads.Ranking{{Layer: 1, Index: 3}, {Layer: 1, Index: 2}, {Layer: 0, Index: 0}}
	if got := k.units(s).String(); got != "L1H1,L0H0" {
		t.Errorf("groups %s", got)
	}
	sets, why := drawRandom(k.allUnits(s), heads.NewSet(decoder.Head{}), 9, rand.New(rand.NewPCG(1, 1)))
	if len(sets) != 3 || why == "" {
		t.Errorf("of 4 units: %v, %q", sets, why)
	}
}

func TestReadKeep(t *testing.T) {
	c, _ := tinyModel(t)
	for text, want := range map[string]string{
		"0\t1\t0\n0\t0\t0\n1\t0\t0\n":       "L0H4,L0H5,L0H6,L0H7,L2H0,L2H1,L2H2,L2H3",
		"0\t.5\t0\n0\t.25\t0\n.125\t0\t0\n": "L0H4,L0H5,L0H6,L0H7,L1H4,L1H5,L1H6,L1H7,L2H0,L2H1,L2H2,L2H3",
	} {
		o, err := ReadKeep(writeText(t, "gates.tsv", text), &c.Spec)
		if err != nil || !o.KVGroups || !strings.HasPrefix(o.Heads.String(), want) {
			t.Errorf("got %v, %v, want %s", o.Heads, err, want)
		}
	}
	if o, err := ReadKeep("L1H2,L0H0", &c.Spec); err != nil || o.KVGroups || len(o.Heads) != 2 {
		t.Errorf("got %+v, %v", o, err)
	}
	for want, text := range map[string]string{"of 2 layers x 3": "0\t1\t0\n0\t0\t0\n", "no such file": ""} {
		path := "nowhere.tsv"
		if text != "" {
			path = writeText(t, "gates.tsv", text)
		}
		if _, err := ReadKeep(path, &c.Spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	list := heads.Ranking{{Layer: 1, Index: 1}, {Layer: 0, Index: 2}}
	for want, o := range map[string]KeepOptions{
		"no heads to keep":        {Recent: 1},
		"no such head":            {Recent: 1, Heads: heads.Ranking{{Layer: 9}}},
		"size 3: the list has 2":  {Recent: 1, Heads: list, Sizes: []int{3}},
		"4 sink and 0 recent":     {Sink: 4, Heads: list},
		"controls -1 is out of r": {Recent: 1, Heads: list, Controls: -1},
	} {
		if _, err := PlanKeeping(&c.Spec, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if p, err := PlanKeeping(&c.Spec, KeepOptions{Recent: 1, Heads: list}); err != nil || !slices.Equal(p.Sizes, []int{0, 1, 2}) {
		t.Errorf("got %+v, %v", p, err)
	}
}
