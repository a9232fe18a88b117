package decoder

import (
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

// layerEdit holds one layer's base edit inputs for one sequence: gains and, per head, the rows at which they act. A nil
// *layerEdit is the identity.
type layerEdit struct {
	head     []float32 // [heads]
	headRows []int32   // [heads, 2]
	q        []float32 // [heads, planes+1], last = the unrotated dims
	qRows    []int32   // [heads, 2]
	variant  variantEdit

	key string // equal for equal edits
}

// condition is a prompt's edits made ready for the programs.
type condition struct {
	layers map[int]*layerEdit
	first  int // first edited layer, or the number of layers
	lo     int // first edited row over all edits
	t      int // the prompt's length
}

type geometry struct {
	layers, heads, planes int
	kv, headDim           int
	tables                []*rope.Table // by layer, of short passes; nil where a layer does not rotate
}

func newGeometry(s *loader.Spec) (geometry, error) {
	g := geometry{layers: s.Layers, heads: s.Heads, kv: s.KVHeads, headDim: s.HeadDim, planes: s.HeadDim / 2}
	made := map[int]*rope.Table{loader.Unrotated: nil}
	for l, kind := range s.Kinds {
		t, ok := made[kind.Table]
		if !ok {
			var err error
			if t, err = ropeTable(s, l, passOf(s, 1)); err != nil {
				return g, err
			}
			made[kind.Table] = t
			g.planes = t.Planes() // the same in all layers
		}
		g.tables = append(g.tables, t)
	}
	return g, nil
}

// resolve turns edits into gains for a prompt of length t whose question starts at row q0.
func (g geometry) resolve(edits []Edit, t, q0 int) (*condition, error) {
	c := &condition{layers: map[int]*layerEdit{}, first: g.layers, lo: Forever, t: t}
	for _, e := range Canonical(edits) {
		if err := e.Check(); err != nil {
			return nil, err
		}
		rows, err := e.Scope.Resolve(t, q0)
		if err != nil {
			return nil, err
		}
		first, err := e.FirstRow(t, q0)
		if err != nil {
			return nil, err
		}
		c.lo = min(c.lo, first)
		skipped := 0
		for _, h := range e.Heads {
			if h.Layer < 0 || h.Layer >= g.layers || h.Index < 0 || h.Index >= g.heads {
				return nil, fmt.Errorf("head %s does not exist: the model has layers 0-%d with heads 0-%d", h, g.layers-1, g.heads-1)
			}
			if e.Turns() && g.tables[h.Layer] == nil {
				skipped++
				continue
			}
			planes, err := g.planeSet(e, h.Layer)
			if err != nil {
				return nil, fmt.Errorf("head %s: %w", h, err)
			}
			c.first = min(c.first, h.Layer)
			le := c.layers[h.Layer]
			if le == nil {
				le = g.identity()
				c.layers[h.Layer] = le
			}
			site := editSite{e, h, planes, rows, t}
			if e.Op == OpPatch || e.Op == OpPath {
				site.rows.Hi = min(rows.Hi, t)
			}
			if err := g.apply(le, site); err != nil {
				return nil, fmt.Errorf("head %s: %w", h, err)
			}
		}
		if skipped == len(e.Heads) {
			return nil, fmt.Errorf("edit %s: none of its %d heads is in a layer that rotates", e.Op, skipped)
		}
	}
	if len(edits) > 0 {
		c.lo = min(c.lo, t-1) // computing begins here: the score of the first answer token is that of row t-1
	}
	return c, c.checkTogether(t)
}

// checkTogether refuses what no single edit shows: gains that multiply beyond MaxGain in a prompt of t tokens, and a spread to keep of
// scores by another table.
func (c *condition) checkTogether(t int) error {
	for l, le := range c.layers {
		for i := range le.head {
			width, grown := len(le.q)/len(le.head), 1.0
			if v := &le.variant; v.growth != nil {
				grown = math.Max(1, 1+float64(v.growth[i])*math.Log(math.Max(1, float64(t)/float64(v.from[i]))))
			}
			gains := []float64{float64(le.head[i])}
			for _, x := range le.q[i*width : (i+1)*width] {
				gains = append(gains, grown*float64(x))
			}
			for _, x := range gains {
				if math.Abs(x) > MaxGain*(1+1e-6) {
					return fmt.Errorf("head %s: the edits together multiply by %g, want %g at most: beyond, scores overflow", Head{l, i}, x, MaxGain)
				}
			}
			if v := &le.variant; v.tables != nil && v.tables[i] != nil && v.spreadRows != nil && v.spreadRows[2*i+1] != 0 {
				return fmt.Errorf("head %s: keep_spread beside a table of its own", Head{l, i})
			}
		}
	}
	return nil
}

// SkippedHeads lists the heads that edits leave out, as their layers do not rotate. An edit with no other head is refused elsewhere.
func SkippedHeads(s *loader.Spec, edits []Edit) []Head {
	var out []Head
	for _, e := range edits {
		for _, h := range e.Heads {
			if e.Turns() && h.Layer >= 0 && h.Layer < len(s.Kinds) && s.Unrotated(h.Layer) {
				out = append(out, h)
			}
		}
	}
	return out
}

// planeSet lists the planes of layer l that an edit names. A layer without rotation has no slow or fast ones, and is not asked.
func (g geometry) planeSet(e Edit, l int) ([]int, error) {
	if e.Band != "" {
		b, err := rope.ParseBand(e.Band)
		if err != nil {
			return nil, err
		}
		return b.Planes(g.tables[l])
	}
	for _, p := range e.Planes {
		if p < 0 || p >= g.planes {
			return nil, fmt.Errorf("plane %d does not exist: the model has planes 0-%d", p, g.planes-1)
		}
	}
	for _, d := range e.Dims {
		if d < 0 || d >= g.headDim {
			return nil, fmt.Errorf("dimension %d does not exist: a head has dimensions 0-%d", d, g.headDim-1)
		}
	}
	return e.Planes, nil
}

func (g geometry) identity() *layerEdit {
	return &layerEdit{
		head: repeated(float32(1), g.heads), headRows: make([]int32, 2*g.heads),
		q: repeated(float32(1), g.heads*(g.planes+1)), qRows: make([]int32, 2*g.heads),
	}
}

// editSite is one edit at one head.
type editSite struct {
	Edit
	at     Head
	planes []int
	rows   Rows

	promptRows int
}

// apply adds an edit to the inputs of its layer. Edits of one head and input must agree on their rows: one range a head is what the
// programs take.
func (g geometry) apply(le *layerEdit, e editSite) error {
	h := e.at.Index
	le.key += fmt.Sprintf("%d %s %g %v %v %v %s %v %d %d %d %v %s;", h, e.Op, e.Value, e.planes, e.Dims, e.rows, e.Table, e.InvFreq, e.Sink, e.Recent, e.Length, e.source(), e.Input)
	if slices.Contains(variantOps, e.Op) {
		return g.applyVariant(&le.variant, e)
	}
	span := le.qRows
	if e.Op == OpZero || e.Op == OpScale {
		span = le.headRows
	}
	if err := setRows(span, h, e.rows); err != nil {
		return err
	}
	n := g.planes
	q := le.q[h*(n+1) : (h+1)*(n+1)]
	switch e.Op {
	case OpZero:
		le.head[h] = 0
	case OpScale:
		le.head[h] *= float32(e.Value)
	case OpUniform:
		clear(q)
	case OpTemperature:
		for i := range q {
			q[i] /= float32(e.Value)
		}
	case OpZeroPlanes, OpScalePlanes:
		for _, p := range e.planes {
			q[p] *= float32(e.Value) // Value is 0 for OpZeroPlanes
		}
	}
	return nil
}

// CheckEdits reports what edits ask of a model that it does not have, and two edits that cannot act together, for a prompt of t tokens whose
// question starts at row q0.
func CheckEdits(s *loader.Spec, edits []Edit, t, q0 int) error {
	g, err := newGeometry(s)
	if err != nil {
		return err
	}
	_, err = g.resolve(edits, t, q0)
	return err
}

// setRows stores the rows of entry i of spans [n, 2], which other edits may have set already.
func setRows(spans []int32, i int, rows Rows) error {
	want := [2]int32{int32(rows.Lo), int32(rows.Hi)}
	have := [2]int32{spans[2*i], spans[2*i+1]}
	if have != [2]int32{} && have != want {
		return fmt.Errorf("two edits with different scopes at one site (%v and %v)", have, want)
	}
	spans[2*i], spans[2*i+1] = want[0], want[1]
	return nil
}
