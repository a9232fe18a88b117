package heads

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
)

func h(layer, index int) decoder.Head { return decoder.Head{Layer: layer, Index: index} }

func randomSet(rng *rand.Rand, n, layers, heads int) Set {
	var hs []decoder.Head
	for range rng.IntN(n + 1) {
		hs = append(hs, h(rng.IntN(layers), rng.IntN(heads)))
	}
	return NewSet(hs...)
}

func isCanonical(s Set) bool {
	for i := 1; i < len(s); i++ {
		if !s[i-1].Less(s[i]) {
			return false
		}
	}
	return true
}

func TestSetAlgebraLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	for range 2000 {
		a, b := randomSet(rng, 12, 4, 5), randomSet(rng, 12, 4, 5)
		both, either, onlyA, onlyB := a.Intersect(b), a.Union(b), a.Minus(b), b.Minus(a)
		for _, s := range []Set{a, both, either, onlyA} {
			if !isCanonical(s) {
				t.Fatalf("%s is not sorted and unique", s)
			}
		}
		if !onlyA.Union(both).Union(onlyB).Equal(either) || len(onlyA)+len(both)+len(onlyB) != len(either) {
			t.Fatalf("a=%s b=%s: parts do not make the union", a, b)
		}
		for l := range 4 {
			for i := range 5 {
				x := h(l, i)
				inA, inB := slices.Contains(a, x), slices.Contains(b, x)
				if a.Contains(x) != inA || both.Contains(x) != (inA && inB) || either.Contains(x) != (inA || inB) || onlyA.Contains(x) != (inA && !inB) {
					t.Fatalf("a=%s b=%s: wrong about %s", a, b, x)
				}
			}
		}
		var again Set
		for _, l := range a.Layers() {
			part := a.ByLayer()[l]
			if len(part) == 0 {
				t.Fatalf("%s: layer %d has no heads", a, l)
			}
			again = append(again, part...)
		}
		if !again.Equal(a) || len(a.ByLayer()) != len(a.Layers()) {
			t.Fatalf("layers of %s give %s", a, again)
		}
	}
}

func TestSetOperationsKeepTheirInputs(t *testing.T) {
	a := NewSet(h(1, 1), h(2, 2), h(3, 3))
	part := a.ByLayer()[1]
	_ = append(part, h(9, 9))
	a[:1].Union(Set{h(8, 8)})
	if !a.Equal(Set{h(1, 1), h(2, 2), h(3, 3)}) {
		t.Errorf("set changed to %s", a)
	}
}

func TestKVSiblings(t *testing.T) {
	got := NewSet(h(0, 4), h(2, 0), h(2, 8)).KVSiblings(3)
	want := NewSet(h(0, 3), h(0, 4), h(0, 5), h(2, 0), h(2, 1), h(2, 2), h(2, 6), h(2, 7), h(2, 8))
	if !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if s := NewSet(h(1, 1)); !s.KVSiblings(1).Equal(s) {
		t.Error("without sharing a head has no sibling")
	}
}

func TestValidateNamesMissingHeads(t *testing.T) {
	err := NewSet(h(0, 8), h(29, 9), h(30, 0)).Validate(30, 9)
	if !errors.Is(err, ErrNoSuchHead) || !strings.Contains(err.Error(), "L29H9,L30H0;") || strings.Contains(err.Error(), "L0H8") {
		t.Errorf("got %v", err)
	}
	if err := NewSet(h(29, 8), h(0, 0)).Validate(30, 9); err != nil {
		t.Error(err)
	}
	if err := (Set{h(-1, 0)}).Validate(30, 9); !errors.Is(err, ErrNoSuchHead) {
		t.Errorf("negative layer: got %v", err)
	}
}

func TestParse(t *testing.T) {
	want := Ranking{h(18, 6), h(2, 4)}
	for _, in := range []string{
		"L18H6,L2H4", "18-6, 2-4", " L18H6 ,\n l2h4\n", "L18H6\nL2H4", "[18,6],[2, 4]", "[18,6] 2-4",
		"[[18,6],[2,4]]", "[ [18, 6],\n [2, 4] ]", `["L18H6","2-4"]`,
	} {
		got, err := ParseRanking(in)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %s, %v", in, got, err)
		}
		set, err := Parse(in)
		if err != nil || !set.Equal(NewSet(want...)) {
			t.Errorf("%q as a set: got %s, %v", in, set, err)
		}
	}
	for _, in := range []string{"none", "[]", "[ ]"} {
		if got, err := Parse(in); err != nil || len(got) != 0 {
			t.Errorf("%q: got %s, %v", in, got, err)
		}
	}
	for in, msg := range map[string]string{
		"": "no heads named", " \n": "no heads named", ",": "no heads", "[": "head", "[[1,2]": "unexpected end",
		"L1H2,L1H2": "L1H2 is listed twice", "[[1,2],[3,4],[1,2]]": "L1H2 is listed twice",
		"L1": `"L1"`, "[[1,-2]]": "negative", "[[1,2,3]]": "want", "L99999999999999999999H1": "range", "L1H2 and L3H4": `"and"`,
	} {
		if got, err := Parse(in); err == nil || !strings.Contains(err.Error(), msg) {
			t.Errorf("%q: got %s, %v; want an error with %q", in, got, err, msg)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"L18H6,L2H4", "[18,6],[2,4]", "[[1,2]]", `["L1H2"]`, "none", "[", "]]", "[,", "[\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		r, err := ParseRanking(in)
		if err != nil {
			return
		}
		if again, err := ParseRanking(r.String()); err != nil || !slices.Equal(again, r) {
			t.Fatalf("%q reads as %s, and that as %s, %v", in, r, again, err)
		}
		b, err := json.Marshal(r.Set())
		if err != nil {
			t.Fatal(err)
		}
		var s Set
		if err := json.Unmarshal(b, &s); err != nil || !s.Equal(r.Set()) {
			t.Fatalf("%q: JSON %s reads as %s, %v", in, b, s, err)
		}
	})
}

func TestSetJSON(t *testing.T) {
	for want, s := range map[string]Set{"[]": nil, "[[2,4],[18,6]]": NewSet(h(18, 6), h(2, 4), h(18, 6))} {
		if b, err := json.Marshal(struct{ Heads Set }{s}); err != nil || string(b) != `{"Heads":`+want+`}` {
			t.Errorf("got %s, %v; want %s", b, err, want)
		}
	}
	var s Set
	if err := json.Unmarshal([]byte("null"), &s); err == nil {
		t.Error("null is no head list")
	}
	if b, _ := json.Marshal(Ranking{h(3, 1), h(0, 2)}); string(b) != "[[3,1],[0,2]]" {
		t.Errorf("ranking lost its order: %s", b)
	}
}

func TestReadSet(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := Ranking{h(18, 6), h(8, 0)}
	for name, text := range map[string]string{
		"list.json":   "[[18,6],[8,0]]\n",
		"list.txt":    "L18H6,L8H0\n",
		"result.json": `{"verb":"detect","shape":[30,9],"heads":[[18,6],[8,0]],"scores":{"heads":1}}`,
	} {
		path := write(name, text)
		if got, err := ReadRanking(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
		if got, err := ReadSet(path); err != nil || !got.Equal(NewSet(want...)) {
			t.Errorf("%s as a set: got %s, %v", name, got, err)
		}
	}
	for text, msg := range map[string]string{
		`{"detector":"argmax_last"}`: `the key "detector"`,
		`{"heads":9}`:                `key "heads"`,
		`{"heads":null}`:             `key "heads"`,
		`{"heads":[[1,2]`:            "unexpected end",
		"":                           "no heads named",
		"L1H2;L3H4":                  "L1H2;L3H4",
	} {
		path := write("bad", text)
		if got, err := ReadSet(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), msg) {
			t.Errorf("%s: got %s, %v; want %q", text, got, err, msg)
		}
	}
	if _, err := ReadSet(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
}
