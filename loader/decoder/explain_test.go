package decoder

import (
	"math"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader"
)

// TestExplain: what is said of each operation is what a run shows: which heads of the first edited layer put out something else, from
// which row on, and whether the key they read has changed.
func TestExplain(t *testing.T) {
	m := model(t, backend(t, "go"), "float32")
	p := variantPrompt()
	p.Donor = tokens(9, len(p.IDs))
	rows, d := rowRange(0, len(p.IDs)), m.Spec.HeadDim
	o := TraceOptions{Hidden: -1, QK: []int{1}}
	plain := trace(t, m, p, nil, o).QK[1]
	for _, test := range []struct {
		form   string
		site   Site
		inputs []string
	}{
		{"zero:L1H0@question", SiteOutput, nil},
		{"scale=0.5:L1H0,L1H3@question", SiteOutput, nil},
		{"uniform:L1H0@question", SiteQuery, nil},
		{"zero_planes:L1H0:fast8@question", SiteQuery, nil},
		{"scale_planes=3:L1H0:0+1@question", SiteQuery, nil},
		{"temperature=3:L1H0@question", SiteQuery, nil},
		{"zero_dims:L1H0:0+1+2@question", SiteQuery, []string{"dims"}},
		{"freeze:L1H0,L1H1:fast8@question", SiteTable, []string{"table"}},
		{"swap=theta10:L1H0@question", SiteTable, []string{"table"}},
		{"legacy:L1H0:fast8@question", SiteProjections, []string{"legacy"}},
		{"legacy:L1H2,L1H3:fast8@question", SiteProjections, []string{"legacy"}},
		{"own_mean:L1H0@question", SiteOutput, []string{"donor"}},
		{"patch:L1H0@last", SiteOutput, []string{"donor"}},
		{"path=L0H1.q:L1H0@last", SiteOutput, []string{"donor"}},
		{"streaming=1+2:L1H0@question", SiteKeys, []string{"streaming"}},
		{"length_scale=2+2:L1H0@question", SiteScores, []string{"length"}},
	} {
		es := edits(t, test.form)
		x, err := Explain(m.Spec, es, len(p.IDs), p.Question, len(p.IDs))
		if err != nil {
			t.Fatalf("%s: %v", test.form, err)
		}
		e := x.Edits[0]
		if e.Site != test.site || x.First != 1 || len(x.Programs) != 1 || !slices.Equal(x.Programs[0].Inputs, test.inputs) {
			t.Errorf("%s: site %q, first layer %d, programs %v", test.form, e.Site, x.First, x.Programs)
		}
		if whole := e.Edit.Op == OpOwnMean; (x.FirstRow == 0) != whole || !whole && x.FirstRow != e.Rows.Lo {
			t.Errorf("%s: computed from row %d on", test.form, x.FirstRow)
		}
		got := trace(t, m, p, es, o).QK[1]
		for h := range m.Spec.Heads {
			at := Head{1, h}
			want := slices.Contains(e.Heads, at) || slices.Contains(e.Siblings, at)
			for _, row := range rows {
				from := (row*m.Spec.Heads + h) * d
				changed := far(plain.Z[from:from+d], got.Z[from:from+d])
				if should := want && row >= e.Rows.Lo && row < e.Rows.Hi; changed != should {
					t.Errorf("%s: %s at row %d: changed %v", test.form, at, row, changed)
				}
			}
		}
		if changed := far(plain.KPre, got.KPre); changed != (test.site == SiteProjections) {
			t.Errorf("%s: keys changed: %v", test.form, changed)
		}
	}
}

func far(a, b []float32) bool {
	d, _ := largest(a, b)
	return d > 1e-5
}

// TestExplainPlanes: wavelengths are those of the model's table, dims are in the planes of its pairing, a frozen plane has no wavelength.
func TestExplainPlanes(t *testing.T) {
	s := *model(t, backend(t, "go"), "float32").Spec
	for _, interleaved := range []bool{false, true} {
		s.Interleaved = interleaved
		e := explainOne(t, &s, "zero_dims:L0H0:1+9")
		want := []int{1}
		if interleaved {
			want = []int{0, 4}
		}
		if len(e.Planes) != 1 || !slices.Equal(e.Planes[0].Planes, want) {
			t.Errorf("interleaved %v: got %+v, want planes %v", interleaved, e.Planes, want)
		}
	}
	e := explainOne(t, &s, "freeze:L0H0,L2H1:slow4")
	if len(e.Planes) != 1 || !slices.Equal(e.Planes[0].Layers, []int{0, 2}) || !slices.Equal(e.Planes[0].Planes, []int{6, 7}) {
		t.Fatalf("got %+v", e.Planes)
	}
	for i, p := range e.Planes[0].Planes {
		want := 2 * math.Pi * math.Pow(s.Tables[0].Theta, float64(p)/8)
		if got := e.Planes[0].Wavelengths[i]; math.Abs(got/want-1) > 1e-9 || !math.IsInf(e.Planes[0].Becomes[i], 1) {
			t.Errorf("plane %d: wavelength %g, becomes %g, want %g and none", p, got, e.Planes[0].Becomes[i], want)
		}
	}
	s.Kinds = slices.Clone(s.Kinds)
	s.Kinds[1].Table = loader.Unrotated
	e = explainOne(t, &s, "zero_planes:L0H0,L1H0:slow4")
	if !slices.Equal(e.Skipped, []Head{{1, 0}}) || !slices.Equal(e.Heads, []Head{{0, 0}}) {
		t.Errorf("acts on %v, skips %v", e.Heads, e.Skipped)
	}
	if e = explainOne(t, &s, "zero_planes:L1H0:3"); len(e.Skipped) != 0 || len(e.Planes) != 1 || e.Planes[0].Wavelengths != nil {
		t.Errorf("got %+v", e)
	}
}

func explainOne(t *testing.T, s *loader.Spec, form string) ExplainedEdit {
	x, err := Explain(s, edits(t, form), 20, 10, 20)
	if err != nil {
		t.Fatal(err)
	}
	return x.Edits[0]
}
