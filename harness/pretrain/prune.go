package pretrain

import (
	"math/rand/v2"
	"slices"

	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// gated are the parameters with the rows of the query projection and the columns of the output projection that belong to a head times its
// gate: where the gate is 0 the head looks evenly at everything and writes nothing.
func gated(stack *decoder.Trainable, spec *loader.Spec, params []*Node, gates *Node) []*Node {
	out := slices.Clone(params)
	for l := range spec.Layers {
		p := spec.Params.Layer(l)
		row := Slice(gates, AxisElem(l), AxisRange())
		for i, q := range stack.Params() {
			switch q.Views[0] {
			case p.Q.Views[0]:
				at := BroadcastToDims(Reshape(row, spec.Heads, 1, 1), spec.Heads, spec.HeadDim, spec.Hidden)
				out[i] = Mul(params[i], Reshape(at, q.Shape...))
			case p.O.Views[0]:
				at := BroadcastToDims(Reshape(row, 1, spec.Heads, 1), spec.Hidden, spec.Heads, spec.HeadDim)
				out[i] = Mul(params[i], Reshape(at, q.Shape...))
			}
		}
	}
	return out
}

// weights are the parameters with their gates multiplied in; to be released by the caller.
func (t *Trainer) weights() ([]*tensors.Tensor, error) {
	merge, err := NewExec(t.backend, func(args []*Node) []*Node { return gated(t.stack, t.spec, args[1:], args[0]) })
	if err != nil {
		return nil, err
	}
	defer merge.Finalize()
	gates := tensors.FromFlatDataAndDimensions(t.gates, t.spec.Layers, t.spec.Heads)
	defer release(gates)
	args := []any{gates}
	for _, s := range t.state[:len(t.stack.Params())] {
		args = append(args, s)
	}
	return merge.Call(args...)
}

// pruneStream numbers, with the step, the random stream of the texts that heads are weighed on.
const pruneStream = uint64(1) << 33

// prune closes the gates of heads at the start of a phase that keeps fewer: of all heads of layers that have too many, again and again the
// one without which the loss on texts of the phase is lowest.
func (t *Trainer) prune(phase Phase) error {
	if len(phase.Keep) == 0 {
		return nil
	}
	heads := t.spec.Heads
	var rows []Sequence
	for {
		best, least := -1, 0.0
		for i, open := range t.gates {
			l := i / heads
			if open == 0 || sum(t.gates[l*heads:(l+1)*heads]) <= float32(phase.Keep[l]) {
				continue
			}
			if rows == nil {
				rng := rand.New(rand.NewPCG(t.recipe.Seed, pruneStream+uint64(t.step)))
				for range t.recipe.Weigh {
					rows = append(rows, t.task.Sequence(rng, phase.Mix, phase.Length))
				}
			}
			without := slices.Clone(t.gates)
			without[i] = 0
			loss, _, err := t.ask(rows, without)
			if err != nil {
				return err
			}
			if best < 0 || loss < least {
				best, least = i, loss
			}
		}
		if best < 0 {
			return nil
		}
		t.gates[best] = 0
	}
}

func sum(x []float32) float32 {
	var s float32
	for _, v := range x {
		s += v
	}
	return s
}
