package loadertest

import (
	"fmt"
	"math"

	"github.com/headscope/headscope/loader"
)

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

// normalized returns (x - mean) / sqrt(variance + eps) * weight + bias; an RMS norm (Zhang and Sennrich 2019) takes 0 for the mean, and
// Gemma's stores weight - 1. The places where a norm's kinds differ in rounding alone are one here.
func normalized(s *loader.Spec, x, weight, bias []float64) []float64 {
	n := float64(len(x))
	mean, variance := 0.0, 0.0
	if s.Norm == loader.LayerNorm || s.Norm == loader.LayerNormBare {
		for _, v := range x {
			mean += v / n
		}
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / n
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = (v - mean) / math.Sqrt(variance+s.NormEps)
		switch {
		case weight == nil:
		case s.Norm == loader.RMSNormOffset:
			out[i] *= 1 + weight[i]
		default:
			out[i] *= weight[i]
		}
		if bias != nil {
			out[i] += bias[i]
		}
	}
	return out
}

// activation returns the nonlinearity of the MLP.
func activation(name loader.Activation) (func(float64) float64, error) {
	switch name {
	case loader.SiLU:
		return func(x float64) float64 { return x / (1 + math.Exp(-x)) }, nil
	case loader.GELU:
		return func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }, nil
	case loader.GELUTanh:
		return func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) }, nil
	}
	return nil, fmt.Errorf("reference: activation: got %q, want %q, %q or %q", name, loader.SiLU, loader.GELU, loader.GELUTanh)
}

// capped is Gemma's soft cap; a limit of 0 stands for none.
func capped(x, limit float64) float64 {
	if limit == 0 {
		return x
	}
	return limit * math.Tanh(x/limit)
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

// addRows returns a + factor*b in new rows.
func addRows(a, b [][]float64, factor float64) [][]float64 {
	out := make([][]float64, len(a))
	for t := range a {
		out[t] = scaled(b[t], factor)
		for i, v := range a[t] {
			out[t][i] += v
		}
	}
	return out
}

func scaled(x []float64, factor float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * factor
	}
	return out
}

func widened(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// rowsOf cuts a row-major matrix into its rows.
func rowsOf(flat []float64, columns int) [][]float64 {
	out := make([][]float64, len(flat)/columns)
	for i := range out {
		out[i] = flat[i*columns : (i+1)*columns]
	}
	return out
}
