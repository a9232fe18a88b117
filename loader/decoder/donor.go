package decoder

import (
	"context"
	"fmt"
	"slices"
)

// givenHead is a head of a condition that has its output from the prompt's donor or means.
type givenHead struct {
	layer, head int
	*headDonor
	from, to int // rows
}

// givenHeads lists these heads; those that put out a mean of their own are not among them.
func (c *condition) givenHeads() []givenHead {
	var out []givenHead
	for l, e := range c.layers {
		for h, d := range e.variant.donors {
			if d != nil && d.kind != givenOwn {
				out = append(out, givenHead{l, h, d, int(e.variant.donorRows[2*h]), int(e.variant.donorRows[2*h+1])})
			}
		}
	}
	return out
}

// fillGiven gives the conditions' heads the outputs that they have from elsewhere.
func (m *Model) fillGiven(ctx context.Context, p *Prompt, conds []*condition) error {
	for _, c := range conds {
		if err := m.fillMeans(p, c); err != nil {
			return err
		}
	}
	return m.fillDonors(ctx, p, conds)
}

// fillDonors runs the donors of the prompts that some condition takes head outputs from, and hands these out.
func (m *Model) fillDonors(ctx context.Context, p *Prompt, conds []*condition) error {
	var given []givenHead
	for _, c := range conds {
		for _, g := range c.givenHeads() {
			if g.kind == givenDonor {
				given = append(given, g)
			}
		}
	}
	if len(given) == 0 {
		return nil
	}
	if len(p.Donor) == 0 {
		return fmt.Errorf("edit patch: the prompt has no donor")
	}
	shift := len(p.Donor) - p.scopeLength()
	first, last := len(p.Donor), 0 // rows of the donor that are wanted
	var plain []int                // layers of the prompt's own run
	for _, g := range given {
		from, to := g.sourceRows()
		switch {
		case from >= to:
			return fmt.Errorf("edit of L%dH%d: its rows begin at %d, the prompt has %d", g.layer, g.head, from, p.scopeLength())
		case from+shift < 0:
			return fmt.Errorf("edit patch: the donor of %d tokens has no row for row %d of %d", len(p.Donor), from, p.scopeLength())
		}
		first, last = min(first, from+shift), max(last, to+shift)
		if g.path != nil {
			plain = append(plain, g.path.source.Layer, g.layer-1)
		}
	}
	rows := make([]int, last-first)
	for i := range rows {
		rows[i] = first + i
	}
	tr, err := m.Trace(ctx, &Prompt{IDs: p.Donor}, nil, TraceOptions{Hidden: -1, Heads: rows})
	if err != nil {
		return fmt.Errorf("donor: %w", err)
	}
	from := donorRows{tr.Heads, first - shift}
	var own *Trace
	if len(plain) > 0 {
		slices.Sort(plain)
		if own, err = m.Trace(ctx, &Prompt{IDs: p.IDs}, nil, TraceOptions{Hidden: -1, QK: slices.Compact(plain)}); err != nil {
			return err
		}
	}
	for _, g := range given {
		if err := m.fillDonor(p, g, from, own); err != nil {
			return fmt.Errorf("edit of L%dH%d: %w", g.layer, g.head, err)
		}
	}
	return nil
}

// sourceRows are the rows, of the prompt, whose outputs in the donor's run the head needs.
func (g *givenHead) sourceRows() (from, to int) {
	if g.path != nil {
		return g.path.rows.Lo, g.path.rows.Hi
	}
	return g.from, g.to
}

// donorRows are head outputs of a donor's run: by layer, [rows, heads, headDim]; the first is of row `first` of the prompt, whose rows are
// aligned with the donor's at the end.
type donorRows struct {
	z     [][]float32
	first int
}

// fillDonor takes a head's vectors from the donor's run, or works them out from it and the prompt's own.
func (m *Model) fillDonor(p *Prompt, g givenHead, donor donorRows, own *Trace) error {
	width, d := m.cfg.heads*m.cfg.headDim, m.cfg.headDim
	of := func(z []float32, row, head int) []float32 { return z[row*width+head*d:][:d] }
	from, to := g.sourceRows()
	g.first, g.vectors = int32(g.from), nil
	if g.path == nil {
		for r := from; r < to; r++ {
			g.vectors = append(g.vectors, of(donor.z[g.layer], r-donor.first, g.head)...)
		}
		return nil
	}
	source := g.path.source
	z := own.QK[source.Layer].Z
	patched := slices.Clone(z)
	for r := from; r < to; r++ {
		copy(of(patched, r, source.Index), of(donor.z[source.Layer], r-donor.first, source.Index))
	}
	out, err := m.pathOutput(g, len(p.IDs), own.QK[g.layer-1].Residual, [2][]float32{z, patched})
	if err != nil {
		return err
	}
	for r := g.from; r < min(g.to, len(p.IDs)); r++ {
		g.vectors = append(g.vectors, of(out, r, g.head)...)
	}
	return nil
}
