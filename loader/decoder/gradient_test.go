package decoder

import (
	"context"
	"math"
	"testing"

	"github.com/headscope/headscope/loader/loadertest"
)

// TestHeadGradient compares the derivative along each sampled head output with the central difference of a float64 forward pass whose head
// is scaled at one row.
func TestHeadGradient(t *testing.T) {
	names := []string{"float32", "Gemma2/scores", "Olmo2/usual", "GPTNeoX/part"}
	if slow() {
		names = nil
		for _, v := range loadertest.Variants() {
			names = append(names, v.Name)
		}
	}
	ids := tokens(700, 20)
	outcome := []Term{{19, 5, 1}, {19, 9, -1}, {12, 33, 0.5}}
	onBackends(t, func(t *testing.T, be *Backend) {
		compiledOnlySlowly(t, be)
		for _, name := range names {
			m, r := model(t, be, name), reference(t, ckpt(t, name))
			if m.DType() != "float32" {
				continue
			}
			g, err := m.HeadGradient(context.Background(), ids, outcome)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			plain := referenceTrace(t, r, ids, loadertest.Gains{})
			if want := outcomeOf(plain, outcome); math.Abs(g.Outcome-want) > 1e-4 {
				t.Errorf("%s: outcome %g, want %g", name, g.Outcome, want)
			}
			d, width := m.cfg.headDim, m.cfg.heads*m.cfg.headDim
			for i := range 8 {
				l, h, row := i%m.Spec.Layers, (3*i)%m.cfg.heads, 19-2*i
				got := 0.0
				for k := range d {
					at := h*d + k
					got += float64(g.Z[l][row*width+at]) * plain.HeadOut[l][row][at]
				}
				const eps = 1e-3
				side := func(e float64) float64 {
					gains := loadertest.Gains{Head: func(layer, head, at int) float64 {
						if layer == l && head == h && at == row {
							return 1 + e
						}
						return 1
					}}
					return outcomeOf(referenceTrace(t, r, ids, gains), outcome)
				}
				want := (side(eps) - side(-eps)) / (2 * eps)
				if math.Abs(got-want) > 2e-5+1e-3*math.Abs(want) {
					t.Errorf("%s: L%dH%d at row %d: got %g, want %g", name, l, h, row, got, want)
				}
			}
		}
	})
}

// TestHeadGradientOfManyTerms: an outcome of more terms than a program takes has the sum of its parts' derivatives.
func TestHeadGradientOfManyTerms(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		compiledOnlySlowly(t, be)
		m, ids := model(t, be, "float32"), tokens(702, 90)
		many := make([]Term, 70)
		for i := range many {
			many[i] = Term{19 + i, ids[20+i], 1}
		}
		gradient := func(terms []Term) *HeadGradient {
			g, err := m.HeadGradient(context.Background(), ids, terms)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		got, a, b := gradient(many), gradient(many[:30]), gradient(many[30:])
		if want := outcomeOf(referenceTrace(t, reference(t, ckpt(t, "float32")), ids, loadertest.Gains{}), many); math.Abs(got.Outcome-want) > 1e-3 {
			t.Errorf("outcome %g, want %g", got.Outcome, want)
		}
		for l := range got.Z {
			for i, x := range got.Z[l] {
				if want := a.Z[l][i] + b.Z[l][i]; math.Abs(float64(x-want)) > 1e-5*max(1, math.Abs(float64(want))) {
					t.Fatalf("layer %d, %d: got %g, want %g", l, i, x, want)
				}
			}
		}
	})
}

// compiledOnlySlowly leaves XLA to the slow tests where compiling would be most of the time.
func compiledOnlySlowly(t *testing.T, be *Backend) {
	t.Helper()
	if be.Kind != KindGo && !slow() {
		t.Skip("NOT RUN on cpu: a slow test")
	}
}

func referenceTrace(t *testing.T, r *loadertest.Reference, ids []int32, g loadertest.Gains) *loadertest.Trace {
	t.Helper()
	tr, err := r.Forward(ids, g)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func outcomeOf(tr *loadertest.Trace, terms []Term) float64 {
	sum := 0.0
	for _, x := range terms {
		sum += x.Weight * summarise(tr.Logits[x.Row]).logProb[x.Token]
	}
	return sum
}

// TestTraceNorms: norms of planes, scores before the softmax and head outputs of single rows are those of a float64 forward pass.
func TestTraceNorms(t *testing.T) {
	ids := tokens(701, 21)
	rows := []int{3, 20}
	onBackends(t, func(t *testing.T, be *Backend) {
		compiledOnlySlowly(t, be)
		for _, name := range []string{"float32", "GPTNeoX/part"} {
			m := model(t, be, name)
			want := referenceTrace(t, reference(t, ckpt(t, name)), ids, loadertest.Gains{})
			got := trace(t, m, &Prompt{IDs: ids}, nil, TraceOptions{Hidden: -1, Norms: true, Heads: rows, Attention: rows, Scores: true})
			width := m.cfg.planes() + 1
			for l := range m.Spec.Layers {
				var q, k, z, s, wantS []float64
				for h := range m.cfg.heads {
					q = append(q, referenceNorms(m, want.QPre[l][h])...)
				}
				for h := range m.cfg.kv {
					k = append(k, referenceNorms(m, want.KPre[l][h])...)
				}
				for _, r := range rows {
					z = append(z, want.HeadOut[l][r]...)
				}
				for h := range m.cfg.heads {
					for i, r := range rows {
						for key := range r + 1 {
							dot := 0.0
							for d, x := range want.QRot[l][h][r] {
								dot += x * want.KRot[l][h/m.cfg.group()][key][d]
							}
							wantS = append(wantS, dot*m.Spec.ScoreScale)
							s = append(s, float64(got.Attention[l][(h*len(rows)+i)*len(ids)+key]))
						}
						if r+1 < len(ids) && got.Attention[l][(h*len(rows)+i)*len(ids)+r+1] > -1e29 {
							t.Errorf("%s: layer %d: a later key has a score", name, l)
						}
					}
				}
				if len(got.Norms[l].Q) != m.cfg.heads*width {
					t.Fatalf("got %d norms", len(got.Norms[l].Q))
				}
				for what, pair := range map[string][2][]float64{
					"q": {float64s(got.Norms[l].Q), q}, "k": {float64s(got.Norms[l].K), k}, "z": {float64s(got.Heads[l]), z}, "scores": {s, wantS},
				} {
					if d, scale := largest(pair[0], pair[1]); !(d <= 2e-5*max(1, scale)) {
						t.Errorf("%s: layer %d: %s differ by %g of %g", name, l, what, d, scale)
					}
				}
			}
		}
	})
}

// referenceNorms are the means of the planes' norms, and of the other dimensions', over rows x [T][headDim] of a rotate_half layout.
func referenceNorms(m *Model, x [][]float64) []float64 {
	n := m.cfg.planes()
	out := make([]float64, n+1)
	for _, row := range x {
		for i := range n {
			out[i] += math.Hypot(row[i], row[i+n]) / float64(len(x))
		}
		rest := 0.0
		for _, v := range row[2*n:] {
			rest += v * v
		}
		out[n] += math.Sqrt(rest) / float64(len(x))
	}
	return out
}

func float64s(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
