package loadertest

import (
	"fmt"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

// Gains are the edits of a forward pass. A nil function stands for 1 everywhere. Rows are positions from 0.
type Gains struct {
	// Head multiplies a head's output, the slice of the output projection's input.
	Head func(layer, head, row int) float64
	// Q multiplies both members of a plane of a head's query, after bias, clipping and norm and before the rotation. The plane behind the
	// last one stands for the dimensions that do not rotate; a layer without rotation counts as the others do. Zero on all of them makes
	// the head attend uniformly.
	Q func(layer, head, plane, row int) float64
}

// Trace is what one forward pass computed. T is the number of tokens.
type Trace struct {
	Logits    [][]float64     // [T][vocab]
	Hidden    [][][]float64   // [layer][T][hidden], output of each layer, before the final norm
	Attention [][][][]float64 // [layer][head][query row][key up to the query's], sums to 1; 0 outside of the window
	HeadOut   [][][]float64   // [layer][T][heads*headDim], after the gain, before the output projection
	Write     [][][]float64   // [layer][T][head], norm of the head's share of the output projection's result
	V         [][][][]float64 // [layer][kvHead][T][headDim]
	QPre      [][][][]float64 // [layer][head][T][headDim], after bias, clipping, norm and gain, before rotation
	KPre      [][][][]float64 // [layer][kvHead][T][headDim], after bias, clipping and norm, before rotation
	QRot      [][][][]float64 // QPre after rotation
	KRot      [][][][]float64 // KPre after rotation
}

// Reference computes a checkpoint token by token in float64.
type Reference struct {
	Precision rope.Precision // of the rotary angles; the zero value is transformers' float32

	// Pass returns the length of the pass that computes a row, for tables that depend on it: a key in a cache keeps the rotation of its
	// pass. nil stands for one pass over all tokens.
	Pass func(row int) int

	c *loader.Checkpoint
}

// NewReference prepares c, which has to stay open.
func NewReference(c *loader.Checkpoint) (*Reference, error) {
	for _, table := range c.Spec.Tables {
		if _, err := rope.New(table, c.Spec.HeadDim, c.Spec.MaxPositions); err != nil {
			return nil, err
		}
	}
	if _, err := activation(c.Spec.Activation); err != nil {
		return nil, err
	}
	return &Reference{c: c}, nil
}

// Forward runs the tokens, at least one, through the model.
func (r *Reference) Forward(ids []int32, gains Gains) (*Trace, error) {
	s := &r.c.Spec
	outer, err := r.loadOuter()
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("reference: got no tokens, want at least one")
	}
	x := make([][]float64, len(ids)) // [T][hidden], the residual stream
	for t, id := range ids {
		if id < 0 || int(id) >= s.Vocab {
			return nil, fmt.Errorf("reference: token %d: got id %d, want 0 to %d", t, id, s.Vocab-1)
		}
		x[t] = scaled(outer.embed[id], s.EmbedScale)
	}
	p := &pass{spec: s, gains: gains, out: &Trace{}}
	if p.turns, err = r.rotations(len(ids)); err != nil {
		return nil, err
	}
	for l := range s.Layers {
		w, err := r.loadLayer(l)
		if err != nil {
			return nil, err
		}
		x = p.layer(l, x, w)
		p.out.Hidden = append(p.out.Hidden, x)
	}
	p.out.Logits = linear(p.norm(x, outer.norm), outer.head)
	for _, row := range p.out.Logits {
		for i, v := range row {
			row[i] = capped(v*s.LogitScale/s.LogitDivide, s.LogitCap)
		}
	}
	return p.out, nil
}

// pass is one run over the tokens.
type pass struct {
	spec  *loader.Spec
	gains Gains
	turns []rotation // of each table
	out   *Trace
}

// layer adds attention and MLP to the residual stream. The MLP reads the stream after the attention; where the two are parallel, it reads
// the stream before it, through a norm of its own or the attention's.
func (p *pass) layer(l int, x [][]float64, w *layer) [][]float64 {
	s := p.spec
	read := p.norm(x, w.preAttn)
	z := p.attention(l, read, w)
	p.out.HeadOut, p.out.Write = append(p.out.HeadOut, z), append(p.out.Write, writeNorms(z, w.o, s.HeadDim))
	attention := p.norm(linear(z, w.o), w.postAttn)

	switch {
	case s.Parallel == loader.Sequential:
		x = addRows(x, attention, s.ResidualScale)
		read = p.norm(x, w.preMLP)
	case s.Norms.PreMLP:
		read = p.norm(x, w.preMLP)
	}
	mlp := p.norm(p.mlp(read, w), w.postMLP)
	if s.Parallel != loader.Sequential {
		x = addRows(x, attention, s.ResidualScale)
	}
	return addRows(x, mlp, s.ResidualScale)
}

// norm applies a norm row by row, and nothing where the family has none at this place.
func (p *pass) norm(x [][]float64, n norm) [][]float64 {
	if !n.there {
		return x
	}
	out := make([][]float64, len(x))
	for t, row := range x {
		out[t] = normalized(p.spec, row, n.weight, n.bias)
	}
	return out
}

// mlp is down(act(gate(x)) * up(x)), or down(act(up(x))) without a gate.
func (p *pass) mlp(x [][]float64, w *layer) [][]float64 {
	act, _ := activation(p.spec.Activation) // NewReference has seen to the error
	up := linear(x, w.up)                   // [T][intermediate]
	if !p.spec.Gated {
		for _, row := range up {
			for i, v := range row {
				row[i] = act(v)
			}
		}
		return linear(up, w.down)
	}
	for t, row := range linear(x, w.gate) {
		for i, v := range row {
			up[t][i] *= act(v)
		}
	}
	return linear(up, w.down)
}
