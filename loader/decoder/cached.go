package decoder

import (
	"context"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
)

// runCached computes the jobs of one prompt whose edits start at a later row: only the rows from there on, conditions as batch
// rows, over the plain run's cache. Answers that do not end in these rows go to wait.
func (m *Model) runCached(ctx context.Context, js []*job, wait *waiting, o *AskOptions) error {
	byRow := map[int][]*job{}
	var order []int
	for _, j := range js {
		if j.unit == nil {
			if byRow[j.c.lo] == nil {
				order = append(order, j.c.lo)
			}
			byRow[j.c.lo] = append(byRow[j.c.lo], j)
		}
	}
	if len(order) == 0 {
		return nil
	}
	kv, err := m.stack([]cacheRow{byRow[order[0]][0].cache})
	if err != nil {
		return err
	}
	defer kv.free()
	for _, lo := range order {
		if err := m.runFromRow(ctx, kv, byRow[lo], wait, o); err != nil {
			return err
		}
	}
	return nil
}

// runFromRow computes the jobs whose edits start at one row. Those that only score need no room for an answer, and there are many of
// them where there are any: they have batches of their own, and a fork where one pays.
func (m *Model) runFromRow(ctx context.Context, kv *promptCache, jobs []*job, wait *waiting, o *AskOptions) error {
	sweep := o.Sweep && !slices.ContainsFunc(jobs, func(j *job) bool { return !j.scoreOnly })
	t, err := m.newRowTrunk(ctx, kv, jobs, sweep)
	if err != nil {
		return err
	}
	defer t.free()
	var answer, score []*job
	for _, j := range jobs {
		if j.scoreOnly {
			score = append(score, j)
		} else {
			answer = append(answer, j)
		}
	}
	if err := m.runRows(ctx, rowStart{t, nil, t.capacity + draftSlots(o.MaxNew)}, answer, wait, o); err != nil {
		return err
	}
	f, err := m.newFork(ctx, t, score, m.Spec.Layers)
	if err != nil {
		return err
	}
	defer f.free()
	return m.runRows(ctx, rowStart{t, f, t.capacity}, score, wait, o)
}

// runRows computes jobs from the same start, a batch of them after the other.
func (m *Model) runRows(ctx context.Context, start rowStart, jobs []*job, wait *waiting, o *AskOptions) error {
	for len(jobs) > 0 {
		batch := conditionBatch(len(jobs), start.t.most)
		n := min(len(jobs), batch)
		if err := m.cachedBatch(ctx, start, jobs[:n], batch, o); err != nil {
			return err
		}
		for _, j := range jobs[:n] {
			if !j.greedy.done {
				wait.add([]*job{j})
			}
		}
		jobs = jobs[n:]
		if err := wait.runFull(ctx, m, o); err != nil {
			return err
		}
	}
	return nil
}

// conditionBatch is the batch for the first of n conditions: a power of two, at most `most`, that leaves no more than a quarter of its
// places empty.
func conditionBatch(n, most int) int {
	b := powerOfTwo(n, most)
	if b-n > b/4 {
		b /= 2
	}
	return b
}

// How many conditions of a prompt share a row program, and how many in a sweep.
const (
	maxConditions = 16
	maxSweep      = 64
)

// rowTrunk is what the conditions on one prompt's rows have in common: the rows lo .. T+len(Answer)-1 and the decoy's, as far as the first
// layer that any of them edits.
type rowTrunk struct {
	kv       *promptCache
	run      *cacheRun // of one batch row
	first    int       // layer
	most     int       // conditions of a batch
	lo       int
	capacity int // slots that these rows take
	pieces   []rowPiece
}

// rowPiece is as many of these rows as one step takes.
type rowPiece struct {
	rows newRows         // of one batch row
	x    *tensors.Tensor // [1, bucket, hidden], the residual that enters layer first; owned
	idx  []int32         // columns to score: those that predict the answer, then the decoy
	want []int32         // their targets
	n    int             // of idx: the answer's
}

// repeated is the piece's rows in b batch rows.
func (p *rowPiece) repeated(b int) newRows {
	return newRows{repeated(p.rows.ids[0], b), repeated(p.rows.pos[0], b), p.rows.branch, p.rows.exact}
}

func (t *rowTrunk) free() {
	t.run.free()
	for _, p := range t.pieces {
		free(p.x)
	}
}

// newRowTrunk lists the rows and computes them, unedited, below the first edited layer. In a sweep all jobs only score.
func (m *Model) newRowTrunk(ctx context.Context, kv *promptCache, jobs []*job, sweep bool) (*rowTrunk, error) {
	t := &rowTrunk{kv: kv, first: m.Spec.Layers, most: maxConditions, lo: jobs[0].c.lo}
	if sweep {
		t.most = maxSweep
	}
	for _, j := range jobs {
		t.first = min(t.first, j.c.first)
	}
	t.pieces = rowPieces(jobs[0].p, t.lo, sweep)
	for i := range t.pieces {
		t.pieces[i].rows.exact = sweep
		t.capacity += t.pieces[i].rows.bucket()
	}
	var err error
	if t.run, err = m.newCacheRun(kv, []int32{int32(t.lo)}, []*condition{nil}, t.capacity); err != nil {
		return nil, err
	}
	for i := range t.pieces {
		p := &t.pieces[i]
		x, err := m.embedRows(p.rows.ids, p.rows.bucket())
		if err == nil {
			p.x, err = t.run.stepLayers(ctx, p.rows, x, 0, t.first)
		}
		if err != nil {
			t.free()
			return nil, err
		}
	}
	return t, nil
}

// rowPieces lists the rows from lo on: the prompt's, the answer's, in a sweep but for its last token, and beside these the decoy's but for
// its last token.
func rowPieces(p *Prompt, lo int, sweep bool) []rowPiece {
	var out []rowPiece
	t := len(p.IDs)
	end := t + len(p.Answer)
	if sweep {
		end = max(end-1, t)
	}
	add := func(id, pos, branch int32) (*rowPiece, int32) {
		if n := len(out); n == 0 || len(out[n-1].rows.branch) == rowBuckets[len(rowBuckets)-1] {
			out = append(out, rowPiece{rows: newRows{ids: [][]int32{nil}, pos: [][]int32{nil}}})
		}
		r := &out[len(out)-1].rows
		r.ids[0], r.pos[0], r.branch = append(r.ids[0], id), append(r.pos[0], pos), append(r.branch, branch)
		return &out[len(out)-1], int32(len(r.branch) - 1)
	}
	var last int // piece and column of row T-1
	var at int32
	for r := lo; r < end; r++ {
		id, branch, target := int32(0), branchTrunk, int32(0)
		if r < t {
			id = p.IDs[r]
		} else {
			id, branch = p.Answer[r-t], branchAnswer
		}
		piece, col := add(id, int32(r), branch)
		if r < t-1 {
			continue
		}
		if k := r - (t - 1); k < len(p.Answer) {
			target = p.Answer[k]
		}
		piece.idx, piece.want, piece.n = append(piece.idx, col), append(piece.want, target), piece.n+1
		if r == t-1 {
			last, at = len(out)-1, col
		}
	}
	if len(p.Decoy) == 0 {
		return out
	}
	out[last].idx, out[last].want = append(out[last].idx, at), append(out[last].want, p.Decoy[0])
	for k := range len(p.Decoy) - 1 {
		piece, col := add(p.Decoy[k], int32(t+k), branchDecoy)
		piece.idx, piece.want = append(piece.idx, col), append(piece.want, p.Decoy[k+1])
	}
	return out
}

// cachedBatch runs the start's rows on under each condition, scores answer and decoy, and checks the drafts of answers that go on.
// Most conditions do no harm and end here; the few others keep their rows, to be decoded in a batch of their own.
func (m *Model) cachedBatch(ctx context.Context, start rowStart, jobs []*job, batch int, o *AskOptions) (err error) {
	defer func() {
		for _, j := range jobs {
			if err != nil { // nobody will wait for them
				j.rows.free()
				j.rows = nil
			}
		}
	}()
	full := make([]*job, batch) // the last one fills the batch
	for i := range full {
		full[i] = jobs[min(i, len(jobs)-1)]
	}
	run, err := start.run(m, full)
	if err != nil {
		return err
	}
	defer run.free()
	scores := make([][]rowScore, batch)
	for piece := range start.t.pieces {
		got, err := m.scorePiece(ctx, run, start, full, piece)
		if err != nil {
			return err
		}
		p := &start.t.pieces[piece]
		for i := range got {
			scores[i] = append(scores[i], got[i][:p.n]...)
			if i < len(jobs) {
				jobs[i].takeDecoy(got[i][p.n:])
			}
		}
	}
	places := make([]*job, batch)
	for i, j := range jobs {
		m.take(j, scores[i], o)
		if !j.greedy.done {
			run.forget(i, j.greedy.next)
			places[i] = j
		}
	}
	if err := m.decodeDrafts(ctx, run, places, o); err != nil {
		return err
	}
	for i, j := range places {
		if j == nil {
			continue
		}
		j.commit(j.greedy)
		j.draft = nil
		if !j.greedy.done {
			if j.rows, err = run.keep(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// scorePiece runs a piece on from the start in every batch row and scores its columns.
func (m *Model) scorePiece(ctx context.Context, run *cacheRun, start rowStart, jobs []*job, piece int) ([][]rowScore, error) {
	b := len(jobs)
	x, err := start.residual(m, jobs, piece)
	if err != nil {
		return nil, err
	}
	p := &start.t.pieces[piece]
	if x, err = run.stepLayers(ctx, p.repeated(b), x, start.layer(), m.Spec.Layers); err != nil {
		return nil, err
	}
	defer free(x)
	if len(p.idx) == 0 {
		return make([][]rowScore, b), nil
	}
	return m.scoreRows(x, repeated(p.idx, b), repeated(p.want, b))
}
