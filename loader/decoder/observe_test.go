package decoder

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
)

// parameter is a tensor in float64, row by row; nil where the family has none.
func parameter(t *testing.T, c *loader.Checkpoint, p loader.Param) [][]float64 {
	t.Helper()
	if !p.Has() {
		return nil
	}
	x, err := c.Float32s(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	width := p.Shape[len(p.Shape)-1]
	var out [][]float64
	for from := 0; from < len(x); from += width {
		row := make([]float64, width)
		for i := range row {
			row[i] = float64(x[from+i])
		}
		out = append(out, row)
	}
	return out
}

// frozenNorm takes what is a part of x through a norm that reads x: the norm's mean and size stay those of x.
func frozenNorm(s *loader.Spec, part, x []float64, weight [][]float64) []float64 {
	n, mean, partMean, size := float64(len(x)), 0.0, 0.0, 0.0
	if centres(s) {
		for i := range x {
			mean, partMean = mean+x[i]/n, partMean+part[i]/n
		}
	}
	for _, v := range x {
		size += (v - mean) * (v - mean) / n
	}
	out := make([]float64, len(x))
	for i, v := range part {
		out[i] = (v - partMean) / math.Sqrt(size+s.NormEps)
		switch {
		case weight == nil:
		case s.Norm == loader.RMSNormOffset:
			out[i] *= 1 + weight[0][i]
		default:
			out[i] *= weight[0][i]
		}
	}
	return out
}

// directReference is what a head's output z [headDim] adds to a contrast at a row: forward, step by step, in float64.
type directReference struct {
	t     *testing.T
	c     *loader.Checkpoint
	exact *loadertest.Trace
}

func (d directReference) of(l, h, row int, z []float64, c Contrast) float64 {
	s, p := &d.c.Spec, d.c.Spec.Params.Layer(l)
	o := parameter(d.t, d.c, p.O)
	part, whole := make([]float64, s.Hidden), make([]float64, s.Hidden)
	for i := range part {
		for k, v := range z {
			part[i] += o[i][h*s.HeadDim+k] * v
		}
		for k, v := range d.exact.HeadOut[l][row] {
			whole[i] += o[i][k] * v
		}
	}
	head := s.Params.Head
	if s.Tied {
		head = s.Params.Embed
	}
	u := parameter(d.t, d.c, head)
	if c.Bare {
		out := 0.0
		for i, v := range part {
			out += v * u[c.Token][i]
		}
		return out
	}
	if b := parameter(d.t, d.c, p.OBias); b != nil {
		for i := range whole {
			whole[i] += b[0][i]
		}
	}
	if s.Norms.PostAttn {
		part = frozenNorm(s, part, whole, parameter(d.t, d.c, p.PostAttn))
	}
	for i := range part {
		part[i] *= s.ResidualScale
	}
	part = frozenNorm(s, part, d.exact.Hidden[s.Layers-1][row], parameter(d.t, d.c, s.Params.FinalNorm))
	out := 0.0
	for i, v := range part {
		against := 0.0
		if c.Against == MeanLogit {
			for _, row := range u {
				against += row[i] / float64(len(u))
			}
		} else {
			against = u[c.Against][i]
		}
		out += v * (u[c.Token][i] - against)
	}
	return out * s.LogitScale / s.LogitDivide
}

// familyObservation: what Observe says of a row's heads is what the float64 reference says: largest weights, masses, and the writes along
// contrasts of logits, of the whole head and of the keys of spans.
func familyObservation(t *testing.T, m *Model, name string) {
	p := &Prompt{IDs: tokens(600, 30), Question: 20, Answer: tokens(601, 2)}
	rows := []LookAt{{Row: 17}, {Row: 29, Contrast: &Contrast{Token: 5, Against: MeanLogit}}, {Row: 30, Contrast: &Contrast{Token: 7, Against: 3}}, {Row: 30, Contrast: &Contrast{Token: 7, Bare: true}}}
	spans := [][2]int32{{4, 9}, {0, 31}, {12, 12}}
	o, err := m.Observe(t.Context(), p, rows, spans)
	if err != nil {
		t.Fatal(err)
	}
	c := ckpt(t, name)
	exact, err := reference(t, c).Forward(slices.Concat(p.IDs, p.Answer), loadertest.Gains{})
	if err != nil {
		t.Fatal(err)
	}
	d := directReference{t, c, exact}
	s := &c.Spec
	for r, look := range rows {
		if next := summarise(exact.Logits[look.Row]); next.argmax != o.Next[r] && next.gap > 1e-4 || math.Abs(next.gap-float64(o.NextGap[r])) > 1e-3 {
			t.Errorf("row %d: next token %d by %g, want %d by %g", look.Row, o.Next[r], o.NextGap[r], next.argmax, next.gap)
		}
		for l := range s.Layers {
			for h := range s.Heads {
				at := (l*s.Heads+h)*len(rows) + r
				name := fmt.Sprintf("row %d of %v", look.Row, Head{l, h})
				weights := exact.Attention[l][h][look.Row]
				if e := summarise(weights); e.gap > 1e-4 && e.argmax != o.Argmax[at] || math.Abs(e.gap-float64(o.Gap[at])) > 1e-4 {
					t.Errorf("%s: largest weight at %d by %g, want %d by %g", name, o.Argmax[at], o.Gap[at], e.argmax, e.gap)
				}
				if e := summarise(weights[1:]); e.gap > 1e-4 && e.argmax+1 != o.ArgmaxFar[at] {
					t.Errorf("%s: largest weight but for key 0 at %d, want %d", name, o.ArgmaxFar[at], e.argmax+1)
				}
				if look.Contrast != nil {
					z := exact.HeadOut[l][look.Row][h*s.HeadDim : (h+1)*s.HeadDim]
					if want := d.of(l, h, look.Row, z, *look.Contrast); !(math.Abs(o.Direct[at]-want) <= 1e-4*max(1, math.Abs(want))) {
						t.Errorf("%s: direct effect %g, want %g", name, o.Direct[at], want)
					}
				} else if o.Direct[at] != 0 {
					t.Errorf("%s: direct effect %g without a contrast", name, o.Direct[at])
				}
				for k, span := range spans {
					mass, part := 0.0, make([]float64, s.HeadDim)
					for key := int(span[0]); key < min(int(span[1]), look.Row+1); key++ {
						mass += weights[key]
						for i := range part {
							part[i] += weights[key] * exact.V[l][h*s.KVHeads/s.Heads][key][i]
						}
					}
					if got := float64(o.Mass[at*len(spans)+k]); !(math.Abs(got-mass) <= 1e-4) {
						t.Errorf("%s, span %d: mass %g, want %g", name, k, got, mass)
					}
					if look.Contrast == nil {
						continue
					}
					if got, want := o.From[at*len(spans)+k], d.of(l, h, look.Row, part, *look.Contrast); !(math.Abs(got-want) <= 1e-4*max(1, math.Abs(want))) {
						t.Errorf("%s, span %d: writes %g, want %g", name, k, got, want)
					}
				}
			}
		}
	}
}

// TestObserve: on every backend the law of familyObservation; more rows than a bucket holds; the largest weights are those of Ask's probe;
// and what cannot be asked is refused.
func TestObserve(t *testing.T) {
	p := &Prompt{IDs: tokens(602, 90), Question: 20, Answer: tokens(603, 2), Spans: [][2]int32{{4, 9}}}
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		familyObservation(t, m, "float32")
		a := ask(t, m, []*Prompt{p}, []Condition{{Probe: true}}, AskOptions{})[0][0].Attention
		var rows []LookAt
		for r := range 70 {
			rows = append(rows, LookAt{Row: r})
		}
		rows = append(rows, LookAt{Row: 89}, LookAt{Row: 90})
		o, err := m.Observe(t.Context(), p, rows, p.Spans)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 * 4 {
			for r := range 2 {
				got, want := i*72+70+r, i*2+r
				if o.Argmax[got] != a.Argmax[want] && a.Gap[want] > 1e-6 {
					t.Errorf("head %d, row %d: largest weight at %d, Ask says %d", i, r, o.Argmax[got], a.Argmax[want])
				}
				if math.Abs(float64(o.Mass[got]-a.Mass[want])) > 1e-6 {
					t.Errorf("head %d, row %d: mass %g, Ask says %g", i, r, o.Mass[got], a.Mass[want])
				}
			}
		}
		for want, bad := range map[string][]LookAt{
			"observe: got 0 rows, want 1 to 512":                                  nil,
			"observe: row 92 does not exist: the sequence has rows 0-91":          {{Row: 92}},
			"observe: contrast of tokens 64 and -1: the vocabulary has 64 tokens": {{Row: 1, Contrast: &Contrast{Token: 64, Against: MeanLogit}}},
		} {
			if _, err := m.Observe(t.Context(), p, bad, nil); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}
