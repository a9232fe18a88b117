package loader

import (
	"fmt"
	"slices"

	"github.com/headscope/headscope/loader/safetensors"
)

// Elements returns the number of elements, 0 for a parameter that the model does not have.
func (p Param) Elements() int64 {
	if !p.Has() {
		return 0
	}
	n := int64(1)
	for _, d := range p.Shape {
		n *= int64(d)
	}
	return n
}

// All lists the parameters of a layer in a fixed order, each weight followed by its bias, the ones the model does not have (Has is
// false) in their places: so index i is the same parameter in every layer and family.
func (l *LayerParams) All() []Param {
	return []Param{
		l.PreAttn, l.PreAttnBias,
		l.Q, l.QBias, l.K, l.KBias, l.V, l.VBias, l.QNorm, l.KNorm, l.O, l.OBias,
		l.PostAttn, l.PostAttnBias, l.PreMLP, l.PreMLPBias,
		l.Gate, l.GateBias, l.Up, l.UpBias, l.Down, l.DownBias,
		l.PostMLP, l.PostMLPBias,
	}
}

// Outer lists the parameters outside the layers in a fixed order, the ones the model does not have in their places: embedding, final
// norm and its bias, output matrix and its bias.
func (p *Params) Outer() []Param {
	return []Param{p.Embed, p.FinalNorm, p.FinalBias, p.Head, p.HeadBias}
}

// params lists all that the model has: the outer ones, then layer by layer.
func (s *Spec) params() []Param {
	all := s.Params.Outer()
	for l := range s.Layers {
		layer := s.Params.Layer(l)
		all = append(all, layer.All()...)
	}
	return slices.DeleteFunc(all, func(p Param) bool { return !p.Has() })
}

// isWhole tells whether v stands for all rows of its tensor.
func (v View) isWhole() bool { return v == View{Tensor: v.Tensor} }

// blocks returns the ranges [begin, end) of rows that v stands for, of a tensor of so many rows.
func (v View) blocks(rows int) [][2]int {
	if v.isWhole() {
		return [][2]int{{0, rows}}
	}
	out := make([][2]int, v.Times)
	for i := range out {
		begin := v.First + i*v.Stride
		out[i] = [2]int{begin, begin + v.Rows}
	}
	return out
}

// Chunks returns the bytes of a parameter as slices of the memory map, in order; neighbours in the file are one slice, so a whole tensor
// and a range of its rows are one each. They are read-only and end with Close.
func (c *Checkpoint) Chunks(p Param) (dtype safetensors.DType, chunks [][]byte, err error) {
	open := "" // tensor of the last view, and its bytes
	var data []byte
	var info safetensors.Info
	for _, v := range p.Views {
		if v.Tensor != open {
			if info, data, err = c.tensor(v.Tensor); err != nil {
				return "", nil, err
			}
			open = v.Tensor
		}
		switch {
		case dtype == "":
			dtype = info.DType
		case dtype != info.DType:
			return "", nil, fmt.Errorf("%s: %s: got dtype %s, want %s as in %s", weightsFile, v.Tensor, info.DType, dtype, p.Views[0].Tensor)
		}
		rows := info.Shape[0]
		for _, b := range v.blocks(rows) {
			if b[0] < 0 || b[1] > rows || b[0] >= b[1] {
				return "", nil, fmt.Errorf("%s: %s: got %d rows, want rows %d to %d of it", weightsFile, v.Tensor, rows, b[0], b[1]-1)
			}
			width := len(data) / rows
			chunks = appendChunk(chunks, data[b[0]*width:b[1]*width])
		}
	}
	return dtype, chunks, nil
}

// appendChunk adds next to the list, or to its last slice where it goes on in memory where that ends.
func appendChunk(chunks [][]byte, next []byte) [][]byte {
	if len(chunks) > 0 {
		last := chunks[len(chunks)-1]
		if len(next) > 0 && cap(last) >= len(last)+len(next) && &last[:len(last)+1][len(last)] == &next[0] {
			chunks[len(chunks)-1] = last[:len(last)+len(next)]
			return chunks
		}
	}
	return append(chunks, next)
}

func (c *Checkpoint) tensor(name string) (safetensors.Info, []byte, error) {
	info, ok := c.Weights.Info(name)
	if !ok || len(info.Shape) == 0 {
		return info, nil, fmt.Errorf("%s: %s: got no such tensor, or one without rows", weightsFile, name)
	}
	data, err := c.Weights.Bytes(name)
	return info, data, err
}

// Float32s decodes a parameter exactly, into dst where its capacity suffices, else into a new slice; row-major, as Shape says.
func (c *Checkpoint) Float32s(p Param, dst []float32) ([]float32, error) {
	dtype, chunks, err := c.Chunks(p)
	if err != nil {
		return nil, err
	}
	n := int(p.Elements())
	if cap(dst) < n {
		dst = make([]float32, n)
	}
	dst = dst[:n]
	rest := dst
	for _, chunk := range chunks {
		elements := len(chunk) * 8 / dtype.Bits()
		if elements > len(rest) {
			return nil, fmt.Errorf("%s: %s: got more elements than shape %v has", weightsFile, p.Views[0].Tensor, p.Shape)
		}
		if err := safetensors.DecodeFloat32(rest[:elements], chunk, dtype); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", weightsFile, p.Views[0].Tensor, err)
		}
		rest = rest[elements:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%s: got %d of the %d elements of a parameter of shape %v", weightsFile, n-len(rest), n, p.Shape)
	}
	return dst, nil
}

// Release tells the system that the pages of a parameter are not needed for now, those of the whole tensors it lies in: fused
// projections come back from the file when another part of them is read.
func (c *Checkpoint) Release(p Param) error {
	released := ""
	for _, v := range p.Views {
		if v.Tensor == released {
			continue
		}
		released = v.Tensor
		if err := c.Weights.Release(v.Tensor); err != nil {
			return err
		}
	}
	return nil
}
