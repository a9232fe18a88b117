package heads

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func readFormat(t *testing.T, name string) *Document {
	t.Helper()
	d, err := ReadDocument(filepath.Join("testdata", "formats", name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDuoAttention(t *testing.T) {
	d := readFormat(t, "duo_llama31_8b_instruct.tsv")
	if d.Format != FormatDuo || !d.KV || d.Shape != (Shape{Layers: 32, KVHeads: 8}) {
		t.Fatalf("got %s, kv %t, %+v", d.Format, d.KV, d.Shape)
	}
	x := d.Detectors[0]
	if got := x.Scores.At(h(24, 7)); got != 4.310607910156250000e-04 {
		t.Errorf("L24H7: got %v", got)
	}
	if kept := x.Scores.AtLeast(0.5); x.Heads != nil || len(kept) != 234 {
		t.Errorf("got %d heads at a half, list %s", len(kept), x.Heads)
	}
	b, err := Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(d.Path)
	if err != nil || string(b) != string(want) {
		t.Errorf("written in another form: %v", err)
	}
}

func TestQRHeadConfig(t *testing.T) {
	d := readFormat(t, "qrhead_llama31_8b_instruct.yaml")
	x := d.Detectors[0]
	if d.Format != FormatQRHead || d.Model != "Llama-3.1-8B-Instruct" || len(x.Heads) != 16 || x.Heads[0] != h(13, 18) || x.Heads[15] != h(14, 22) {
		t.Errorf("got %s of %q: %s", d.Format, d.Model, x.Heads)
	}
	b, err := Encode(d)
	if err != nil || !strings.HasPrefix(string(b), "13-18,13-21,8-11,") {
		t.Errorf("got %s, %v", b, err)
	}
}

func TestWuScores(t *testing.T) {
	d := readFormat(t, "wu_small.json")
	x := d.Detectors[0]
	if d.Format != FormatWu || d.Shape != (Shape{Layers: 3, Heads: 2}) || x.Scores.N != 4 {
		t.Fatalf("got %s, %+v, %d trials", d.Format, d.Shape, x.Scores.N)
	}
	if want := (Ranking{h(1, 0), h(0, 1), h(1, 1)}); !slices.Equal(x.Heads, want) { // L2H1 has .0975
		t.Errorf("got %s, want %s", x.Heads, want)
	}
	if x.Scores.At(h(1, 0)) != 0.875 || x.Trials[2][2] != 1.25 {
		t.Errorf("got mean %v, trials %v", x.Scores.At(h(1, 0)), x.Trials[2])
	}
}

// TestProfiles reads every published profile: its lists are its scores at its threshold, whatever the order.
func TestProfiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "stats", "testdata", "published-profiles", "profile", "*.json"))
	if err != nil || len(files) != 16 {
		t.Fatalf("got %d profiles, %v", len(files), err)
	}
	for _, f := range files {
		d, err := ReadDocument(f)
		if err != nil {
			t.Error(err)
			continue
		}
		if d.Format != FormatProfile || d.Shape.Group() == 0 || d.Model == "" || d.Threshold != 0.1 || len(d.Detectors) != 2 {
			t.Errorf("%s: got %s of %q, %+v", f, d.Format, d.Model, d.Shape)
		}
		for _, x := range d.Detectors {
			if !x.Heads.Set().Equal(x.Scores.AtLeast(d.Threshold)) || !x.Ordered {
				t.Errorf("%s: %s lists other heads than its scores", f, x.Detector)
			}
			for i := 1; i < len(x.Heads); i++ {
				if x.Scores.At(x.Heads[i-1]) < x.Scores.At(x.Heads[i]) {
					t.Errorf("%s: %s: order", f, x.Detector)
				}
			}
		}
		roundTrip(t, d)
	}
}

// roundTrip holds Decode(Encode(d)) against d.
func roundTrip(t *testing.T, d *Document) {
	t.Helper()
	b, err := Encode(d)
	if err != nil {
		t.Errorf("%s: %v", d.Format, err)
		return
	}
	got, err := Decode(b)
	if err != nil {
		t.Errorf("%s: %v in %.200s", d.Format, err, b)
		return
	}
	got.Path = d.Path
	if !reflect.DeepEqual(got, d) {
		t.Errorf("%s: got\n%+v\nwant\n%+v", d.Format, got, d)
	}
}

func TestRoundTrips(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		layers, kv, group := 1+rng.IntN(5), 1+rng.IntN(3), 1+rng.IntN(3)
		shape := Shape{layers, kv * group, kv}
		score := func(width int) *Scores {
			s := NewScores("wu_step", layers, width)
			for i := range s.Data {
				s.Data[i] = float64(rng.IntN(6)) / 8
			}
			s.N = 1
			return &s
		}
		list := score(shape.Heads).Ranking()[:rng.IntN(layers*shape.Heads+1)]
		roundTrip(t, &Document{Format: FormatLabels, Detectors: []Detected{{Detector: "listed", Heads: list, Ordered: true}}})
		roundTrip(t, &Document{Format: FormatPairs, Detectors: []Detected{{Detector: "listed", Heads: list, Ordered: true}}})
		if len(list) > 0 {
			roundTrip(t, &Document{Format: FormatQRHead, Detectors: []Detected{{Detector: "qr", Heads: list, Ordered: true}}})
		}
		w := score(shape.Heads)
		trials := make([][]float64, len(w.Data))
		for i := range trials {
			trials[i] = []float64{w.Data[i]}
		}
		x := Detected{Detector: "wu_step", Heads: w.Ranking().Only(w.AtLeast(wuThreshold)), Ordered: true, Scores: w, Trials: trials}
		roundTrip(t, &Document{Format: FormatWu, Shape: Shape{Layers: layers, Heads: shape.Heads}, Threshold: wuThreshold, Detectors: []Detected{x}})
		g := score(kv)
		g.Detector, g.N = "duo_gate", 0
		g.Data[0] = 0.25
		roundTrip(t, &Document{Format: FormatDuo, KV: true, Shape: Shape{Layers: layers, KVHeads: kv}, Detectors: []Detected{{Detector: "duo_gate", Scores: g}}})
		q := score(shape.Heads)
		q.Detector, q.N = "qr", 0
		roundTrip(t, &Document{Format: FormatQRHead, Shape: Shape{Layers: layers, Heads: shape.Heads}, Detectors: []Detected{{Detector: "qr", Ordered: true, Scores: q}}})

		// A mask keeps a key/value head exactly when a listed query head reads it.
		b, err := Encode(&Document{Format: FormatDuo, Shape: shape, Detectors: []Detected{{Detector: "listed", Heads: list}}})
		if err != nil {
			t.Fatal(err)
		}
		mask, err := Decode(b)
		if err != nil || !mask.Detectors[0].Heads.Set().Equal(list.Set().KVHeads(group)) {
			t.Fatalf("mask of %s with groups of %d: got %+v, %v", list, group, mask, err)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "empty",
		" \n":                                    "empty",
		"{}":                                     "without keys",
		`{"model": 1}`:                           `the key "model"`,
		"{\n\"a\": [1,\n}":                       "line 3",
		`{"0-0": [1], "1-1": [1]}`:               "got 2 heads up to layer 1 and head 1",
		`{"0-0": [1], "0-1": [1, 2]}`:            `key "0-1": got 2 trials, want 1`,
		`{"0-0": [], "0-1": []}`:                 "no trials",
		`{"0-0": [1], "00-0": [1]}`:              "listed twice",
		`{"0-0": ["x"]}`:                         "line 1",
		"1\t0\n1\n":                              "line 2: got 1 columns, want 2",
		"1\t0\n1\tx\n":                           `line 2, column 2: got "x"`,
		"1\tNaN":                                 `line 1, column 2: got "NaN"`,
		"attn_head_set: \"1-2, x\"":              "line 1: attn_head_set",
		"a: 1\nattn_head_set: \"1-2":             "line 2: attn_head_set",
		"attn_head_set: 1-2\nattn_head_set: 1-3": "line 2: attn_head_set is there twice",
		"model_base_class: x":                    "no key attn_head_set",
		`[["1-2", null]]`:                        "head L1H2: got score null",
		`[["1-2", 1], ["1-2", 2]]`:               "listed twice",
		"L1H2,L1H2":                              "listed twice",
		"hello":                                  `head "hello"`,
		`{"n_layers": 1, "n_heads": 2, "n_kv_heads": 1, "argmax_scores": [[0]]}`:                                                      "argmax_scores: layer 0: got 1 heads, want 2",
		`{"n_layers": 1, "n_heads": 2, "n_kv_heads": 1, "argmax_scores": []}`:                                                         "argmax_scores: got 0 layers, want 1",
		`{"n_layers": 1, "n_heads": 2, "n_kv_heads": 1, "argmax_heads": [[5, 0]]}`:                                                    "argmax_heads: no such head: L5H0",
		`{"n_layers": 1, "n_heads": 3, "n_kv_heads": 2, "argmax_heads": []}`:                                                          "n_kv_heads: got 1, 3, 2",
		`{"model": {"layers": 1, "heads": 2, "kv_heads": 1}, "heads": [[3, 0]]}`:                                                      "no such head: L3H0",
		`{"model": {"layers": 2, "heads": 2, "kv_heads": 1}, "scores": {"detector": "a", "shape": [1, 2], "n": 1, "data": [[0, 1]]}}`: "got scores of 1 layers x 2 heads, want 2 x 2",
	} {
		if d, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v; want %q", text, d, err, want)
		}
	}
}

func TestDecodeRankingOfOtherFormats(t *testing.T) {
	wu, err := os.ReadFile(filepath.Join("testdata", "formats", "wu_small.json"))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := DecodeRanking(wu); err != nil || r.String() != "L1H0,L0H1,L1H1" {
		t.Errorf("got %s, %v", r, err)
	}
	if r, err := DecodeRanking([]byte("1\t0\n0\t1\n")); err == nil {
		t.Errorf("key/value heads: got %s", r)
	}
	if r, err := DecodeRanking([]byte(`{"model":{"layers":1,"heads":1,"kv_heads":1},"scores":[{"detector":"wq_l1","shape":[1,1],"n":0,"data":[[3]]}]}`)); err == nil {
		t.Errorf("scores alone: got %s", r)
	}
}

// The place of NaN is every place of null, in strings it is text.
func FuzzStrictJSON(f *testing.F) {
	for _, s := range []string{`{"a": [null, 1], "NaN": "NaN, NaN"}`, `[null,null]`, `null`, `{"a\"NaN": "\\", "b": null}`, `[-Infinity, NaN]`, `"\`, `["a", nullx]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once := StrictJSON(data)
		if again := StrictJSON(once); string(again) != string(once) {
			t.Fatalf("%q becomes %q, then %q", data, once, again)
		}
		if strings.Count(string(once), "\n") != strings.Count(string(data), "\n") {
			t.Fatalf("%q: lines moved", data)
		}
		if !json.Valid(data) {
			return
		}
		if string(once) != string(data) {
			t.Fatalf("valid JSON %q became %q", data, once)
		}
		if bare := withNaN(data); string(StrictJSON(bare)) != string(data) {
			t.Fatalf("%q became %q, want %q", bare, StrictJSON(bare), data)
		}
	})
}

// withNaN writes NaN for each null of valid JSON, by its tokens' offsets.
func withNaN(data []byte) []byte {
	var out []byte
	dec := json.NewDecoder(strings.NewReader(string(data)))
	last := int64(0)
	for {
		tok, err := dec.Token()
		if err != nil {
			return append(out, data[last:]...)
		}
		end := dec.InputOffset()
		chunk := data[last:end]
		if tok == nil {
			chunk = []byte(strings.TrimSuffix(string(chunk), "null") + "NaN")
		}
		out, last = append(out, chunk...), end
	}
}

// Whatever decodes can be written in its format and reads back the same; nothing panics.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"duo_llama31_8b_instruct.tsv", "qrhead_llama31_8b_instruct.yaml", "wu_small.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", "formats", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, s := range []string{
		`[["0-1", 2.5], ["0-0", -1]]`, "13-4,2-1", "L1H2 L3H4", "[[1,2],[3,4]]", `["L1H2"]`, "none",
		`{"model":"m","n_samples":2,"n_layers":1,"n_heads":2,"n_kv_heads":1,"argmax_heads":[[0,1]],"copy_heads":[],"argmax_scores":[[NaN,0.5]],"copy_scores":[[0,0]]}`,
		`{"model":{"layers":1,"heads":2,"kv_heads":1},"heads":[[0,1]]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Decode(data)
		if err != nil || d.Format == FormatResult || d.Format == FormatPairs && d.Detectors[0].Heads == nil {
			return
		}
		b, err := Encode(d)
		if err != nil {
			if d.Format == FormatProfile || d.Format == FormatQRHead { // a profile of one detector; scores that are not numbers
				return
			}
			t.Fatalf("%q: %v", data, err)
		}
		again, err := Decode(b)
		if err != nil {
			t.Fatalf("%q written as %q: %v", data, b, err)
		}
		if d.Format == FormatQRHead { // of a config the list alone is written
			d.Model, again.Model = "", ""
		}
		if got, want := fmt.Sprintf("%+v", plain(again)), fmt.Sprintf("%+v", plain(d)); got != want {
			t.Fatalf("%q: got %s, want %s", data, got, want)
		}
	})
}

// plain is what a format keeps, without pointers.
func plain(d *Document) any {
	type detected struct {
		Name   string
		Heads  Ranking
		Scores []float64
	}
	var out []detected
	for _, x := range d.Detectors {
		y := detected{x.Detector, x.Heads, nil}
		if x.Scores != nil {
			y.Scores = x.Scores.Data
		}
		out = append(out, y)
	}
	return []any{d.Model, d.Shape, out}
}

func TestKVScores(t *testing.T) {
	s := scoresOf(1, []float64{1, 3, math.NaN(), 2}, []float64{math.NaN(), math.NaN(), -1, -3})
	if got := s.KVMax(2).Data; got[0] != 3 || got[1] != 2 || !math.IsNaN(got[2]) || got[3] != -1 {
		t.Errorf("max: got %v", got)
	}
	if got := s.KVMean(2).Data; got[0] != 2 || got[1] != 2 || !math.IsNaN(got[2]) || got[3] != -2 {
		t.Errorf("mean: got %v", got)
	}
	set := Set{h(0, 1), h(0, 2), h(1, 3)}
	if got := set.KVHeads(2); !got.Equal(Set{h(0, 0), h(0, 1), h(1, 1)}) {
		t.Errorf("got %s", got)
	}
}
