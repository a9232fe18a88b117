package decoder

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader/loadertest"
)

// attentionSummary computes from whole attention rows [heads, rows, T] what a probe reports of one of them.
func attentionSummary(row []float32, spans [][2]int32) (argmax int32, gap float64, mass []float64) {
	s := summarise(row) // the weights stand for logits: argmax and gap are the same thing
	for _, span := range spans {
		sum := 0.0
		for _, w := range row[span[0]:span[1]] {
			sum += float64(w)
		}
		mass = append(mass, sum)
	}
	return s.argmax, s.gap, mass
}

// TestProbe: what Ask's probe reports is what Trace's whole attention rows say, and these are what the float64 reference says.
func TestProbe(t *testing.T) {
	const most = 9 // rows of the longest answer
	prompts := []*Prompt{
		{IDs: tokens(500, 60), Question: 40, Answer: tokens(501, 3), Spans: [][2]int32{{0, 1}, {5, 25}, {60, 60}}},
		{IDs: tokens(502, 33), Question: 20, Spans: [][2]int32{{0, 33}, {10, 10}, {32, 33}}},
		{IDs: tokens(503, 101), Question: 40, Answer: tokens(504, 9), Spans: [][2]int32{{50, 101}, {1, 100}, {0, 101}}},
	}
	conds := []Condition{{Probe: true}, {}, {Edits: edits(t, "temperature=0.5:L1H2@question"), Probe: true}, {Edits: edits(t, "zero:L1H2")}}
	ref := reference(t, ckpt(t, "float32"))
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		replies := ask(t, m, prompts, conds, AskOptions{Batch: smallBatch(be)})
		worst := 0.0
		for i, p := range prompts {
			for k, c := range conds {
				a := replies[i][k].Attention
				if (a != nil) != c.Probe {
					t.Fatalf("prompt %d, condition %d: probed %t, want %t", i, k, a != nil, c.Probe)
				}
				if a == nil {
					continue
				}
				n := max(1, len(p.Answer))
				if a.Layers != 3 || a.Heads != 4 || a.Rows != n || a.Spans != 3 || len(a.Mass) != 3*4*n*3 || len(a.Argmax) != 3*4*n || len(a.Gap) != 3*4*n {
					t.Fatalf("prompt %d: got %d x %d x %d x %d", i, a.Layers, a.Heads, a.Rows, a.Spans)
				}
				rows := rowRange(len(p.IDs)-1, len(p.IDs)-1+n)
				padded := append(slices.Clone(rows), make([]int, most-n)...) // one shape for all prompts
				tr := trace(t, m, p, c.Edits, TraceOptions{Attention: padded, Hidden: -1})
				exact, err := ref.Forward(append(append([]int32(nil), p.IDs...), p.Answer...), gainsOf(c.Edits, p))
				if err != nil {
					t.Fatal(err)
				}
				for l := range 3 {
					for h := range 4 {
						for r := range n {
							at := (l*4+h)*n + r
							row := tr.Attention[l][(h*most+r)*tr.T : (h*most+r+1)*tr.T]
							arg, gap, mass := attentionSummary(row, p.Spans)
							name := fmt.Sprintf("prompt %d, condition %d, %v, row %d", i, k, Head{l, h}, r)
							if gap > 1e-6 && a.Argmax[at] != arg || math.Abs(float64(a.Gap[at])-gap) > 1e-6 {
								t.Errorf("%s: got argmax %d by %g, want %d by %g", name, a.Argmax[at], a.Gap[at], arg, gap)
							}
							if d := math.Abs(float64(a.Write[at]) - exact.Write[l][rows[r]][h]); !(d <= 5e-5*max(1, exact.Write[l][rows[r]][h])) {
								t.Errorf("%s: write norm %g, want %g", name, a.Write[at], exact.Write[l][rows[r]][h])
							}
							for s := range mass {
								d := math.Abs(float64(a.Mass[at*3+s]) - mass[s])
								worst = max(worst, d)
								if !(d <= 1e-6) {
									t.Errorf("%s, span %d: mass %g, want %g", name, s, a.Mass[at*3+s], mass[s])
								}
							}
							for key, w := range row {
								e := 0.0
								if key < len(exact.Attention[l][h][rows[r]]) {
									e = exact.Attention[l][h][rows[r]][key]
								}
								if math.Abs(float64(w)-e) > 1e-5 {
									t.Fatalf("%s, key %d: weight %g, want %g", name, key, w, e)
								}
							}
						}
					}
				}
			}
		}
		t.Logf("largest difference of a mass %.1e", worst)
	})
}

// TestTrace holds Trace's hidden rows, queries and keys against the float64 reference, and its refusals.
func TestTrace(t *testing.T) {
	p := &Prompt{IDs: tokens(505, 60), Question: 40}
	exact, err := reference(t, ckpt(t, "float32")).Forward(p.IDs, gainsOf(edits(t, "scale_planes=3:L1H2:slow4@question"), p))
	if err != nil {
		t.Fatal(err)
	}
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		tr := trace(t, m, p, edits(t, "scale_planes=3:L1H2:slow4@question"), TraceOptions{Hidden: 47, QK: []int{1}})
		sameTrace(t, m, tr, exact, 47, 5e-5)
		for what, o := range map[string]TraceOptions{
			"row 60": {Logits: []int{3, 60}, Hidden: -1}, "row -1": {Attention: []int{-1}, Hidden: -1}, "row 61": {Hidden: 61}, "layer 3": {Hidden: -1, QK: []int{3}},
		} {
			if _, err := m.Trace(t.Context(), p, nil, o); err == nil || err.Error()[:len(what)] != what {
				t.Errorf("%s: got %v", what, err)
			}
		}
	})
}

// sameTrace holds what a trace has of logits of all rows, hidden states of one row, and the layers of QK against the reference.
func sameTrace(t *testing.T, m *Model, tr *Trace, exact *loadertest.Trace, row int, tolerance float64) {
	t.Helper()
	near := func(what string, got []float32, want []float64) {
		wide := make([]float64, len(got))
		for i, v := range got {
			wide[i] = float64(v)
		}
		if d, _ := largest(wide, want); !(d <= tolerance) {
			t.Errorf("%s: off by %g", what, d)
		}
	}
	flat := func(x [][][]float64) (out []float64) { // [heads][T][dim]
		for _, h := range x {
			out = append(out, slices.Concat(h...)...)
		}
		return out
	}
	d := m.cfg.headDim
	byHead := func(x []float32) (out []float32) { // [T, heads, dim] -> [heads, T, dim]
		for h := range m.cfg.heads {
			for r := range tr.T {
				out = append(out, x[(r*m.cfg.heads+h)*d:][:d]...)
			}
		}
		return out
	}
	if tr.Logits != nil {
		near("logits", slices.Concat(tr.Logits...), slices.Concat(exact.Logits...))
	}
	for l := range m.Spec.Layers {
		near(fmt.Sprintf("hidden %d", l), tr.Hidden[l], exact.Hidden[l][row])
	}
	for l, qk := range tr.QK {
		near(fmt.Sprintf("layer %d: q before rotation", l), byHead(qk.QPre), flat(exact.QPre[l]))
		near(fmt.Sprintf("layer %d: q after rotation", l), byHead(qk.QRot), flat(exact.QRot[l]))
		near(fmt.Sprintf("layer %d: k before rotation", l), qk.KPre, flat(exact.KPre[l]))
		near(fmt.Sprintf("layer %d: k after rotation", l), qk.KRot, flat(exact.KRot[l]))
		near(fmt.Sprintf("layer %d: v", l), qk.V, flat(exact.V[l]))
		near(fmt.Sprintf("layer %d: z", l), qk.Z, slices.Concat(exact.HeadOut[l]...))
		near(fmt.Sprintf("layer %d: residual", l), qk.Residual, slices.Concat(exact.Hidden[l]...))
	}
}
