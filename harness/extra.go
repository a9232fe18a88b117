package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

// repeated runs the repeated random sequences, or takes them from the trials file.
func (r *runner) repeated(ctx context.Context) ([]Trial, error) {
	rep := r.plan.Detect.Repeat
	if rep == nil || !r.o.Shard.has(0) {
		return nil, nil
	}
	id := unitID{StageRepeat, 0}
	ev := Event{Stage: StageRepeat, Total: rep.Sequences}
	if trials, err := r.storedAlone(id, rep.Sequences); err != nil || trials != nil {
		ev.Done, ev.Resumed = len(trials), len(trials)
		r.event(ev)
		return trials, err
	}
	var trials []Trial
	for i := range rep.Sequences {
		t, err := r.repeat(ctx, rep, i)
		if err != nil {
			return nil, fmt.Errorf("repeated sequence %d: %w", i, err)
		}
		trials = append(trials, t)
		ev.Done++
		r.event(ev)
	}
	return trials, r.keep(trials)
}

// storedAlone returns a unit without prompts of its own, nil where the file has none.
func (r *runner) storedAlone(id unitID, want int) ([]Trial, error) {
	if r.file == nil {
		return nil, nil
	}
	return r.file.whole(id, want)
}

func (r *runner) keep(trials []Trial) error {
	if r.file == nil {
		return nil
	}
	return r.file.add(trials)
}

// repeat shows the model n random tokens twice and reads how the second copy's rows attend. Special and added tokens are left out; the
// sequence starts as the tokenizer starts one.
func (r *runner) repeat(ctx context.Context, rep *PlanRepeat, i int) (Trial, error) {
	c := r.o.Checkpoint
	rng := rand.New(rand.NewPCG(r.plan.Statistics.Seed, rep.Stream+uint64(i)<<32))
	enc, err := c.Tokenizer.Encode("a", tokenizer.Options{AddSpecial: true})
	if err != nil {
		return Trial{}, err
	}
	added := map[int32]bool{}
	for _, a := range c.Tokenizer.AddedTokens() {
		added[a.ID] = true
	}
	var ids []int32
	for _, id := range enc.IDs {
		if !added[id] {
			break
		}
		ids = append(ids, id)
	}
	start := len(ids)
	for len(ids) < start+rep.Length {
		if id := rng.Int32N(int32(min(c.Spec.Vocab, c.Tokenizer.VocabSize()))); !added[id] {
			ids = append(ids, id)
		}
	}
	ids = append(ids, ids[start:]...)
	rows := make([]int, rep.Length)
	for k := range rows {
		rows[k] = start + rep.Length + k
	}
	t := Trial{Stage: StageRepeat, Prompt: fmt.Sprintf("repeat%d", i), Condition: baseline, Outcome: Observed, Sum: nan, Margin: nan, MinGap: nan}
	tr, err := r.trace(ctx, &decoder.Prompt{IDs: ids}, nil, decoder.TraceOptions{Attention: rows, Hidden: -1})
	if t.outOfMemory(err) {
		return t, nil
	}
	if err != nil {
		return Trial{}, err
	}
	got, err := heads.NewRepeat(tr.Attention, c.Spec.Heads, rep.Length, start)
	if err != nil {
		return Trial{}, err
	}
	t.Repeat = &TrialRepeat{got.Induction, got.Duplicate, got.Previous}
	return t, nil
}

// outOfMemory marks the trial as failed where err says that.
func (t *Trial) outOfMemory(err error) bool {
	var memory *decoder.OutOfMemoryError
	if !errors.As(err, &memory) {
		return false
	}
	t.fail(memory)
	return true
}

// example records how the best heads see the first prompt from its last row.
func (r *runner) example(ctx context.Context, p *Prompt, best heads.Ranking) ([]Trial, error) {
	if len(best) == 0 {
		return nil, nil
	}
	id := unitID{StageExample, 0}
	if trials, err := r.storedAlone(id, 1); err != nil || trials != nil {
		return trials, err
	}
	t := Trial{Stage: StageExample, Prompt: p.Spec.ID, Condition: baseline, Outcome: Observed, Sum: nan, Margin: nan, MinGap: nan}
	tr, err := r.trace(ctx, &decoder.Prompt{IDs: p.IDs}, nil, decoder.TraceOptions{Attention: []int{len(p.IDs) - 1}, Hidden: -1})
	if t.outOfMemory(err) {
		return []Trial{t}, r.keep([]Trial{t})
	}
	if err != nil {
		return nil, fmt.Errorf("example: %w", err)
	}
	ex := &Example{Prompt: p.Spec.ID, Needle: p.Needle, Code: p.Code, Question: p.Question}
	for _, id := range p.IDs {
		ex.Tokens = append(ex.Tokens, r.o.Checkpoint.Tokenizer.Decode([]int32{id}, false))
	}
	for _, h := range best[:min(len(best), exampleHeads)] {
		ex.Heads = append(ex.Heads, ExampleHead{h, floats(tr.Attention[h.Layer][h.Index*tr.T : (h.Index+1)*tr.T])})
	}
	t.Example = ex
	return []Trial{t}, r.keep([]Trial{t})
}
