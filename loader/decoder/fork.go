package decoder

import (
	"context"
	"fmt"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
)

// fork takes the rows of a trunk further, to a layer below which many conditions are still equal: sets of heads drawn layer by layer
// often have the same heads in their first layers. Each group of equal conditions is one batch row.
type fork struct {
	to   int // first layer that is left to each condition
	runs []*cacheRun
	x    [][]*tensors.Tensor // by run and piece, [B, bucket, hidden], the residual that enters layer `to`; owned
	at   map[*job]forkRow
}

// forkRow is a group's place.
type forkRow struct{ run, row int }

// newFork computes the fork that saves most for jobs that go on to layer `layers`, nil where none saves a twentieth. Its groups may start
// behind a fork of their own.
func (m *Model) newFork(ctx context.Context, t *rowTrunk, jobs []*job, layers int) (*fork, error) {
	to, groups := bestFork(jobs, t.first, layers, t.most)
	if groups == nil {
		return nil, nil
	}
	var members []*job
	for _, g := range groups {
		members = append(members, g[0])
	}
	before, err := m.newFork(ctx, t, members, to)
	if err != nil {
		return nil, err
	}
	defer before.free()
	start := rowStart{t, before, t.capacity}
	f := &fork{to: to, at: map[*job]forkRow{}}
	for len(groups) > 0 {
		batch := conditionBatch(len(groups), t.most)
		n := min(len(groups), batch)
		if err := f.addRun(ctx, m, start, groups[:n], batch); err != nil {
			f.free()
			return nil, err
		}
		groups = groups[n:]
	}
	return f, nil
}

// addRun computes so many groups in one batch.
func (f *fork) addRun(ctx context.Context, m *Model, start rowStart, groups [][]*job, batch int) error {
	full := make([]*job, batch)
	for i := range full {
		full[i] = groups[min(i, len(groups)-1)][0]
	}
	run, err := start.run(m, full)
	if err != nil {
		return err
	}
	f.runs, f.x = append(f.runs, run), append(f.x, nil)
	last := len(f.runs) - 1
	for i := range start.t.pieces {
		x, err := start.residual(m, full, i)
		if err != nil {
			return err
		}
		if x, err = run.stepLayers(ctx, start.t.pieces[i].repeated(batch), x, start.layer(), f.to); err != nil {
			return err
		}
		f.x[last] = append(f.x[last], x)
	}
	for i, g := range groups {
		for _, j := range g {
			f.at[j] = forkRow{last, i}
		}
	}
	return nil
}

func (f *fork) free() {
	if f == nil {
		return
	}
	for i, r := range f.runs {
		r.free()
		free(f.x[i]...)
	}
}

// bestFork chooses the layer up to which groups of equal jobs are computed once, and returns these groups in the order of their first
// members; nil if that saves less than a twentieth. The groups are counted with forks of their own, each of which has to save as much.
func bestFork(jobs []*job, first, layers, most int) (int, [][]*job) {
	alone := paddedBatch(len(jobs), most) * (layers - first)
	groups, cost := make([][][]*job, layers), make([]int, layers) // by layer, and what it takes to come there
	least, best := alone-alone/20, 0
	for to := first + 1; to < layers; to++ {
		groups[to] = groupJobs(jobs, to)
		n := paddedBatch(len(groups[to]), most)
		cost[to] = n * (to - first)
		for before := first + 1; before < to; before++ {
			cost[to] = min(cost[to], cost[before]+n*(to-before)+alone/20)
		}
		if c := cost[to] + paddedBatch(len(jobs), most)*(layers-to); c < least {
			least, best = c, to
		}
	}
	if best == 0 {
		return first, nil
	}
	return best, groups[best]
}

// paddedBatch is how many batch rows n conditions take.
func paddedBatch(n, most int) int {
	rows := 0
	for n > 0 {
		b := conditionBatch(n, most)
		rows, n = rows+b, n-b
	}
	return rows
}

// groupJobs brings together the jobs whose edits are equal in the layers before `to`.
func groupJobs(jobs []*job, to int) [][]*job {
	index := map[string]int{}
	var out [][]*job
	for _, j := range jobs {
		key := j.c.before(to)
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key], out = i, append(out, nil)
		}
		out[i] = append(out[i], j)
	}
	return out
}

// before is equal for conditions whose inputs are equal in the layers before `to`.
func (c *condition) before(to int) string {
	var key strings.Builder
	for l := c.first; l < to; l++ {
		e := c.layers[l]
		if e == nil {
			continue
		}
		fmt.Fprintf(&key, "%d:%s\n", l, e.key)
	}
	return key.String()
}

// rowStart is where the rows of conditions start: behind a trunk, or behind a fork of it. Tails have room for capacity rows.
type rowStart struct {
	t        *rowTrunk
	fork     *fork // nil = none
	capacity int
}

// layer is the first one that is left to do.
func (s rowStart) layer() int {
	if s.fork == nil {
		return s.t.first
	}
	return s.fork.to
}

// run starts a run with the jobs as batch rows: the tails of the layers before layer() are filled.
func (s rowStart) run(m *Model, jobs []*job) (*cacheRun, error) {
	b := len(jobs)
	run, err := m.newCacheRun(s.t.kv, repeated(int32(s.t.lo), b), conditionsOf(jobs), s.capacity)
	if err != nil {
		return nil, err
	}
	for l := range s.t.first {
		if run.tail[l].k, err = m.widened(s.t.run.tail[l].k, b, run.capacity); err == nil {
			run.tail[l].v, err = m.widened(s.t.run.tail[l].v, b, run.capacity)
		}
		if err != nil {
			run.free()
			return nil, err
		}
	}
	if s.fork != nil {
		if err := s.fork.fill(m, jobs, run.tail[s.t.first:s.fork.to], s.t.first); err != nil {
			run.free()
			return nil, err
		}
	}
	return run, nil
}

// residual is what enters layer() of a piece, [len(jobs), bucket, hidden].
func (s rowStart) residual(m *Model, jobs []*job, piece int) (*tensors.Tensor, error) {
	if s.fork == nil {
		return m.widened(s.t.pieces[piece].x, len(jobs), 0)
	}
	pick, err := s.fork.pick(m, jobs)
	if err != nil {
		return nil, err
	}
	defer pick.free()
	return pick.stack(func(i int) *tensors.Tensor { return s.fork.x[s.fork.at[jobs[i]].run][piece] })
}

// pick picks the jobs' rows out of the runs they are in.
func (f *fork) pick(m *Model, jobs []*job) (*rowPick, error) {
	rows := make([]int, len(jobs))
	for i, j := range jobs {
		rows[i] = f.at[j].row
	}
	return m.newRowPick(rows)
}

// fill copies the jobs' rows of the tails of layers first, first+1, ... into tail.
func (f *fork) fill(m *Model, jobs []*job, tail []kvPair, first int) error {
	pick, err := f.pick(m, jobs)
	if err != nil {
		return err
	}
	defer pick.free()
	for i := range tail {
		of := func(j int) kvPair { return f.runs[f.at[jobs[j]].run].tail[first+i] }
		if tail[i].k, err = pick.stack(func(j int) *tensors.Tensor { return of(j).k }); err != nil {
			return err
		}
		if tail[i].v, err = pick.stack(func(j int) *tensors.Tensor { return of(j).v }); err != nil {
			return err
		}
	}
	return nil
}

// widened repeats x [1, ...] for b batch rows. A tail [1, KV, C, D] gets slots up to capacity; 0 stands for those it has.
func (m *Model) widened(x *tensors.Tensor, b, capacity int) (*tensors.Tensor, error) {
	prog, err := m.program(fmt.Sprintf("widen_%d_%d", b, capacity), widen(b, capacity))
	if err != nil {
		return nil, err
	}
	out, err := call(prog, x)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}
