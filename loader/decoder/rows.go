package decoder

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
)

// cacheRun computes new rows over a kept cache: the prompt part is read-only, the tail grows with every step. Its batch rows
// are conditions of one prompt, or pairs of prompt and condition with a cache each.
type cacheRun struct {
	m         *Model
	cache     *promptCache // [1 or B, KV, Tp, D] by layer; not owned
	promptLen []int32      // [B], prompt keys that count
	conds     []*condition // [B]
	tp        int
	pass      int // of passOf

	capacity   int
	tail       []kvPair // by layer, [B, KV, C, D]; owned
	tailPos    []int32  // [B, C]; -1 = empty
	tailBranch []int32  // [B, C]
	slot       int      // first free slot, the same for all batch rows

	empty kvPair // what a tail starts as
	edits []*editTensors
	owned []bool
}

// newCacheRun prepares a run of up to `rows` new rows over the given cache.
func (m *Model) newCacheRun(prompt *promptCache, promptLen []int32, conds []*condition, rows int) (*cacheRun, error) {
	r := &cacheRun{m: m, cache: prompt, promptLen: promptLen, conds: conds, pass: prompt.pass, capacity: tailBucket(rows)}
	r.tp = prompt.kv[0].k.Shape().Dim(2)
	layers, b := m.Spec.Layers, len(conds)
	r.tail = make([]kvPair, layers)
	r.tailPos, r.tailBranch = make([]int32, b*r.capacity), make([]int32, b*r.capacity)
	for i := range r.tailPos {
		r.tailPos[i] = -1
	}
	zeros := make([]float32, b*m.cfg.kv*r.capacity*m.cfg.headDim)
	t, err := m.be.floats(zeros, m.cfg.dtype, b, m.cfg.kv, r.capacity, m.cfg.headDim)
	if err != nil {
		return nil, err
	}
	r.empty = kvPair{t, t}
	r.edits, r.owned = make([]*editTensors, layers), make([]bool, layers)
	for l := range layers {
		span := editSpan{positions: r.tp + r.capacity, pass: r.pass, rows: true}
		if r.edits[l], r.owned[l], err = m.layerEdits(l, conds, span); err != nil {
			r.free()
			return nil, err
		}
	}
	return r, nil
}

func (r *cacheRun) free() {
	for _, p := range r.tail {
		free(p.k, p.v)
	}
	r.tail = nil
	free(r.empty.k)
	for l, e := range r.edits {
		if r.owned[l] && e != nil {
			e.free()
		}
	}
	r.edits = nil
}

// Branches of new rows. A row sees the trunk's rows before it and those of its own branch: an answer and a decoy can stand at the
// same positions, side by side.
const (
	branchTrunk int32 = iota
	branchAnswer
	branchDecoy
)

// newRows are rows to be computed: ids and positions [B][n], n at most the largest row bucket and the same for all, and the branch of
// each column [n]. A position of -1 marks a batch row with nothing to do: it is computed and left out of the cache.
type newRows struct {
	ids, pos [][]int32
	branch   []int32
	exact    bool // computed in steps of 4 rows while they are few, not in rowBuckets
}

// bucket is the number of rows that the program is compiled for.
func (r *newRows) bucket() int {
	n := len(r.ids[0])
	if r.exact && n > 1 && n <= 16 {
		return (n + 3) / 4 * 4
	}
	return rowBucket(n)
}

// answerRow is one column of branchAnswer.
var answerRow = []int32{branchAnswer}

// step computes the rows and returns their residual after the last layer [B, bucket(n), hidden], which the caller frees.
func (r *cacheRun) step(ctx context.Context, rows newRows) (*tensors.Tensor, error) {
	x, err := r.m.embedRows(rows.ids, rows.bucket())
	if err != nil {
		return nil, err
	}
	return r.stepLayers(ctx, rows, x, 0, r.m.Spec.Layers)
}

// stepLayers runs the rows through layers from..to-1, starting with residual x, which it consumes.
func (r *cacheRun) stepLayers(ctx context.Context, rows newRows, x *tensors.Tensor, from, to int) (*tensors.Tensor, error) {
	n := len(rows.ids[0])
	bucket := rows.bucket()
	if r.slot+bucket > r.capacity {
		free(x)
		return nil, fmt.Errorf("cache: %d rows do not fit a tail of %d with %d in use", n, r.capacity, r.slot)
	}
	posFlat := r.place(rows, bucket)
	branch := padRows([][]int32{rows.branch}, 0, n, bucket)
	in, err := r.upload(posFlat, branch, bucket)
	if err != nil {
		free(x)
		return nil, err
	}
	defer in.free()
	for l := from; l < to; l++ {
		if err := ctx.Err(); err != nil {
			free(x)
			return nil, err
		}
		if x, err = r.layer(l, x, in); err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
	}
	r.slot += bucket
	r.m.mu.Lock()
	r.m.tailRows += int64(len(rows.ids) * n * (to - from))
	r.m.mu.Unlock()
	return x, nil
}

// place writes the new rows' positions into the tail's slots and returns them padded to the bucket. Padding stands at the
// row's own last position and takes no slot that anyone sees.
func (r *cacheRun) place(rows newRows, bucket int) []int32 {
	var flat []int32
	for i, p := range rows.pos {
		for j := range bucket {
			at := p[min(j, len(p)-1)]
			if j < len(p) {
				k := i*r.capacity + r.slot + j
				r.tailPos[k], r.tailBranch[k] = at, rows.branch[j]
			}
			flat = append(flat, max(at, 0))
		}
	}
	return flat
}

// rowInputs are the arguments that all layers of a step share.
type rowInputs struct {
	pos, branch, promptLen, tailPos, tailBranch, slot *tensors.Tensor
}

func (in *rowInputs) free() {
	free(in.pos, in.branch, in.promptLen, in.tailPos, in.tailBranch, in.slot)
}

func (r *cacheRun) upload(pos, branch []int32, bucket int) (*rowInputs, error) {
	m, b := r.m, len(r.conds)
	in := &rowInputs{}
	var err error
	for _, f := range []struct {
		to   **tensors.Tensor
		data []int32
		dims []int
	}{
		{&in.pos, pos, []int{b, bucket}}, {&in.branch, branch, []int{bucket}}, {&in.promptLen, r.promptLen, []int{b}},
		{&in.tailPos, r.tailPos, []int{b, r.capacity}}, {&in.tailBranch, r.tailBranch, []int{b, r.capacity}},
		{&in.slot, []int32{int32(r.slot)}, nil},
	} {
		if *f.to, err = m.be.ints(f.data, f.dims...); err != nil {
			in.free()
			return nil, err
		}
	}
	return in, nil
}

// layer runs one layer of a step; it consumes x.
func (r *cacheRun) layer(l int, x *tensors.Tensor, in *rowInputs) (*tensors.Tensor, error) {
	defer free(x)
	edits := r.edits[l]
	prog, err := r.m.program(fmt.Sprintf("rows_%v", edits.variant), r.m.cfg.rowBlock(edits.variant))
	if err != nil {
		return nil, err
	}
	var raw *tensors.Tensor
	if edits.variant.kinds&kindTable != 0 {
		if raw, err = r.cache.rawKeys(l); err != nil {
			return nil, err
		}
	}
	table, err := r.m.positionsOf(l, r.tp+r.capacity, r.pass, nil)
	if err != nil {
		return nil, err
	}
	window, err := r.m.windowOf(l)
	if err != nil {
		return nil, err
	}
	w, err := r.m.weights.acquire(l)
	if err != nil {
		return nil, err
	}
	defer r.m.weights.release(l)
	tail := r.tail[l]
	if tail.k == nil {
		tail = r.empty
	}
	args := []any{
		x, in.pos, in.branch, table.cos, table.sin, window, r.cache.kv[l].k, r.cache.kv[l].v, in.promptLen,
		tail.k, tail.v, in.tailPos, in.tailBranch, in.slot,
	}
	args = append(append(args, edits.args(raw)...), w...)
	out, err := call(prog, args...)
	if err != nil {
		return nil, err
	}
	free(r.tail[l].k, r.tail[l].v)
	r.tail[l] = kvPair{out[1], out[2]}
	return out[0], nil
}

// forget drops the tail rows of batch row i at positions >= pos.
func (r *cacheRun) forget(i int, pos int32) {
	for j := range r.capacity {
		if k := i*r.capacity + j; r.tailPos[k] >= pos {
			r.tailPos[k] = -1
		}
	}
}

// keptRows are the new rows of one batch row of a run, kept for a run to come.
type keptRows struct {
	tail []kvPair // by layer, [1, KV, C, D], k before rotation; owned
	pos  []int32  // [C]; -1 = empty
	side []int32  // [C], branches
	slot int      // first free slot
}

func (k *keptRows) slots() int {
	if k == nil {
		return 0
	}
	return len(k.pos)
}

func (k *keptRows) free() {
	if k == nil {
		return
	}
	for _, p := range k.tail {
		free(p.k, p.v)
	}
	k.tail = nil
}

// keep copies the rows of batch row i.
func (r *cacheRun) keep(i int) (*keptRows, error) {
	pick, err := r.m.newRowPick([]int{i})
	if err != nil {
		return nil, err
	}
	defer pick.free()
	from, to := i*r.capacity, (i+1)*r.capacity
	k := &keptRows{pos: slices.Clone(r.tailPos[from:to]), side: slices.Clone(r.tailBranch[from:to]), slot: r.slot}
	for _, p := range r.tail {
		key, err := pick.stack(func(int) *tensors.Tensor { return p.k })
		if err != nil {
			k.free()
			return nil, err
		}
		value, err := pick.stack(func(int) *tensors.Tensor { return p.v })
		if err != nil {
			free(key)
			k.free()
			return nil, err
		}
		k.tail = append(k.tail, kvPair{key, value})
	}
	return k, nil
}

// load starts the tail of a run with kept rows, one for each batch row, all of one size.
func (r *cacheRun) load(rows []*keptRows) error {
	prog, err := r.m.program(fmt.Sprintf("stack_tails_%d", r.capacity), stackTails(r.capacity))
	if err != nil {
		return err
	}
	for l := range r.tail {
		var ks, vs []any
		for _, k := range rows {
			ks, vs = append(ks, k.tail[l].k), append(vs, k.tail[l].v)
		}
		key, err := call(prog, ks...)
		if err != nil {
			return err
		}
		r.tail[l].k = key[0]
		value, err := call(prog, vs...)
		if err != nil {
			return err
		}
		r.tail[l].v = value[0]
	}
	for i, k := range rows {
		copy(r.tailPos[i*r.capacity:], k.pos)
		copy(r.tailBranch[i*r.capacity:], k.side)
		r.slot = max(r.slot, k.slot)
	}
	return nil
}
