package ledger

import (
	"math"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
)

// Head is what one head's attention over a sequence is made of, in a run without edits.
type Head struct {
	at      decoder.Head
	heads   int // of its layer
	t, dim  int
	q, k, v []float32 // [t, dim], q and k before rotation
	scale   float64   // of a score
	cap     float64   // soft cap of a score, 0 = none
	window  int       // keys that a row sees, its own included; 0 = all before it
	layout  rope.Layout
	turns   *turns
	angles  rope.Precision
	turned  []float64 // [t, dim], keys turned by the layer's own table
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

// NewHead takes a head out of a layer's arrays: a trace of QK, without edits.
func NewHead(m *decoder.Model, at decoder.Head, tr *decoder.Trace) (*Head, error) {
	s := m.Spec
	table, err := decoder.RopeTable(s, at.Layer, tr.T)
	if err != nil {
		return nil, err
	}
	if table == nil { // the model's planes, and no angle
		table = &rope.Table{InvFreq: make([]float64, PlanesOf(s)), Scale: 1}
	}
	d, kv, x := s.HeadDim, at.Index/s.Group(), tr.QK[at.Layer]
	h := &Head{
		at: at, heads: s.Heads, t: tr.T, dim: d, scale: s.ScoreScale, cap: s.ScoreCap, window: s.Kinds[at.Layer].Window, layout: rope.LayoutOf(s.Interleaved), angles: m.Angles(),
		k: x.KPre[kv*tr.T*d : (kv+1)*tr.T*d], v: x.V[kv*tr.T*d : (kv+1)*tr.T*d], turns: newTurns(table, tr.T, m.Angles()),
	}
	for row := range tr.T {
		h.q = append(h.q, x.QPre[(row*s.Heads+at.Index)*d:][:d]...)
	}
	h.turned = make([]float64, 0, tr.T*d)
	for row := range tr.T {
		h.turned = append(h.turned, h.turn(h.k, row)...)
	}
	return h, nil
}

// PlanesOf is the number of planes of the model's tables, half of a head's dimensions where it has none.
func PlanesOf(s *loader.Spec) int {
	for l := range s.Layers {
		if t, err := decoder.RopeTable(s, l, 1); err == nil && t != nil {
			return t.Planes()
		}
	}
	return s.HeadDim / 2
}

// Visible are the keys that a row sees.
func (h *Head) Visible(row int) heads.Span {
	if h.window > 0 {
		return heads.Span{max(0, row+1-h.window), row + 1}
	}
	return heads.Span{0, row + 1}
}

// members are the two dimensions of a plane.
func (h *Head) members(plane, planes int) (a, b int) { return h.layout.Members(plane, 2*planes) }

// pair are the two dimensions of a plane of a row of x, [t, dim], times gains, turned by a table.
func (h *Head) pair(x []float32, t *turns, plane, row int, gain [2]float64) (a, b float64) {
	i, j := h.members(plane, t.planes)
	u, v := gain[0]*float64(x[row*h.dim+i]), gain[1]*float64(x[row*h.dim+j])
	at := row*t.planes + plane
	c, s := float64(t.cos[at]), float64(t.sin[at])
	return u*c - v*s, v*c + u*s
}

// turn is a row of x, [t, dim], turned by the layer's own table.
func (h *Head) turn(x []float32, row int) []float64 {
	out := make([]float64, h.dim)
	for p := range h.turns.planes {
		i, j := h.members(p, h.turns.planes)
		out[i], out[j] = h.pair(x, h.turns, p, row, ones)
	}
	for d := 2 * h.turns.planes; d < h.dim; d++ {
		out[d] = float64(x[row*h.dim+d])
	}
	return out
}

// term is a plane's part of the score of a row and a key, and what it would be if neither turned.
func (h *Head) term(plane, row, key int) (turned, content float64) {
	t := h.turns
	qa, qb := h.pair(h.q, t, plane, row, ones)
	ka, kb := h.pair(h.k, t, plane, key, ones)
	a, b := h.members(plane, t.planes)
	q, k := h.q[row*h.dim:], h.k[key*h.dim:]
	content = float64(q[a])*float64(k[a]) + float64(q[b])*float64(k[b])
	return h.scale * (qa*ka + qb*kb), h.scale * t.factor * content
}

// rest is the part of the score that the dimensions without rotation have.
func (h *Head) rest(row, key int) float64 {
	sum := 0.0
	for d := 2 * h.turns.planes; d < h.dim; d++ {
		sum += float64(h.q[row*h.dim+d]) * float64(h.k[key*h.dim+d])
	}
	return h.scale * sum
}

func (h *Head) capped(x float64) float64 {
	if h.cap == 0 {
		return x
	}
	return h.cap * math.Tanh(x/h.cap)
}
