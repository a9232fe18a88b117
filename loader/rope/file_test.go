package rope_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/rope"
)

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.json")
	want := &rope.File{Name: "learned/0.5", Planes: []float64{1, 0.1, 1. / 3, 0, math.SmallestNonzeroFloat64, math.Pi}, Layout: rope.Interleaved}
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := rope.ReadFile(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if tab := got.Table(); !slices.Equal(tab.InvFreq, want.Planes) || tab.RotaryDim != 12 || tab.Scale != 1 {
		t.Errorf("got table %+v", tab)
	}
	for text, want := range map[string]string{
		``:   "byte 0: want an object",
		`[]`: "want an object",
		`{"name":"a","planes":[1],"layout":"half"}`:                   `layout: got "half", want "rotate_half" or "interleaved"`,
		`{"name":"a","planes":[1,-1],"layout":"rotate_half"}`:         "planes[1]: got -1",
		`{"name":"a","planes":[1,null],"layout":"rotate_half"}`:       "planes: [1]: got null",
		`{"name":"a","planes":[1e999],"layout":"rotate_half"}`:        "planes: json: cannot unmarshal number 1e999",
		`{"name":"a","planes":["1"],"layout":"rotate_half"}`:          "planes: json: cannot unmarshal string",
		`{"name":"a","planes":[],"layout":"rotate_half"}`:             "planes: got none",
		`{"name":"a","planes":null,"layout":"rotate_half"}`:           "planes: got none",
		`{"name":"a b","planes":[1],"layout":"rotate_half"}`:          `name: got "a b"`,
		`{"name":"","planes":[1],"layout":"rotate_half"}`:             `name: got ""`,
		`{"name":"a","planes":[1]}`:                                   `key "layout" is missing`,
		`{"planes":[1],"layout":"rotate_half"}`:                       `key "name" is missing`,
		`{"name":"a","name":"b","planes":[1],"layout":"rotate_half"}`: `key "name" is there twice`,
		`{"name":"a","Planes":[1],"layout":"rotate_half"}`:            `key "Planes": want`,
		`{"name":"a","planes":[1],"layout":"rotate_half"} {}`:         "want nothing behind the object",
		`{"name":"a","planes":[1],"layout":"rotate_half"`:             "unexpected EOF",
		`{"name":"a","planes":[1`:                                     "planes: unexpected EOF",
	} {
		if f, err := rope.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %+v, %v, want an error with %q", text, f, err, want)
		}
	}
	if err := os.WriteFile(path, []byte(`{"name":"a","planes":[1,-1],"layout":"rotate_half"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := rope.ReadFile(path); err == nil || !strings.HasPrefix(err.Error(), path+": planes[1]") {
		t.Errorf("got %v, want the file's name and the place", err)
	}
	if _, err := rope.ReadFile(path + "x"); err == nil || !strings.Contains(err.Error(), "t.jsonx") {
		t.Errorf("a missing file: got %v", err)
	}
	if _, err := (&rope.File{Name: "a", Planes: []float64{math.NaN()}, Layout: rope.RotateHalf}).Encode(); err == nil {
		t.Error("a table of NaN was written")
	}
}

// FuzzFile: nothing panics, and parse(encode(x)) = x.
func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"name":"a","planes":[1,0.5e-3],"layout":"rotate_half"}`))
	f.Add([]byte(`{"layout":"interleaved","planes":[0],"name":"b"} `))
	f.Add([]byte(`{"name":"a","planes":[[1]],"layout":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := rope.Decode(data)
		if err != nil {
			return
		}
		text, err := file.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := rope.Decode(text); err != nil || !reflect.DeepEqual(again, file) {
			t.Errorf("%s: got %+v, %v, want %+v", text, again, err, file)
		}
	})
}

// TestExact: frequencies in place of a config's type, and their conditions.
func TestExact(t *testing.T) {
	want := []float64{1, 0.5, 0}
	tab, err := rope.New(rope.Config{Type: "exact", Exact: want, RotaryDim: 6}, 16, 100)
	if err != nil || !slices.Equal(tab.InvFreq, want) || tab.Scale != 1 || tab.RotaryDim != 6 {
		t.Errorf("got %+v, %v", tab, err)
	}
	for want, c := range map[string]rope.Config{
		"got 3 frequencies, want 8": {Type: "exact", Exact: want},
		"got 0 frequencies":         {Type: "exact", RotaryDim: 2},
		"plane 1: got frequency -1": {Type: "exact", RotaryDim: 4, Exact: []float64{1, -1}},
		"got frequency NaN":         {Type: "exact", RotaryDim: 2, Exact: []float64{math.NaN()}},
	} {
		if tab, err := rope.New(c, 16, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %+v, %v, want an error with %q", tab, err, want)
		}
	}
	if slices.Contains(rope.Types(), "exact") {
		t.Error("a config.json can ask for exact")
	}
}

func TestExamine(t *testing.T) {
	rule, err := rope.ParseRule("moebius2048")
	if err != nil {
		t.Fatal(err)
	}
	e, err := rope.Examine(rope.Subject{Name: "moebius2048", Table: rope.Moebius(32, 2048), Layout: rope.RotateHalf, Rule: &rule})
	if err != nil {
		t.Fatal(err)
	}
	if e.Length != 4096 || len(e.Curve) != 4097 || e.MaxDifference == nil || *e.MaxDifference > 1e-12 || e.HalfWidth == nil || relDiff(*e.HalfWidth, 32) > 1e-12 {
		t.Errorf("got length %d, %v, half-width %v", e.Length, e.MaxDifference, e.HalfWidth)
	}
	if h := e.Holonomy; len(h) != 2 || h[0].N != 2048 || h[0].Rotation != rope.Reversal || h[1].Rotation != rope.Identity {
		t.Errorf("got %+v", h)
	}
	if last := e.Kernel[len(e.Kernel)-1]; len(e.Kernel) != 14 || last.N != 4096 || *last.Closed != 1 || last.TokenInversion > 1e-7 {
		t.Errorf("got %+v", e.Kernel)
	}
	if n := len(e.Bands); n != 12 || e.Bands[0].Band != "slow8" || !slices.Equal(e.Bands[0].Planes, []int{0, 1, 2, 3}) || !slices.Equal(e.Bands[0].Dims, []int{0, 32, 1, 33, 2, 34, 3, 35}) || !e.Bands[0].Tests {
		t.Errorf("got %d bands, %+v", n, e.Bands[0])
	}
	slow, err := rope.Examine(rope.Subject{Name: "f", Table: rope.NoPE(8), Layout: rope.Interleaved, Length: 64})
	if err != nil {
		t.Fatal(err)
	}
	if slow.HalfWidth != nil || slow.MaxDifference != nil || slow.Kernel[0].Closed != nil || slow.Wavelengths[0] != nil || len(slow.Bands) != 3 || slow.Bands[0].Tests {
		t.Errorf("got %+v", slow)
	}
	if _, err := json.Marshal(slow); err != nil {
		t.Error(err)
	}
	if _, err := rope.Examine(rope.Subject{Table: rope.NoPE(8), Length: 1 << 30}); err == nil {
		t.Error("a length of 2^30 was taken")
	}
}

// TestPlot: a curve that is known, drawn.
func TestPlot(t *testing.T) {
	e := &rope.Examination{Length: 8, Curve: []float64{1, .5, 0, -.5, -1, -.5, 0, .5, 1}}
	want := " 1 |*       *\n   | *     *\n 0 |--*---*--\n   |   * *\n-1 |    *\n    0       8\n"
	if got := e.Plot(60, 5); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := e.Plot(3, 5); !strings.Contains(got, " 1 |* *\n") || !strings.Contains(got, "-1 | *\n") {
		t.Errorf("three columns: got\n%s", got)
	}
}
