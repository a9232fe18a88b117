package decoder

import "context"

// waiting are jobs that wait for enough others to fill a batch, with the caches they need.
type waiting struct {
	jobs   []*job
	decoys bool // to be scored, and not answers to be decoded
	decode func(ctx context.Context, jobs []*job, o *AskOptions) error
}

func (w *waiting) add(jobs []*job) {
	for _, j := range jobs {
		j.cache.u.hold(1)
	}
	w.jobs = append(w.jobs, jobs...)
}

// drop lets go of what the jobs needed.
func (w *waiting) drop(jobs []*job) {
	for _, j := range jobs {
		j.cache.u.hold(-1)
		j.rows.free()
		j.rows = nil
	}
}

// run decodes full batches, and the rest too if all is set.
func (w *waiting) run(ctx context.Context, m *Model, all bool, o *AskOptions) error {
	for {
		batch := w.next(m, all, o)
		if batch == nil {
			return nil
		}
		err := w.decode(ctx, batch, o)
		w.drop(batch)
		if err != nil {
			return err
		}
	}
}

// runFull decodes what fills a batch, and all where the caches that are kept for the others pass the budget: for long prompts
// a batch with empty places costs less than they do.
func (w *waiting) runFull(ctx context.Context, m *Model, o *AskOptions) error {
	return w.run(ctx, m, w.bytes(m) > o.CacheBytes, o)
}

// bytes is the size of the caches that are kept for the waiting answers; jobs over one row of a unit share it.
func (w *waiting) bytes(m *Model) int64 {
	n, seen := int64(0), map[cacheRow]bool{}
	for _, j := range w.jobs {
		if !seen[j.cache] {
			seen[j.cache] = true
			n += m.cacheBytes(j.cache.u.t)
		}
		n += m.cacheBytes(j.rows.slots())
	}
	return n
}

// shape is what the jobs of a batch have in common: the bucket and the rotary tables, the size of kept rows, and for decoys theirs.
func (w *waiting) shape(j *job) [4]int {
	s := [4]int{j.cache.u.t, j.cache.u.pass, j.rows.slots()}
	if w.decoys {
		s[3] = decoySlots(len(j.p.Decoy))
	}
	return s
}

// next takes a batch of waiting jobs of one shape, the oldest first, where as many wait as fill one, or where any wait if all is set.
func (w *waiting) next(m *Model, all bool, o *AskOptions) []*job {
	count := map[[4]int]int{}
	for _, j := range w.jobs {
		count[w.shape(j)]++
	}
	var batch, rest []*job
	for _, j := range w.jobs {
		most := m.largestBatch(j.cache.u.t, o)
		if len(batch) < most && (all || count[w.shape(j)] >= most) && (batch == nil || w.shape(batch[0]) == w.shape(j)) {
			batch = append(batch, j)
		} else {
			rest = append(rest, j)
		}
	}
	w.jobs = rest
	return batch
}

// free lets go of the caches of answers that will not be decoded any more.
func (w *waiting) free() {
	w.drop(w.jobs)
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

// smallDecode is the batch for a few answers. On a CPU a step of 32 rows takes twice as long as one of 8, and that twice as long as one of 1:
// weights are read, and brought into the product's order, once for all.
const smallDecode = 8

// batchSize is the size of the batch for n jobs over caches of t keys: 1, at most 8, or as asked for.
func (m *Model) batchSize(n, t int, o *AskOptions) int {
	switch {
	case n == 1:
		return 1
	case n <= smallDecode:
		return min(smallDecode, o.DecodeBatch)
	}
	return m.largestBatch(t, o)
}

// largestBatch is o.DecodeBatch where copies of as many caches are no more than twice the budget for caches, else at most 8.
func (m *Model) largestBatch(t int, o *AskOptions) int {
	if int64(o.DecodeBatch)*m.cacheBytes(t) > 2*o.CacheBytes {
		return min(smallDecode, o.DecodeBatch)
	}
	return o.DecodeBatch
}

// decodeBatch decodes jobs of one shape together; empty places repeat the last job and are ignored.
func (m *Model) decodeBatch(ctx context.Context, jobs []*job, o *AskOptions) error {
	var caches []cacheRow
	var conds []*condition
	var rows []*keptRows
	size := m.batchSize(len(jobs), jobs[0].cache.u.t, o)
	places := make([]*job, size)
	promptLen := make([]int32, size)
	for i := range size {
		j := jobs[min(i, len(jobs)-1)]
		caches, conds, rows = append(caches, j.cache), append(conds, j.c), append(rows, j.rows)
		promptLen[i] = j.greedy.next
		if j.rows != nil {
			promptLen[i] = int32(j.c.lo)
		}
		if i < len(jobs) {
			places[i] = j
		}
	}
	kv, err := m.stack(caches)
	if err != nil {
		return err
	}
	defer kv.free()
	before := rows[0].slots() // the drafts of jobs with kept rows have been checked
	if before == 0 {
		before = draftSlots(o.MaxNew)
	}
	run, err := m.newCacheRun(kv, promptLen, conds, before+o.MaxNew)
	if err != nil {
		return err
	}
	defer run.free()
	if rows[0] != nil {
		err = run.load(rows)
	} else {
		err = m.decodeDrafts(ctx, run, places, o)
	}
	if err != nil {
		return err
	}
	return m.decodeTokens(ctx, run, places, o)
}

// decodeTokens continues the answers of the jobs in a run's batch rows token by token until each has ended. A nil job is an empty
// place.
func (m *Model) decodeTokens(ctx context.Context, run *cacheRun, jobs []*job, o *AskOptions) error {
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
		x, err := run.step(ctx, newRows{ids: ids, pos: pos, branch: answerRow})
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
