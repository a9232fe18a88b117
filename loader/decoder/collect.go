package decoder

import "math"

// scoreUnit reads the answer rows of a walked unit and starts the greedy answer of its jobs.
func (m *Model) scoreUnit(u *unit, o *AskOptions) error {
	g, used := u.group, false
	for _, js := range g.jobs {
		for _, j := range js {
			used = used || (j.unit == u && j.alias == nil)
		}
	}
	if used {
		n, decoys := 0, g.hasDecoys()
		for _, js := range g.jobs {
			n = max(n, len(js[0].p.Answer)+1)
		}
		var idx, targets [][]int32
		for i := range u.b() {
			p := g.jobs[min(i, len(g.jobs)-1)][0].p
			rows, want := answerRows(p, n)
			if decoys {
				rows, want = append(rows, int32(len(p.IDs)-1)), append(want, firstOf(p.Decoy))
			}
			idx, targets = append(idx, rows), append(targets, want)
		}
		scores, err := m.scoreRows(u.x, idx, targets)
		if err != nil {
			return err
		}
		for _, js := range g.jobs {
			for _, j := range js {
				if j.unit == u && j.alias == nil {
					s := scores[j.cache.i]
					m.take(j, s[:len(j.p.Answer)+1], o)
					j.takeDecoy(s[n:])
					j.reply.Attention = u.attention(m, j)
				}
			}
		}
	}
	free(u.x)
	u.x = nil
	return nil
}

// takeDecoy stores the scores of decoy tokens as they come.
func (j *job) takeDecoy(scores []rowScore) {
	for _, s := range scores[:min(len(scores), len(j.p.Decoy)-len(j.reply.Decoy))] {
		j.reply.Decoy = append(j.reply.Decoy, s.logProb)
	}
}

func firstOf(ids []int32) int32 {
	if len(ids) == 0 {
		return 0
	}
	return ids[0]
}

// answerRows lists n rows from T-1 on, the last one again where the answer is shorter, and the token that each should predict (0
// after the answer's last).
func answerRows(p *Prompt, n int) (rows, targets []int32) {
	for r := range n {
		k := min(r, len(p.Answer))
		rows = append(rows, int32(len(p.IDs)-1+k))
		t := int32(0)
		if k < len(p.Answer) {
			t = p.Answer[k]
		}
		targets = append(targets, t)
	}
	return rows, targets
}

// take stores the scores of rows T-1 .. T-1+len(Answer) in the reply.
func (m *Model) take(j *job, scores []rowScore, o *AskOptions) {
	j.scores = scores
	for i, s := range scores {
		j.reply.Argmax = append(j.reply.Argmax, s.argmax)
		j.reply.Gap = append(j.reply.Gap, s.gap)
		if i < len(j.p.Answer) {
			j.reply.LogProb = append(j.reply.LogProb, s.logProb)
		}
	}
	j.greedy = m.startGreedy(j, o)
}

// attention cuts one sequence's part out of the unit's probe.
func (u *unit) attention(m *Model, j *job) *Attention {
	if !u.readProbe {
		return nil
	}
	h, p, s := m.cfg.heads, u.probe.p, u.probe.s
	a := &Attention{Layers: m.Spec.Layers, Heads: h, Rows: probeRowsOf(j.p), Spans: len(j.p.Spans)}
	for _, l := range u.probed {
		for hi := range h {
			for r := range a.Rows {
				k := (j.cache.i*h+hi)*p + r
				a.Write = append(a.Write, l.write[k])
				a.Argmax = append(a.Argmax, l.argmax[k])
				a.Gap = append(a.Gap, l.gap[k])
				a.Mass = append(a.Mass, l.mass[k*s:k*s+a.Spans]...)
			}
		}
	}
	return a
}

// greedyState is a greedy answer under way.
type greedyState struct {
	ids     []int32
	gaps    []float32
	done    bool
	fragile bool // a decoded step was a close call
	// Decoding goes on by feeding the token at position next over a cache of the positions before it.
	next  int32
	token int32
}

func (s *greedyState) add(id int32, gap float32, o *AskOptions) {
	s.ids, s.gaps = append(s.ids, id), append(s.gaps, gap)
	s.done = len(s.ids) >= o.MaxNew || isEOS(id, o.EOS)
}

// startGreedy takes from the fed answer what greedy decoding would have given: as long as the fed token is the argmax by a safe
// margin, the next row is the one that decoding would have computed.
func (m *Model) startGreedy(j *job, o *AskOptions) greedyState {
	s := greedyState{}
	if o.MaxNew == 0 {
		s.done = true
		return s
	}
	if j.scoreOnly {
		return m.verifyOnly(j, o)
	}
	t, gold := len(j.p.IDs), j.p.Answer
	for i, sc := range j.scores {
		if m.closeCall(sc) {
			j.reply.Fragile = true
			if i > 0 { // decide it again with the program that decoding uses
				s.token, s.next = gold[i-1], int32(t+i-1)
				return s
			}
		}
		s.add(sc.argmax, sc.gap, o)
		s.token, s.next = sc.argmax, int32(t+i)
		if s.done || i >= len(gold) || sc.argmax != gold[i] || m.closeCall(sc) {
			break
		}
		if o.Verify && i+1 == len(gold) {
			s.done = true
			j.reply.Verified = true
			break
		}
	}
	j.commit(s)
	return s
}

// verifyOnly takes the fed answer as the greedy one where every token of it leads by a safe margin, and decodes nothing.
func (m *Model) verifyOnly(j *job, o *AskOptions) greedyState {
	s := greedyState{done: true}
	for i, id := range j.p.Answer[:min(len(j.p.Answer), o.MaxNew)] {
		sc := j.scores[i]
		if sc.argmax != id || m.closeCall(sc) {
			return greedyState{done: true}
		}
		s.ids, s.gaps = append(s.ids, id), append(s.gaps, sc.gap)
	}
	j.reply.Verified = len(j.p.Answer) > 0 && len(s.ids) == len(j.p.Answer)
	if !j.reply.Verified {
		return greedyState{done: true}
	}
	j.commit(s)
	return s
}

// commit copies the answer so far into the reply.
func (j *job) commit(s greedyState) {
	j.reply.Greedy, j.reply.GreedyGap = s.ids, s.gaps
	j.reply.Fragile = j.reply.Fragile || s.fragile
}

// MinGap is the smallest gap over the greedy steps, +Inf without any.
func (r *Reply) MinGap() float64 {
	g := math.Inf(1)
	for _, x := range r.GreedyGap {
		g = min(g, float64(x))
	}
	return g
}
