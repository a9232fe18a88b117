package loadertest

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/safetensors"
)

// spread is the distribution that the elements of a parameter are drawn from.
type spread struct{ mean, deviation float64 }

// tensor is a stored tensor, of which each row may belong to another parameter.
type tensor struct {
	name    string
	columns []int // its shape without the first axis
	rows    []spread
}

// tensors lists what the spec asks for. The spreads keep attention away from both uniform and one-hot (scores of deviation about 2) and
// the logits apart.
func (o Options) tensors(s *loader.Spec) []*tensor {
	const score = 1.4 // deviation of a query or key element; scores get its square
	fan := func(n int) float64 { return 1 / math.Sqrt(float64(n)) }
	var t tensorList
	one := 1.0
	if s.Norm == loader.RMSNormOffset {
		one = 0
	}
	norm := func(weight, bias loader.Param) {
		t.draw(weight, spread{one, 0.1})
		t.draw(bias, spread{0, 0.2})
	}
	module := func(weight, bias loader.Param, deviation float64) {
		t.draw(weight, spread{0, deviation})
		t.draw(bias, spread{0, 0.3})
	}
	head := spread{0, 2.5 * fan(s.Hidden)}
	if s.Tied {
		t.draw(s.Params.Embed, head)
	} else {
		t.draw(s.Params.Embed, spread{0, 1})
		t.draw(s.Params.Head, head)
	}
	t.draw(s.Params.HeadBias, spread{0, 0.3})
	norm(s.Params.FinalNorm, s.Params.FinalBias)
	for l := range s.Layers {
		n := s.Params.Layer(l)
		norm(n.PreAttn, n.PreAttnBias)
		module(n.Q, n.QBias, score*fan(s.Hidden))
		module(n.K, n.KBias, score*fan(s.Hidden))
		module(n.V, n.VBias, fan(s.Hidden))
		t.draw(n.QNorm, spread{one + score - 1, 0.1})
		t.draw(n.KNorm, spread{one + score - 1, 0.1})
		module(n.O, n.OBias, fan(s.Heads*s.HeadDim))
		norm(n.PostAttn, n.PostAttnBias)
		norm(n.PreMLP, n.PreMLPBias)
		module(n.Gate, n.GateBias, fan(s.Hidden))
		module(n.Up, n.UpBias, fan(s.Hidden))
		module(n.Down, n.DownBias, 2*fan(s.Intermediate))
		norm(n.PostMLP, n.PostMLPBias)
	}
	return t
}

type tensorList []*tensor

// draw gives the rows that a parameter is made of their spread.
func (list *tensorList) draw(p loader.Param, from spread) {
	for _, v := range p.Views {
		columns := p.Shape[1:]
		if v == (loader.View{Tensor: v.Tensor}) { // a whole tensor
			v.Rows, v.Times = p.Shape[0], 1
			if len(p.Views) > 1 { // which is one row of the parameter
				v.Rows, columns = p.Shape[1], p.Shape[2:]
			}
		}
		t := list.named(v.Tensor, columns)
		for block := range v.Times {
			first := v.First + block*v.Stride
			if missing := first + v.Rows - len(t.rows); missing > 0 {
				t.rows = append(t.rows, make([]spread, missing)...)
			}
			for row := range v.Rows {
				t.rows[first+row] = from
			}
		}
	}
}

// named returns the tensor of a name, at first an empty one.
func (list *tensorList) named(name string, columns []int) *tensor {
	for _, t := range *list {
		if t.name == name {
			return t
		}
	}
	t := &tensor{name: name, columns: columns}
	*list = append(*list, t)
	return t
}

// entries draws the tensors, each from the seed and its own name, so that two checkpoints that differ in one option share all other tensors.
func (o Options) entries(tensors []*tensor) []safetensors.Entry {
	var out []safetensors.Entry
	for _, t := range tensors {
		stream := fnv.New64a()
		stream.Write([]byte(t.name))
		rng := rand.New(rand.NewPCG(o.Seed, stream.Sum64()))
		width := 1
		for _, d := range t.columns {
			width *= d
		}
		var data []byte
		for i := range len(t.rows) * width {
			from := t.rows[i/width]
			v := float32(from.mean + from.deviation*rng.NormFloat64())
			if o.BFloat16 {
				data = binary.LittleEndian.AppendUint16(data, safetensors.BF16FromFloat32(v))
			} else {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
			}
		}
		dtype := safetensors.F32
		if o.BFloat16 {
			dtype = safetensors.BF16
		}
		shape := append([]int{len(t.rows)}, t.columns...)
		out = append(out, safetensors.Entry{Name: t.name, DType: dtype, Shape: shape, Write: safetensors.Bytes(data)})
	}
	return out
}
