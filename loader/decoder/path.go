package decoder

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
	"github.com/gomlx/gomlx/core/tensors"
)

// Path patching (Wang et al. 2022, "Interpretability in the wild", section 3.1; Goldowsky-Dill et al. 2023): a head's changed output is
// added to the residual stream that one later head reads, all heads and MLPs between them held at what they were, and reaches that head
// through its queries, its keys or its values alone. What the later head then puts out is given to it in a run that is else free.

// headPath is where a given head output comes from.
type headPath struct {
	source Head
	input  string // q, k or v
	rows   Rows   // of the source
}

// source is the path's source for printing, the zero head without one.
func (e Edit) source() Head {
	if e.Source == nil {
		return Head{}
	}
	return *e.Source
}

// checkPath checks the fields of OpPath.
func (e Edit) checkPath() error {
	if e.Op != OpPath {
		if e.Source != nil || e.Input != "" {
			return fmt.Errorf("takes no source and no input")
		}
		return nil
	}
	if e.Source == nil {
		return fmt.Errorf("no source: want SOURCE.INPUT, such as L12H3.q")
	}
	if e.Input != "q" && e.Input != "k" && e.Input != "v" {
		return fmt.Errorf("input %q: want q, k or v", e.Input)
	}
	for _, h := range e.Heads {
		if e.Source.Layer >= h.Layer {
			return fmt.Errorf("source %s: want a head of a layer before %s", *e.Source, h)
		}
	}
	return nil
}

// addPath notes where a head's output comes from. A changed key or value is seen by all rows after it.
func (g geometry) addPath(d *headDonor, e *editSite) error {
	if e.Source.Layer < 0 || e.Source.Index < 0 || e.Source.Index >= g.heads {
		return fmt.Errorf("source %s does not exist: the model has layers 0-%d with heads 0-%d", *e.Source, g.layers-1, g.heads-1)
	}
	d.path = &headPath{*e.Source, e.Input, e.rows}
	if e.Input != "q" {
		e.rows.Hi = e.promptRows
	}
	return nil
}

// pathOutput is what all heads of g's layer put out, [t, heads, headDim], if the input of the path is read of a residual stream to which
// the difference that the source's output makes is added. x [t, hidden] is the plain run's residual before the layer, z the outputs of the
// heads of the source's layer, plain and changed.
func (m *Model) pathOutput(g givenHead, t int, x []float32, z [2][]float32) ([]float32, error) {
	bucket := LengthBucket(t)
	up := func(data []float32, dims ...int) (*tensors.Tensor, error) {
		width := len(data) / t
		return m.be.floats(append(data[:len(data):len(data)], make([]float32, (bucket-t)*width)...), m.cfg.dtype, append([]int{1, bucket}, dims...)...)
	}
	in := make([]*tensors.Tensor, 3)
	defer func() { free(in...) }()
	var err error
	for i, data := range z {
		if in[i], err = up(data, m.cfg.heads, m.cfg.headDim); err != nil {
			return nil, err
		}
	}
	if in[2], err = up(x, m.Spec.Hidden); err != nil {
		return nil, err
	}
	write, err := m.program("path_write", m.cfg.pathWrite)
	if err != nil {
		return nil, err
	}
	delta, err := m.callLayer(write, g.path.source.Layer, in[0], in[1])
	if err != nil {
		return nil, err
	}
	defer free(delta...)
	table, err := m.positionsOf(g.layer, bucket, passOf(m.Spec, t), nil)
	if err != nil {
		return nil, err
	}
	window, err := m.windowOf(g.layer)
	if err != nil {
		return nil, err
	}
	heads, err := m.program("path_"+g.path.input, m.cfg.pathHeads(g.path.input))
	if err != nil {
		return nil, err
	}
	out, err := m.callLayer(heads, g.layer, in[2], delta[0], table.cos, table.sin, window)
	if err != nil {
		return nil, err
	}
	defer free(out...)
	return floatsOf(out[0])
}

// callLayer calls a program whose last arguments are layer l's weights.
func (m *Model) callLayer(prog *graph.Exec, l int, args ...any) ([]*tensors.Tensor, error) {
	w, err := m.weights.acquire(l)
	if err != nil {
		return nil, err
	}
	defer m.weights.release(l)
	return call(prog, append(args, w...)...)
}

// pathWrite is the difference between what two heads' outputs [B, T, H, D], plain and changed, add to the residual: [B, T, hidden].
func (c *blockConfig) pathWrite(args []*Node) []*Node {
	in := &nodeReader{args}
	plain, changed := in.next(), in.next()
	w := in.weights(c)
	return []*Node{Sub(c.attnWrite(changed, w), c.attnWrite(plain, w))}
}

// pathHeads builds a layer's heads, [B, T, H, D], that read one input of x+delta and the others of x, both [B, T, hidden]. Arguments: x,
// delta, cos and sin [T, planes], window [] int32, the layer's weights.
func (c *blockConfig) pathHeads(input string) func([]*Node) []*Node {
	return func(args []*Node) []*Node {
		in := &nodeReader{args}
		x, delta := in.next(), in.next()
		t := turns{in.next(), in.next(), in.next()}
		w := in.weights(c)
		pos := positions(x.Graph(), x.Shape().Dim(0), x.Shape().Dim(1))
		q, k, v := c.project(c.attnInput(x, w), w, nil, pos)
		q2, k2, v2 := c.project(c.attnInput(Add(x, delta), w), w, nil, pos)
		switch input {
		case "q":
			q = q2
		case "k":
			k = k2
		default:
			v = v2
		}
		return []*Node{c.attendPlain(q, k, v, t)}
	}
}

// turns are a layer's rotary tables and its window.
type turns struct{ cos, sin, window *Node }

// attendPlain is attention without edits over whole sequences: queries [B, T, H, D], keys and values [B, KV, T, D], all before rotation ->
// [B, T, H, D].
func (c *blockConfig) attendPlain(q, k, v *Node, t turns) *Node {
	pos := positions(q.Graph(), q.Shape().Dim(0), q.Shape().Dim(1))
	qr := c.rotate(q, ExpandAxes(t.cos, 0, 2), ExpandAxes(t.sin, 0, 2))
	kr := c.rotate(k, ExpandAxes(t.cos, 0, 1), ExpandAxes(t.sin, 0, 1))
	return c.attendTiled(nil, headQueries{q: qr, pos: pos}, headKeys{k: kr, v: v, pos: pos}, t.window)
}
