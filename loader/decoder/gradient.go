package decoder

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
	"github.com/gomlx/gomlx/core/tensors"
)

// Term is a part of an outcome: Weight times the log-probability, in nats, of Token as the one that follows row Row. Two terms of one row
// with weights 1 and -1 are a difference of logits.
type Term struct {
	Row    int
	Token  int32
	Weight float64
}

// HeadGradient is the derivative of an outcome with respect to what the heads put out in one pass without edits.
type HeadGradient struct {
	Outcome float64
	Z       [][]float32 // by layer, [T, heads, headDim]
}

// HeadGradient runs ids through the model, and then an outcome's derivative back through its layers. The residual that enters each layer is
// kept, and each layer is computed anew on the way back: it takes the time of about four passes, and of four more
// for each further 64 terms.
func (m *Model) HeadGradient(ctx context.Context, ids []int32, outcome []Term) (*HeadGradient, error) {
	if err := m.check(0, &Prompt{IDs: ids}, &AskOptions{}); err != nil {
		return nil, err
	}
	if len(outcome) == 0 {
		return nil, fmt.Errorf("gradient: an outcome without terms")
	}
	for _, t := range outcome {
		if t.Row < 0 || t.Row >= len(ids) || t.Token < 0 || int(t.Token) >= m.Spec.Vocab {
			return nil, fmt.Errorf("gradient: token %d at row %d: the sequence has rows 0-%d, the vocabulary ids 0-%d", t.Token, t.Row, len(ids)-1, m.Spec.Vocab-1)
		}
	}
	if most := rowBuckets[len(rowBuckets)-1]; len(outcome) > most {
		return m.sumGradients(ctx, ids, outcome, most)
	}
	u := &unit{ids: [][]int32{ids}, t: LengthBucket(len(ids)), pass: passOf(m.Spec, len(ids)), stop: m.Spec.Layers, conds: []*condition{nil}}
	entered, err := m.residuals(ctx, u)
	defer func() { free(entered...); u.free() }()
	if err != nil {
		return nil, err
	}
	g := &HeadGradient{Z: make([][]float32, m.Spec.Layers)}
	back, err := m.outcomeGradient(g, entered[m.Spec.Layers], outcome)
	if err != nil {
		return nil, err
	}
	defer func() { free(back) }()
	prog, err := m.program("layer_vjp", m.cfg.layerVJP)
	if err != nil {
		return nil, err
	}
	for l := m.Spec.Layers - 1; l >= 0; l-- {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		table, err := m.positionsOf(l, u.t, u.pass, nil)
		if err != nil {
			return nil, err
		}
		window, err := m.windowOf(l)
		if err != nil {
			return nil, err
		}
		out, err := m.callLayer(prog, l, entered[l], back, table.cos, table.sin, window)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
		free(back)
		back = out[0]
		z, err := floatsOf(out[1])
		free(out[1])
		if err != nil {
			return nil, err
		}
		g.Z[l] = z[:len(ids)*m.cfg.heads*m.cfg.headDim]
	}
	return g, nil
}

// sumGradients is the derivative of an outcome of many terms: it is linear in them, and a program takes at most so many.
func (m *Model) sumGradients(ctx context.Context, ids []int32, outcome []Term, most int) (*HeadGradient, error) {
	var sum *HeadGradient
	for some := range slices.Chunk(outcome, most) {
		g, err := m.HeadGradient(ctx, ids, some)
		if err != nil {
			return nil, err
		}
		if sum == nil {
			sum = g
			continue
		}
		sum.Outcome += g.Outcome
		for l, z := range g.Z {
			for i, x := range z {
				sum.Z[l][i] += x
			}
		}
	}
	return sum, nil
}

// residuals runs a unit and keeps the residual that enters each layer, and the last one.
func (m *Model) residuals(ctx context.Context, u *unit) ([]*tensors.Tensor, error) {
	if err := m.startUnit(u); err != nil {
		return nil, err
	}
	kept := []*tensors.Tensor{u.x}
	for l := range m.Spec.Layers {
		if err := ctx.Err(); err != nil {
			return kept, err
		}
		w, err := m.weights.acquire(l)
		if err != nil {
			return kept, err
		}
		err = m.stepUnit(l, u, u.x, false, w)
		m.weights.release(l)
		if err != nil {
			return kept, fmt.Errorf("layer %d: %w", l, err)
		}
		kept = append(kept, u.x)
	}
	return kept, nil
}

// outcomeGradient sets the outcome and returns its derivative with respect to the last residual.
func (m *Model) outcomeGradient(g *HeadGradient, x *tensors.Tensor, outcome []Term) (*tensors.Tensor, error) {
	prog, err := m.program("outcome_vjp", m.cfg.outcomeVJP)
	if err != nil {
		return nil, err
	}
	n := scoreBucket(len(outcome))
	rows, tokens, weights := make([]int32, n), make([]int32, n), make([]float32, n) // what fills the bucket weighs nothing
	for i, t := range outcome {
		rows[i], tokens[i], weights[i] = int32(t.Row), t.Token, float32(t.Weight)
	}
	var in []*tensors.Tensor
	defer func() { free(in...) }()
	for _, data := range [][]int32{rows, tokens} {
		t, err := m.be.ints(data, 1, n)
		if err != nil {
			return nil, err
		}
		in = append(in, t)
	}
	t, err := m.be.floats(weights, dtypes.Float32, 1, n)
	if err != nil {
		return nil, err
	}
	in = append(in, t)
	w, err := m.weights.finalLayer()
	if err != nil {
		return nil, err
	}
	out, err := call(prog, append([]any{x, in[0], in[1], in[2]}, w...)...)
	if err != nil {
		return nil, err
	}
	defer free(out[0])
	value, err := floatsOf(out[0])
	if err != nil {
		free(out[1])
		return nil, err
	}
	g.Outcome = float64(value[0])
	return out[1], nil
}

// outcomeVJP is an outcome and its derivative with respect to x [1, T, hidden]. Arguments: x, the terms' rows and tokens [1, P] int32 and
// weights [1, P] float32, the parameters after the layers.
func (c *blockConfig) outcomeVJP(args []*Node) []*Node {
	in := &nodeReader{args}
	x, rows, tokens, weights := in.next(), in.next(), in.next(), in.next()
	lg := c.logitsGraph(x, rows, in.final(c))
	best := StopGradient(ReduceAndKeep(lg, ReduceMax, -1))
	logZ := Add(Log(ReduceAndKeep(Exp(Sub(settled(lg), best)), ReduceSum, -1)), best)
	index := ConvertDType(Iota(lg.Graph(), lg.Shape().Clone(), 2), dtypes.Int32)
	isToken := Equal(index, BroadcastToDims(ExpandAxes(tokens, -1), lg.Shape().Dimensions...))
	logP := ReduceSum(Where(isToken, Sub(lg, BroadcastToDims(logZ, lg.Shape().Dimensions...)), ZerosLike(lg)), -1)
	value := ReduceAllSum(Mul(logP, weights))
	return []*Node{value, Gradient(value, x)[0]}
}

// layerVJP takes the derivative with respect to a layer's result, back [1, T, hidden], to those with respect to its residual x and to its
// heads' outputs z [1, T, H, D]. Arguments: x, back, cos and sin [T, planes], window [] int32, the layer's weights.
func (c *blockConfig) layerVJP(args []*Node) []*Node {
	in := &nodeReader{args}
	x, back := in.next(), in.next()
	t := turns{in.next(), in.next(), in.next()}
	w := in.weights(c)
	h := c.attnInput(x, w)
	q, k, v := c.project(h, w, nil, nil)
	z := c.attendPlain(q, k, v, t)
	out := c.layerOutput(x, h, z, w)
	// The sum is formed in float32; each product's derivative is back itself, in whatever dtype.
	along := ReduceAllSum(Mul(ConvertDType(out, dtypes.Float32), StopGradient(ConvertDType(back, dtypes.Float32))))
	return Gradient(along, x, z)
}
