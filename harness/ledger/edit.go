package ledger

import (
	"math"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// Edit is an edit of a head with its table worked out.
type Edit struct {
	*decoder.HeadEdit
	turns   *turns
	altered []bool // planes that the table turns otherwise than the layer's own
}

// ones are the gains of a plane that change nothing.
var ones = [2]float64{1, 1}

// Edit makes an edit of this head ready.
func (h *Head) Edit(e *decoder.HeadEdit) *Edit {
	out := &Edit{HeadEdit: e}
	if e.Table == nil {
		return out
	}
	out.turns, out.altered = newTurns(e.Table, h.t, h.angles), make([]bool, h.turns.planes)
	for i := range out.turns.cos {
		if out.turns.cos[i] != h.turns.cos[i] || out.turns.sin[i] != h.turns.sin[i] {
			out.altered[i%h.turns.planes] = true
		}
	}
	return out
}

// touches tells whether the edit changes something at a row.
func (e *Edit) touches(row int) bool {
	return e.scores(row) || e.GainRows.Has(row)
}

// scores tells whether the edit changes a row's scores.
func (e *Edit) scores(row int) bool {
	return e.QRows.Has(row) || e.DimRows.Has(row) || e.TableRows.Has(row) || e.GrowthRows.Has(row)
}

// row is one row of a head, ready for edits.
type row struct {
	*Head
	at   int
	span heads.Span
	q    []float64 // [dim], turned
	base []float64 // scores of the visible keys before a cap, without edits
}

func (h *Head) row(at int) *row {
	r := &row{Head: h, at: at, span: h.Visible(at), q: h.turn(h.q, at)}
	r.base = make([]float64, r.span.Len())
	for i := range r.base {
		sum := 0.0
		for d, k := range h.turned[(r.span[0]+i)*h.dim:][:h.dim] {
			sum += r.q[d] * k
		}
		r.base[i] = h.scale * sum
	}
	return r
}

// gains are those of the query's dimensions under an edit, [dim]; nil where they are all 1.
func (r *row) gains(e *Edit) []float64 {
	if e == nil || !e.QRows.Has(r.at) && !e.DimRows.Has(r.at) {
		return nil
	}
	out := make([]float64, r.dim)
	n := r.turns.planes
	for d := range out {
		plane := n // of the dimensions that do not rotate
		if d < 2*n {
			plane = r.layout.Plane(d, 2*n)
		}
		out[d] = 1
		if e.QRows.Has(r.at) {
			out[d] = float64(e.QGain[plane])
		}
		if e.DimRows.Has(r.at) {
			out[d] *= float64(e.QDims[d])
		}
	}
	return out
}

// scores are those of the visible keys under an edit, nil for none: the unmodified ones and what each plane that is another adds.
func (r *row) scores(e *Edit) []float64 {
	out := append([]float64(nil), r.base...)
	gains := r.gains(e)
	turned := e != nil && e.TableRows.Has(r.at)
	for p := range r.turns.planes {
		i, j := r.members(p, r.turns.planes)
		gain := ones
		if gains != nil {
			gain = [2]float64{gains[i], gains[j]}
		}
		if other := turned && e.altered[p]; other || gain != ones {
			r.plane(out, e, p, gain)
		}
	}
	for d := 2 * r.turns.planes; gains != nil && d < r.dim; d++ {
		if gains[d] == 1 {
			continue
		}
		q := r.scale * (gains[d] - 1) * r.q[d]
		for k := range out {
			out[k] += q * r.turned[(r.span[0]+k)*r.dim+d]
		}
	}
	grown := 1.0
	if e != nil {
		grown = e.LengthGain(r.at)
	}
	for k, x := range out {
		out[k] = r.capped(grown * x)
	}
	return out
}

// plane adds to scores what a plane of the edited head has more than that of the unmodified one.
func (r *row) plane(scores []float64, e *Edit, p int, gain [2]float64) {
	t := r.turns
	if e.TableRows.Has(r.at) {
		t = e.turns
	}
	i, j := r.members(p, t.planes)
	qa, qb := r.pair(r.Head.q, t, p, r.at, gain)
	for n := range scores {
		key := r.span[0] + n
		own := r.turned[key*r.dim:]
		ka, kb := own[i], own[j]
		was := r.q[i]*ka + r.q[j]*kb
		if t != r.turns {
			ka, kb = r.pair(r.k, t, p, key, ones)
		}
		scores[n] += r.scale * (qa*ka + qb*kb - was)
	}
}

// Scores are those of the keys that a row sees, in their order, under an edit; nil is none.
func (h *Head) Scores(at int, e *Edit) []float64 { return h.row(at).scores(e) }

// ScoreChange is what an edit changes of a row's mean score of the code's keys less that of the keys outside of the needle.
func (h *Head) ScoreChange(at int, e *Edit, code, needle heads.Span) float64 {
	r := h.row(at)
	return OverRest(r.scores(e), r.span, code, needle) - OverRest(r.scores(nil), r.span, code, needle)
}

// FirstOrder predicts what each edit changes of each outcome at some rows, to first order: the exact change of the head's output times the
// outcome's derivative by the outputs of the head's layer, [t, heads, dim]. The result is by edit and outcome.
func (h *Head) FirstOrder(edits []*Edit, outcomes [][]float32, rows decoder.Rows) [][]float64 {
	out := make([][]float64, len(edits))
	for i := range out {
		out[i] = make([]float64, len(outcomes))
	}
	for at := rows.Lo; at < min(rows.Hi, h.t); at++ {
		var touching []int
		for i, e := range edits {
			if e.touches(at) {
				touching = append(touching, i)
			}
		}
		along := h.along(outcomes, at)
		if len(touching) == 0 || along == nil {
			continue
		}
		r := h.row(at)
		before := Softmax(r.scores(nil))
		for _, i := range touching {
			e := edits[i]
			after, gain := before, 1.0
			if e.GainRows.Has(at) {
				gain = float64(e.Gain)
			}
			if e.scores(at) {
				after = Softmax(r.scores(e))
			}
			for k, w := range after {
				change := gain*w - before[k]
				for o := range outcomes {
					out[i][o] += change * along[o][k]
				}
			}
		}
	}
	return out
}

// along is, for each outcome and visible key, the key's value along the outcome's derivative at a row: what the outcome gains for a weight
// of 1 on that key. Nil where all derivatives are 0.
func (h *Head) along(outcomes [][]float32, at int) [][]float64 {
	span := h.Visible(at)
	out := make([][]float64, len(outcomes))
	any := false
	for o, z := range outcomes {
		g := z[(at*h.heads+h.at.Index)*h.dim:][:h.dim]
		out[o] = make([]float64, span.Len())
		moves := false
		for _, x := range g {
			moves = moves || x != 0
		}
		if !moves {
			continue
		}
		any = true
		for k := range out[o] {
			for d, v := range h.v[(span[0]+k)*h.dim:][:h.dim] {
				out[o][k] += float64(g[d]) * float64(v)
			}
		}
	}
	if !any {
		return nil
	}
	return out
}

// Softmax of a row's scores.
func Softmax(s []float64) []float64 {
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
