package decoder

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

// Trainable is a whole model as one graph function of token ids and float32 weights, for training: the blocks that inference calls one by
// one, without edit inputs, on top of each other. All of it has a gradient.
type Trainable struct {
	cfg    blockConfig
	params []loader.Param
}

// NewTrainable is the stack of a Spec, which need have no checkpoint yet.
func NewTrainable(s *loader.Spec) (*Trainable, error) {
	geo, err := newGeometry(s)
	if err != nil {
		return nil, err
	}
	st := &Trainable{cfg: newBlockConfig(s, 2*geo.planes, dtypes.Float32)}
	st.cfg.plain = true
	st.params = []loader.Param{s.Params.Embed}
	for l := range s.Layers {
		st.params = append(st.params, layerParams(s, l)...)
	}
	for _, p := range finalParams(s) {
		if !st.isEmbed(p) {
			st.params = append(st.params, p)
		}
	}
	return st, nil
}

// isEmbed tells whether a final parameter is the embedding again: a tied output matrix.
func (s *Trainable) isEmbed(p loader.Param) bool {
	return p.Views[0].Tensor == s.cfg.spec.Params.Embed.Views[0].Tensor
}

// Params lists the weights in the order in which Logits takes them; a tied output matrix is not listed again.
func (s *Trainable) Params() []loader.Param { return s.params }

// Logits runs the stack over ids [B, T] int32 and returns the logits of rows [B, P] int32: [B, P, vocab] float32.
func (s *Trainable) Logits(ids, rows *Node, weights []*Node) *Node {
	g, spec := ids.Graph(), s.cfg.spec
	if len(weights) != len(s.params) {
		panic(fmt.Sprintf("stack: got %d weights, want %d", len(weights), len(s.params)))
	}
	in := &nodeReader{weights}
	embed := in.next()
	x := MulScalar(Gather(embed, ExpandAxes(ids, -1)), spec.EmbedScale)
	block := s.cfg.prefillBlock(blockVariant{})
	for l := range spec.Layers {
		cos, sin := s.turns(g, l, ids.Shape().Dim(1))
		window := spec.Kinds[l].Window
		if window == 0 {
			window = int(Forever)
		}
		args := []*Node{x, cos, sin, Const(g, []int32{int32(window)})}
		for range layerParams(spec, l) {
			args = append(args, in.next())
		}
		x = block(args)[0]
	}
	var final []*Node
	for _, p := range finalParams(spec) {
		if s.isEmbed(p) {
			final = append(final, embed)
		} else {
			final = append(final, in.next())
		}
	}
	return s.cfg.logitsGraph(x, rows, (&nodeReader{final}).final(&s.cfg))
}

// turns are layer l's cosines and sines of positions 0..n-1: [n, planes] twice.
func (s *Trainable) turns(g *Graph, l, n int) (cos, sin *Node) {
	t, err := RopeTable(s.cfg.spec, l, n)
	if err != nil {
		panic(err) // newGeometry has built the same table
	}
	c, w := make([][]float32, n), make([][]float32, n)
	for at := range n {
		if t == nil {
			c[at], w[at] = slices.Repeat([]float32{1}, s.cfg.planes()), make([]float32, s.cfg.planes())
			continue
		}
		c[at], w[at] = t.AppendCosSin(nil, nil, at, rope.Float32Angles)
	}
	return Const(g, c), Const(g, w)
}
