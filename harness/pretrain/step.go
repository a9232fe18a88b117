package pretrain

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// stepGraph is one step of training.
//
// Arguments: ids [B, T] int32, rows and targets [B, P] int32, weights [B, P], gates [layers, heads], rate, the two corrections
// 1/(1-beta^t), then the parameters, their first moments, and their second moments. Results: loss, gradient's norm, then parameters and moments after the step.
func stepGraph(stack *decoder.Trainable, spec *loader.Spec, o Optimise) func([]*Node) []*Node {
	return func(args []*Node) []*Node {
		in, u, state := scored{args[0], args[1], args[2], args[3]}, update{o, args[5], args[6], args[7]}, args[8:]
		params := state[:len(stack.Params())]
		loss, _ := lossGraph(stack, in, gated(stack, spec, params, args[4]))
		norm, after := u.apply(Gradient(loss, params...), state)
		return append([]*Node{loss, norm}, after...)
	}
}

// update is AdamW at one step: the rate, and the corrections of the moments, which begin at 0.
type update struct {
	Optimise
	rate, fix1, fix2 *Node
}

// apply returns the gradient's norm over all parameters, and the state, parameters then first then second moments, after the step.
func (u update) apply(grads, state []*Node) (norm *Node, after []*Node) {
	n := len(grads)
	after = make([]*Node, len(state))
	square := ReduceAllSum(Square(grads[0]))
	for _, g := range grads[1:] {
		square = Add(square, ReduceAllSum(Square(g)))
	}
	norm = Sqrt(square)
	shrink := MinScalar(Div(Scalar(norm.Graph(), dtypes.Float32, u.Clip), MaxScalar(norm, tiny)), 1)
	for i, w := range state[:n] {
		g := Mul(grads[i], shrink)
		m := Add(MulScalar(state[n+i], u.Beta1), MulScalar(g, 1-u.Beta1))
		v := Add(MulScalar(state[2*n+i], u.Beta2), MulScalar(Square(g), 1-u.Beta2))
		move := Div(Mul(m, u.fix1), AddScalar(Sqrt(Mul(v, u.fix2)), u.Eps))
		if w.Rank() > 1 {
			move = Add(move, MulScalar(w, u.Decay))
		}
		after[i], after[n+i], after[2*n+i] = Sub(w, Mul(move, u.rate)), m, v
	}
	return norm, after
}

// tiny keeps quotients finite where a whole batch has nothing to learn from.
const tiny = 1e-6

// scored is a batch: ids [B, T], rows and targets [B, P], weights [B, P].
type scored struct{ ids, rows, targets, weights *Node }

// lossGraph is the weighted mean of -log p(target), and for each row, [B, P], whether the target is the likeliest token.
func lossGraph(stack *decoder.Trainable, in scored, params []*Node) (loss, right *Node) {
	b, p := in.rows.Shape().Dim(0), in.rows.Shape().Dim(1)
	logits := stack.Logits(in.ids, in.rows, params)
	best := StopGradient(ReduceAndKeep(logits, ReduceMax, -1))
	logZ := Add(Log(ReduceAndKeep(Exp(Sub(logits, best)), ReduceSum, -1)), best)
	index := ConvertDType(Iota(logits.Graph(), logits.Shape().Clone(), 2), dtypes.Int32)
	isTarget := Equal(index, BroadcastToDims(ExpandAxes(in.targets, -1), logits.Shape().Dimensions...))
	target := ReduceAndKeep(Where(isTarget, logits, ZerosLike(logits)), ReduceSum, -1)
	nll := Reshape(Sub(logZ, target), b, p)
	right = GreaterOrEqual(Reshape(target, b, p), Reshape(best, b, p))
	return Div(ReduceAllSum(Mul(nll, in.weights)), MaxScalar(ReduceAllSum(in.weights), tiny)), right
}

// evalGraph returns the loss and, [B], the weight of the targets that are not the likeliest tokens. Arguments: those of stepGraph up to the
// gates, then the parameters.
func evalGraph(stack *decoder.Trainable, spec *loader.Spec) func([]*Node) []*Node {
	return func(args []*Node) []*Node {
		in := scored{args[0], args[1], args[2], args[3]}
		loss, right := lossGraph(stack, in, gated(stack, spec, args[5:], args[4]))
		return []*Node{loss, ReduceSum(Mul(ConvertDType(LogicalNot(right), dtypes.Float32), in.weights), 1)}
	}
}
