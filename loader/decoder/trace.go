package decoder

import (
	"context"
	"fmt"
	"slices"
)

// TraceOptions says what of a forward pass is returned.
type TraceOptions struct {
	Logits    []int // rows whose logits are wanted
	Attention []int // rows whose attention weights are wanted, in every layer
	Scores    bool  // of those rows, the scores before the softmax in place of the weights; keys that a row does not see are below -1e29
	Hidden    int   // row whose residual after each layer is wanted; -1 = none
	QK        []int // layers whose queries, keys, values, head outputs and residual are wanted
	Heads     []int // rows whose head outputs are wanted, in every layer
	Norms     bool  // the planes' norms are wanted, of every layer
}

// Trace is what a forward pass over one sequence of T tokens computed, on the host.
type Trace struct {
	T         int
	Logits    [][]float32      // [len(Logits)][vocab]
	Attention [][]float32      // by layer, [heads, len(Attention), T]: weights or scores
	Hidden    [][]float32      // by layer, [hidden]: the residual after the layer, before the final norm
	QK        map[int]QueryKey // by layer
	Heads     [][]float32      // by layer, [len(TraceOptions.Heads), heads, headDim], after edits
	Norms     []PlaneNorms     // by layer
}

// PlaneNorms are means over all rows of the Euclidean norm of each plane's two dimensions, after bias, clipping, norm and edits and before
// rotation; the last entry of each head is that of its dimensions that do not rotate.
type PlaneNorms struct {
	Q []float32 // [heads, planes+1]
	K []float32 // [kvHeads, planes+1]
}

// QueryKey holds one layer's queries and keys around the rotation, and what comes of them.
type QueryKey struct {
	QPre, QRot []float32 // [T, heads, headDim]
	KPre, KRot []float32 // [kvHeads, T, headDim]
	V          []float32 // [kvHeads, T, headDim]
	Z          []float32 // [T, heads, headDim]: head outputs after their edits, what the output projection reads
	Residual   []float32 // [T, hidden]: after the layer
}

// Trace runs one whole sequence, p.IDs and then p.Answer, under the given edits and returns what o asks for. Scopes count from p as
// in Ask. Draft and Spans are not used.
func (m *Model) Trace(ctx context.Context, p *Prompt, edits []Edit, o TraceOptions) (*Trace, error) {
	if err := m.check(0, p, &AskOptions{}); err != nil {
		return nil, err
	}
	c, err := m.geo.resolve(edits, len(p.IDs), p.Question)
	if err != nil {
		return nil, err
	}
	if err := m.fillGiven(ctx, p, []*condition{c}); err != nil {
		return nil, err
	}
	ids := append(append([]int32(nil), p.IDs...), p.Answer...)
	if err := o.check(len(ids), m.Spec.Layers); err != nil {
		return nil, err
	}
	u := &unit{ids: [][]int32{ids}, t: LengthBucket(len(ids)), pass: passOf(m.Spec, len(ids)), stop: m.Spec.Layers, conds: []*condition{c}, taps: map[int]bool{}}
	defer u.free()
	for _, l := range o.QK {
		u.taps[l] = true
	}
	u.keepKV, u.heads, u.norms = len(o.QK) > 0, o.Heads, o.Norms
	if o.Hidden >= 0 {
		u.rows = []int32{int32(o.Hidden)}
	}
	if n := len(o.Attention); n > 0 {
		u.probe = &probeInputs{mode: probeRows, rows: make([]int32, n), p: n}
		if o.Scores {
			u.probe.mode = probeScores
		}
		for i, r := range o.Attention {
			u.probe.rows[i] = int32(r)
		}
	}
	if err := m.walk(ctx, []*unit{u}); err != nil {
		return nil, err
	}
	return m.readTrace(u, o, len(ids))
}

// check refuses what a gather would clamp or a map would ignore in silence.
func (o *TraceOptions) check(t, layers int) error {
	for _, r := range slices.Concat(o.Logits, o.Attention, o.Heads, []int{max(o.Hidden, 0)}) {
		if r < 0 || r >= t {
			return fmt.Errorf("row %d does not exist: the sequence has rows 0-%d", r, t-1)
		}
	}
	for _, l := range o.QK {
		if l < 0 || l >= layers {
			return fmt.Errorf("layer %d does not exist: the model has layers 0-%d", l, layers-1)
		}
	}
	return nil
}

func (m *Model) readTrace(u *unit, o TraceOptions, t int) (*Trace, error) {
	tr := &Trace{T: t, QK: map[int]QueryKey{}, Heads: u.headed, Norms: u.normed}
	if len(o.Logits) > 0 {
		idx := make([]int32, len(o.Logits))
		for i, r := range o.Logits {
			idx[i] = int32(r)
		}
		lg, err := m.logitRows(u.x, [][]int32{idx})
		if err != nil {
			return nil, err
		}
		tr.Logits = lg[0]
	}
	for l := range m.Spec.Layers {
		if u.probe != nil {
			tr.Attention = append(tr.Attention, cutRows(u.probed[l].rows, u.t, t))
		}
		if u.rows != nil {
			tr.Hidden = append(tr.Hidden, u.hidden[l])
		}
		if !u.taps[l] {
			continue
		}
		k, err := floatsOf(u.kv[l].k)
		if err != nil {
			return nil, err
		}
		v, err := floatsOf(u.kv[l].v)
		if err != nil {
			return nil, err
		}
		w, d, tap := m.cfg.heads*m.cfg.headDim, m.cfg.headDim, u.tapped[l]
		tr.QK[l] = QueryKey{
			QPre: tap.q[:t*w], QRot: tap.qRot[:t*w], Z: tap.z[:t*w], Residual: tap.residual[:t*m.Spec.Hidden],
			KPre: cutRows(k, u.t*d, t*d), KRot: cutRows(tap.kRot, u.t*d, t*d), V: cutRows(v, u.t*d, t*d),
		}
	}
	return tr, nil
}

// cutRows shortens rows of length n to their first keep values.
func cutRows(x []float32, n, keep int) []float32 {
	out := make([]float32, 0, len(x)/n*keep)
	for i := 0; i < len(x); i += n {
		out = append(out, x[i:i+keep]...)
	}
	return out
}
