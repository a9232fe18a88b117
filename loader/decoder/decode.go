package decoder

import "context"

// waiting are greedy answers that wait for enough others to fill a batch, with the units whose caches they need.
type waiting struct{ jobs []*job }

func (w *waiting) add(jobs []*job) {
	for _, j := range jobs {
		j.unit.hold(1)
	}
	w.jobs = append(w.jobs, jobs...)
}

// decode decodes batches as long as some bucket has at least `least` answers waiting.
func (w *waiting) decode(ctx context.Context, m *Model, least int, o *AskOptions) error {
	for {
		batch := w.next(least, o.DecodeBatch)
		if batch == nil {
			return nil
		}
		err := m.decodeBatch(ctx, batch, o)
		for _, j := range batch {
			j.unit.hold(-1)
		}
		if err != nil {
			return err
		}
	}
}

// bytes is the size of the caches that are kept for the waiting answers.
func (w *waiting) bytes(m *Model) int64 {
	n := int64(0)
	for _, j := range w.jobs {
		n += m.cacheBytes(j.unit.t)
	}
	return n
}

// next takes up to n waiting jobs of one bucket that has at least `least` of them, the oldest first.
func (w *waiting) next(least, n int) []*job {
	count := map[int]int{}
	for _, j := range w.jobs {
		count[j.unit.t]++
	}
	var batch, rest []*job
	for _, j := range w.jobs {
		if len(batch) < n && count[j.unit.t] >= least && (batch == nil || batch[0].unit.t == j.unit.t) {
			batch = append(batch, j)
		} else {
			rest = append(rest, j)
		}
	}
	w.jobs = rest
	return batch
}

// free lets go of the units of answers that will not be decoded any more.
func (w *waiting) free() {
	for _, j := range w.jobs {
		j.unit.hold(-1)
	}
	w.jobs = nil
}

// hold counts who needs the unit's cache, and with it its parents'; the last to let go frees it.
func (u *unit) hold(n int) {
	for ; u != nil; u = u.parent {
		if u.holds += n; u.holds == 0 {
			u.free()
		}
	}
}

// decodePending decodes answers now, in batches that may not be full.
func (m *Model) decodePending(ctx context.Context, jobs []*job, o *AskOptions) error {
	w := waiting{jobs} // not added: the units are the caller's until all that rests on them is computed
	for {
		batch := w.next(1, o.DecodeBatch)
		if batch == nil {
			return nil
		}
		if err := m.decodeBatch(ctx, batch, o); err != nil {
			return err
		}
	}
}

// decodeBatch decodes jobs of one bucket together; empty places repeat the last job and are ignored.
func (m *Model) decodeBatch(ctx context.Context, jobs []*job, o *AskOptions) error {
	var rows []cacheRow
	var conds []*condition
	places := make([]*job, o.DecodeBatch)
	promptLen := make([]int32, o.DecodeBatch)
	for i := range o.DecodeBatch {
		j := jobs[min(i, len(jobs)-1)]
		rows, conds = append(rows, cacheRow{j.unit, j.row}), append(conds, j.c)
		promptLen[i] = j.greedy.next
		if i < len(jobs) {
			places[i] = j
		}
	}
	kv, err := m.stack(rows)
	if err != nil {
		return err
	}
	defer kv.free()
	run, err := m.newCacheRun(kv, promptLen, conds, draftSlots(o.MaxNew)+o.MaxNew)
	if err != nil {
		return err
	}
	defer run.free()
	return m.decode(ctx, run, places, o)
}

// decode continues the answers of the jobs in a run's batch rows until each has ended: by their drafts first, then token by
// token. A nil job is an empty place.
func (m *Model) decode(ctx context.Context, run *cacheRun, jobs []*job, o *AskOptions) error {
	if err := m.decodeDrafts(ctx, run, jobs, o); err != nil {
		return err
	}
	for {
		ids, pos := make([][]int32, len(jobs)), make([][]int32, len(jobs))
		busy := false
		for i, j := range jobs {
			ids[i], pos[i] = []int32{0}, []int32{-1}
			if j != nil && !j.greedy.done {
				ids[i], pos[i] = []int32{j.greedy.token}, []int32{j.greedy.next}
				busy = true
			}
		}
		if !busy {
			break
		}
		x, err := run.step(ctx, ids, pos)
		if err != nil {
			return err
		}
		zero := make([][]int32, len(jobs))
		for i := range zero {
			zero[i] = []int32{0}
		}
		scores, err := m.scoreRows(x, zero, zero)
		free(x)
		if err != nil {
			return err
		}
		for i, j := range jobs {
			if j != nil && !j.greedy.done {
				s := &j.greedy
				s.add(scores[i][0].argmax, scores[i][0].gap, o)
				s.fragile = s.fragile || m.closeCall(scores[i][0])
				s.token, s.next = scores[i][0].argmax, s.next+1
			}
		}
	}
	for _, j := range jobs {
		if j != nil {
			j.commit(j.greedy)
		}
	}
	return nil
}

// runCached computes the jobs of one prompt whose edits start at a later row: only the rows from there on, conditions as batch
// rows, over the plain run's cache.
func (m *Model) runCached(ctx context.Context, js []*job, plain cacheRow, o *AskOptions) error {
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
	kv, err := m.stack([]cacheRow{plain})
	if err != nil {
		return err
	}
	defer kv.free()
	for _, lo := range order {
		rest := byRow[lo]
		for len(rest) > 0 {
			batch := conditionBatch(len(rest))
			n := min(len(rest), batch)
			if err := m.cachedBatch(ctx, kv, rest[:n], batch, o); err != nil {
				return err
			}
			rest = rest[n:]
		}
	}
	return nil
}

// conditionBatch is the batch for the first of n conditions: a power of two, at most maxConditions, that leaves no more than a quarter
// of its places empty.
func conditionBatch(n int) int {
	b := powerOfTwo(n, maxConditions)
	if b-n > b/4 {
		b /= 2
	}
	return b
}

// maxConditions is how many conditions of a prompt share a row program.
const maxConditions = 16

// cachedBatch runs the rows lo .. T+len(Answer)-1 under each condition, scores the answer and decodes on.
func (m *Model) cachedBatch(ctx context.Context, kv *promptCache, jobs []*job, batch int, o *AskOptions) error {
	p, lo := jobs[0].p, jobs[0].c.lo
	all := append(append([]int32(nil), p.IDs...), p.Answer...)
	most := rowBuckets[len(rowBuckets)-1]
	need := draftSlots(o.MaxNew) + o.MaxNew
	for from := lo; from < len(all); from += most {
		need += rowBucket(min(most, len(all)-from))
	}
	conds, promptLen := make([]*condition, batch), make([]int32, batch)
	for i := range batch {
		conds[i], promptLen[i] = jobs[min(i, len(jobs)-1)].c, int32(lo)
	}
	run, err := m.newCacheRun(kv, promptLen, conds, need)
	if err != nil {
		return err
	}
	defer run.free()
	scores := make([][]rowScore, batch)
	for from := lo; from < len(all); from += most {
		got, err := m.cachedRows(ctx, run, all[from:min(from+most, len(all))], from, p)
		if err != nil {
			return err
		}
		for i := range got {
			scores[i] = append(scores[i], got[i]...)
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
	return m.decode(ctx, run, places, o)
}

// cachedRows computes ids at positions from.. in every batch row and scores those that predict the answer.
func (m *Model) cachedRows(ctx context.Context, run *cacheRun, ids []int32, from int, p *Prompt) ([][]rowScore, error) {
	b := len(run.conds)
	rows, pos := make([][]int32, b), make([][]int32, b)
	at := make([]int32, len(ids))
	for i := range at {
		at[i] = int32(from + i)
	}
	for i := range b {
		rows[i], pos[i] = ids, at
	}
	x, err := run.step(ctx, rows, pos)
	if err != nil {
		return nil, err
	}
	defer free(x)
	first := max(len(p.IDs)-1, from)
	last := from + len(ids) - 1
	if first > last {
		return make([][]rowScore, b), nil
	}
	idx, targets := make([][]int32, b), make([][]int32, b)
	for r := first; r <= last; r++ {
		k := r - (len(p.IDs) - 1)
		t := int32(0)
		if k < len(p.Answer) {
			t = p.Answer[k]
		}
		for i := range b {
			idx[i], targets[i] = append(idx[i], int32(r-from)), append(targets[i], t)
		}
	}
	return m.scoreRows(x, idx, targets)
}
