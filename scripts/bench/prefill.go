package main

import (
	"errors"
	"fmt"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/scripts/bench/baseline"
)

// prefillTarget is the share of the baseline's speed that the engine has to reach on XLA.
const prefillTarget = 0.9

// goLayers is how many layers run on the Go backend, which takes seconds for what XLA does in a tenth.
const goLayers = 4

type shape struct{ b, t int }

func (b *bench) prefill() error {
	for _, device := range b.devices() {
		for _, dtype := range b.dtypeList() {
			if err := b.prefillOn(device, dtype); err != nil {
				b.report.add(figure{Section: "a", What: device + " " + dtype, Failed: err.Error()})
			}
		}
	}
	return nil
}

func (b *bench) prefillOn(device, dtype string) error {
	be, err := b.open(device)
	if err != nil {
		return err
	}
	c := *b.ckpt
	shapes := []shape{{1, 512}, {4, 512}, {1, 1024}, {4, 1024}}
	if b.o.quick {
		shapes = []shape{{1, 512}, {4, 512}}
	}
	if be.Kind == decoder.KindGo {
		c.Spec.Layers = min(c.Spec.Layers, goLayers)
	}
	if b.o.layers > 0 {
		c.Spec.Layers = min(b.ckpt.Spec.Layers, b.o.layers)
	}
	if be.Kind == decoder.KindGo && b.o.quick {
		shapes = shapes[:1]
	}
	m, err := decoder.New(be, &c, decoder.Options{DType: dtype})
	if err != nil {
		return err
	}
	base, err := baseline.New(be, &c, baseline.Options{DType: dtype, Layers: c.Spec.Layers})
	if err != nil {
		return errors.Join(err, m.Close())
	}
	defer base.Close()
	for _, s := range shapes {
		f, err := b.prefillShape(m, base, s)
		if err != nil {
			return errors.Join(err, m.Close())
		}
		f.What = fmt.Sprintf("%s %s B=%d T=%d", device, dtype, s.b, s.t)
		if c.Spec.Layers < b.ckpt.Spec.Layers {
			f.What += fmt.Sprintf(", %d layers", c.Spec.Layers)
		}
		if be.Kind != decoder.KindGo {
			f.Target = prefillTarget
		}
		b.report.add(f)
	}
	return m.Close()
}

// prefillShape races the engine against the faster of the baseline's two kinds of attention.
func (b *bench) prefillShape(m *decoder.Model, base *baseline.Model, s shape) (figure, error) {
	ids := b.sequences(s.b, s.t)
	prompts := make([]*decoder.Prompt, s.b)
	for i := range prompts {
		prompts[i] = &decoder.Prompt{IDs: ids[i]}
	}
	var ours, theirs []int32
	engine := contender{"engine", func() error {
		ours = nil
		return m.Ask(b.ctx, prompts, []decoder.Condition{{}}, decoder.AskOptions{Batch: s.b}, func(_, _ int, r *decoder.Reply) error {
			ours = append(ours, r.Argmax[0])
			return nil
		})
	}}
	tiled := func(tile int) contender {
		return contender{fmt.Sprintf("baseline, tile %d", tile), func() (err error) {
			theirs, err = base.Forward(ids, tile)
			return err
		}}
	}
	trial, err := race(1, tiled(0), tiled(64))
	if err != nil {
		return figure{}, err
	}
	tile := 0
	if trial[1].median() < trial[0].median() {
		tile = 64
	}
	rounds := b.o.round(5, 3)
	if s.b*s.t > 1024 && b.o.rounds == 0 {
		rounds = 3
	}
	t, err := race(rounds, engine, tiled(tile))
	if err != nil {
		return figure{}, err
	}
	agree := 0
	for i := range ours {
		if ours[i] == theirs[i] {
			agree++
		}
	}
	n := float64(s.b * s.t)
	return figure{
		Section: "a", Ours: n / t[0].median(), Other: n / t[1].median(), Unit: "tokens/s", Spread: t[0].spread(), Rounds: rounds,
		Ratio: speedup(t[0], t[1]),
		Note:  fmt.Sprintf("baseline tile %d; same next token %d/%d; compile %.1f s", tile, agree, s.b, t[0].compile()),
	}, nil
}

// sequences cuts b sequences of t tokens out of the prompts, set end to end.
func (b *bench) sequences(n, t int) [][]int32 {
	var all []int32
	for len(all) < n*t {
		for _, p := range b.prompts {
			all = append(all, p.IDs...)
		}
	}
	out := make([][]int32, n)
	for i := range out {
		out[i] = all[i*t : (i+1)*t]
	}
	return out
}
