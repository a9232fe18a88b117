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
	var donor, plain []int // layers
	for _, g := range given {
		if g.path == nil {
			donor = append(donor, g.layer)
		} else {
			donor, plain = append(donor, g.path.source.Layer), append(plain, g.path.source.Layer, g.layer-1)
		}
	}
	tr, err := m.traceLayers(ctx, p.Donor, donor)
	if err != nil {
		return fmt.Errorf("donor: %w", err)
	}
	var own *Trace
	if len(plain) > 0 {
		if own, err = m.traceLayers(ctx, p.IDs, plain); err != nil {
			return err
		}
	}
	for _, g := range given {
		if err := m.fillDonor(p, g, tr, own); err != nil {
			return fmt.Errorf("edit of L%dH%d: %w", g.layer, g.head, err)
		}
	}
	return nil
}

func (m *Model) traceLayers(ctx context.Context, ids []int32, layers []int) (*Trace, error) {
	slices.Sort(layers)
	return m.Trace(ctx, &Prompt{IDs: ids}, nil, TraceOptions{Hidden: -1, QK: slices.Compact(layers)})
}

// fillDonor takes a head's vectors from the donor's run, or works them out from it and the prompt's own, whose rows are aligned at the end.
func (m *Model) fillDonor(p *Prompt, g givenHead, donor, own *Trace) error {
	shift := len(p.Donor) - p.scopeLength()
	from, to := g.from, g.to
	if g.path != nil {
		from, to = g.path.rows.Lo, g.path.rows.Hi
	}
	switch {
	case from >= to:
		return fmt.Errorf("the rows begin at %d, the prompt has %d", from, p.scopeLength())
	case from+shift < 0:
		return fmt.Errorf("the donor of %d tokens has no row for row %d of %d", len(p.Donor), from, p.scopeLength())
	}
	width, d := m.cfg.heads*m.cfg.headDim, m.cfg.headDim
	of := func(z []float32, row, head int) []float32 { return z[row*width+head*d:][:d] }
	g.first, g.vectors = int32(g.from), nil
	if g.path == nil {
		for r := from + shift; r < to+shift; r++ {
			g.vectors = append(g.vectors, of(donor.QK[g.layer].Z, r, g.head)...)
		}
		return nil
	}
	source := g.path.source
	z := own.QK[source.Layer].Z
	patched := slices.Clone(z)
	for r := from; r < to; r++ {
		copy(of(patched, r, source.Index), of(donor.QK[source.Layer].Z, r+shift, source.Index))
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
