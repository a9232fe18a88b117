package main

import (
	"fmt"
	"math"

	"github.com/headscope/headscope/loader/decoder"
)

// residualBound is the largest difference between program shapes, a layer, relative to the residual's scale, in float32.
const residualBound = 2e-6

// shapes is section f: the same rows computed by programs of other shapes.
func (b *bench) shapes() error {
	for _, dtype := range b.dtypeList() {
		if err := b.withModel(dtype, func(m *decoder.Model) error { return b.shapesOf(m, dtype) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) shapesOf(m *decoder.Model, dtype string) error {
	n := min(b.o.pick(8, 4), len(b.prompts))
	residual, logits, scale, err := b.bucketDifference(m, n)
	if err != nil {
		return err
	}
	f := figure{
		Section: "f", What: dtype + " residual, longer buckets, relative, a layer", Ours: residual, Unit: "largest | bound",
		Note: fmt.Sprintf("last row of %d prompts in buckets 512, 640 and 1024", n),
	}
	if dtype == "float32" {
		f.Other, f.Target = residualBound, 1
		f.Ratio = margin(residualBound, residual)
	}
	b.report.add(f)
	add := func(what string, diff float64, note string) {
		bound := m.FragileGap(scale) / scale
		b.report.add(figure{
			Section: "f", What: dtype + " " + what, Ours: diff, Other: bound, Unit: "largest | fragile gap", Target: 1,
			Ratio: margin(bound, diff), Note: note,
		})
	}
	// Two logits may move apart by twice the largest difference.
	add("logits, longer buckets, relative to the largest", 2*logits, "twice the largest difference of a logit")
	rows, batch, err := b.gapDifference(m, n)
	if err != nil {
		return err
	}
	add("gap of the two best logits, rows over a cache", rows/scale, "against the whole pass, answer rows")
	add("gap of the two best logits, batch of 4", batch/scale, "against batches of 1, answer rows")
	return nil
}

// margin is how many times the difference fits the bound. Equal bits count as the smallest difference that float32 knows.
func margin(bound, diff float64) *interval {
	return intervalOf([]float64{bound / max(diff, math.SmallestNonzeroFloat32)})
}

// bucketDifference compares the last prompt row between buckets. residual is the largest over prompts, buckets and layers of
// max|a-b| / max|a| / (layers passed); logits of max|a-b| / max|a|; scale is the smallest max|a|.
func (b *bench) bucketDifference(m *decoder.Model, n int) (residual, logits, scale float64, err error) {
	scale = math.Inf(1)
	filler := b.sequences(1, 1024)[0]
	for _, p := range b.prompts[:n] {
		last := len(p.IDs) - 1
		trace := func(length int) (*decoder.Trace, error) {
			more := filler[:max(0, length-len(p.IDs))] // causality keeps what follows out of the row
			return m.Trace(b.ctx, &decoder.Prompt{IDs: p.IDs, Answer: more}, nil, decoder.TraceOptions{Hidden: last, Logits: []int{last}})
		}
		ref, err := trace(len(p.IDs))
		if err != nil {
			return 0, 0, 0, err
		}
		for _, length := range []int{640, 1024} {
			got, err := trace(length)
			if err != nil {
				return 0, 0, 0, err
			}
			for l := range ref.Hidden {
				d, s := difference(ref.Hidden[l], got.Hidden[l])
				residual = max(residual, d/s/float64(l+1))
			}
			d, s := difference(ref.Logits[0], got.Logits[0])
			logits, scale = max(logits, d/s), min(scale, s)
		}
	}
	return residual, logits, scale, nil
}

// difference is max|a-b| and max|a|.
func difference(a, b []float32) (diff, scale float64) {
	for i := range a {
		diff = max(diff, math.Abs(float64(a[i])-float64(b[i])))
		scale = max(scale, math.Abs(float64(a[i])))
	}
	return diff, scale
}

// gapDifference compares the gap between the two best logits at the answer's rows: rows over a cache against the whole pass, and
// batches of four against batches of one.
func (b *bench) gapDifference(m *decoder.Model, n int) (rows, batch float64, err error) {
	var asked []*decoder.Prompt
	for _, p := range b.prompts[:n] {
		q := p.Question
		if q == 0 {
			q = len(p.IDs) - questionTokens
		}
		asked = append(asked, &decoder.Prompt{IDs: p.IDs, Answer: p.Answer, Question: q})
	}
	// A gain of 1 changes nothing, but goes the way of an edit on the question's rows.
	same := decoder.Edit{Op: decoder.OpScale, Heads: []decoder.Head{{}}, Value: 1, Scope: decoder.ScopeQuestion}
	conds := []decoder.Condition{{}, {Edits: []decoder.Edit{same}}}
	gaps := func(batch int) ([][2][]float32, error) {
		out := make([][2][]float32, n)
		err := m.Ask(b.ctx, asked, conds, decoder.AskOptions{Batch: batch}, func(p, c int, r *decoder.Reply) error {
			out[p][c] = r.Gap
			return nil
		})
		return out, err
	}
	one, err := gaps(1)
	if err != nil {
		return 0, 0, err
	}
	four, err := gaps(4)
	if err != nil {
		return 0, 0, err
	}
	for i := range one {
		d, _ := difference(one[i][0], one[i][1])
		rows = max(rows, d)
		d, _ = difference(one[i][0], four[i][0])
		batch = max(batch, d)
	}
	return rows, batch, nil
}
