package planes

import (
	"math"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
)

// head is what one head's attention over a sequence is made of, in a run without edits.
type head struct {
	at      decoder.Head
	t, dim  int
	q, k, v []float32 // [t, dim], q and k before rotation
	scale   float64   // of a score
	cap     float64   // soft cap of a score, 0 = none
	window  int       // keys that a row sees, its own included; 0 = all before it
	layout  rope.Layout
	turns   *turns
	angles  rope.Precision
}

// turns are cosines and sines, with the table's factor, by position: [t, planes]. Where nothing rotates they are 1 and 0.
type turns struct {
	cos, sin []float32
	planes   int
	factor   float64 // square of the table's factor
}

func newTurns(t *rope.Table, rows int, p rope.Precision) *turns {
	out := &turns{planes: t.Planes(), factor: t.Scale * t.Scale}
	out.cos, out.sin = t.CosSin(rows, p)
	return out
}

// newHead takes a head out of a layer's arrays.
func newHead(m *decoder.Model, at decoder.Head, tr *decoder.Trace) (*head, error) {
	s := m.Spec
	table, err := decoder.RopeTable(s, at.Layer, tr.T)
	if err != nil {
		return nil, err
	}
	if table == nil { // the model's planes, and no angle
		table = &rope.Table{InvFreq: make([]float64, planesOf(s)), Scale: 1}
	}
	d, kv, x := s.HeadDim, at.Index/s.Group(), tr.QK[at.Layer]
	h := &head{
		at: at, t: tr.T, dim: d, scale: s.ScoreScale, cap: s.ScoreCap, window: s.Kinds[at.Layer].Window, layout: layoutOf(s), angles: m.Angles(),
		k: x.KPre[kv*tr.T*d : (kv+1)*tr.T*d], v: x.V[kv*tr.T*d : (kv+1)*tr.T*d], turns: newTurns(table, tr.T, m.Angles()),
	}
	for row := range tr.T {
		h.q = append(h.q, x.QPre[(row*s.Heads+at.Index)*d:][:d]...)
	}
	return h, nil
}

// planesOf is the number of planes of the model's tables, half of a head's dimensions where it has none.
func planesOf(s *loader.Spec) int {
	for l := range s.Layers {
		if t, err := decoder.RopeTable(s, l, 1); err == nil && t != nil {
			return t.Planes()
		}
	}
	return s.HeadDim / 2
}

func layoutOf(s *loader.Spec) rope.Layout {
	if s.Interleaved {
		return rope.Interleaved
	}
	return rope.RotateHalf
}

// visible are the keys that a row sees.
func (h *head) visible(row int) heads.Span {
	if h.window > 0 {
		return heads.Span{max(0, row+1-h.window), row + 1}
	}
	return heads.Span{0, row + 1}
}

// members are the two dimensions of a plane.
func (h *head) members(plane, planes int) (a, b int) {
	if h.layout == rope.Interleaved {
		return 2 * plane, 2*plane + 1
	}
	return plane, plane + planes
}

// term is a plane's part of the score of a row and a key, and what it would be if neither turned.
func (h *head) term(t *turns, plane, row, key int) (turned, content float64) {
	a, b := h.members(plane, t.planes)
	q, k := h.q[row*h.dim:], h.k[key*h.dim:]
	qa, qb, ka, kb := float64(q[a]), float64(q[b]), float64(k[a]), float64(k[b])
	i, j := row*t.planes+plane, key*t.planes+plane
	ci, si, cj, sj := float64(t.cos[i]), float64(t.sin[i]), float64(t.cos[j]), float64(t.sin[j])
	turned = (qa*ci-qb*si)*(ka*cj-kb*sj) + (qb*ci+qa*si)*(kb*cj+ka*sj)
	return h.scale * turned, h.scale * t.factor * (qa*ka + qb*kb)
}

// rest is the part of the score that the dimensions without rotation have.
func (h *head) rest(t *turns, row, key int) float64 {
	sum := 0.0
	for d := 2 * t.planes; d < h.dim; d++ {
		sum += float64(h.q[row*h.dim+d]) * float64(h.k[key*h.dim+d])
	}
	return h.scale * sum
}

// scores are a row's scores of the keys that it sees, under an edit; nil is none.
func (h *head) scores(row int, e *edited) []float64 {
	t, gains := h.turns, []float32(nil)
	if e != nil {
		if e.TableRows.Has(row) {
			t = e.turns
		}
		if e.QRows.Has(row) {
			gains = e.QGain
		}
	}
	gain := func(plane int) float64 {
		if gains == nil {
			return 1
		}
		return float64(gains[plane])
	}
	span := h.visible(row)
	out := make([]float64, span.Len())
	for i := range out {
		sum := 0.0
		for p := range t.planes {
			turned, _ := h.term(t, p, row, span[0]+i)
			sum += gain(p) * turned
		}
		if 2*t.planes < h.dim {
			sum += gain(t.planes) * h.rest(t, row, span[0]+i)
		}
		if e != nil {
			sum *= e.LengthGain(row)
		}
		out[i] = h.capped(sum)
	}
	return out
}

func (h *head) capped(x float64) float64 {
	if h.cap == 0 {
		return x
	}
	return h.cap * math.Tanh(x/h.cap)
}

// edited is an edit of the head with its table worked out.
type edited struct {
	*decoder.HeadEdit
	turns *turns
}

func (h *head) edit(e *decoder.HeadEdit) *edited {
	out := &edited{HeadEdit: e}
	if e.Table != nil {
		out.turns = newTurns(e.Table, h.t, h.angles)
	}
	return out
}

// touches tells whether the edit changes something at a row.
func (e *edited) touches(row int) bool {
	return e.QRows.Has(row) || e.TableRows.Has(row) || e.GainRows.Has(row) || e.GrowthRows.Has(row)
}

// output is what the head puts out at a row: [dim].
func (h *head) output(row int, e *edited) []float64 {
	span := h.visible(row)
	out := make([]float64, h.dim)
	for i, w := range softmax(h.scores(row, e)) {
		for d, v := range h.v[(span[0]+i)*h.dim:][:h.dim] {
			out[d] += w * float64(v)
		}
	}
	if e != nil && e.GainRows.Has(row) {
		for d := range out {
			out[d] *= float64(e.Gain)
		}
	}
	return out
}

func softmax(s []float64) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, x := range s {
		top = math.Max(top, x)
	}
	out := make([]float64, len(s))
	for i, x := range s {
		out[i] = math.Exp(x - top)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// change is what an edit changes of the head's output, by row; nil where it changes nothing.
func (h *head) change(e *edited) [][]float64 {
	out := make([][]float64, h.t)
	for row := range h.t {
		if !e.touches(row) {
			continue
		}
		before := h.output(row, nil)
		out[row] = h.output(row, e)
		for d := range before {
			out[row][d] -= before[d]
		}
	}
	return out
}

// firstOrder is what a change of the head's output does to an outcome whose derivative by the outputs of the head's layer is g, [t, heads,
// dim], if it were linear.
func (h *head) firstOrder(g []float32, headCount int, change [][]float64) float64 {
	sum := 0.0
	for row, x := range change {
		for d := range x {
			sum += float64(g[(row*headCount+h.at.Index)*h.dim+d]) * x[d]
		}
	}
	return sum
}
