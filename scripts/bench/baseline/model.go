package baseline

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
	"github.com/headscope/headscope/loader/safetensors"
)

// Options says what is run.
type Options struct {
	DType  string // float32 or bfloat16
	Layers int    // the first so many
}

// Model is a checkpoint's weights on a backend and the compiled programs. All weights stay resident.
type Model struct {
	spec   *loader.Spec
	be     *decoder.Backend
	dtype  dtypes.DType
	layers [][]any
	embed  *tensors.Tensor
	norm   *tensors.Tensor
	out    *tensors.Tensor
	owned  []*tensors.Tensor

	embedProg, headProg *graph.Exec
	blocks              map[int]*graph.Exec // by tile
	inputs              map[[2]int]*inputs  // by batch and length
}

type inputs struct{ gain, cos, sin *tensors.Tensor }

// New uploads the weights of the first o.Layers layers of a Llama-type checkpoint without biases.
func New(be *decoder.Backend, c *loader.Checkpoint, o Options) (*Model, error) {
	m := &Model{spec: &c.Spec, be: be, dtype: dtypes.Float32, blocks: map[int]*graph.Exec{}, inputs: map[[2]int]*inputs{}}
	if o.DType == "bfloat16" {
		m.dtype = dtypes.BFloat16
	}
	if err := m.build(c, o.Layers); err != nil {
		release(m.owned...)
		return nil, err
	}
	return m, nil
}

// build uploads the weights and makes the programs that do not depend on a tile.
func (m *Model) build(c *loader.Checkpoint, layers int) error {
	load := func(p loader.Param) (t *tensors.Tensor, err error) {
		values, err := c.Float32s(p, nil)
		if err != nil {
			return nil, err
		}
		return m.upload(values, m.dtype, p.Shape...)
	}
	n := c.Spec.Params
	head := n.Head
	if c.Spec.Tied {
		head = n.Embed
	}
	var err error
	for _, t := range []struct {
		to    **tensors.Tensor
		param loader.Param
	}{{&m.embed, n.Embed}, {&m.norm, n.FinalNorm}, {&m.out, head}} {
		if *t.to, err = load(t.param); err != nil {
			return err
		}
	}
	for l := range layers {
		ln := n.Layer(l)
		if ln.QBias.Has() || ln.OBias.Has() || ln.GateBias.Has() {
			return fmt.Errorf("layer %d has biases, which the baseline does not run", l)
		}
		var args []any
		for _, p := range []loader.Param{ln.PreAttn, ln.Q, ln.K, ln.V, ln.O, ln.PreMLP, ln.Gate, ln.Up, ln.Down} {
			t, err := load(p)
			if err != nil {
				return err
			}
			args = append(args, t)
		}
		m.layers = append(m.layers, args)
	}
	g := &blockGraph{spec: m.spec}
	if m.embedProg, err = graph.NewExec(m.be.Backend, embed); err != nil {
		return err
	}
	m.headProg, err = graph.NewExec(m.be.Backend, g.head)
	return err
}

func (m *Model) upload(values []float32, dtype dtypes.DType, dims ...int) (*tensors.Tensor, error) {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))
	if dtype == dtypes.BFloat16 {
		raw = make([]byte, 2*len(values))
		for i, f := range values {
			binary.LittleEndian.PutUint16(raw[2*i:], safetensors.BF16FromFloat32(f))
		}
	}
	t, err := tensors.FromRaw(m.be.Backend, 0, shapes.Make(dtype, dims...), raw)
	if err == nil {
		m.owned = append(m.owned, t)
	}
	return t, err
}

// shared returns the inputs that all layers share: gains of one and the rotary tables, one a head.
func (m *Model) shared(b, t int) (*inputs, error) {
	if in := m.inputs[[2]int{b, t}]; in != nil {
		return in, nil
	}
	s := m.spec
	table, err := rope.New(s.Tables[0], s.HeadDim, s.MaxPositions)
	if err != nil {
		return nil, err
	}
	if 2*table.Planes() != s.HeadDim {
		return nil, fmt.Errorf("%d of %d dims are rotated, which the baseline does not run", 2*table.Planes(), s.HeadDim)
	}
	cos, sin := table.CosSin(t, rope.Float32Angles)
	in, h, half := &inputs{}, s.Heads, s.HeadDim/2
	gain := make([]float32, b*h)
	for i := range gain {
		gain[i] = 1
	}
	if in.gain, err = m.upload(gain, dtypes.Float32, b, h); err != nil {
		return nil, err
	}
	var cs, sn []float32
	for range h {
		cs, sn = append(cs, cos...), append(sn, sin...)
	}
	if in.cos, err = m.upload(cs, dtypes.Float32, 1, h, t, half); err != nil {
		return nil, err
	}
	if in.sin, err = m.upload(sn, dtypes.Float32, 1, h, t, half); err != nil {
		return nil, err
	}
	m.inputs[[2]int{b, t}] = in
	return in, nil
}

// Forward runs sequences of one length and returns the most likely next token of each. tile is the number of query rows scored at
// once, 0 = all.
func (m *Model) Forward(ids [][]int32, tile int) ([]int32, error) {
	prog := m.blocks[tile]
	if prog == nil {
		var err error
		g := &blockGraph{spec: m.spec, tile: tile}
		if prog, err = graph.NewExec(m.be.Backend, g.block); err != nil {
			return nil, err
		}
		m.blocks[tile] = prog.SetMaxCache(-1)
	}
	b, t := len(ids), len(ids[0])
	in, err := m.shared(b, t)
	if err != nil {
		return nil, err
	}
	var flat []int32
	for _, s := range ids {
		flat = append(flat, s...)
	}
	first, err := m.embedProg.Call(tensors.FromFlatDataAndDimensions(flat, b, t), m.embed)
	if err != nil {
		return nil, err
	}
	x := first[0]
	for _, w := range m.layers {
		given, err := graph.DonateTensorBuffer(x, m.be.Backend, 0)
		if err != nil {
			return nil, err
		}
		out, err := prog.Call(append([]any{given, in.gain, in.cos, in.sin}, w...)...)
		if err != nil {
			return nil, err
		}
		x = out[0]
		release(out[1])
	}
	out, err := m.headProg.Call(x, m.norm, m.out)
	if err != nil {
		return nil, err
	}
	logits, err := tensors.CopyFlatData[float32](out[0])
	release(x, out[0])
	if err != nil {
		return nil, err
	}
	next := make([]int32, b)
	for i := range next {
		next[i] = argmax(logits[i*m.spec.Vocab : (i+1)*m.spec.Vocab])
	}
	return next, nil
}

func argmax(x []float32) int32 {
	best, at := float32(math.Inf(-1)), 0
	for i, v := range x {
		if v > best {
			best, at = v, i
		}
	}
	return int32(at)
}

func release(ts ...*tensors.Tensor) {
	for _, t := range ts {
		if t != nil && t.Ok() {
			_ = t.FinalizeAll()
		}
	}
}

// Close frees weights and programs.
func (m *Model) Close() {
	release(m.owned...)
	for _, p := range m.blocks {
		p.Finalize()
	}
	m.embedProg.Finalize()
	m.headProg.Finalize()
}
