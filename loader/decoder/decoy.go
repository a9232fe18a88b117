package decoder

import "context"

// decoySlots is the room that a decoy of n tokens takes in a tail: all but its last are fed.
func decoySlots(n int) int {
	slots, most := 0, rowBuckets[len(rowBuckets)-1]
	for left := n - 1; left > 0; left -= most {
		slots += rowBucket(min(left, most))
	}
	return slots
}

// unscoredDecoys lists the jobs with a whole pass of their own whose decoy has tokens after the first.
func unscoredDecoys(chunk []*group) []*job {
	var out []*job
	for _, g := range chunk {
		for _, js := range g.jobs {
			for _, j := range js {
				if j.unit != nil && j.alias == nil && len(j.reply.Decoy) < len(j.p.Decoy) {
					out = append(out, j)
				}
			}
		}
	}
	return out
}

// decoyBatch scores the decoys of jobs of one bucket together, over the rows of their prompts; empty places repeat the last job.
func (m *Model) decoyBatch(ctx context.Context, jobs []*job, o *AskOptions) error {
	var caches []cacheRow
	var conds []*condition
	var promptLen []int32
	longest := 0
	for i := range m.batchSize(len(jobs), jobs[0].cache.u.t, o) {
		j := jobs[min(i, len(jobs)-1)]
		caches, conds, promptLen = append(caches, j.cache), append(conds, j.c), append(promptLen, int32(len(j.p.IDs)))
		longest = max(longest, len(j.p.Decoy))
	}
	kv, err := m.stack(caches)
	if err != nil {
		return err
	}
	defer kv.free()
	run, err := m.newCacheRun(kv, promptLen, conds, decoySlots(longest))
	if err != nil {
		return err
	}
	defer run.free()
	return m.decoyRows(ctx, run, jobs)
}

// decoyRows feeds each batch row its job's decoy from position T on and takes the scores of its tokens but the first. Batch rows
// beyond the jobs repeat the last one; a shorter decoy is filled up with rows that nobody sees.
func (m *Model) decoyRows(ctx context.Context, run *cacheRun, jobs []*job) error {
	longest, most := 0, rowBuckets[len(rowBuckets)-1]
	for _, j := range jobs {
		longest = max(longest, len(j.p.Decoy))
	}
	b := len(run.conds)
	for from := 0; from < longest-1; from += most {
		n := min(most, longest-1-from)
		ids, pos, rows, targets := make([][]int32, b), make([][]int32, b), make([][]int32, b), make([][]int32, b)
		for i := range b {
			j := jobs[min(i, len(jobs)-1)]
			d := j.p.Decoy
			for k := from; k < from+n; k++ {
				id, at, target := int32(0), int32(-1), int32(0)
				if k+1 < len(d) {
					id, at, target = d[k], int32(len(j.p.IDs)+k), d[k+1]
				}
				ids[i], pos[i] = append(ids[i], id), append(pos[i], at)
				rows[i], targets[i] = append(rows[i], int32(k-from)), append(targets[i], target)
			}
		}
		x, err := run.step(ctx, newRows{ids: ids, pos: pos, branch: repeated(branchDecoy, n)})
		if err != nil {
			return err
		}
		scores, err := m.scoreRows(x, rows, targets)
		free(x)
		if err != nil {
			return err
		}
		for i, j := range jobs {
			j.takeDecoy(scores[i])
		}
	}
	return nil
}
