package decoder

import "github.com/gomlx/gomlx/core/tensors"

// cacheRow names one sequence's cache within a unit.
type cacheRow struct {
	u *unit
	i int
}

// promptCache is the prompt part of a cacheRun, by layer: keys rotated, once for all steps.
type promptCache struct {
	kv         []kvPair
	pass       int  // of passOf
	keepValues bool // the values belong to the unit they were taken from

	rows []cacheRow              // what was stacked
	pick *rowPick                // their places in their units
	raw  map[int]*tensors.Tensor // by layer, keys before rotation; owned
}

// rawKeys are layer l's keys before rotation, for heads that turn them by a table of their own.
func (c *promptCache) rawKeys(l int) (*tensors.Tensor, error) {
	if c.keepValues {
		return c.rows[0].u.layerKV(l).k, nil
	}
	if t := c.raw[l]; t != nil {
		return t, nil
	}
	t, err := c.pick.stack(func(i int) *tensors.Tensor { return c.rows[i].u.layerKV(l).k })
	if err != nil {
		return nil, err
	}
	c.raw[l] = t
	return t, nil
}

func (c *promptCache) free() {
	for _, p := range c.kv {
		free(p.k)
		if !c.keepValues {
			free(p.v)
		}
	}
	for _, t := range c.raw {
		free(t)
	}
	c.pick.free()
	c.kv, c.raw = nil, nil
}

// rowPick picks rows out of batches: row rows[i] of the i-th batch.
type rowPick struct {
	m     *Model
	index []*tensors.Tensor // [1, 1] each; owned
}

func (m *Model) newRowPick(rows []int) (*rowPick, error) {
	p := &rowPick{m: m}
	for _, r := range rows {
		t, err := m.be.ints([]int32{int32(r)}, 1, 1)
		if err != nil {
			p.free()
			return nil, err
		}
		p.index = append(p.index, t)
	}
	return p, nil
}

func (p *rowPick) free() { free(p.index...) }

// args are the batches [B, ...] that of returns, each before the index of its row.
func (p *rowPick) args(of func(i int) *tensors.Tensor) []any {
	var out []any
	for i, t := range p.index {
		out = append(out, of(i), t)
	}
	return out
}

// stack stacks the picked rows: [picks, ...].
func (p *rowPick) stack(of func(i int) *tensors.Tensor) (*tensors.Tensor, error) {
	prog, err := p.m.program("stack", stackOnly)
	if err != nil {
		return nil, err
	}
	out, err := call(prog, p.args(of)...)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// stack brings the caches of several sequences, all of one bucket and with the same rotary tables, into one batch, and rotates the keys:
// units keep them before rotation, so that another table can be used here.
func (m *Model) stack(rows []cacheRow) (*promptCache, error) {
	keys, err := m.program("stack_keys", m.cfg.stackKeys)
	if err != nil {
		return nil, err
	}
	places := make([]int, len(rows))
	for i, r := range rows {
		places[i] = r.i
	}
	pick, err := m.newRowPick(places)
	if err != nil {
		return nil, err
	}
	c := &promptCache{
		kv: make([]kvPair, m.Spec.Layers), pass: rows[0].u.pass, keepValues: len(rows) == 1 && rows[0].u.b() == 1,
		rows: rows, pick: pick, raw: map[int]*tensors.Tensor{},
	}
	for l := range m.Spec.Layers {
		table, err := m.positionsOf(l, rows[0].u.t, c.pass, nil)
		if err != nil {
			c.free()
			return nil, err
		}
		args := append([]any{table.cos, table.sin}, pick.args(func(i int) *tensors.Tensor { return rows[i].u.layerKV(l).k })...)
		k, err := call(keys, args...)
		if err != nil {
			c.free()
			return nil, err
		}
		c.kv[l].k = k[0]
		if c.keepValues {
			c.kv[l].v = rows[0].u.layerKV(l).v
			continue
		}
		if c.kv[l].v, err = pick.stack(func(i int) *tensors.Tensor { return rows[i].u.layerKV(l).v }); err != nil {
			c.free()
			return nil, err
		}
	}
	return c, nil
}
