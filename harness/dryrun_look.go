package harness

import (
	"context"
	"time"

	"github.com/headscope/headscope/loader/decoder"
)

// dryLook is the work of a stage that has no conditions of its own: whole passes that look at heads, and row edits over the kept cache.
type dryLook struct {
	trials int
	passes func(p *Prompt) (passes, rows int) // whole ones a prompt, at most, and rows whose logits they compute
	sweep  []decoder.Condition                // each scores the fed answer
	share  float64                            // of the layers that they compute, all together
}

// detectLooks are the stages of detection beside its own, in the order in which they run.
func (s *Study) detectLooks() []dryStage {
	var out []dryStage
	d, spec := s.Plan.Detect, &s.o.Checkpoint.Spec
	if rep := d.Repeat; rep != nil {
		var sequences []*Prompt
		for range rep.Sequences {
			sequences = append(sequences, &Prompt{IDs: make([]int32, 2*rep.Length+1)})
		}
		one := func(*Prompt) (int, int) { return 1, 0 }
		out = append(out, dryStage{name: StageRepeat, prompts: sequences, look: &dryLook{trials: len(sequences), passes: one}})
	}
	shape := Shape{spec.Layers, spec.Heads, spec.KVHeads}
	for _, stage := range d.furtherStages() {
		look := &dryLook{trials: len(s.detects)}
		switch stage {
		case StageObserve:
			look.passes = s.observedPasses
		case StageCausal:
			look.passes = func(p *Prompt) (int, int) { return 1, len(p.Answer) + 1 }
			look.setSweep(causalConditions(shape, decoder.ScopeAnswer), 0, spec.Layers)
		}
		out = append(out, dryStage{name: stage, prompts: s.detects, look: look})
	}
	if a := s.Plan.Agreement; a != nil {
		look := &dryLook{trials: len(s.agrees), passes: func(p *Prompt) (int, int) { return 1, len(p.Answer) + 1 }}
		rankings := a.Random
		for _, i := range Detectors() {
			repeat := i.Stage == StageRepeat && d.Repeat != nil
			if i.Name != "write_norm" && (i.Stage == StageDetect || repeat || d.asks(i.Name)) {
				rankings++
			}
		}
		// A best head alone is in the map already.
		look.setSweep(causalConditions(shape, a.Scope), rankings*(len(a.Sizes)-1), spec.Layers)
		out = append(out, dryStage{name: StageAgreement, prompts: s.agrees, guessed: true, look: look})
	}
	return out
}

// setSweep takes the conditions, and as many more as sets of heads that are not known yet: those are counted from the first layer.
func (l *dryLook) setSweep(conds []decoder.Condition, more, layers int) {
	l.sweep = conds
	for _, c := range conds {
		l.share += 1 - float64(c.Edits[0].Heads[0].Layer)/float64(layers)
	}
	for range more {
		l.sweep = append(l.sweep, conds[1])
		l.share++
	}
	l.share /= float64(len(l.sweep))
}

// observedPasses counts the passes of the observe stage: the fed answer, the decoded one where it is another, the null query.
func (s *Study) observedPasses(p *Prompt) (passes, rows int) {
	d, question := s.Plan.Detect, len(p.IDs)-p.Question
	passes, rows = 1, 1+2*len(p.Answer)
	if d.asks("wu_step", "wu_set", "locos") {
		passes, rows = passes+1, rows+s.Plan.MaxNew+len(p.Answer)
	}
	if d.asks("qr_raw", "qr_cal") && p.Question > 0 && question <= mostQuestionRows {
		rows += question
		if d.asks("qr_cal") {
			passes, rows = passes+1, rows+question
		}
	}
	return passes, rows
}

// planesLook is the stage of an experiment that looks at planes before it begins; nil where it does not.
func (s *Study) planesLook(x experiment) *dryStage {
	o, ok := x.(observing)
	if !ok {
		return nil
	}
	t := s.standIn(x)
	name := o.observes(t)
	if name == "" {
		return nil
	}
	passes := func(p *Prompt) (int, int) {
		some := tracedLayers(&s.o.Checkpoint.Spec, p)
		return (len(t.heads.Layers()) + some - 1) / some, 0
	}
	return &dryStage{name: name, prompts: s.detects, guessed: true, look: &dryLook{trials: 1, passes: passes}}
}

// estimate counts the look's work.
func (l *dryLook) estimate(s *Study, st *dryStage) StageEstimate {
	e := StageEstimate{Name: st.name, Prompts: len(st.prompts), Conditions: max(1, len(l.sweep)), Trials: l.trials}
	g := s.geometry()
	for _, p := range st.prompts {
		passes, rows := l.passes(p)
		n := len(p.IDs) + len(p.Answer)
		w := Work{WholePasses: passes, WholeTokens: int64(passes * n), WholeFLOPs: float64(passes)*g.rows(n, n, 1) + g.output*float64(rows)}
		if k := len(l.sweep); k > 0 {
			r := len(p.Answer)
			w.RowPasses, w.RowTokens = k, int64(k*r)
			w.RowFLOPs = float64(k) * (g.rows(r, n-1, l.share) + g.output*float64(r))
		}
		e.Work.add(w)
	}
	return e
}

// calibrationSweep is how many conditions of a sweep are timed.
const calibrationSweep = 64

// look times the unmodified model for each pass, and some conditions of the sweep.
func (t *timer) look(ctx context.Context, l *dryLook, cache map[string]float64) ([]TimeMeasured, error) {
	base, ok := cache["unmodified"]
	if !ok {
		var err error
		if base, err = t.once(ctx, []condition{{name: baseline}}); err != nil {
			return nil, err
		}
		cache["unmodified"] = base
	}
	passes, _ := l.passes(t.p)
	out := []TimeMeasured{{Name: "whole pass", Seconds: Number(base), Times: Number(passes)}}
	if len(l.sweep) == 0 {
		return out, nil
	}
	each, ok := cache["sweep"]
	if !ok {
		var some []decoder.Condition
		n := min(len(l.sweep), calibrationSweep)
		for i := range n {
			some = append(some, l.sweep[i*len(l.sweep)/n])
		}
		r := &runner{o: t.s.o, plan: t.s.Plan, ask: t.s.ask}
		var took [2]float64
		for i := range took {
			start := time.Now()
			if _, err := r.drops(ctx, t.p, &Trial{}, some); err != nil {
				return nil, err
			}
			took[i] = time.Since(start).Seconds()
		}
		t.compile += max(0, took[0]-took[1])
		each = max(0, took[1]-base) / float64(n)
		cache["sweep"] = each
	}
	return append(out, TimeMeasured{Name: "heads off, over the kept cache", Seconds: Number(each), Times: Number(len(l.sweep))}), nil
}
