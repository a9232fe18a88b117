package decoder

import "context"

// draftRows is how many rows a draft step computes: the last sure token and up to draftRows-1 guessed ones.
const draftRows = 8

// draftSlots is the room in a tail for the draft steps of an answer of n tokens. It is set aside whether they are needed or not, so
// that the slots of later tokens, and with them the last bits, do not depend on the drafts of batch mates.
func draftSlots(n int) int { return (n + draftRows - 2) / (draftRows - 1) * draftRows }

// guess returns the draft's tokens after the answer so far, nil if the answer has left it.
func (s *greedyState) guess(draft []int32) []int32 {
	if s.done || len(draft) <= len(s.ids) {
		return nil
	}
	for i, id := range s.ids {
		if draft[i] != id {
			return nil
		}
	}
	return draft[len(s.ids):min(len(draft), len(s.ids)+draftRows-1)]
}

// decodeDrafts checks guessed answers, several tokens in one step, as long as they hold. A condition that does no harm mostly
// repeats the unmodified model's answer, so that one step does for many. Only tokens that are the argmax by a safe margin are
// taken; after the first that is not, decode goes on token by token. So a draft saves work and changes no token.
func (m *Model) decodeDrafts(ctx context.Context, run *cacheRun, jobs []*job, o *AskOptions) error {
	after := run.slot + draftSlots(o.MaxNew)
	defer func() { run.slot = after }()
	for {
		ids, pos := make([][]int32, len(jobs)), make([][]int32, len(jobs))
		guesses := make([][]int32, len(jobs))
		busy := false
		for i, j := range jobs {
			ids[i], pos[i] = make([]int32, draftRows), repeated(int32(-1), draftRows)
			if j == nil {
				continue
			}
			s := &j.greedy
			if guesses[i] = s.guess(j.draft); guesses[i] == nil {
				continue
			}
			busy = true
			ids[i][0], pos[i][0] = s.token, s.next
			for k, id := range guesses[i] {
				ids[i][k+1], pos[i][k+1] = id, s.next+int32(k)+1
			}
		}
		if !busy {
			return nil
		}
		x, err := run.step(ctx, newRows{ids: ids, pos: pos, branch: repeated(branchAnswer, draftRows)})
		if err != nil {
			return err
		}
		rows := make([][]int32, len(jobs))
		for i := range rows {
			for k := range int32(draftRows) {
				rows[i] = append(rows[i], k)
			}
		}
		scores, err := m.scoreRows(x, rows, rows)
		free(x)
		if err != nil {
			return err
		}
		for i, j := range jobs {
			if guesses[i] != nil && !m.acceptDraft(run, i, guessed{j, guesses[i], scores[i]}, o) {
				j.draft = nil
			}
		}
	}
}

// guessed is one job's part of a draft step.
type guessed struct {
	job    *job
	guess  []int32
	scores []rowScore
}

// acceptDraft takes the sure tokens of batch row i's draft step and drops the cache rows of the others. It reports whether the whole
// guess held.
func (m *Model) acceptDraft(run *cacheRun, i int, g guessed, o *AskOptions) bool {
	s, guess := &g.job.greedy, g.guess
	held := false
	for k, sc := range g.scores[:len(guess)+1] {
		if m.closeCall(sc) {
			break // decode decides it with the program of single tokens
		}
		s.add(sc.argmax, sc.gap, o)
		s.token, s.next = sc.argmax, s.next+1
		if held = k == len(guess); s.done || held || sc.argmax != guess[k] {
			break
		}
	}
	run.forget(i, s.next)
	return held
}

// repeated is n times x.
func repeated[T any](x T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = x
	}
	return out
}
