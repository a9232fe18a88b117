package loadertest_test

import (
	"math"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/rope"
)

// laws hold for every family.
var laws = map[string]func(t *testing.T, e example){
	"attention is spread":          attentionIsSpread,
	"zero head is zero columns":    zeroHeadIsZeroColumns,
	"zero planes lose their terms": zeroPlanesLoseTheirTerms,
	"scores depend on distance":    scoresDependOnDistance,
	"rows see their keys only":     rowsSeeTheirKeysOnly,
}

// Where attention is uniform or on one key, edits of it show little.
func attentionIsSpread(t *testing.T, e example) {
	for l, heads := range e.plain.Attention {
		sum := 0.0
		for _, rows := range heads {
			sum += perplexity(rows[len(prompt)-1])
		}
		if mean := sum / float64(len(heads)); mean < 1.3 || mean > 13 {
			t.Errorf("layer %d: the last row's attention has a mean perplexity of %.1f keys", l, mean)
		}
	}
}

func perplexity(p []float64) float64 {
	sum := 0.0
	for _, v := range p {
		if v > 0 {
			sum -= v * math.Log(v)
		}
	}
	return math.Exp(sum)
}

// A head without output is the model whose output projection has zeros in that head's columns.
func zeroHeadIsZeroColumns(t *testing.T, e example) {
	const layer, head = 0, 2
	s := &e.c.Spec
	edited := forward(t, e.c, prompt, loadertest.Gains{Head: func(l, h, _ int) float64 {
		if l == layer && h == head {
			return 0
		}
		return 1
	}})
	zeroed := rewrite(t, e.o, s.Params.Layer(layer).O.Views[0].Tensor, func(_, column int) bool { return column/s.HeadDim == head })
	if d := largest(edited.Logits, forward(t, zeroed, prompt, loadertest.Gains{}).Logits); d > 1e-12 {
		t.Errorf("gain and weights disagree by %g", d)
	}
	if d := largest(edited.Logits, e.plain.Logits); d < 1e-3 {
		t.Errorf("the head changes the logits by %g only", d)
	}
}

// Query planes at zero leave scores without those planes' terms, and nothing else of the head changes.
func zeroPlanesLoseTheirTerms(t *testing.T, e example) {
	const layer, head, row = 1, 3, 12
	s := &e.c.Spec
	planes := planesOf(s)
	for name, removed := range map[string]func(plane int) bool{
		"fastest": func(plane int) bool { return plane == 0 },
		"slowest": func(plane int) bool { return plane == planes-1 },
		"rest":    func(plane int) bool { return plane == planes }, // the dimensions that do not rotate
	} {
		if name == "rest" && 2*planes == s.HeadDim {
			continue
		}
		edited := forward(t, e.c, prompt, loadertest.Gains{Q: func(l, h, plane, _ int) float64 {
			if l == layer && h == head && removed(plane) {
				return 0
			}
			return 1
		}})
		want := attentionWithout(s, e.plain, [3]int{layer, head, row}, func(d int) bool { return removed(planeOf(s, d)) })
		if d := largest([][]float64{want}, [][]float64{edited.Attention[layer][head][row]}); d > 1e-12 {
			t.Errorf("%s: attention is off by %g", name, d)
		}
		if d := largest([][]float64{want}, [][]float64{e.plain.Attention[layer][head][row]}); d < 1e-6 {
			t.Errorf("%s: the terms change attention by %g only", name, d)
		}
		if d := largest(edited.Attention[layer][head-1], e.plain.Attention[layer][head-1]); d != 0 {
			t.Errorf("%s: the head beside it changes by %g", name, d)
		}
	}
}

// attentionWithout computes one row of attention, at [layer, head, row], from rotated queries and keys without some dimensions.
func attentionWithout(s *loader.Spec, tr *loadertest.Trace, at [3]int, without func(dim int) bool) []float64 {
	layer, head, row := at[0], at[1], at[2]
	out, sum := make([]float64, row+1), 0.0
	for key := range out {
		if w := s.Kinds[layer].Window; w > 0 && row-key >= w {
			continue
		}
		score := 0.0
		for d, q := range tr.QRot[layer][head][row] {
			if !without(d) {
				score += q * tr.KRot[layer][head/s.Group()][key][d] * s.ScoreScale
			}
		}
		if s.ScoreCap > 0 {
			score = s.ScoreCap * math.Tanh(score/s.ScoreCap)
		}
		out[key] = math.Exp(score)
		sum += out[key]
	}
	for key := range out {
		out[key] /= sum
	}
	return out
}

func planesOf(s *loader.Spec) int {
	if s.Tables[0].RotaryDim > 0 {
		return s.Tables[0].RotaryDim / 2
	}
	return s.HeadDim / 2
}

// planeOf returns the plane of a dimension, the number of planes for one that does not rotate.
func planeOf(s *loader.Spec, dim int) int {
	planes := planesOf(s)
	switch {
	case dim >= 2*planes:
		return planes
	case s.Interleaved:
		return dim / 2
	}
	return dim % planes
}

// Scores depend on positions by the distance alone: those of the trace are the sum over planes of the closed form, which knows no other
// position. So a shift of all positions leaves them as they are.
func scoresDependOnDistance(t *testing.T, e example) {
	r := reference(t, e.c)
	r.Precision = rope.Float64Angles
	tr, err := r.Forward(prompt, loadertest.Gains{})
	if err != nil {
		t.Fatal(err)
	}
	for l, kind := range e.c.Spec.Kinds {
		table := &rope.Table{InvFreq: make([]float64, planesOf(&e.c.Spec)), Scale: 1} // frequency 0 where nothing turns
		if kind.Table != loader.Unrotated {
			if table, err = rope.New(e.c.Spec.Tables[kind.Table], e.c.Spec.HeadDim, len(prompt)); err != nil {
				t.Fatal(err)
			}
		}
		for h := range e.c.Spec.Heads {
			kv := h / e.c.Spec.Group()
			for i := range prompt {
				for j := range i + 1 {
					got := 0.0
					for d, q := range tr.QRot[l][h][i] {
						got += q * tr.KRot[l][kv][j][d]
					}
					want := scoreAtDistance(&e.c.Spec, table, tr.QPre[l][h][i], tr.KPre[l][kv][j], i-j)
					if math.Abs(got-want) > 1e-5 { // cosines are float32
						t.Fatalf("L%dH%d: row %d, key %d: got %v, want %v", l, h, i, j, got, want)
					}
				}
			}
		}
	}
}

// scoreAtDistance is the real part of q times the conjugate of k times e^(i w distance), summed over planes.
func scoreAtDistance(s *loader.Spec, table *rope.Table, q, k []float64, distance int) float64 {
	sum := 0.0
	members := make([][]int, len(table.InvFreq)+1)
	for d := range q {
		members[planeOf(s, d)] = append(members[planeOf(s, d)], d)
	}
	for p, w := range table.InvFreq {
		a, b := members[p][0], members[p][1]
		sin, cos := math.Sincos(w * float64(distance))
		sum += table.Scale * table.Scale * ((q[a]*k[a]+q[b]*k[b])*cos + (q[a]*k[b]-q[b]*k[a])*sin)
	}
	for _, d := range members[len(table.InvFreq)] {
		sum += q[d] * k[d]
	}
	return sum
}

// No row sees a later one, or a key outside of its window; tables that depend on the length apart.
func rowsSeeTheirKeysOnly(t *testing.T, e example) {
	for l, kind := range e.c.Spec.Kinds {
		for h, rows := range e.plain.Attention[l] {
			for row, p := range rows {
				for key, v := range p {
					if visible := kind.Window == 0 || row-key < kind.Window; visible != (v > 0) {
						t.Fatalf("L%dH%d: row %d, key %d: got weight %g with a window of %d", l, h, row, key, v, kind.Window)
					}
				}
			}
		}
	}
	if beyond := e.c.Spec.Tables[0].VariesBeyond(); beyond > 0 && beyond < len(prompt) {
		return
	}
	part := forward(t, e.c, prompt[:9], loadertest.Gains{})
	if d := largest(part.Logits, e.plain.Logits[:9]); d != 0 {
		t.Errorf("later tokens change earlier logits by %g", d)
	}
}
