package loadertest

import (
	"fmt"
	"math"

	"github.com/headscope/headscope/loader"
)

// projection is a stored matrix [out][in] and its bias [out], nil where the family has none.
type projection struct {
	weight [][]float64
	bias   []float64
}

// layer holds one layer's weights.
type layer struct {
	inputNorm, postNorm        []float64
	q, k, v, o, gate, up, down projection
}

// outer holds what surrounds the layers; head is the embedding where they are tied.
type outer struct {
	embed, head [][]float64
	norm        []float64
}

func (r *Reference) loadLayer(l int) (*layer, error) {
	n := r.c.Spec.Params.Layer(l)
	w := &layer{}
	var err error
	if w.inputNorm, err = r.vector(n.PreAttn); err != nil {
		return nil, err
	}
	if w.postNorm, err = r.vector(n.PreMLP); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		to           *projection
		weight, bias loader.Param
	}{
		{&w.q, n.Q, n.QBias}, {&w.k, n.K, n.KBias}, {&w.v, n.V, n.VBias}, {&w.o, n.O, n.OBias},
		{&w.gate, n.Gate, n.GateBias}, {&w.up, n.Up, n.UpBias}, {&w.down, n.Down, n.DownBias},
	} {
		if p.to.weight, err = r.matrix(p.weight); err != nil {
			return nil, err
		}
		if !p.bias.Has() {
			continue
		}
		if p.to.bias, err = r.vector(p.bias); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (r *Reference) loadOuter() (*outer, error) {
	n := r.c.Spec.Params
	embed, err := r.matrix(n.Embed)
	if err != nil {
		return nil, err
	}
	norm, err := r.vector(n.FinalNorm)
	if err != nil {
		return nil, err
	}
	out := &outer{embed: embed, head: embed, norm: norm}
	if n.Head.Has() {
		out.head, err = r.matrix(n.Head)
	}
	return out, err
}

// vector returns a parameter's elements, widened.
func (r *Reference) vector(p loader.Param) ([]float64, error) {
	flat, err := r.c.Float32s(p, nil)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	out := make([]float64, len(flat))
	for i, v := range flat {
		out[i] = float64(v)
	}
	return out, nil
}

// matrix returns a parameter of two dimensions as rows.
func (r *Reference) matrix(p loader.Param) ([][]float64, error) {
	flat, err := r.vector(p)
	if err != nil {
		return nil, err
	}
	columns := p.Shape[1]
	out := make([][]float64, p.Shape[0])
	for i := range out {
		out[i] = flat[i*columns : (i+1)*columns]
	}
	return out, nil
}

// linear returns x·weight^T + bias.
func linear(x [][]float64, p projection) [][]float64 {
	out := make([][]float64, len(x))
	for t := range x {
		out[t] = make([]float64, len(p.weight))
		for o, row := range p.weight {
			out[t][o] = dot(x[t], row)
			if p.bias != nil {
				out[t][o] += p.bias[o]
			}
		}
	}
	return out
}

// rmsNorm returns weight * x / sqrt(mean(x^2) + eps), row by row (Zhang and Sennrich 2019).
func rmsNorm(x [][]float64, weight []float64, eps float64) [][]float64 {
	out := make([][]float64, len(x))
	for t, row := range x {
		scale := 1 / math.Sqrt(dot(row, row)/float64(len(row))+eps)
		out[t] = make([]float64, len(row))
		for i, v := range row {
			out[t][i] = weight[i] * v * scale
		}
	}
	return out
}

// split cuts [T][n*dim] into [n][T][dim].
func split(x [][]float64, dim int) [][][]float64 {
	out := make([][][]float64, len(x[0])/dim)
	for h := range out {
		for _, row := range x {
			out[h] = append(out[h], row[h*dim:(h+1)*dim])
		}
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// addRows returns a+b in new rows.
func addRows(a, b [][]float64) [][]float64 {
	out := make([][]float64, len(a))
	for t := range a {
		out[t] = make([]float64, len(a[t]))
		for i, v := range a[t] {
			out[t][i] = v + b[t][i]
		}
	}
	return out
}
