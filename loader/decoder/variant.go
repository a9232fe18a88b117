package decoder

import (
	"fmt"

	"github.com/headscope/headscope/loader/rope"
)

// editKinds says which inputs beyond the base ones a layer's program takes.
type editKinds uint8

const (
	kindTable     editKinds = 1 << iota // another rotary table for single heads
	kindLegacy                          // gains on the outputs of q_proj and k_proj
	kindDonor                           // given head outputs
	kindStreaming                       // sink and recent keys only
	kindLength                          // scores by the number of keys
	kindSpread                          // scores rescaled to the spread that they have without gains on planes
	kindDims                            // gains on single dimensions of the query
)

// variantEdit holds one layer's inputs of those kinds for one sequence; slices are nil, or as long as said.
type variantEdit struct {
	tables    []*headTable // [heads], nil = the layer's own
	tableRows []int32      // [heads, 2]

	legacyQ, legacyK         []float32 // [heads, planes+1], [kv, planes+1]
	legacyQRows, legacyKRows []int32   // [heads, 2], [kv, 2]

	donors    []*headDonor // [heads]
	donorRows []int32      // [heads, 2]

	dims    []float32 // [heads, headDim]
	dimRows []int32   // [heads, 2]

	sink, recent []int32 // [heads]
	streamRows   []int32 // [heads, 2]

	growth, from []float32 // [heads]
	growthRows   []int32   // [heads, 2]
	spreadRows   []int32   // [heads, 2]
}

// headDonor is what a head puts out in place of its own.
type headDonor struct {
	kind    givenKind
	vectors []float32 // [n, headDim], for the rows from `first` on; the last one stands for all later ones
	first   int32
	path    *headPath // what they follow from; nil = from the donor's run as they are
}

// givenKind says where a head's vectors come from.
type givenKind int

const (
	givenDonor givenKind = iota // from the run on the prompt's donor
	givenOwn                    // the mean over the prompt's rows, which the pass finds out and stores in vectors
	givenMean                   // from the prompt's means
)

func (v *variantEdit) kinds() editKinds {
	var k editKinds
	if v.tables != nil {
		k |= kindTable
	}
	if v.legacyQ != nil {
		k |= kindLegacy
	}
	if v.donors != nil {
		k |= kindDonor
	}
	if v.sink != nil {
		k |= kindStreaming
	}
	if v.growth != nil {
		k |= kindLength
	}
	if v.spreadRows != nil {
		k |= kindSpread
	}
	if v.dims != nil {
		k |= kindDims
	}
	return k
}

// applyVariant adds an edit of those kinds, one of variantOps.
func (g geometry) applyVariant(v *variantEdit, e editSite) error {
	h := e.at.Index
	switch e.Op {
	case OpFreeze, OpSwap:
		if v.tables == nil {
			v.tables, v.tableRows = make([]*headTable, g.heads), make([]int32, 2*g.heads)
		}
		if err := setRows(v.tableRows, h, e.rows); err != nil {
			return err
		}
		return v.alter(h, e, g.tables[e.at.Layer])
	case OpLegacy:
		return g.applyLegacy(v, e)
	case OpZeroDims:
		if v.dims == nil {
			v.dims, v.dimRows = repeated(float32(1), g.heads*g.headDim), make([]int32, 2*g.heads)
		}
		for _, d := range e.Dims {
			v.dims[h*g.headDim+d] = 0
		}
		return setRows(v.dimRows, h, e.rows)
	case OpOwnMean, OpMean, OpPatch, OpPath:
		if v.donors == nil {
			v.donors, v.donorRows = make([]*headDonor, g.heads), make([]int32, 2*g.heads)
		}
		if v.donors[h] != nil {
			return fmt.Errorf("two edits give the head its output")
		}
		v.donors[h] = &headDonor{kind: map[Op]givenKind{OpOwnMean: givenOwn, OpMean: givenMean}[e.Op], vectors: make([]float32, g.headDim)}
		if e.Op == OpPath {
			if err := g.addPath(v.donors[h], &e); err != nil {
				return err
			}
		}
		return setRows(v.donorRows, h, e.rows)
	case OpLengthScale:
		if v.growth == nil {
			v.growth, v.from, v.growthRows = make([]float32, g.heads), repeated(float32(1), g.heads), make([]int32, 2*g.heads)
		}
		if v.growthRows[2*h+1] != 0 {
			return fmt.Errorf("two edits scale the head's scores by length")
		}
		v.growth[h], v.from[h] = float32(e.Value), float32(e.Length)
		return setRows(v.growthRows, h, e.rows)
	case OpKeepSpread:
		if v.spreadRows == nil {
			v.spreadRows = make([]int32, 2*g.heads)
		}
		return setRows(v.spreadRows, h, e.rows)
	default: // OpStreaming
		if v.sink == nil {
			v.sink, v.recent, v.streamRows = make([]int32, g.heads), make([]int32, g.heads), make([]int32, 2*g.heads)
		}
		if v.recent[h] != 0 {
			return fmt.Errorf("two edits restrict the head's keys")
		}
		v.sink[h], v.recent[h] = int32(e.Sink), int32(e.Recent)
		return setRows(v.streamRows, h, e.rows)
	}
}

// alter adds a freeze or a swap to head h's table; the layer's own is base.
func (v *variantEdit) alter(h int, e editSite, base *rope.Table) error {
	t := v.tables[h]
	if t == nil {
		t = &headTable{}
		v.tables[h] = t
	}
	t.key += fmt.Sprintf("%s %s %v %v;", e.Op, e.Table, e.InvFreq, e.planes)
	if e.Op == OpFreeze {
		t.frozen = append(t.frozen, e.planes...)
		return nil
	}
	if t.swap != nil || t.exact != nil {
		return fmt.Errorf("two edits give the head its table")
	}
	if len(e.InvFreq) > 0 {
		t.exact = e.InvFreq
	} else {
		rule, err := rope.ParseRule(e.Table)
		if err != nil {
			return err
		}
		t.swap = &rule
	}
	_, err := t.apply(base) // what the model's table does not allow is said here, not in the middle of a pass
	return err
}

func (g geometry) applyLegacy(v *variantEdit, e editSite) error {
	width := g.planes + 1
	if v.legacyQ == nil {
		v.legacyQ, v.legacyK = repeated(float32(1), g.heads*width), repeated(float32(1), g.kv*width)
		v.legacyQRows, v.legacyKRows = make([]int32, 2*g.heads), make([]int32, 2*g.kv)
	}
	h := e.at.Index
	group := h / (g.heads / g.kv)
	if err := setRows(v.legacyQRows, h, e.rows); err != nil {
		return err
	}
	if err := setRows(v.legacyKRows, group, e.rows); err != nil {
		return err
	}
	for _, p := range e.planes {
		v.legacyQ[h*width+p], v.legacyK[group*width+p] = 0, 0
	}
	return nil
}
