package decoder

import (
	"math"
	"testing"
)

// deviation is the standard deviation of scores.
func deviation(x []float32) float64 {
	mean, sum := 0.0, 0.0
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		sum += (float64(v) - mean) * (float64(v) - mean)
	}
	return math.Sqrt(sum / float64(len(x)))
}

// TestKeepSpread: in the first edited layer every row's scores vary as the unmodified model's do, in the edited rows of the edited head alone;
// without the other edit it changes no bit.
func TestKeepSpread(t *testing.T) {
	m := model(t, backend(t, "go"), "float32")
	p := &Prompt{IDs: tokens(510, 40), Question: 25}
	rows := rowRange(0, len(p.IDs))
	scoresOf := func(forms ...string) []float32 {
		return trace(t, m, p, edits(t, forms...), TraceOptions{Attention: rows, Scores: true, Hidden: -1}).Attention[1]
	}
	base, away, kept := scoresOf(), scoresOf("zero_planes:L1H2:slow8@question"), scoresOf("zero_planes:L1H2:slow8@question", "keep_spread:L1H2@question")
	alone := scoresOf("keep_spread:L1H2")
	n, changed := len(p.IDs), 0.0
	for h := range m.Spec.Heads {
		for r := range rows {
			at := (h*n + r) * n
			visible := func(x []float32) []float32 { return x[at : at+r+1] }
			want, got := deviation(visible(base)), deviation(visible(kept))
			if math.Abs(got-want) > 2e-6*(1+want) {
				t.Errorf("head %d, row %d: scores deviate by %g, want %g", h, r, got, want)
			}
			changed = max(changed, math.Abs(deviation(visible(away))-want)/want)
			for i, x := range visible(base) {
				if edited := h == 2 && r >= p.Question; !edited && visible(kept)[i] != x {
					t.Fatalf("head %d, row %d: changed", h, r)
				}
				if visible(alone)[i] != x {
					t.Fatalf("head %d, row %d: changed with nothing to make good", h, r)
				}
			}
		}
	}
	if changed < 0.05 {
		t.Errorf("taking the planes away changes the deviation by %g: nothing is tested", changed)
	}
}

// TestLengthScale: the factor of every row is that of the float64 reference, which multiplies whole queries; rows of up to Length keys keep
// their scores, and a factor that would fall below 0 is 0.
func TestLengthScale(t *testing.T) {
	m, p := model(t, backend(t, "go"), "float32"), &Prompt{IDs: tokens(511, 45), Question: 25}
	rows := rowRange(0, len(p.IDs))
	plain := trace(t, m, p, nil, TraceOptions{Logits: rows, Hidden: -1})
	for _, form := range []string{"length_scale=0.7+20:L0H2,L2H1", "length_scale=-1.9+20:L0H2,L1H1@question"} {
		es := edits(t, form)
		want, err := reference(t, ckpt(t, "float32")).Forward(p.IDs, gainsOf(es, p))
		if err != nil {
			t.Fatal(err)
		}
		got := trace(t, m, p, es, TraceOptions{Logits: rows, Hidden: -1})
		worst, moved := 0.0, 0.0
		for r := range rows {
			for v, x := range want.Logits[r] {
				worst = max(worst, math.Abs(x-float64(got.Logits[r][v])))
				if d := math.Abs(float64(plain.Logits[r][v] - got.Logits[r][v])); r < es[0].Length && d != 0 {
					t.Fatalf("%s: row %d: changed by %g", form, r, d)
				} else {
					moved = max(moved, d)
				}
			}
		}
		if worst > 1e-4 || moved < 1e-3 {
			t.Errorf("%s: %g from the reference, moved by %g", form, worst, moved)
		}
	}
}

// TestGainsTogether: gains are bounded one by one and as a product, and what cannot be rescaled is refused.
func TestGainsTogether(t *testing.T) {
	m := model(t, backend(t, "go"), "float32")
	for _, forms := range [][]string{
		{"scale=1e3:L0H1", "scale=1e3:L0H1"}, {"temperature=1e-3:L0H1", "scale_planes=100:L0H1:0+1"}, {"keep_spread:L1H1", "freeze:L1H1:slow4"},
	} {
		if err := CheckEdits(m.Spec, edits(t, forms...), 9, 3); err == nil {
			t.Errorf("%v: taken", forms)
		}
	}
	if err := CheckEdits(m.Spec, edits(t, "scale=1e4:L0H1", "scale=1e4:L0H2", "keep_spread:L1H1", "freeze:L1H2:slow4"), 9, 3); err != nil {
		t.Error(err)
	}
	for _, form := range []string{"scale=1e30:L0H1", "scale=-10001:L0H1", "temperature=1e-5:L0H1", "temperature=-1:L0H1", "scale_planes=inf:L0H1:0", "length_scale=0.1:L0H1", "length_scale=0.1+0:L0H1", "length_scale=1e9+5:L0H1"} {
		if _, err := ParseEdit(form, nil); err == nil {
			t.Errorf("%s: taken", form)
		}
	}
	e, err := ParseEdit("length_scale=0.1+512:L0H1@question", nil)
	if err != nil || e.Value != 0.1 || e.Length != 512 || e.String() != "length_scale=0.1+512:L0H1@question" {
		t.Errorf("got %v, %v", e, err)
	}
}
