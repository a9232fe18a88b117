package decoder

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
)

// editTensors are the edit inputs of one layer on the device, in the order in which programs of their variant take them.
type editTensors struct {
	variant editVariant
	base    []*tensors.Tensor
	tables  []*tensors.Tensor // cosines, then sines; the model's, not owned
	table   []*tensors.Tensor // which head has which, at which rows
	rest    []*tensors.Tensor
}

func (e *editTensors) free() {
	for _, list := range [][]*tensors.Tensor{e.base, e.table, e.rest} {
		free(list...)
	}
}

// args lists the inputs; rawKeys, the prompt's keys before rotation, are one of them in row programs with tables of heads, else nil.
func (e *editTensors) args(rawKeys *tensors.Tensor) []any {
	var out []any
	add := func(list ...*tensors.Tensor) {
		for _, t := range list {
			out = append(out, t)
		}
	}
	add(e.base...)
	add(e.tables...)
	add(e.table...)
	if rawKeys != nil {
		add(rawKeys)
	}
	add(e.rest...)
	return out
}

// editSpan says where a program with edit inputs runs: positions 0..positions-1, of passes of a length; rows = the row program.
type editSpan struct {
	positions, pass int
	rows            bool
}

// layerEdits uploads the edit inputs of layer l for a batch of conditions (nil = unedited). The identity is kept and must not
// be freed by the caller: owned tells.
func (m *Model) layerEdits(l int, batch []*condition, span editSpan) (e *editTensors, owned bool, err error) {
	list := make([]*layerEdit, len(batch))
	var kinds editKinds
	edited := false
	for i, c := range batch {
		if c != nil && c.layers[l] != nil {
			list[i], edited = c.layers[l], true
			kinds |= list[i].variant.kinds()
		}
	}
	if !edited {
		m.mu.Lock()
		defer m.mu.Unlock()
		if e := m.identity[len(batch)]; e != nil {
			return e, false, nil
		}
	}
	none := m.geo.identity()
	for i := range list {
		if list[i] == nil {
			list[i] = none
		}
	}
	up := &editUpload{be: m.be, b: len(batch)}
	h, planes := m.cfg.heads, m.cfg.planes()
	up.floats(each(list, func(e *layerEdit) []float32 { return e.head }), h)
	up.ints(each(list, func(e *layerEdit) []int32 { return e.headRows }), h, 2)
	up.floats(each(list, func(e *layerEdit) []float32 { return e.q }), h, planes+1)
	up.ints(each(list, func(e *layerEdit) []int32 { return e.qRows }), h, 2)
	e = &editTensors{variant: editVariant{kinds: kinds}, base: up.take()}
	if kinds&kindTable != 0 && up.err == nil {
		up.err = m.uploadTables(e, up, l, list, span)
	}
	m.uploadVariant(e, up, batch, list, span.rows)
	if up.err != nil {
		e.free()
		return nil, false, up.err
	}
	if !edited {
		m.identity[len(batch)] = e
	}
	return e, edited, nil
}

// each concatenates a part of every batch row's inputs.
func each[T any](list []*layerEdit, part func(*layerEdit) []T) []T {
	var out []T
	for _, e := range list {
		out = append(out, part(e)...)
	}
	return out
}

// orElse is x, or n values v where it is nil.
func orElse[T any](x []T, n int, v T) []T {
	if x == nil {
		return repeated(v, n)
	}
	return x
}

// uploadTables uploads the tables that heads have, the layer's own first, a power of two of them.
func (m *Model) uploadTables(e *editTensors, up *editUpload, l int, list []*layerEdit, span editSpan) error {
	h := m.cfg.heads
	place := map[string]int32{"": 0}
	distinct := []*headTable{nil}
	var index, rows []int32
	for _, le := range list {
		for _, t := range orElse(le.variant.tables, h, nil) {
			key := ""
			if t != nil {
				key = t.key
			}
			at, ok := place[key]
			if !ok {
				at = int32(len(distinct))
				place[key], distinct = at, append(distinct, t)
			}
			index = append(index, at)
		}
		rows = append(rows, orElse(le.variant.tableRows, 2*h, 0)...)
	}
	e.variant.tables = powerOfTwo(len(distinct), 1<<30)
	var cos, sin []*tensors.Tensor
	for i := range e.variant.tables {
		t, err := m.positionsOf(l, span.positions, span.pass, distinct[min(i, len(distinct)-1)])
		if err != nil {
			return err
		}
		cos, sin = append(cos, t.cos), append(sin, t.sin)
	}
	e.tables = slices.Concat(cos, sin)
	up.ints(index, h)
	up.ints(rows, h, 2)
	e.table = up.take()
	return nil
}

// uploadVariant uploads the inputs of the other kinds, identities where a batch row has none; rows = for the row program.
func (m *Model) uploadVariant(e *editTensors, up *editUpload, batch []*condition, list []*layerEdit, rows bool) {
	h, kv, width := m.cfg.heads, m.cfg.kv, m.cfg.planes()+1
	if e.variant.kinds&kindLegacy != 0 {
		up.floats(each(list, func(e *layerEdit) []float32 { return orElse(e.variant.legacyQ, h*width, 1) }), h, width)
		up.ints(each(list, func(e *layerEdit) []int32 { return orElse(e.variant.legacyQRows, 2*h, 0) }), h, 2)
		up.floats(each(list, func(e *layerEdit) []float32 { return orElse(e.variant.legacyK, kv*width, 1) }), kv, width)
		up.ints(each(list, func(e *layerEdit) []int32 { return orElse(e.variant.legacyKRows, 2*kv, 0) }), kv, 2)
	}
	if e.variant.kinds&kindDonor != 0 {
		m.uploadDonors(up, batch, list, rows)
	}
	if e.variant.kinds&kindStreaming != 0 {
		up.ints(each(list, func(e *layerEdit) []int32 { return orElse(e.variant.sink, h, 0) }), h)
		up.ints(each(list, func(e *layerEdit) []int32 { return orElse(e.variant.recent, h, Forever) }), h)
		up.ints(each(list, func(e *layerEdit) []int32 { return orElse(e.variant.streamRows, 2*h, 0) }), h, 2)
	}
	if e.variant.kinds&kindLength != 0 {
		up.floats(each(list, func(e *layerEdit) []float32 { return orElse(e.variant.growth, h, 0) }), h)
		up.floats(each(list, func(e *layerEdit) []float32 { return orElse(e.variant.from, h, 1) }), h)
		up.ints(each(list, func(e *layerEdit) []int32 { return orElse(e.variant.growthRows, 2*h, 0) }), h, 2)
	}
	if e.variant.kinds&kindSpread != 0 {
		up.ints(each(list, func(e *layerEdit) []int32 { return orElse(e.variant.spreadRows, 2*h, 0) }), h, 2)
	}
	if e.variant.kinds&kindDims != 0 {
		up.floats(each(list, func(e *layerEdit) []float32 { return orElse(e.variant.dims, h*m.cfg.headDim, 1) }), h, m.cfg.headDim)
		up.ints(each(list, func(e *layerEdit) []int32 { return orElse(e.variant.dimRows, 2*h, 0) }), h, 2)
	}
	e.rest = up.take()
}

// uploadDonors uploads vectors for heads, of one number: shorter lists repeat their last.
func (m *Model) uploadDonors(up *editUpload, batch []*condition, list []*layerEdit, rows bool) {
	h, d := m.cfg.heads, m.cfg.headDim
	n := 1
	for _, le := range list {
		for _, donor := range le.variant.donors {
			if donor != nil {
				n = max(n, powerOfTwo(len(donor.vectors)/d, 1<<30))
			}
		}
	}
	var vectors []float32
	var first, own, length []int32
	for i, le := range list {
		t := int32(1)
		if batch[i] != nil {
			t = int32(batch[i].t)
		}
		length = append(length, t)
		for _, donor := range orElse(le.variant.donors, h, nil) {
			if donor == nil {
				donor = &headDonor{vectors: make([]float32, d)}
			}
			last := donor.vectors[len(donor.vectors)-d:]
			vectors = append(vectors, donor.vectors...)
			for range n - len(donor.vectors)/d {
				vectors = append(vectors, last...)
			}
			first = append(first, donor.first)
			own = append(own, map[givenKind]int32{givenOwn: 1}[donor.kind])
		}
	}
	up.floats(vectors, h, n, d)
	up.ints(first, h)
	up.ints(each(list, func(e *layerEdit) []int32 { return orElse(e.variant.donorRows, 2*h, 0) }), h, 2)
	if !rows {
		up.ints(own, h)
		up.ints(length)
	}
}

// takeMeans stores the means of heads that a pass found, [B, H, D], where later rows look for them.
func (m *Model) takeMeans(l int, conds []*condition, means []float32) {
	h, d := m.cfg.heads, m.cfg.headDim
	for i, c := range conds {
		if c == nil || c.layers[l] == nil {
			continue
		}
		for k, donor := range c.layers[l].variant.donors {
			if donor != nil && donor.kind == givenOwn {
				donor.vectors = slices.Clone(means[(i*h+k)*d : (i*h+k+1)*d])
			}
		}
	}
}

// editUpload uploads arrays with a leading batch axis and keeps the first error.
type editUpload struct {
	be   *Backend
	b    int
	done []*tensors.Tensor
	err  error
}

func (u *editUpload) add(t *tensors.Tensor, err error) {
	if err != nil {
		u.err = err
		return
	}
	u.done = append(u.done, t)
}

func (u *editUpload) floats(x []float32, dims ...int) {
	if u.err == nil {
		u.add(u.be.floats(x, dtypes.Float32, append([]int{u.b}, dims...)...))
	}
}

func (u *editUpload) ints(x []int32, dims ...int) {
	if u.err == nil {
		u.add(u.be.ints(x, append([]int{u.b}, dims...)...))
	}
}

// take returns what was uploaded since the last call.
func (u *editUpload) take() []*tensors.Tensor {
	out := u.done
	u.done = nil
	return out
}
