package loadertest

import (
	"fmt"

	"github.com/headscope/headscope/loader"
)

// projection is a stored matrix [out][in] and its bias [out], nil where the family has none.
type projection struct {
	weight [][]float64
	bias   []float64
}

// norm is one place for a norm; weight and bias are nil where the family's norm has none.
type norm struct {
	there        bool
	weight, bias []float64
}

// layer holds one layer's weights.
type layer struct {
	preAttn, postAttn, preMLP, postMLP norm
	q, k, v, o, gate, up, down         projection
	qNorm, kNorm                       []float64
}

// outer holds what surrounds the layers; head is the embedding where they are tied.
type outer struct {
	embed [][]float64
	norm  norm
	head  projection
}

func (r *Reference) loadLayer(l int) (*layer, error) {
	n, at := r.c.Spec.Params.Layer(l), r.c.Spec.Norms
	w, read := &layer{}, reader{c: r.c}
	w.preAttn = norm{at.PreAttn, read.vector(n.PreAttn), read.vector(n.PreAttnBias)}
	w.postAttn = norm{at.PostAttn, read.vector(n.PostAttn), read.vector(n.PostAttnBias)}
	w.preMLP = norm{at.PreMLP, read.vector(n.PreMLP), read.vector(n.PreMLPBias)}
	w.postMLP = norm{at.PostMLP, read.vector(n.PostMLP), read.vector(n.PostMLPBias)}
	w.q = projection{read.matrix(n.Q), read.vector(n.QBias)}
	w.k = projection{read.matrix(n.K), read.vector(n.KBias)}
	w.v = projection{read.matrix(n.V), read.vector(n.VBias)}
	w.o = projection{read.matrix(n.O), read.vector(n.OBias)}
	w.qNorm, w.kNorm = read.vector(n.QNorm), read.vector(n.KNorm)
	w.gate = projection{read.matrix(n.Gate), read.vector(n.GateBias)}
	w.up = projection{read.matrix(n.Up), read.vector(n.UpBias)}
	w.down = projection{read.matrix(n.Down), read.vector(n.DownBias)}
	return w, read.err
}

func (r *Reference) loadOuter() (*outer, error) {
	n, read := r.c.Spec.Params, reader{c: r.c}
	out := &outer{embed: read.matrix(n.Embed), norm: norm{true, read.vector(n.FinalNorm), read.vector(n.FinalBias)}}
	out.head = projection{read.matrix(n.Head), read.vector(n.HeadBias)}
	if r.c.Spec.Tied {
		out.head.weight = out.embed
	}
	return out, read.err
}

// reader decodes parameters, nil for those that the model does not have, and keeps the first error.
type reader struct {
	c   *loader.Checkpoint
	err error
}

func (r *reader) vector(p loader.Param) []float64 {
	if r.err != nil || !p.Has() {
		return nil
	}
	flat, err := r.c.Float32s(p, nil)
	if err != nil {
		r.err = fmt.Errorf("reference: %w", err)
	}
	return widened(flat)
}

// matrix returns a parameter of two dimensions as rows.
func (r *reader) matrix(p loader.Param) [][]float64 {
	flat := r.vector(p)
	if flat == nil || r.err != nil {
		return nil
	}
	return rowsOf(flat, p.Shape[1])
}
