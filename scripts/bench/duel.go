package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/headscope/headscope/loader/decoder"
)

// Targets against the Python peer.
const (
	allRowsFloat32  = 1.4
	allRowsBFloat16 = 1.25
	questionTarget  = 8
)

// questionSets is how many head sets section d switches off: the retrieval heads and matched ones.
const questionSets = 16

// duel is what sections c and d measure together: the peer, all rows and question rows take turns.
type duel struct {
	err           error
	study         *study
	peer          []*peerRun
	all, question timing
	work          map[string]decoder.Work // of one run
	calibration   []string
}

// duel measures a dtype once.
func (b *bench) duel(dtype string) (*duel, error) {
	if d := b.duels[dtype]; d != nil {
		return d, d.err
	}
	d := &duel{work: map[string]decoder.Work{}}
	b.duels[dtype] = d
	d.err = b.withModel(dtype, func(m *decoder.Model) error { return b.fight(d, m, dtype) })
	return d, d.err
}

func (b *bench) fight(d *duel, m *decoder.Model, dtype string) error {
	prompts := b.prompts[:min(b.o.n, len(b.prompts))]
	d.study = newStudy(b.ctx, m, b.ckpt, prompts)
	if err := d.study.detect(); err != nil {
		return err
	}
	if err := d.study.chooseSets(b.peer, b.o.sets, questionSets-1); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "headscope-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, err := writePeerPrompts(dir, prompts)
	if err != nil {
		return err
	}
	counted := func(name string, f func() error) func() error {
		return func() error {
			before := m.Work()
			err := f()
			after := m.Work()
			d.work[name] = decoder.Work{
				PrefillLayerRows: after.PrefillLayerRows - before.PrefillLayerRows,
				CacheLayerRows:   after.CacheLayerRows - before.CacheLayerRows,
			}
			return err
		}
	}
	all, question := counted("all", d.study.allRows), counted("question", d.study.question)
	cs := []contender{{"all rows", all}}
	asked := b.chose("d")
	if asked {
		cs = append(cs, contender{"question rows", question})
	}
	if b.peer != nil {
		first := true
		cs = append(cs, contender{"python peer", func() error {
			if first { // it needs no warm-up: its processes start cold and load outside the timed phases
				first = false
				return nil
			}
			d.calibration = append(d.calibration, b.peer.calibrate(b.ctx))
			r, err := b.peer.profile(b.ctx, profileArgs{b.o.model, file, dtype, len(prompts), b.o.sets})
			d.peer = append(d.peer, r)
			return err
		}})
	}
	t, err := race(b.o.round(3, 1), cs...)
	if err != nil {
		return err
	}
	d.all = t[0]
	if asked {
		d.question = t[1]
	}
	if b.peer != nil {
		d.calibration = append(d.calibration, b.peer.calibrate(b.ctx))
		fmt.Fprintln(os.Stderr, "bench: calibration:", strings.Join(d.calibration, " | "))
	}
	return nil
}

// allRows is section c.
func (b *bench) allRows() error {
	for _, dtype := range b.dtypeList() {
		d, err := b.duel(dtype)
		if err != nil {
			return err
		}
		s := d.study
		f := figure{
			Section: "c", What: fmt.Sprintf("%s detect + knock out, %d prompts, %d sets", dtype, len(s.prompts), 1+len(s.random)),
			Ours: d.all.median(), Unit: "s", Spread: d.all.spread(), Rounds: len(d.all.rounds), Target: allRowsFloat32,
			Note: fmt.Sprintf("recall %s; %d of %d answers not decoded; compile %.1f s",
				fractions(s.recall), s.verified, len(s.prompts)*(2+len(s.random)), d.all.compile()),
		}
		if dtype == "bfloat16" {
			f.Target = allRowsBFloat16
		}
		w := figure{Section: "c", What: dtype + " layer-rows computed", Ours: float64(total(d.work["all"])), Unit: "layer-rows", Rounds: 1}
		w.Note = fmt.Sprintf("%d in whole passes, %d over a cache", d.work["all"].PrefillLayerRows, d.work["all"].CacheLayerRows)
		if len(d.peer) == 0 {
			f.NotRun, w.NotRun = noPeer, noPeer
		} else {
			var theirs timing
			for _, r := range d.peer {
				theirs.rounds = append(theirs.rounds, r.total())
			}
			last := d.peer[len(d.peer)-1]
			f.Other, f.Ratio = theirs.median(), speedup(d.all, theirs)
			f.Note += fmt.Sprintf("; peer recall %s; %s", fractions(append([]float64{last.base, last.without}, last.random...)), sameHeads(s, last))
			w.Other = b.peerLayerRows(s, last)
			w.Ratio = intervalOf([]float64{w.Other / w.Ours})
		}
		b.report.add(f)
		b.report.add(w)
	}
	return nil
}

func sameHeads(s *study, r *peerRun) string {
	if s.retrieval.Equal(r.heads) {
		return fmt.Sprintf("same %d heads", len(r.heads))
	}
	return fmt.Sprintf("heads differ: only ours %v, only theirs %v", s.retrieval.Minus(r.heads), r.heads.Minus(s.retrieval))
}

func total(w decoder.Work) int64 { return w.PrefillLayerRows + w.CacheLayerRows }

// peerLayerRows is what the peer computes: two whole passes, and one and a decoded answer for each condition.
func (b *bench) peerLayerRows(s *study, r *peerRun) float64 {
	var rows float64
	conds := float64(2 + len(s.random))
	for _, p := range s.prompts {
		t := float64(len(p.IDs))
		rows += t + t + float64(len(p.Answer)-1) + conds*(t+r.generated-1)
	}
	return rows * float64(b.ckpt.Spec.Layers)
}

// questionRows is section d.
func (b *bench) questionRows() error {
	for _, dtype := range b.dtypeList() {
		d, err := b.duel(dtype)
		if err != nil {
			return err
		}
		conds := 1 + 1 + len(d.study.matched)
		n := conds * len(d.study.prompts)
		w := d.work["question"]
		f := figure{
			Section: "d", What: fmt.Sprintf("%s %d conditions on question rows, %d prompts", dtype, conds, len(d.study.prompts)),
			Ours: d.question.median(), Unit: "s", Spread: d.question.spread(), Rounds: len(d.question.rounds), Target: questionTarget,
			Note: fmt.Sprintf("%.0f ms an answer; %d layer-rows in whole passes, %d over a cache", 1000*d.question.median()/float64(n), w.PrefillLayerRows, w.CacheLayerRows),
		}
		if len(d.peer) == 0 {
			f.NotRun = noPeer
		} else {
			var theirs timing
			for _, r := range d.peer {
				theirs.rounds = append(theirs.rounds, r.knockout/float64(r.samples)*float64(n))
			}
			f.Other, f.Ratio = theirs.median(), speedup(d.question, theirs)
			f.Note += fmt.Sprintf("; the peer's cost is its %.2f s an answer times %d", d.peer[0].knockout/float64(d.peer[0].samples), n)
		}
		b.report.add(f)
	}
	return nil
}

func fractions(x []float64) string {
	var s []string
	for _, v := range x {
		s = append(s, fmt.Sprintf("%.2g", v))
	}
	return strings.Join(s, "/")
}
