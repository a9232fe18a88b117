package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// Trace is a whole trace.
type Trace struct {
	harness.Header
	Asked   Asked         `json:"asked"`
	Groups  []Group       `json:"groups"`
	Pairs   *Pairs        `json:"pairs"` // null where none were asked for
	Prompts []PromptTrace `json:"prompts_traced"`
	Seconds float64       `json:"seconds"` // of all prompts, also those that an earlier run computed

	Path string `json:"-"` // where it was written
}

// Group is what patches at one group of rows do: means over prompts of the change of logit(answer) - logit(donor's answer).
type Group struct {
	Rows string `json:"rows"`
	// Gap is the mean difference between the plain run and the donor's. A normalised effect is the mean effect over it, with the other sign:
	// 0 is nothing, 1 the donor's behaviour.
	Gap   float64      `json:"gap"`
	Heads []HeadEffect `json:"heads"` // by layer and head
	Paths []PathEffect `json:"paths"`
	// Pearson's and Spearman's correlation over heads of the first-order estimate with the total effect; null where undefined.
	FirstPearson  harness.Number `json:"first_pearson"`
	FirstSpearman harness.Number `json:"first_spearman"`
}

// HeadEffect is one head's.
type HeadEffect struct {
	Head       decoder.Head   `json:"head"`
	Total      harness.Number `json:"total"`
	SD         harness.Number `json:"sd"` // over prompts; null for one
	Normalised harness.Number `json:"normalised"`
	First      harness.Number `json:"first"`       // first-order estimate
	Direct     harness.Number `json:"direct"`      // through the residual alone, final norm frozen; 0 where the rows leave out the last
	SelfRepair harness.Number `json:"self_repair"` // total - direct
}

// PathEffect is one path's.
type PathEffect struct {
	Path
	Total      harness.Number `json:"total"`
	SD         harness.Number `json:"sd"`
	Normalised harness.Number `json:"normalised"`
}

// Pairs are the heads with the largest effects, two at a time.
type Pairs struct {
	Rows  string       `json:"rows"`
	Pairs []PairEffect `json:"pairs"`
}

// PairEffect is one pair's.
type PairEffect struct {
	A           decoder.Head   `json:"a"`
	B           decoder.Head   `json:"b"`
	Both        harness.Number `json:"both"`
	Sum         harness.Number `json:"sum"`         // of the effects of one at a time
	Interaction harness.Number `json:"interaction"` // both - sum
	SD          harness.Number `json:"sd"`          // of the interaction over prompts
}

// Run traces the prompts and writes <out>/<model>/trace_<key>.json; the lines it goes on from lie beside it.
func Run(ctx context.Context, r *Request) (*Trace, error) {
	asked, err := r.asked()
	if err != nil {
		return nil, err
	}
	r.Prompts = r.Prompts.WithNeedle()
	tasks, err := r.tasks()
	if err != nil {
		return nil, err
	}
	h, err := harness.NewHeader(ctx, &harness.HeaderRequest{
		Kind: "trace", Checkpoint: r.Checkpoint, Model: r.Model, Prompts: r.Prompts, Command: r.Command, Asked: asked,
	})
	if err != nil {
		return nil, err
	}
	path, err := h.Path(r.Out, r.Checkpoint, ".trials.jsonl")
	if err != nil {
		return nil, err
	}
	file, err := openTrials(path, h, asked)
	if err != nil {
		return nil, err
	}
	t := &Trace{Header: *h, Asked: *asked}
	if err = errors.Join(r.fill(ctx, t, tasks, file), file.Close()); err != nil {
		return nil, &harness.Interrupted{Trials: path, Err: err}
	}
	t.Path, err = h.Store(r.Out, r.Checkpoint, t)
	return t, err
}

// fill computes what the file lacks, a prompt a step, and then the means.
func (r *Request) fill(ctx context.Context, t *Trace, tasks []task, file *trials) error {
	done, of := 0, len(tasks)
	if r.Pairs > 0 {
		of *= 2
	}
	step := func() {
		if done++; r.Done != nil {
			r.Done(done, of)
		}
	}
	for i := range tasks {
		if err := ctx.Err(); err != nil {
			return err
		}
		x := &tasks[i]
		if file.heads[x.id] == nil {
			start := time.Now()
			p, err := r.measure(ctx, x, &t.Asked)
			if err != nil {
				return fmt.Errorf("prompt %s: %w", x.id, err)
			}
			p.Seconds = math.Round(time.Since(start).Seconds()*10) / 10
			if err := file.Add(&line{Heads: p}); err != nil {
				return err
			}
			file.heads[x.id] = p
		}
		t.Prompts = append(t.Prompts, *file.heads[x.id])
		t.Seconds += file.heads[x.id].Seconds
		step()
	}
	t.addGroups()
	if r.Pairs == 0 {
		return nil
	}
	return r.fillPairs(ctx, t, tasks, file, step)
}

func (t *Trace) addGroups() {
	for _, g := range t.Asked.Groups {
		t.Groups = append(t.Groups, t.group(g))
	}
}

// strongest chooses the heads of pairs: those with the largest mean effects at the widest rows that reach to the end. They are places in
// Asked.Heads.
func (t *Trace) strongest() (g *Group, order []int, top []decoder.Head) {
	g = &t.Groups[0]
	for i := range t.Groups {
		if t.Groups[i].Rows == Question {
			g = &t.Groups[i]
		}
	}
	order = make([]int, len(g.Heads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(math.Abs(float64(g.Heads[b].Total)), math.Abs(float64(g.Heads[a].Total)))
	})
	order = order[:min(t.Asked.Pairs, len(order))]
	for _, i := range order {
		top = append(top, g.Heads[i].Head)
	}
	return g, order, top
}

// fillPairs goes on with pairs of these heads.
func (r *Request) fillPairs(ctx context.Context, t *Trace, tasks []task, file *trials, step func()) error {
	g, order, top := t.strongest()
	for i := range tasks {
		if err := ctx.Err(); err != nil {
			return err
		}
		x := &tasks[i]
		if file.pairs[x.id] == nil {
			p, err := r.measurePairs(ctx, x, g.Rows, top)
			if err != nil {
				return fmt.Errorf("prompt %s: %w", x.id, err)
			}
			if err := file.Add(&line{Pairs: p}); err != nil {
				return err
			}
			file.pairs[x.id] = p
		}
		step()
	}
	t.addPairs(g, order, top, file)
	return nil
}

// addPairs averages over prompts.
func (t *Trace) addPairs(g *Group, order []int, top []decoder.Head, file *trials) {
	pairs := pairsOf(len(top))
	both, interaction := make([][]float64, len(pairs)), make([][]float64, len(pairs))
	for i := range t.Prompts {
		one := t.Prompts[i].Total[g.Rows]
		for k, pair := range pairs {
			v := float64(file.pairs[t.Prompts[i].Prompt].Both[k])
			both[k] = append(both[k], v)
			interaction[k] = append(interaction[k], v-float64(one[order[pair[0]]]+one[order[pair[1]]]))
		}
	}
	t.Pairs = &Pairs{Rows: g.Rows}
	for k, pair := range pairs {
		b, i := stats.Describe(both[k]), stats.Describe(interaction[k])
		mean, inter := number(b.Mean), number(i.Mean)
		t.Pairs.Pairs = append(t.Pairs.Pairs, PairEffect{top[pair[0]], top[pair[1]], mean, mean - inter, inter, number(i.SD)})
	}
}

func number(v stats.Value) harness.Number { return harness.Number(v.Or(math.NaN())) }

// group averages over prompts.
func (t *Trace) group(rows string) Group {
	g := Group{Rows: rows, Paths: []PathEffect{}}
	n := float64(len(t.Prompts))
	for i := range t.Prompts {
		g.Gap += float64(t.Prompts[i].Plain-t.Prompts[i].Donor) / n
	}
	over := func(of func(*PromptTrace) []harness.Number, i int) stats.Description {
		var x []float64
		for k := range t.Prompts {
			x = append(x, float64(of(&t.Prompts[k])[i]))
		}
		return stats.Describe(x)
	}
	total := func(p *PromptTrace) []harness.Number { return p.Total[rows] }
	first := func(p *PromptTrace) []harness.Number { return p.First[rows] }
	direct := func(p *PromptTrace) []harness.Number { return p.Direct }
	paths := func(p *PromptTrace) []harness.Number { return p.Paths[rows] }
	var totals, firsts []float64
	for i, h := range t.Asked.Heads {
		d := over(total, i)
		e := HeadEffect{Head: h, Total: number(d.Mean), SD: number(d.SD), First: number(over(first, i).Mean)}
		if rows != Needle {
			e.Direct = number(over(direct, i).Mean)
		}
		e.SelfRepair = e.Total - e.Direct
		e.Normalised = g.normalised(e.Total)
		g.Heads = append(g.Heads, e)
		totals, firsts = append(totals, float64(e.Total)), append(firsts, float64(e.First))
	}
	for i, p := range t.Asked.Paths {
		d := over(paths, i)
		g.Paths = append(g.Paths, PathEffect{p, number(d.Mean), number(d.SD), g.normalised(number(d.Mean))})
	}
	g.FirstPearson, g.FirstSpearman = number(stats.Pearson(totals, firsts).R), number(stats.Spearman(totals, firsts).R)
	return g
}

// normalised is an effect as a share of the way to the donor's behaviour; none where there is no way to go.
func (g *Group) normalised(effect harness.Number) harness.Number {
	if g.Gap == 0 {
		return harness.Number(math.NaN())
	}
	return -effect / harness.Number(g.Gap)
}
