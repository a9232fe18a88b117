package decoder

import (
	"context"
	"fmt"
	"slices"
)

// job is one prompt under one condition on its way to a reply.
type job struct {
	prompt, cond int
	p            *Prompt
	c            *condition
	alias        *job      // same computation as this one (no edits: the plain run)
	unit         *unit     // whole pass; nil = rows over the plain run's cache
	cache        cacheRow  // what a greedy answer goes on over: of unit, or of the plain run
	rows         *keptRows // and the edited rows after it; nil = none
	reply        *Reply
	scores       []rowScore // rows T-1 .. T-1+len(Answer)
	greedy       greedyState
	draft        []int32 // a guess at the greedy answer
	scoreOnly    bool
}

// Emit takes the reply to one prompt under one condition, by their places in the lists.
type Emit func(prompt, cond int, r *Reply) error

// Ask puts every prompt to the model under every condition and then calls emit with each reply, prompt by prompt.
//
// What conditions of a prompt have in common is computed once: layers below the first edited one (the shared trunk), and, for
// edits that start at a later row, all rows before it (the kept cache). Scores of whole passes depend on the shapes that o fixes
// and not on what else is asked. What else can move a number, within the bound between shapes: answers are decoded 1, 8 or
// o.DecodeBatch at a time, by how many there are; rows over a kept cache are computed in batches that the number of such conditions
// sizes, from the first layer that any of them edits or in which sets of them part; with a draft to check (Prompt.Draft, or a plain condition beside) some gaps come
// from programs of eight rows instead of one; and a batch mate's draft moves the slots that later tokens take. The same question
// gives the same bits again.
func (m *Model) Ask(ctx context.Context, prompts []*Prompt, conds []Condition, o AskOptions, emit Emit) error {
	o.fill()
	for from := 0; from < len(prompts); {
		to := from
		for to < len(prompts) && !m.crosses(prompts[to], &o) {
			to++
		}
		at := from
		if err := m.ask(ctx, prompts[from:to], conds, o, func(p, c int, r *Reply) error { return emit(at+p, c, r) }); err != nil {
			return err
		}
		if from = to; from < len(prompts) { // a prompt that crosses is asked alone
			if err := m.askAcross(ctx, prompts[from], conds, o, func(c int, r *Reply) error { return emit(from, c, r) }); err != nil {
				return err
			}
			from++
		}
	}
	return nil
}

// ask is Ask where no answer outgrows the rotary table of its prompt.
func (m *Model) ask(ctx context.Context, prompts []*Prompt, conds []Condition, o AskOptions, emit Emit) error {
	jobs := make([][]*job, len(prompts))
	for i, p := range prompts {
		if err := m.check(i, p, &o); err != nil {
			return err
		}
		for j, c := range conds {
			rc, err := m.geo.resolve(c.Edits, p.scopeLength(), p.Question)
			if err != nil {
				return fmt.Errorf("prompt %d: %w", i, err)
			}
			jobs[i] = append(jobs[i], &job{prompt: i, cond: j, p: p, c: rc, reply: &Reply{}, scoreOnly: c.ScoreOnly})
		}
		if err := m.fillGiven(ctx, p, conditionsOf(jobs[i])); err != nil {
			return fmt.Errorf("prompt %d: %w", i, err)
		}
	}
	wait := waiting{decode: m.decodeBatch}
	defer wait.free()
	decoys := waiting{decoys: true, decode: m.decoyBatch}
	defer decoys.free()
	next := 0 // first prompt whose replies have not been handed on
	for _, chunk := range m.chunks(prompts, jobs, conds, &o) {
		if err := m.runChunk(ctx, chunk, conds, &queues{&wait, &decoys}, &o); err != nil {
			return err
		}
		for ; next < len(jobs) && finished(jobs[next]); next++ {
			if err := handOn(jobs[next], conds, emit); err != nil {
				return err
			}
		}
	}
	for _, w := range []*waiting{&decoys, &wait} {
		if err := w.run(ctx, m, true, &o); err != nil {
			return err
		}
	}
	for ; next < len(jobs); next++ {
		if err := handOn(jobs[next], conds, emit); err != nil {
			return err
		}
	}
	return nil
}

func conditionsOf(js []*job) []*condition {
	out := make([]*condition, len(js))
	for i, j := range js {
		out[i] = j.c
	}
	return out
}

// finished tells whether all replies to a prompt are complete.
func finished(js []*job) bool {
	for _, j := range js {
		if j.alias == nil && (!j.greedy.done || len(j.reply.Decoy) < len(j.p.Decoy)) {
			return false
		}
	}
	return true
}

// handOn emits the replies to one prompt. Jobs that are the same computation as another get its reply, and a probe that was carried
// but not asked for is left out.
func handOn(js []*job, conds []Condition, emit Emit) error {
	for _, j := range js {
		r := *j.reply
		if j.alias != nil {
			r = *j.alias.reply
		}
		if !conds[j.cond].Probe {
			r.Attention = nil
		}
		if err := emit(j.prompt, j.cond, &r); err != nil {
			return err
		}
	}
	return nil
}

// group is a prefill batch of prompts with all their jobs.
type group struct {
	bucket int
	pass   int      // of passOf
	jobs   [][]*job // by prompt
	units  []*unit
	base   *unit // the plain run, nil if nothing needs it
}

// chunks splits the prompts into prefill batches (by bucket and rotary table, in the order given) and these into pieces whose caches fit the
// budget. The batches are fixed by the prompts and o.Batch; the pieces only say what is in memory together.
func (m *Model) chunks(prompts []*Prompt, jobs [][]*job, conds []Condition, o *AskOptions) [][]*group {
	open := map[[2]int]*group{}
	var groups []*group
	for i, p := range prompts {
		n := len(p.IDs) + len(p.Answer)
		key := [2]int{LengthBucket(n), passOf(m.Spec, n)}
		g := open[key]
		if g == nil || len(g.jobs) == o.Batch {
			g = &group{bucket: key[0], pass: key[1]}
			open[key] = g
			groups = append(groups, g)
		}
		g.jobs = append(g.jobs, jobs[i])
	}
	var out [][]*group
	var bytes int64
	for _, g := range groups {
		need := int64(o.Batch) * int64(len(conds)+1) * m.cacheBytes(g.bucket)
		if len(out) == 0 || bytes+need > o.CacheBytes {
			out, bytes = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], g)
		bytes += need
	}
	return out
}

// cacheBytes is the size of one sequence's keys and values.
func (m *Model) cacheBytes(t int) int64 {
	return 2 * int64(m.Spec.Layers) * int64(m.cfg.kv*t*m.cfg.headDim) * int64(m.cfg.dtype.Size())
}

// queues hold what waits for a full batch: greedy answers, and decoys to be scored.
type queues struct{ answers, decoys *waiting }

// runChunk computes all jobs of a few groups but for what waits for a full batch.
func (m *Model) runChunk(ctx context.Context, chunk []*group, conds []Condition, q *queues, o *AskOptions) error {
	var units []*unit
	defer func() {
		for _, u := range units {
			u.hold(-1)
		}
	}()
	for _, g := range chunk {
		m.plan(g, conds, o)
		units = append(units, g.units...)
	}
	for _, u := range units {
		u.hold(1) // until all that rests on it is computed
	}
	if err := m.walk(ctx, units); err != nil {
		return err
	}
	for _, u := range units {
		if err := m.scoreUnit(u, o); err != nil {
			return err
		}
	}
	q.decoys.add(unscoredDecoys(chunk))
	if err := q.decoys.runFull(ctx, m, o); err != nil {
		return err
	}
	plain, edited, cached := sortJobs(chunk)
	if len(edited) > 0 || cached {
		// The plain answers are the drafts of the others.
		now := waiting{decode: m.decodeBatch}
		defer now.free()
		now.add(plain)
		if err := now.run(ctx, m, true, o); err != nil {
			return err
		}
	} else {
		edited = plain
	}
	for _, g := range chunk {
		for _, js := range g.jobs {
			setDrafts(g, js)
			if err := m.runCached(ctx, js, q.answers, o); err != nil {
				return err
			}
		}
	}
	q.answers.add(edited)
	return q.answers.runFull(ctx, m, o)
}

// sortJobs lists the jobs whose greedy answer goes on over a whole pass's cache, of the plain run and of edited ones, and tells
// whether others run over the plain run's cache.
func sortJobs(chunk []*group) (plain, edited []*job, cached bool) {
	for _, g := range chunk {
		for _, js := range g.jobs {
			for _, j := range js {
				switch {
				case j.unit == nil:
					cached = true
				case j.alias != nil || j.greedy.done:
				case j.unit == g.base:
					plain = append(plain, j)
				default:
					edited = append(edited, j)
				}
			}
		}
	}
	return plain, edited, cached
}

// setDrafts guesses that the edited model answers a prompt like the plain one, if that was asked, or else as the prompt's draft says.
func setDrafts(g *group, js []*job) {
	draft := js[0].p.Draft
	for _, j := range js {
		if g.base != nil && j.unit == g.base && j.alias == nil {
			draft = j.reply.Greedy
		}
	}
	for _, j := range js {
		j.draft = draft
	}
}

// plan makes a group's units: the plain run if anything rests on it, and one for each condition that edits rows from the start.
// All of them are the same program: where one condition is probed, every unit carries the probe.
func (m *Model) plan(g *group, conds []Condition, o *AskOptions) {
	whole, needBase, stop := m.wholeConditions(g, conds)
	probing := o.Attention
	for _, c := range conds {
		probing = probing || c.Probe
	}
	add := func() *unit {
		u := m.newUnit(g, o.Batch)
		u.keepKV = o.MaxNew > 0 || g.hasDecoys()
		if probing {
			m.addProbe(u, g)
		}
		g.units = append(g.units, u)
		return u
	}
	if needBase {
		g.base = add()
		g.base.stop = stop
	}
	for k, c := range conds {
		switch {
		case len(c.Edits) == 0:
			g.usePlain(k)
			g.base.readProbe = g.base.readProbe || c.Probe
		case whole[k]:
			u := add()
			u.readProbe = c.Probe
			if u.parent = g.base; u.parent != nil && !c.Probe { // a probe wants every layer, so that run starts at the first
				u.fork = g.firstLayer(m, k)
			}
			for i, js := range g.jobs {
				js[k].unit, js[k].cache = u, cacheRow{u, i}
				u.conds[i] = js[k].c
			}
		default:
			g.base.keepKV = true
			for i, js := range g.jobs {
				js[k].cache = cacheRow{g.base, i}
			}
		}
	}
}

// wholeConditions tells which conditions compute whole sequences, and whether the plain run is to be computed as well: because it
// is asked for, because rows are computed over its cache (both need all of it), or only as the trunk of several others.
func (m *Model) wholeConditions(g *group, conds []Condition) (whole []bool, base bool, stop int) {
	whole = make([]bool, len(conds))
	spared, last := 0, 0
	for k, c := range conds {
		plain := len(c.Edits) == 0
		whole[k] = !plain && (c.Probe || g.fromStart(k))
		if !whole[k] {
			base, stop = true, m.Spec.Layers
			continue
		}
		if first := g.firstLayer(m, k); !c.Probe {
			spared, last = spared+first, max(last, first)
		}
	}
	if !base && spared > last {
		return whole, true, last
	}
	return whole, base, stop
}

func (g *group) hasDecoys() bool {
	return slices.ContainsFunc(g.jobs, func(js []*job) bool { return len(js[0].p.Decoy) > 0 })
}

// firstLayer is the first layer that condition k edits for any prompt of the group.
func (g *group) firstLayer(m *Model, k int) int {
	first := m.Spec.Layers - 1
	for _, js := range g.jobs {
		first = min(first, js[k].c.first)
	}
	return first
}

// fromStart tells whether condition k edits some prompt from its first row on.
func (g *group) fromStart(k int) bool {
	for _, js := range g.jobs {
		if js[k].c.lo == 0 {
			return true
		}
	}
	return false
}

// usePlain makes condition k the plain run, or an alias of the condition that already is.
func (g *group) usePlain(k int) {
	for i, js := range g.jobs {
		for _, other := range js[:k] {
			if other.unit == g.base {
				js[k].alias = other
				break
			}
		}
		js[k].unit, js[k].cache = g.base, cacheRow{g.base, i}
	}
}

// newUnit is a plain unit of the group's prompts, filled up to the batch size with copies of the last one.
func (m *Model) newUnit(g *group, batch int) *unit {
	u := &unit{group: g, t: g.bucket, pass: g.pass, stop: m.Spec.Layers, conds: make([]*condition, batch)}
	for i := range batch {
		p := g.jobs[min(i, len(g.jobs)-1)][0].p
		u.ids = append(u.ids, append(append([]int32(nil), p.IDs...), p.Answer...))
	}
	return u
}

// addProbe asks the unit for the attention of each prompt's answer rows.
func (m *Model) addProbe(u *unit, g *group) {
	pr := &probeInputs{mode: probeStats, s: 1}
	for _, js := range g.jobs {
		pr.p = max(pr.p, rowBucket(probeRowsOf(js[0].p)))
		pr.s = max(pr.s, len(js[0].p.Spans))
	}
	for i := range u.b() {
		p := g.jobs[min(i, len(g.jobs)-1)][0].p
		for r := range pr.p {
			pr.rows = append(pr.rows, int32(len(p.IDs)-1+min(r, probeRowsOf(p)-1)))
			for s := range pr.s {
				span := [2]int32{}
				if s < len(p.Spans) {
					span = p.Spans[s]
				}
				pr.spans = append(pr.spans, span[0], span[1])
			}
		}
	}
	u.probe = pr
}

func probeRowsOf(p *Prompt) int {
	return min(max(1, len(p.Answer)), rowBuckets[len(rowBuckets)-1])
}
