package heads

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
)

// reference is the part of reference.json that this package answers for; testdata/smollm2/README.md
// describes it.
type reference struct {
	Detectors struct {
		N              int
		ArgmaxLast     [][]float64  `json:"argmax_last"`
		MassLast       [][]float64  `json:"mass_last"`
		Duplicate      [][]float64  `json:"duplicate"`
		CopyTF         [][]float64  `json:"copy_tf"`
		ArgmaxIndex    [][][]int32  `json:"argmax_index"`
		CloseCalls     [][4]float64 `json:"argmax_close_calls"`
		Ranking        Ranking      `json:"ranking"`
		RetrievalHeads Ranking      `json:"retrieval_heads"`
	}
}

// forGolden runs fn on testdata and on each folder of HEADSCOPE_GOLDEN that has the same two files.
func forGolden(t *testing.T, fn func(t *testing.T, ref reference, obs *Observations)) {
	t.Helper()
	dirs := append([]string{filepath.Join("testdata", "smollm2")}, filepath.SplitList(os.Getenv("HEADSCOPE_GOLDEN"))...)
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "prompts_512.jsonl")); errors.Is(err, fs.ErrNotExist) && dir != dirs[0] {
			continue // HEADSCOPE_GOLDEN also names folders of other packages
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			ref, obs := readGolden(t, dir)
			t.Logf("%s: %d prompts, %d retrieval heads", dir, ref.Detectors.N, len(ref.Detectors.RetrievalHeads))
			fn(t, ref, obs)
		})
	}
}

func readGolden(t *testing.T, dir string) (reference, *Observations) {
	t.Helper()
	var ref reference
	b, err := os.ReadFile(filepath.Join(dir, "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "prompts_512.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	layers, heads := len(ref.Detectors.ArgmaxLast), len(ref.Detectors.ArgmaxLast[0])
	var list []Observation
	for line := range bytes.Lines(lines) {
		var p struct {
			ID     int
			Needle Span  `json:"needle_tokens"`
			Code   Span  `json:"code_tokens"`
			Tokens []int `json:"token_ids"`
		}
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		// The reference stores no masses and only the small gaps; 1 stands for a clear lead.
		row := Row{
			Argmax:   slices.Concat(ref.Detectors.ArgmaxIndex[p.ID]...),
			Gap:      slices.Repeat([]float32{1}, layers*heads),
			SpanMass: make([]float32, layers*heads),
		}
		for _, c := range ref.Detectors.CloseCalls {
			if int(c[0]) == p.ID {
				row.Gap[int(c[1])*heads+int(c[2])] = float32(c[3])
			}
		}
		list = append(list, Observation{Prompt: p.ID, Needle: p.Needle, Code: p.Code, Tokens: p.Tokens, Rows: []Row{row}})
	}
	obs, err := NewObservations(layers, heads, list)
	if err != nil {
		t.Fatal(err)
	}
	return ref, obs
}

func matrix(name string, rows [][]float64, n int) Scores {
	return Scores{Detector: name, Layers: len(rows), Heads: len(rows[0]), Data: slices.Concat(rows...), N: n}
}

func TestArgmaxLastEqualsReference(t *testing.T) {
	forGolden(t, func(t *testing.T, ref reference, obs *Observations) {
		want := matrix("argmax_last", ref.Detectors.ArgmaxLast, ref.Detectors.N)
		got := obs.ArgmaxLast()
		if got.N != want.N || got.Layers != want.Layers || got.Heads != want.Heads {
			t.Fatalf("got [%d, %d] of %d prompts, want [%d, %d] of %d", got.Layers, got.Heads, got.N, want.Layers, want.Heads, want.N)
		}
		for i, v := range want.Data {
			if got.Data[i] != v {
				t.Errorf("%s: got %v, want %v", got.head(i), got.Data[i], v)
			}
		}
	})
}

func TestRetrievalHeadsEqualReference(t *testing.T) {
	forGolden(t, func(t *testing.T, ref reference, obs *Observations) {
		d := ref.Detectors
		argmax, mass := matrix("argmax_last", d.ArgmaxLast, d.N), matrix("mass_last", d.MassLast, d.N)
		found := argmax.AtLeast(0.1)
		if !found.Equal(d.RetrievalHeads.Set()) {
			t.Errorf("argmax_last >= 0.1:\n got %s\nwant %s", found, d.RetrievalHeads.Set())
		}
		ranked := argmax.Ranking(mass)
		if got := ranked.Only(found); !slices.Equal(got, d.RetrievalHeads) {
			t.Errorf("in ranking order:\n got %s\nwant %s", got, d.RetrievalHeads)
		}
		if got := ranked[:len(d.Ranking)]; !slices.Equal(got, d.Ranking) {
			t.Errorf("ranking:\n got %s\nwant %s", got, d.Ranking)
		}
		for _, k := range []int{1, 3, 5, 10} {
			if got, want := ranked.Top(k), NewSet(d.Ranking[:k]...); !got.Equal(want) {
				t.Errorf("top %d: got %s, want %s", k, got, want)
			}
		}
	})
}

func TestCloseCallsEqualReference(t *testing.T) {
	forGolden(t, func(t *testing.T, ref reference, obs *Observations) {
		got := obs.CloseCalls(1e-4)
		if len(got) != len(ref.Detectors.CloseCalls) {
			t.Fatalf("got %d close calls, want %d", len(got), len(ref.Detectors.CloseCalls))
		}
		for i, w := range ref.Detectors.CloseCalls {
			head := decoder.Head{Layer: int(w[1]), Index: int(w[2])}
			g := got[i]
			if g.Prompt != int(w[0]) || g.Row != 0 || g.Head != head || math.Abs(g.Gap-w[3]) > 1e-11 {
				t.Errorf("got %+v, want prompt %v %s gap %v", g, w[0], head, w[3])
			}
		}
	})
}

// The reference's README names the heads of SmolLM2 that follow the repeated word "is" (needle token 4) and the
// one that points at the code in every prompt; its own duplicate-token detector saw no prompt of ours.
func TestHitsTellCopyingFromRepeatedWords(t *testing.T) {
	ref, obs := readGolden(t, filepath.Join("testdata", "smollm2"))
	for _, h := range obs.Hits(NewSet(decoder.Head{Layer: 8}, decoder.Head{Layer: 14, Index: 3},
		decoder.Head{Layer: 7, Index: 7}, decoder.Head{Layer: 2, Index: 4})) {
		if h.Label != LabelRepeatedWord || h.Offsets[4] != h.RepeatedWord || h.RepeatedWord < h.Total-1 {
			t.Errorf("got %+v, want hits on needle token 4, a repeated word", h)
		}
	}
	top := obs.Hits(NewSet(decoder.Head{Layer: 18, Index: 6}))[0]
	if top.Label != LabelCode || top.Total != 40 || top.Code != 40 || top.Offsets[5] != 40 {
		t.Errorf("got %+v, want 40 hits on needle token 5, the code's first", top)
	}
	if v := obs.ArgmaxCode().At(top.Head); v != 1 {
		t.Errorf("argmax_code of %s: got %v, want 1", top.Head, v)
	}

	found := NewSet(ref.Detectors.RetrievalHeads...)
	dup := matrix("duplicate", ref.Detectors.Duplicate, 4).AtLeast(0.1)
	copying := matrix("copy_tf", ref.Detectors.CopyTF, 176).AtLeast(0.1)
	wantRepeated := found.Intersect(dup).Minus(copying)
	var repeated, code Set
	for _, h := range obs.Hits(found) {
		sum := 0
		for _, n := range h.Offsets {
			sum += n
		}
		if sum != h.Total || h.Code+h.RepeatedWord > h.Total {
			t.Errorf("%+v does not add up", h)
		}
		switch h.Label {
		case LabelRepeatedWord:
			repeated = append(repeated, h.Head)
		case LabelCode:
			code = append(code, h.Head)
		}
	}
	// Two independent ways to see it. L17H0 follows duplicates of random ids, but points here at no "is".
	if extra := repeated.Minus(wantRepeated); len(extra) > 0 {
		t.Errorf("repeated word: %s are no heads of the duplicate-token detector (%s)", extra, wantRepeated)
	}
	if wrong := code.Intersect(wantRepeated); len(wrong) > 0 {
		t.Errorf("code: %s are heads of the duplicate-token detector", wrong)
	}
	t.Logf("code: %s; repeated word: %s", code, repeated)
}
