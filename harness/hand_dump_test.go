package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

func tinyPassage(t *testing.T, r PassageRequest) *Passage {
	t.Helper()
	c, _ := tinyModel(t)
	p, err := NewPassage(c, &r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func dumpTiny(t *testing.T, p *Passage, change func(*DumpRequest)) *Dumped {
	t.Helper()
	c, m := tinyModel(t)
	r := &DumpRequest{Checkpoint: c, Model: m, Passage: p, What: []string{"all"}}
	for row := range p.T() {
		r.Rows = append(r.Rows, row)
	}
	var err error
	if r.Choice, err = ChooseHeads(&c.Spec, "", ""); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	d, err := Dump(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *Dumped) find(t *testing.T, name string) *Array {
	t.Helper()
	for i := range d.Arrays {
		if d.Arrays[i].Name == name {
			return &d.Arrays[i]
		}
	}
	t.Fatalf("no array %s", name)
	return nil
}

// TestDumpPasses: a dump that takes many passes is that of one pass.
func TestDumpPasses(t *testing.T) {
	p := tinyPassage(t, PassageRequest{Text: "The code is K1Q. The sea is far."})
	c, _ := tinyModel(t)
	one := dumpTiny(t, p, nil)
	many := dumpTiny(t, p, func(r *DumpRequest) { r.passBytes = 4 * 4 * int64(c.Spec.Layers*c.Spec.Heads*(p.T()+128)) }) // four rows of attention a pass
	if one.Passes != 1 || many.Passes != (p.T()+3)/4 || many.Passes <= 3 {
		t.Errorf("%d and %d passes for %d rows", one.Passes, many.Passes, p.T())
	}
	for _, a := range one.Arrays {
		b := many.find(t, a.Name)
		if !slices.Equal(a.Ints, b.Ints) || len(a.Floats) != len(b.Floats) {
			t.Fatalf("%s differs", a.Name)
		}
		for i, x := range a.Floats {
			if math.Abs(float64(x-b.Floats[i])) > 1e-6 {
				t.Fatalf("%s: value %d: %v in one pass, %v in many", a.Name, i, x, b.Floats[i])
			}
		}
	}
}

// TestDumpChoice: chosen layers, heads and rows are those of the whole dump.
func TestDumpChoice(t *testing.T) {
	p := tinyPassage(t, PassageRequest{Text: "The code is K1Q. The sea is far."})
	whole := dumpTiny(t, p, nil)
	c, _ := tinyModel(t)
	n, d, last := p.T(), c.Spec.HeadDim, p.T()-1
	nh, kv := c.Spec.Heads, c.Spec.KVHeads
	names := fmt.Sprintf("L2H%d,L1H1,L2H1", nh-1)
	for _, rows := range [][]int{{last}, {0, 3, last}} {
		some := dumpTiny(t, p, func(r *DumpRequest) {
			r.Rows = rows
			var err error
			if r.Choice, err = ChooseHeads(&c.Spec, "", names); err != nil {
				t.Fatal(err)
			}
		})
		if names := some.Arrays[2].Name; names != "layer01/heads" {
			t.Errorf("the third array is %s", names)
		}
		for _, a := range some.Arrays {
			if strings.HasPrefix(a.Name, "layer00/") {
				t.Errorf("%s was not asked for", a.Name)
			}
		}
		if got := some.find(t, "layer02/heads").Ints; !slices.Equal(got, []int32{1, int32(nh - 1)}) {
			t.Errorf("heads %v", got)
		}
		if got := some.find(t, "layer02/kv_heads").Ints; !slices.Equal(got, []int32{0, int32(kv - 1)}) {
			t.Errorf("kv heads %v", got)
		}
		if got := some.find(t, "layer01/kv_heads").Ints; !slices.Equal(got, []int32{0}) {
			t.Errorf("kv heads %v", got)
		}
		for i, row := range rows {
			for name, at := range map[string]struct{ from, to, n int }{ // value number, in the whole and in the chosen
				"layer02/z":         {(row*nh + nh - 1) * d, (i*2 + 1) * d, d},
				"layer02/q":         {(row*nh + 1) * d, (i*2 + 0) * d, d},
				"layer02/q_rot":     {(row*nh + nh - 1) * d, (i*2 + 1) * d, d},
				"layer01/k":         {row * kv * d, row * d, d}, // keys are those of all tokens
				"layer02/k_rot":     {(row*kv + kv - 1) * d, (row*2 + 1) * d, d},
				"layer02/v":         {(row*kv + kv - 1) * d, (row*2 + 1) * d, d},
				"layer02/attention": {((nh-1)*n + row) * n, (1*len(rows) + i) * n, n},
				"layer02/residual":  {row * c.Spec.Hidden, i * c.Spec.Hidden, c.Spec.Hidden},
				"logits":            {row * c.Spec.Vocab, i * c.Spec.Vocab, c.Spec.Vocab},
			} {
				a, b := whole.find(t, name).Floats[at.from:][:at.n], some.find(t, name).Floats[at.to:][:at.n]
				for k := range a {
					if math.Abs(float64(a[k]-b[k])) > 1e-5 {
						t.Fatalf("rows %v: %s at row %d: %v, in the whole dump %v", rows, name, row, b[k], a[k])
					}
				}
			}
		}
	}
}

// TestDumpDescribes: names, shapes and labels are those of the arrays, and an attention row sums to 1.
func TestDumpDescribes(t *testing.T) {
	p := tinyPassage(t, PassageRequest{Text: "The code is K1Q.\n"})
	d := dumpTiny(t, p, func(r *DumpRequest) {
		r.Edits = []decoder.Edit{{Op: decoder.OpUniform, Heads: []decoder.Head{{Layer: 1, Index: 2}}, Scope: decoder.ScopeLast}}
	})
	if got := strings.Join(d.Meta.Labels, ""); got != "The code is K1Q.\n" {
		t.Errorf("labels %q", d.Meta.Labels)
	}
	if len(d.Meta.Arrays) != len(d.Arrays) || d.Meta.Model.WeightsSHA256 == "" || d.Meta.Model.TokenizerSHA256 == "" || len(d.Meta.Rope) != 1 || len(d.Meta.Rope[0].InvFreq) != 8 {
		t.Errorf("got %+v", d.Meta)
	}
	c, _ := tinyModel(t)
	n := p.T()
	a := d.find(t, "layer01/attention")
	for h := range c.Spec.Heads {
		for row := range n {
			sum := 0.0
			for key, w := range a.Floats[(h*n+row)*n:][:n] {
				sum += float64(w)
				if key > row && w != 0 {
					t.Errorf("head %d row %d sees key %d", h, row, key)
				}
				if h == 2 && row == n-1 && math.Abs(float64(w)-1/float64(n)) > 1e-6 {
					t.Errorf("uniform: weight %v of %d keys", w, n)
				}
			}
			if math.Abs(sum-1) > 1e-5 {
				t.Errorf("head %d row %d: the weights sum to %v", h, row, sum)
			}
		}
	}
}

func TestDumpRefuses(t *testing.T) {
	p := tinyPassage(t, PassageRequest{Text: "The code is K1Q."})
	c, m := tinyModel(t)
	all, err := ChooseHeads(&c.Spec, "", "")
	if err != nil {
		t.Fatal(err)
	}
	many := make([]int, 400_000) // 400 000 rows of logits are 1.4 GiB
	for i := range many {
		many[i] = i % p.T()
	}
	for want, change := range map[string]func(*DumpRequest){
		`no array "w"`:     func(r *DumpRequest) { r.What = []string{"z", "w"} },
		"nothing to dump":  func(r *DumpRequest) { r.What = nil },
		"GiB of it logits": func(r *DumpRequest) { r.Rows = many },
		"scope question": func(r *DumpRequest) {
			r.Edits = []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{{}}, Scope: decoder.ScopeQuestion}}
		},
		heads.ErrNoSuchHead.Error(): func(r *DumpRequest) {
			r.Edits = []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{{Layer: 7}}, Scope: decoder.ScopeAll}}
		},
	} {
		r := &DumpRequest{Checkpoint: c, Model: m, Passage: p, What: []string{"logits", "z"}, Choice: all, Rows: []int{0}}
		change(r)
		if _, err := Dump(context.Background(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestRowsAndHeads(t *testing.T) {
	p := &Passage{IDs: make([]int32, 10), Answer: make([]int32, 2), Spans: []NamedSpan{{"needle", heads.Span{3, 6}}, {"code", heads.Span{4, 5}}}}
	for list, want := range map[string][]int{
		"0": {0}, "-1": {11}, "last": {9}, "2-4": {2, 3, 4}, "-3--1": {9, 10, 11}, "4,needle,4": {3, 4, 5}, "code, 0": {0, 4}, "10--1": {10, 11},
		"all": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
	} {
		if got, err := p.Rows(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("rows %q: got %v, %v, want %v", list, got, err, want)
		}
	}
	var usage *UsageError
	for _, list := range []string{"", "12", "-13", "4-2", "1,,2", "answer", "1:3", "1.5", "99999999999", "0-99999999999", "all-1"} {
		if got, err := p.Rows(list); !errors.As(err, &usage) {
			t.Errorf("rows %q: got %v, %v, want a usage error", list, got, err)
		}
	}
	c, _ := tinyModel(t)
	every := make([]int, c.Spec.Heads)
	for h := range every {
		every[h] = h
	}
	for _, test := range []struct {
		layers, list string
		want         HeadChoice
	}{
		{"", "", HeadChoice{[]int{0, 1, 2}, map[int][]int{0: every, 1: every, 2: every}}},
		{"-1", "1-2", HeadChoice{[]int{2}, map[int][]int{2: {1, 2}}}},
		{"", "L2H3,L0H1,L2H0", HeadChoice{[]int{0, 2}, map[int][]int{0: {1}, 2: {0, 3}}}},
		{"1,1,0", "all", HeadChoice{[]int{0, 1}, map[int][]int{0: every, 1: every}}},
	} {
		got, err := ChooseHeads(&c.Spec, test.layers, test.list)
		if err != nil {
			t.Errorf("%q %q: %v", test.layers, test.list, err)
		} else if !reflect.DeepEqual(*got, test.want) {
			t.Errorf("%q %q: got %v, want %v", test.layers, test.list, *got, test.want)
		}
	}
	for _, test := range [][2]string{{"3", ""}, {"", fmt.Sprint(c.Spec.Heads)}, {"1", "L1H1"}, {"", "L3H0"}, {"", "L1"}, {"x", ""}} {
		if got, err := ChooseHeads(&c.Spec, test[0], test[1]); err == nil {
			t.Errorf("%q: got %v, want an error", test, got)
		}
	}
}
