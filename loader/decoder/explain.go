package decoder

import (
	"maps"
	"slices"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

// Explanation says what a condition's edits make of a model, from what the programs would get; nothing is run.
type Explanation struct {
	Edits    []ExplainedEdit // in canonical order
	First    int             // first edited layer; the layers below it are the unmodified model's
	FirstRow int             // first row that is computed anew; 0 = whole sequences, else over the unmodified run's kept cache
	Donor    bool            // head outputs come from a run on the prompt's donor
	Means    bool            // head outputs come from means over other prompts
	Programs []LayerProgram  // by kind of program, that of the lowest layer first
}

// LayerProgram is the program that edited layers run: Inputs name what it takes beyond the base program's, none for the base program.
type LayerProgram struct {
	Layers []int    `json:"layers"`
	Inputs []string `json:"inputs"`
}

// ExplainedEdit is one edit of it.
type ExplainedEdit struct {
	Edit     Edit
	Heads    []Head      // that it acts on
	Skipped  []Head      // left out, as their layers do not rotate
	Site     Site        // where it acts
	Rows     Rows        // of its heads; empty where Hi <= Lo
	KV       []KVGroup   // of legacy, freeze and swap: the key/value heads that its heads read
	Siblings []Head      // other query heads that see keys changed
	Planes   []PlaneSpan // none where the edit is not about planes
}

// Site is the input of a layer's program that an edit changes.
type Site string

// The sites, in the order of a layer's computation.
const (
	SiteProjections Site = "projections" // outputs of q_proj and k_proj, before any norm
	SiteQuery       Site = "query"       // after bias, clipping and norm, before rotation
	SiteTable       Site = "table"       // which rotary table turns the query, and the key as the head sees it
	SiteScores      Site = "scores"      // before the softmax
	SiteKeys        Site = "keys"        // which keys are visible
	SiteOutput      Site = "output"      // before the output projection
)

// KVGroup is a key/value head of which Edited of Of query heads are edited.
type KVGroup struct {
	Layer  int `json:"layer"`
	Index  int `json:"index"`
	Edited int `json:"edited"`
	Of     int `json:"of"`
}

// PlaneSpan lists planes that an edit changes in layers of one table. Wavelengths are tokens a turn, +Inf where a plane does not turn; none
// in layers without rotation.
type PlaneSpan struct {
	Layers      []int
	Planes      []int
	Wavelengths []float64 // of the checkpoint's table, in a pass over the prompt
	Becomes     []float64 // under freeze and swap
}

// Explain resolves the edits of one condition for a prompt of t tokens whose question starts at row q0, as a run does, and says what came
// out. The wavelengths are those of a pass over `tokens` tokens. Errors are those of CheckEdits.
func Explain(s *loader.Spec, edits []Edit, t, q0, tokens int) (*Explanation, error) {
	g, err := newGeometry(s)
	if err != nil {
		return nil, err
	}
	c, err := g.resolve(edits, t, q0)
	if err != nil {
		return nil, err
	}
	x := &Explanation{First: c.first, FirstRow: c.lo}
	for _, given := range c.givenHeads() {
		x.Donor = x.Donor || given.kind == givenDonor
		x.Means = x.Means || given.kind == givenMean
	}
	for _, l := range slices.Sorted(maps.Keys(c.layers)) {
		inputs := c.layers[l].variant.kinds().names()
		at := slices.IndexFunc(x.Programs, func(p LayerProgram) bool { return slices.Equal(p.Inputs, inputs) })
		if at < 0 {
			at = len(x.Programs)
			x.Programs = append(x.Programs, LayerProgram{Inputs: inputs})
		}
		x.Programs[at].Layers = append(x.Programs[at].Layers, l)
	}
	for _, e := range Canonical(edits) {
		alone, err := g.resolve([]Edit{e}, t, q0)
		if err != nil {
			return nil, err
		}
		ex := ExplainedEdit{Edit: e, Skipped: SkippedHeads(s, []Edit{e})}
		for _, h := range e.Heads {
			if !slices.Contains(ex.Skipped, h) {
				ex.Heads = append(ex.Heads, h)
			}
		}
		ex.Site, ex.Rows = alone.layers[ex.Heads[0].Layer].siteOf(ex.Heads[0].Index)
		ex.groups(g, alone)
		if err := ex.planes(s, g, alone, passOf(s, tokens)); err != nil {
			return nil, err
		}
		x.Edits = append(x.Edits, ex)
	}
	return x, nil
}

func (k editKinds) names() []string {
	out := []string{}
	for i, name := range []string{"table", "legacy", "donor", "streaming", "length", "spread", "dims"} { // in the order of the kinds
		if k&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// siteOf is where the layer's one edit meets head h, and at which rows.
func (e *layerEdit) siteOf(h int) (Site, Rows) {
	v := &e.variant
	for _, x := range []struct {
		site  Site
		spans []int32 // [heads, 2]
	}{
		{SiteProjections, v.legacyQRows}, {SiteQuery, e.qRows}, {SiteQuery, v.dimRows}, {SiteTable, v.tableRows}, {SiteScores, v.growthRows},
		{SiteScores, v.spreadRows}, {SiteKeys, v.streamRows}, {SiteOutput, e.headRows}, {SiteOutput, v.donorRows},
	} {
		if x.spans != nil && x.spans[2*h+1] != 0 {
			return x.site, Rows{int(x.spans[2*h]), int(x.spans[2*h+1])}
		}
	}
	return "", Rows{}
}

// groups fills KV and, where the one key that all query heads of a group read is changed, Siblings.
func (x *ExplainedEdit) groups(g geometry, c *condition) {
	if x.Site != SiteProjections && x.Site != SiteTable {
		return
	}
	size := g.heads / g.kv
	for _, l := range slices.Sorted(maps.Keys(c.layers)) {
		for i := range g.kv {
			group := KVGroup{Layer: l, Index: i, Of: size}
			var others []Head
			for h := i * size; h < (i+1)*size; h++ {
				if slices.Contains(x.Heads, Head{l, h}) {
					group.Edited++
				} else {
					others = append(others, Head{l, h})
				}
			}
			if group.Edited == 0 {
				continue
			}
			x.KV = append(x.KV, group)
			if rows := c.layers[l].variant.legacyKRows; rows != nil && rows[2*i+1] != 0 {
				x.Siblings = append(x.Siblings, others...)
			}
		}
	}
}

// planes fills Planes.
func (x *ExplainedEdit) planes(s *loader.Spec, g geometry, c *condition, pass int) error {
	for _, l := range slices.Sorted(maps.Keys(c.layers)) {
		span, err := x.planesOf(s, g, l)
		if err != nil {
			return err
		}
		if len(span.Planes) == 0 {
			continue
		}
		table, err := ropeTable(s, l, pass)
		if err != nil {
			return err
		}
		if table != nil {
			span.Wavelengths = placesOf(table.Wavelengths(), span.Planes)
		}
		if v := c.layers[l].variant; v.tables != nil {
			h := slices.IndexFunc(v.tables, func(t *headTable) bool { return t != nil })
			altered, err := v.tables[h].apply(table)
			if err != nil {
				return err
			}
			span.Becomes = placesOf(altered.Wavelengths(), span.Planes)
		}
		at := slices.IndexFunc(x.Planes, func(o PlaneSpan) bool {
			return slices.Equal(o.Planes, span.Planes) && slices.Equal(o.Wavelengths, span.Wavelengths) && slices.Equal(o.Becomes, span.Becomes)
		})
		if at < 0 {
			x.Planes = append(x.Planes, span)
		} else {
			x.Planes[at].Layers = append(x.Planes[at].Layers, l)
		}
	}
	return nil
}

// planesOf lists the planes of layer l that the edit changes: all of them under another table, of single dimensions those they are in.
func (x *ExplainedEdit) planesOf(s *loader.Spec, g geometry, l int) (PlaneSpan, error) {
	span := PlaneSpan{Layers: []int{l}}
	switch x.Edit.Op {
	case OpSwap:
		for p := range g.planes {
			span.Planes = append(span.Planes, p)
		}
	case OpZeroDims:
		for _, d := range x.Edit.Dims {
			if p := rope.LayoutOf(s.Interleaved).Plane(d, 2*g.planes); p >= 0 {
				span.Planes = append(span.Planes, p)
			}
		}
	default:
		planes, err := g.planeSet(x.Edit, l)
		if err != nil {
			return span, err
		}
		span.Planes = planes
	}
	span.Planes = sortedUnique(span.Planes)
	return span, nil
}

func placesOf(x []float64, places []int) []float64 {
	out := make([]float64, len(places))
	for i, p := range places {
		out[i] = x[p]
	}
	return out
}
