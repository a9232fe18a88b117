package decoder

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// rowScore is what the output layer says at one row.
type rowScore struct {
	logProb float64 // of the target token, natural logarithm
	argmax  int32
	gap     float32 // between the two largest logits
	scale   float32 // largest |logit|
}

// scoreRows applies final norm, output matrix and softmax at rows idx of x [B, T, hidden]. idx and targets are [B][n], n the
// same for all; the result has the same shape. Rows are taken in pieces of a few fixed sizes.
func (m *Model) scoreRows(x *tensors.Tensor, idx, targets [][]int32) ([][]rowScore, error) {
	prog, err := m.program("score", func(in []*graph.Node) []*graph.Node {
		return m.cfg.scoreGraph(in[0], in[1], in[2], (&nodeReader{in[3:]}).final(&m.cfg))
	})
	if err != nil {
		return nil, err
	}
	b := len(idx)
	out := make([][]rowScore, b)
	for from := 0; from < len(idx[0]); {
		n := min(len(idx[0])-from, rowBuckets[len(rowBuckets)-1])
		p := scoreBucket(n)
		got, err := m.callFinal(prog, []*tensors.Tensor{x}, p, padRows(idx, from, n, p), padRows(targets, from, n, p))
		if err != nil {
			return nil, err
		}
		err = readScores(got, out, n, p)
		free(got...)
		if err != nil {
			return nil, err
		}
		from += n
	}
	return out, nil
}

func readScores(got []*tensors.Tensor, out [][]rowScore, n, p int) error {
	lp, err := floatsOf(got[0])
	if err != nil {
		return err
	}
	arg, err := intsOf(got[1])
	if err != nil {
		return err
	}
	gap, err := floatsOf(got[2])
	if err != nil {
		return err
	}
	scale, err := floatsOf(got[3])
	if err != nil {
		return err
	}
	for i := range out {
		for j := range n {
			k := i*p + j
			out[i] = append(out[i], rowScore{float64(lp[k]), arg[k], gap[k], scale[k]})
		}
	}
	return nil
}

// callFinal calls a program of the output layer on what it starts with, a residual x [B, T, hidden] and all else that is on the device, and
// its integer inputs, each [B*p]: row indices, and targets where it takes them.
func (m *Model) callFinal(prog *graph.Exec, start []*tensors.Tensor, p int, inputs ...[]int32) ([]*tensors.Tensor, error) {
	w, err := m.weights.finalLayer()
	if err != nil {
		return nil, err
	}
	var args []any
	for _, t := range start {
		args = append(args, t)
	}
	for _, in := range inputs {
		t, err := m.be.ints(in, len(in)/p, p)
		if err != nil {
			return nil, err
		}
		defer free(t)
		args = append(args, t)
	}
	return call(prog, append(args, w...)...)
}

// padRows flattens rows[i][from:from+n], each padded to p with its own last entry.
func padRows(rows [][]int32, from, n, p int) []int32 {
	var out []int32
	for _, r := range rows {
		for j := range p {
			out = append(out, r[from+min(j, n-1)])
		}
	}
	return out
}

// logitRows returns the logits at rows idx [B][n] of x: [B][n][vocab].
func (m *Model) logitRows(x *tensors.Tensor, idx [][]int32) ([][][]float32, error) {
	prog, err := m.program("logits", func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{m.cfg.logitsGraph(in[0], in[1], (&nodeReader{in[2:]}).final(&m.cfg))}
	})
	if err != nil {
		return nil, err
	}
	b, v := len(idx), m.Spec.Vocab
	out := make([][][]float32, b)
	for from := 0; from < len(idx[0]); {
		n := min(len(idx[0])-from, rowBuckets[len(rowBuckets)-1])
		p := scoreBucket(n)
		got, err := m.callFinal(prog, []*tensors.Tensor{x}, p, padRows(idx, from, n, p))
		if err != nil {
			return nil, err
		}
		flat, err := floatsOf(got[0])
		free(got...)
		if err != nil {
			return nil, err
		}
		if len(flat) != b*p*v {
			return nil, fmt.Errorf("logits: got %d values, want %d", len(flat), b*p*v)
		}
		for i := range b {
			for j := range n {
				k := (i*p + j) * v
				out[i] = append(out[i], flat[k:k+v:k+v])
			}
		}
		from += n
	}
	return out, nil
}
