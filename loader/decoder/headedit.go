package decoder

import (
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/loader/rope"
)

// HeadEdit is all that edits do to one head's scores and output, for those who work out its effect without running the model. Rows are
// absolute; a range that is empty stands for no edit.
type HeadEdit struct {
	QGain     []float32 // [planes+1], on the planes of the query before rotation; last, the dimensions that do not rotate
	QRows     Rows
	QDims     []float32 // [headDim], on single dimensions of the query before rotation; nil = none
	DimRows   Rows
	Table     *rope.Table // that query and key turn by; nil = the layer's own
	TableRows Rows
	Gain      float32 // on the output
	GainRows  Rows

	Growth, Length float64 // of a scale by length, see LengthGain
	GrowthRows     Rows
}

// LengthGain is what the scores at a row are multiplied by for their number of keys: see OpLengthScale.
func (e *HeadEdit) LengthGain(row int) float64 {
	if n := float64(row + 1); e.GrowthRows.Has(row) && n > e.Length {
		return math.Max(0, 1+e.Growth*math.Log(n/e.Length))
	}
	return 1
}

// OfOneHead tells whether a head's own queries, keys and values in a run without edits fix what the operation does to its scores and output.
func (o Op) OfOneHead() bool {
	return slices.Contains(baseOps, o) || o == OpFreeze || o == OpSwap || o == OpZeroDims || o == OpLengthScale
}

// HeadEdit resolves edits at one head for a prompt of t tokens whose question starts at row q0, in a pass over so many tokens. Operations
// that need more than the head's own queries, keys and values are refused.
func (m *Model) HeadEdit(edits []Edit, h Head, t, q0, tokens int) (*HeadEdit, error) {
	if err := CheckHeadEdit(edits); err != nil {
		return nil, err
	}
	c, err := m.geo.resolve(edits, t, q0)
	if err != nil {
		return nil, err
	}
	le := c.layers[h.Layer]
	if le == nil {
		le = m.geo.identity()
	}
	rows := func(spans []int32) Rows { return Rows{int(spans[2*h.Index]), int(spans[2*h.Index+1])} }
	width := m.geo.planes + 1
	out := &HeadEdit{
		QGain: le.q[h.Index*width : (h.Index+1)*width], QRows: rows(le.qRows), Gain: le.head[h.Index], GainRows: rows(le.headRows),
	}
	if v := &le.variant; v.growth != nil {
		out.Growth, out.Length, out.GrowthRows = float64(v.growth[h.Index]), float64(v.from[h.Index]), rows(v.growthRows)
	}
	if v := &le.variant; v.dims != nil {
		out.QDims, out.DimRows = v.dims[h.Index*m.geo.headDim:(h.Index+1)*m.geo.headDim], rows(v.dimRows)
	}
	if le.variant.tables == nil || le.variant.tables[h.Index] == nil {
		return out, nil
	}
	base, err := RopeTable(m.Spec, h.Layer, tokens)
	if err != nil {
		return nil, err
	}
	out.TableRows = rows(le.variant.tableRows)
	out.Table, err = le.variant.tables[h.Index].apply(base)
	return out, err
}

// CheckHeadEdit refuses the operations that HeadEdit does.
func CheckHeadEdit(edits []Edit) error {
	for _, e := range edits {
		if !e.Op.OfOneHead() {
			return fmt.Errorf("edit %s: its effect is not predicted; want zero, scale, uniform, zero_planes, zero_dims, scale_planes, temperature, length_scale, freeze or swap", e.Op)
		}
	}
	return nil
}

// Has tells whether the range has the row.
func (r Rows) Has(row int) bool { return row >= r.Lo && row < r.Hi }

// Angles is the arithmetic of the rotary angles.
func (m *Model) Angles() rope.Precision { return m.angles }
