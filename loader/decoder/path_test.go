package decoder

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
)

// TestRowScope: an edit of rows lo..hi is a float64 forward pass with the gain at these rows, whichever program runs it.
func TestRowScope(t *testing.T) {
	p := &Prompt{IDs: tokens(710, 40), Question: 30, Answer: tokens(711, 2)}
	ids := slices.Concat(p.IDs, p.Answer)
	form := "scale=-2:L0H1,L2H3@12..17"
	onBackends(t, func(t *testing.T, be *Backend) {
		compiledOnlySlowly(t, be)
		m := model(t, be, "float32")
		want := referenceTrace(t, reference(t, ckpt(t, "float32")), ids, loadertest.Gains{Head: func(l, h, row int) float64 {
			if (l == 0 && h == 1 || l == 2 && h == 3) && row >= 12 && row < 17 {
				return -2
			}
			return 1
		}})
		whole := trace(t, m, p, edits(t, form), TraceOptions{Hidden: -1, Logits: []int{39, 40}})
		rows := ask(t, m, []*Prompt{p}, []Condition{{Edits: edits(t, form), ScoreOnly: true}}, AskOptions{})[0][0]
		for i, r := range []int{39, 40} {
			w := summarise(want.Logits[r]).logProb[p.Answer[i]]
			if got := summarise(whole.Logits[i]).logProb[p.Answer[i]]; math.Abs(got-w) > 1e-4 {
				t.Errorf("row %d of a whole pass: got %g, want %g", r, got, w)
			}
			if got := rows.LogProb[i]; math.Abs(got-w) > 1e-4 {
				t.Errorf("row %d over a kept cache: got %g, want %g", r, got, w)
			}
		}
	})
	for _, bad := range []string{"zero:L0H0@5..5", "zero:L0H0@7..5", "zero:L0H0@..5", "zero:L0H0@1..9999999999"} {
		if _, err := ParseEdit(bad, nil); err == nil || !strings.Contains(err.Error(), "12..20") {
			t.Errorf("%s: got %v", bad, err)
		}
	}
	if s := edits(t, form)[0].String(); s != form {
		t.Errorf("got %s", s)
	}
	m := model(t, backend(t, "go"), "float32")
	late := &Prompt{IDs: p.IDs, Donor: p.IDs}
	if _, err := m.Trace(context.Background(), late, edits(t, "patch:L0H0@90..95"), TraceOptions{Hidden: -1}); err == nil {
		t.Error("a patch of rows behind the prompt is taken")
	}
}

// pathOracle is a head's output in float64 when one of its inputs is read of the residual stream x plus delta.
type pathOracle struct {
	m  *Model
	tr *loadertest.Trace
}

func values(t *testing.T, c *loader.Checkpoint, p loader.Param) []float64 {
	t.Helper()
	x, err := c.Float32s(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return float64s(x)
}

// delta is what another output of a head adds at one row: [hidden].
func (o pathOracle) delta(t *testing.T, c *loader.Checkpoint, src Head, row int, z []float64) []float64 {
	w, d, width := values(t, c, o.m.Spec.Params.Layer(src.Layer).O), o.m.cfg.headDim, o.m.cfg.heads*o.m.cfg.headDim
	out := make([]float64, o.m.Spec.Hidden)
	for i := range out {
		for k := range d {
			out[i] += w[i*width+src.Index*d+k] * (z[k] - o.tr.HeadOut[src.Layer][row][src.Index*d+k])
		}
	}
	return out
}

// input is one head's query, key or value at a row of the plain run's residual plus delta: an RMS norm, a projection, for q and k a rotation.
func (o pathOracle) input(t *testing.T, c *loader.Checkpoint, l, head, row int, part string, delta []float64) []float64 {
	layer := o.m.Spec.Params.Layer(l)
	x := slices.Clone(o.tr.Hidden[l-1][row])
	sum := 0.0
	for i := range x {
		x[i] += delta[i]
		sum += x[i] * x[i]
	}
	norm := values(t, c, layer.PreAttn)
	for i := range x {
		x[i] *= norm[i] / math.Sqrt(sum/float64(len(x))+o.m.Spec.NormEps)
	}
	d := o.m.cfg.headDim
	w := values(t, c, map[string]loader.Param{"q": layer.Q, "k": layer.K, "v": layer.V}[part])
	y := make([]float64, d)
	for k := range y {
		for i := range x {
			y[k] += w[(head*d+k)*len(x)+i] * x[i]
		}
	}
	if part == "v" {
		return y
	}
	table, err := RopeTable(o.m.Spec, l, 1)
	if err != nil {
		t.Fatal(err)
	}
	turned := slices.Clone(y)
	for p, f := range table.InvFreq {
		s, cos := math.Sincos(float64(row) * f)
		a, b := y[p], y[p+d/2]
		turned[p], turned[p+d/2] = a*cos-b*s, b*cos+a*s
	}
	return turned
}

// TestPath: the output that the destination is given is that of a float64 calculation; nothing else differs from patching it in.
func TestPath(t *testing.T) {
	c := ckpt(t, "float32")
	ids, donor := tokens(720, 24), tokens(720, 24)
	copy(donor[4:8], tokens(721, 4))
	r := reference(t, c)
	plain, other := referenceTrace(t, r, ids, loadertest.Gains{}), referenceTrace(t, r, donor, loadertest.Gains{})
	src, dst := Head{0, 3}, Head{2, 1}
	m := model(t, backend(t, "go"), "float32")
	o := pathOracle{m, plain}
	d, kv := m.cfg.headDim, dst.Index/m.cfg.group()
	for _, input := range []string{"q", "k", "v"} {
		q, k, v := plain.QRot[2][dst.Index], slices.Clone(plain.KRot[2][kv]), slices.Clone(plain.V[2][kv])
		for row := 6; row < 20; row++ {
			delta := o.delta(t, c, src, row, other.HeadOut[0][row][src.Index*d:][:d])
			switch input {
			case "q":
				q = slices.Clone(q)
				q[row] = o.input(t, c, 2, dst.Index, row, "q", delta)
			case "k":
				k[row] = o.input(t, c, 2, kv, row, "k", delta)
			default:
				v[row] = o.input(t, c, 2, kv, row, "v", delta)
			}
		}
		form := fmt.Sprintf("path=%s.%s:%s@6..20", src, input, dst)
		got := trace(t, m, &Prompt{IDs: ids, Donor: donor}, edits(t, form), TraceOptions{Hidden: -1, Heads: rowRange(0, 24)})
		changed := 0.0
		for row := range ids {
			want := attended(q[row], k[:row+1], v[:row+1], m.Spec.ScoreScale)
			at := (row*m.cfg.heads + dst.Index) * d
			if diff, _ := largest(float64s(got.Heads[2][at:at+d]), want); !(diff <= 2e-5) {
				t.Errorf("%s: row %d differs by %g", form, row, diff)
			}
			diff, _ := largest(want, plain.HeadOut[2][row][dst.Index*d:][:d])
			changed = max(changed, diff)
			for h := range m.cfg.heads {
				if at := (row*m.cfg.heads + h) * d; h != dst.Index {
					if diff, _ := largest(float64s(got.Heads[2][at:at+d]), plain.HeadOut[2][row][h*d:][:d]); !(diff <= 2e-5) {
						t.Errorf("%s: head %d, row %d differs by %g", form, h, row, diff)
					}
				}
			}
		}
		if changed < 1e-3 {
			t.Errorf("%s: changes only %g", form, changed)
		}
	}
	for _, bad := range []string{"path=L2H0.q:L1H0", "path=L0H0.x:L1H0", "path=0.q:L1H0", "path:L1H0"} {
		if _, err := ParseEdit(bad, nil); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	if s := edits(t, "path=L0H3.v:L2H1@6..20")[0].String(); s != "path=L0H3.v:L2H1@6..20" {
		t.Errorf("got %s", s)
	}
	if err := CheckEdits(m.Spec, edits(t, "path=L0H9.v:L2H1@last"), 4, 2); err == nil {
		t.Error("a source that does not exist is taken")
	}
}

// attended is one row of attention.
func attended(q []float64, keys, v [][]float64, scale float64) []float64 {
	s := make([]float64, len(keys))
	sum := 0.0
	for i, k := range keys {
		for j := range q {
			s[i] += q[j] * k[j] * scale
		}
		s[i] = math.Exp(s[i])
		sum += s[i]
	}
	out := make([]float64, len(v[0]))
	for i := range keys {
		for j := range out {
			out[j] += s[i] / sum * v[i][j]
		}
	}
	return out
}

// TestDirectEffects compares with float64: a head's changed output through its slice of the output projection, the frozen norm and the
// output matrix.
func TestDirectEffects(t *testing.T) {
	for _, name := range []string{"float32", "GPTNeoX/usual", "Gemma2/logits"} {
		c := ckpt(t, name)
		m := model(t, backend(t, "go"), name)
		ids, donor := tokens(730, 16), tokens(731, 16)
		row := []int{15}
		plain := trace(t, m, &Prompt{IDs: ids}, nil, TraceOptions{Hidden: 15, Heads: row, Logits: row})
		other := trace(t, m, &Prompt{IDs: donor}, nil, TraceOptions{Hidden: -1, Heads: row})
		got, err := m.DirectEffects(&DirectRequest{Final: plain.Hidden[m.Spec.Layers-1], Plain: plain.Heads, Changed: other.Heads, Token: 7, Other: 30})
		if err != nil {
			t.Fatal(err)
		}
		for l := range m.Spec.Layers {
			for h := range m.cfg.heads {
				want := directEffect(t, c, m, plain, other.Heads[l], Head{l, h})
				if g := got[l*m.cfg.heads+h]; math.Abs(g-want) > 2e-5+1e-4*math.Abs(want) {
					t.Errorf("%s: L%dH%d: got %g, want %g", name, l, h, g, want)
				}
			}
		}
	}
}

func directEffect(t *testing.T, c *loader.Checkpoint, m *Model, plain *Trace, changed []float32, head Head) float64 {
	s := m.Spec
	layer := s.Params.Layer(head.Layer)
	o, d, width := values(t, c, layer.O), m.cfg.headDim, m.cfg.heads*m.cfg.headDim
	write := func(z []float32) []float64 {
		y := make([]float64, s.Hidden)
		for i := range y {
			for k := range width {
				y[i] += o[i*width+k] * float64(z[k])
			}
			if layer.OBias.Has() {
				y[i] += values(t, c, layer.OBias)[i]
			}
		}
		if s.Norms.PostAttn {
			y = normed(s, y, y, values(t, c, layer.PostAttn))
		}
		return y
	}
	z := slices.Clone(plain.Heads[head.Layer])
	before := write(z)
	copy(z[head.Index*d:][:d], changed[head.Index*d:])
	delta := write(z)
	for i := range delta {
		delta[i] = s.ResidualScale * (delta[i] - before[i])
	}
	var weight []float64
	if s.Params.FinalNorm.Has() {
		weight = values(t, c, s.Params.FinalNorm)
	}
	n := normed(s, float64s(plain.Hidden[s.Layers-1]), delta, weight)
	out := s.Params.Head
	if s.Tied {
		out = s.Params.Embed
	}
	w := values(t, c, out)
	effect := 0.0
	for token, sign := range map[int]float64{7: 1, 30: -1} {
		change := 0.0
		for i, v := range n {
			change += w[token*s.Hidden+i] * v
		}
		before, after := float64(plain.Logits[0][token]), change*s.LogitScale/s.LogitDivide
		if limit := s.LogitCap; limit != 0 {
			after = limit * math.Tanh(math.Atanh(before/limit)+after/limit)
		} else {
			after += before
		}
		effect += sign * (after - before)
	}
	return effect
}

// normed is y behind the norm that x would have.
func normed(s *loader.Spec, x, y, weight []float64) []float64 {
	mx, my, sum := 0.0, 0.0, 0.0
	if s.Norm == loader.LayerNorm || s.Norm == loader.LayerNormBare {
		for i := range x {
			mx, my = mx+x[i]/float64(len(x)), my+y[i]/float64(len(x))
		}
	}
	for _, v := range x {
		sum += (v - mx) * (v - mx)
	}
	scale := math.Sqrt(sum/float64(len(x)) + s.NormEps)
	out := make([]float64, len(y))
	for i := range y {
		out[i] = (y[i] - my) / scale
		if s.Norm == loader.RMSNormOffset {
			out[i] *= 1 + weight[i]
		} else if weight != nil {
			out[i] *= weight[i]
		}
	}
	return out
}
