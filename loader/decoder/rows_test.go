package decoder

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
)

func read(t testing.TB, x *tensors.Tensor) []float32 {
	t.Helper()
	out, err := floatsOf(x)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rowsRun is one run of the row program.
type rowsRun struct {
	caches []cacheRow // one for all batch rows, or one each
	from   []int32    // by batch row: position of the first new row, and how many cached keys count
	edits  [][]Edit   // by batch row
	length []int      // by batch row: the prompt's true length, which scopes need
	steps  [][][]int32
	junk   []int32 // fed as rows of their own after the first step and forgotten again
	count  int     // with steps of more rows: how many of each step's rows are compared; 0 = all
}

// run feeds the steps and reads residuals, scores and the new keys and values.
func (r rowsRun) run(t *testing.T, m *Model) []outcome {
	t.Helper()
	kv, err := m.stack(r.caches)
	if err != nil {
		t.Fatal(err)
	}
	defer kv.free()
	b := len(r.from)
	conds := make([]*condition, b)
	for i := range conds {
		if conds[i], err = m.geo.resolve(r.edits[i], r.length[i], r.length[i]/2); err != nil {
			t.Fatal(err)
		}
	}
	run, err := m.newCacheRun(kv, r.from, conds, 32)
	if err != nil {
		t.Fatal(err)
	}
	defer run.free()
	out := make([]outcome, b)
	for i := range out {
		out[i] = outcome{}
	}
	next := slices.Clone(r.from)
	slots := make([][]int, b)
	for s, step := range r.steps {
		r.step(t, run, step, next, out)
		for i := range step {
			n := r.counted(len(step[i]))
			for j := range n {
				slots[i] = append(slots[i], slices.Index(run.tailPos[i*run.capacity:(i+1)*run.capacity], next[i]+int32(j)))
			}
			if n < len(step[i]) {
				run.forget(i, next[i]+int32(n))
			}
			next[i] += int32(n)
		}
		if s == 0 && r.junk != nil {
			r.feedJunk(t, run, next)
		}
	}
	readTail(t, run, slots, out)
	return out
}

func (r rowsRun) counted(n int) int {
	if r.count > 0 {
		return min(n, r.count)
	}
	return n
}

func (r rowsRun) step(t *testing.T, run *cacheRun, ids [][]int32, next []int32, out []outcome) {
	t.Helper()
	m := run.m
	n := len(ids[0])
	pos, idx := make([][]int32, len(ids)), make([][]int32, len(ids))
	for i := range ids {
		for j := range n {
			pos[i] = append(pos[i], next[i]+int32(j))
		}
		for j := range r.counted(n) {
			idx[i] = append(idx[i], int32(j))
		}
	}
	x, err := run.step(context.Background(), newRows{ids: ids, pos: pos, branch: repeated(branchAnswer, len(ids[0]))})
	if err != nil {
		t.Fatal(err)
	}
	defer free(x)
	readScoresInto(t, m, out, &unit{x: x}, idx)
	flat, w := read(t, x), x.Shape().Dim(1)*m.Spec.Hidden
	for i := range out {
		out[i]["residual"] = append(out[i]["residual"], flat[i*w:][:r.counted(n)*m.Spec.Hidden]...)
	}
}

// feedJunk leaves keys and values of other tokens in slots that count as empty.
func (r rowsRun) feedJunk(t *testing.T, run *cacheRun, next []int32) {
	t.Helper()
	ids, pos := make([][]int32, len(next)), make([][]int32, len(next))
	for i := range next {
		ids[i], pos[i] = r.junk, nil
		for j := range r.junk {
			pos[i] = append(pos[i], next[i]+int32(j))
		}
	}
	x, err := run.step(context.Background(), newRows{ids: ids, pos: pos, branch: repeated(branchAnswer, len(ids[0]))})
	if err != nil {
		t.Fatal(err)
	}
	free(x)
	for i := range next {
		run.forget(i, next[i])
	}
}

func readTail(t *testing.T, run *cacheRun, slots [][]int, out []outcome) {
	t.Helper()
	d, c, kvh := run.m.cfg.headDim, run.capacity, run.m.cfg.kv
	for l, p := range run.tail {
		for name, flat := range map[string][]float32{"k": read(t, p.k), "v": read(t, p.v)} {
			key := fmt.Sprintf("%s%d", name, l)
			for i := range out {
				for h := range kvh {
					for _, s := range slots[i] {
						at := ((i*kvh+h)*c + s) * d
						out[i][key] = append(out[i][key], flat[at:at+d]...)
					}
				}
			}
		}
	}
}

// TestBitsOfDecoding holds the bits law for the row program in the shape of decoding: 8 sequences with a cache each, one row.
func TestBitsOfDecoding(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		sameShapeBits(t, be)
		for _, name := range dtypesOn(be) {
			t.Run(name, func(t *testing.T) {
				bitsOfDecoding(t, model(t, be, name), 128, func(i int) int { return 40 + 9*i })
			})
		}
	})
}

// bitsOfDecoding takes the sequences' lengths, of which each has at least one row of padding in the bucket.
func bitsOfDecoding(t *testing.T, m *Model, bucket int, length func(i int) int) {
	t.Helper()
	var seqs, junked []sequence
	for i := range 8 {
		s := newSequence(uint64(20+i), length(i))
		if i%2 == 1 {
			s.edits = edits(t, "zero:L1H2@question", "temperature=2:L0H1@answer")
		}
		seqs, junked = append(seqs, s), append(junked, s.withJunk(uint64(40+i), bucket))
	}
	units := []*unit{walked(t, m, bucket, probeNone, seqs[:4]), walked(t, m, bucket, probeNone, seqs[4:])}
	dirty := []*unit{walked(t, m, bucket, probeNone, junked[:4]), walked(t, m, bucket, probeNone, junked[4:])}
	build := func(units []*unit, order []int) rowsRun {
		r := rowsRun{steps: make([][][]int32, 3)}
		for _, i := range order {
			r.caches = append(r.caches, cacheRow{units[i/4], i % 4})
			r.from, r.length = append(r.from, int32(len(seqs[i].ids))), append(r.length, len(seqs[i].ids))
			r.edits = append(r.edits, seqs[i].edits)
			for s := range r.steps {
				r.steps[s] = append(r.steps[s], tokens(uint64(60+8*s+i), 1))
			}
		}
		return r
	}
	order := []int{0, 1, 2, 3, 4, 5, 6, 7}
	base := build(units, order).run(t, m)
	compare := func(what string, units []*unit, order []int) {
		for i, got := range build(units, order).run(t, m) {
			sameBits(t, fmt.Sprintf("%s, sequence %d", what, order[i]), got, base[order[i]])
		}
	}
	compare("rerun", units, order)
	compare("other slots", units, []int{5, 7, 0, 2, 1, 6, 4, 3})
	compare("other mates", units, []int{3, 3, 3, 6, 6, 3, 3, 6})
	compare("junk behind the prompts", dirty, order)
	// The slots that rows stand in are part of the shape of a run: both leave the same one empty.
	one, other := build(units, order), build(units, order)
	one.junk, other.junk = tokens(99, 1), tokens(98, 1)
	want := one.run(t, m)
	for i, got := range other.run(t, m) {
		sameBits(t, fmt.Sprintf("junk in empty slots, sequence %d", i), got, want[i])
	}
}

// TestBitsOfConditions holds the bits law for the row program in the shape of conditions: one prompt's cache under 4 of them, 8 rows
// at a time.
func TestBitsOfConditions(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		sameShapeBits(t, be)
		for _, name := range dtypesOn(be) {
			t.Run(name, func(t *testing.T) {
				bitsOfConditions(t, model(t, be, name), 128, 70, [][]Edit{
					nil, edits(t, "zero:L1H2,L2H0@question"), edits(t, "uniform:L0H3@question", "scale=2:L0H3@question"),
					edits(t, "zero_planes:L0H1,L1H1:fast4@question"),
				})
			})
		}
	})
}

// bitsOfConditions takes a prompt's length, 26 at least, and four conditions on its second half.
func bitsOfConditions(t *testing.T, m *Model, bucket, length int, conds [][]Edit) {
	t.Helper()
	s, at := newSequence(30, length), length/2
	clean := walked(t, m, bucket, probeNone, []sequence{s, s, s, s})
	j := s.withJunk(31, bucket)
	dirty := walked(t, m, bucket, probeNone, []sequence{j, newSequence(32, length), j, j})
	build := func(u *unit, order []int) rowsRun {
		r := rowsRun{caches: []cacheRow{{u, 0}}, from: repeated(int32(at), 4), length: repeated(length, 4)}
		for _, i := range order {
			r.edits = append(r.edits, conds[i])
		}
		// 5 rows of 8: three rows of padding; then 8 of 8.
		r.steps = [][][]int32{repeated(s.ids[at:at+5], 4), repeated(s.ids[at+5:at+13], 4)}
		return r
	}
	order := []int{0, 1, 2, 3}
	base := build(clean, order).run(t, m)
	compare := func(what string, u *unit, order []int) {
		for i, got := range build(u, order).run(t, m) {
			sameBits(t, fmt.Sprintf("%s, condition %d", what, order[i]), got, base[order[i]])
		}
	}
	compare("rerun", clean, order)
	compare("other slots", clean, []int{3, 2, 0, 1})
	compare("other mates", clean, []int{2, 2, 2, 0})
	compare("junk behind the prompt", dirty, order)
	one, other := build(clean, order), build(clean, order)
	one.junk, other.junk = tokens(98, 7), tokens(99, 7)
	want := one.run(t, m)
	for i, got := range other.run(t, m) {
		sameBits(t, fmt.Sprintf("junk in empty slots, condition %d", i), got, want[i])
	}
	// Padded rows of other tokens: eight rows of which five are wanted.
	padded := build(clean, order)
	padded.steps[0], padded.count = repeated(slices.Concat(s.ids[at:at+5], tokens(97, 3)), 4), 5
	short := build(clean, order)
	short.steps, padded.steps = short.steps[:1], padded.steps[:1]
	want = short.run(t, m)
	for i, got := range padded.run(t, m) {
		sameBits(t, fmt.Sprintf("junk in padded rows, condition %d", i), got, want[i])
	}
}
