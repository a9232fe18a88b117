package pretrain

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// Streams of random numbers: of a seed the parameters', and the data's of step n, dataStream + n; so a resumed run needs no generator's state.
const (
	initStream = uint64(1)
	dataStream = uint64(1) << 32
)

// Trainer is a run: parameters and moments, and the step it is at. It is not for several goroutines.
type Trainer struct {
	recipe      Recipe
	backend     compute.Backend
	task        *Task
	spec        *loader.Spec
	stack       *decoder.Trainable
	step        int
	state       []*tensors.Tensor // parameters, first moments, second moments
	gates       []float32         // [layers * heads], 1 of a head that goes on, 0 of a pruned one
	train, eval *graph.Exec
}

// New begins a run. Close it to free what it holds on the device.
func New(be *decoder.Backend, r Recipe) (*Trainer, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	t := &Trainer{recipe: r, backend: be.Backend, task: NewTask()}
	var err error
	if t.spec, err = r.Model.spec(t.task.Vocab()); err != nil {
		return nil, err
	}
	if t.stack, err = decoder.NewTrainable(t.spec); err != nil {
		return nil, err
	}
	if t.train, err = graph.NewExec(be.Backend, stepGraph(t.stack, t.spec, r.Optimise)); err != nil {
		return nil, err
	}
	if t.eval, err = graph.NewExec(be.Backend, evalGraph(t.stack, t.spec)); err != nil {
		return nil, err
	}
	t.train.WithName("train").SetMaxCache(-1)
	t.eval.WithName("eval").SetMaxCache(-1)
	rng := rand.New(rand.NewPCG(r.Seed, initStream))
	for i, p := range t.stack.Params() {
		t.state = append(t.state, tensors.FromFlatDataAndDimensions(drawn(rng, p, i == 0), p.Shape...))
	}
	for range t.spec.Layers * t.spec.Heads {
		t.gates = append(t.gates, 1)
	}
	for range 2 {
		for _, p := range t.stack.Params() {
			t.state = append(t.state, tensors.FromFlatDataAndDimensions(make([]float32, p.Elements()), p.Shape...))
		}
	}
	return t, nil
}

// Resume goes on with a run that [Trainer.Save] wrote, under the same recipe: the bits are those of the unbroken run.
func Resume(be *decoder.Backend, r Recipe, path string) (*Trainer, error) {
	t, err := New(be, r)
	if err != nil {
		return nil, err
	}
	if err := t.load(path); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close frees the run's buffers and programs.
func (t *Trainer) Close() {
	release(t.state...)
	t.train.Finalize()
	t.eval.Finalize()
}

func release(all ...*tensors.Tensor) {
	for _, x := range all {
		_ = x.FinalizeAll()
	}
}

// drawn are a parameter's first values: ones for norms, else normal with variance 1/inputs. The rows of the embedding have their first
// dimensions in common: without biases only such a part of every token lets a head look one step back whatever stands there.
func drawn(rng *rand.Rand, p loader.Param, embedding bool) []float32 {
	values := make([]float32, p.Elements())
	for i := range values {
		values[i] = 1
		if len(p.Shape) > 1 {
			values[i] = float32(rng.NormFloat64() / math.Sqrt(float64(p.Shape[1])))
		}
		if embedding && i%p.Shape[1] < commonDims {
			values[i] = float32(1 / math.Sqrt(commonDims))
		}
	}
	return values
}

// commonDims is how many dimensions all embeddings have in common at first.
const commonDims = 4

// Progress is what a run has to say of itself.
type Progress struct {
	Step, Steps int
	Loss, Norm  float64 // of the training batches since the last report: mean loss a token, mean norm of the gradient before clipping
	Rate        float64
}

// Run goes on to the recipe's last step. It reports every so many steps and at the end, with the run between two steps; an error of
// report ends it.
func (t *Trainer) Run(ctx context.Context, every int, report func(Progress) error) error {
	var p Progress
	n := 0
	for t.step < t.recipe.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.Rate = t.recipe.rateAt(t.step)
		loss, norm, err := t.next()
		if err != nil {
			return fmt.Errorf("step %d: %w", t.step, err)
		}
		p.Loss, p.Norm, n = p.Loss+loss, p.Norm+norm, n+1
		if t.step%every == 0 || t.step == t.recipe.Steps {
			p.Step, p.Steps, p.Loss, p.Norm = t.step, t.recipe.Steps, p.Loss/float64(n), p.Norm/float64(n)
			if err := report(p); err != nil {
				return err
			}
			p, n = Progress{}, 0
		}
	}
	return nil
}

// next is one step.
func (t *Trainer) next() (loss, norm float64, err error) {
	phase, rng := t.recipe.phaseAt(t.step), rand.New(rand.NewPCG(t.recipe.Seed, dataStream+uint64(t.step)))
	if err := t.prune(phase); err != nil {
		return 0, 0, err
	}
	rows := make([]Sequence, phase.Batch)
	for i := range rows {
		rows[i] = t.task.Sequence(rng, phase.Mix, phase.Length)
	}
	args, batch := t.flat(rows, t.gates)
	o, n := t.recipe.Optimise, float64(t.step+1)
	args = append(args, float32(t.recipe.rateAt(t.step)), float32(1/(1-math.Pow(o.Beta1, n))), float32(1/(1-math.Pow(o.Beta2, n))))
	for _, s := range t.state {
		args = append(args, s)
	}
	out, err := t.train.Call(args...)
	if err != nil {
		return 0, 0, err
	}
	loss, norm = float64(tensors.ToScalar[float32](out[0])), float64(tensors.ToScalar[float32](out[1]))
	release(batch...)
	release(t.state...)
	release(out[:2]...)
	t.state = out[2:]
	t.step++
	if math.IsNaN(loss) || math.IsInf(norm, 0) || math.IsNaN(norm) {
		return 0, 0, fmt.Errorf("loss %v, gradient of norm %v: lower the rate", loss, norm)
	}
	return loss, norm, nil
}

// flat is a batch as the programs take it: ids [B, T], rows, targets and weights [B, P], gates [layers, heads].
func (t *Trainer) flat(rows []Sequence, gates []float32) (args []any, batch []*tensors.Tensor) {
	b := len(rows)
	var ids, at, targets []int32
	var weights []float32
	for _, s := range rows {
		ids, at, targets, weights = append(ids, s.IDs...), append(at, s.Rows...), append(targets, s.Targets...), append(weights, s.Weights...)
	}
	batch = []*tensors.Tensor{
		tensors.FromFlatDataAndDimensions(ids, b, len(rows[0].IDs)), tensors.FromFlatDataAndDimensions(at, b, scoredRows),
		tensors.FromFlatDataAndDimensions(targets, b, scoredRows), tensors.FromFlatDataAndDimensions(weights, b, scoredRows),
		tensors.FromFlatDataAndDimensions(gates, t.spec.Layers, t.spec.Heads),
	}
	for _, x := range batch {
		args = append(args, x)
	}
	return args, batch
}

// evalBatch is how many prompts are asked at once.
const evalBatch = 16

// Recall asks n prompts of a split at one depth, of at most so many tokens, and returns the share whose answer, end token included, is the
// likeliest at every token. seed draws the prompts.
func (t *Trainer) Recall(split CodeSplit, depth float64, n, tokens int, seed uint64) (float64, error) {
	rng := rand.New(rand.NewPCG(seed, math.Float64bits(depth)))
	right := 0
	for from := 0; from < n; from += evalBatch {
		rows := make([]Sequence, evalBatch)
		for i := range rows {
			rows[i] = t.task.Fed(t.task.Prompt(rng, split, depth, tokens), t.recipe.Model.Window)
		}
		_, wrong, err := t.ask(rows, t.gates)
		if err != nil {
			return 0, err
		}
		for _, w := range wrong[:min(evalBatch, n-from)] {
			if w == 0 {
				right++
			}
		}
	}
	return float64(right) / float64(n), nil
}

// ask runs rows without training on them: their loss, and of each row the weight of what is wrong.
func (t *Trainer) ask(rows []Sequence, gates []float32) (loss float64, wrong []float32, err error) {
	args, batch := t.flat(rows, gates)
	for _, s := range t.state[:len(t.stack.Params())] {
		args = append(args, s)
	}
	out, err := t.eval.Call(args...)
	release(batch...)
	if err != nil {
		return 0, nil, err
	}
	defer release(out...)
	wrong, err = tensors.CopyFlatData[float32](out[1])
	return float64(tensors.ToScalar[float32](out[0])), wrong, err
}
