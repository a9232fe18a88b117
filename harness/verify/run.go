package verify

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
)

type run struct {
	ctx    context.Context
	g      *golden
	m      *decoder.Model
	report *Report
}

func (r *run) add(name string, diff, tolerance float64) {
	r.report.Lines = append(r.report.Lines, Line{Name: name, Diff: diff, Tolerance: tolerance, OK: diff <= tolerance})
}

func (r *run) skip(name, why string) {
	r.report.Lines = append(r.report.Lines, Line{Name: name, Skipped: why})
}

// compare adds a line for got against the golden array of that name.
func (r *run) compare(name string, got []float32, tolerance float64) error {
	want, err := r.g.array(name, len(got))
	if err != nil {
		return err
	}
	r.add(name, maxDiff(got, want), tolerance)
	return nil
}

// sequence compares one plain pass and its greedy continuation.
func (r *run) sequence(i int) error {
	s := r.g.Sequences[i]
	t, last := len(s.IDs), r.m.Spec.Layers-1
	all := make([]int, t)
	for j := range all {
		all[j] = j
	}
	layers := []int{0}
	if last > 0 {
		layers = append(layers, last)
	}
	tr, err := r.m.Trace(r.ctx, &decoder.Prompt{IDs: s.IDs}, nil, decoder.TraceOptions{
		Logits: all, Attention: []int{t - 1}, Hidden: t - 1, QK: layers,
	})
	if err != nil {
		return err
	}
	name := fmt.Sprintf("seq%d.", i)
	if err := r.compare(name+"logits", flatten(tr.Logits), TolValue); err != nil {
		return err
	}
	if err := r.compare(name+"attn_last", flatten(tr.Attention), TolAttention); err != nil {
		return err
	}
	if err := r.compare(name+"hidden_last", flatten(tr.Hidden), TolValue); err != nil {
		return err
	}
	r.add(name+"attn_argmax", r.argmaxDiff(tr.Attention, s.Argmax, t), 0)
	for _, l := range layers {
		qk, at := tr.QK[l], fmt.Sprintf("%slayer%d.", name, l)
		d := r.m.Spec.HeadDim
		for _, q := range []struct {
			name string
			got  []float32
		}{
			{"q_pre", headsFirst(qk.QPre, t, d)}, {"q_rot", headsFirst(qk.QRot, t, d)}, {"k_pre", qk.KPre}, {"k_rot", qk.KRot},
		} {
			if err := r.compare(at+q.name, q.got, TolValue); err != nil {
				return err
			}
		}
	}
	if err := r.table(name, i); err != nil {
		return err
	}
	if err := r.greedy(name+"greedy", &decoder.Prompt{IDs: s.IDs}, nil, s.Greedy); err != nil || s.NoCache == nil {
		return err
	}
	return r.noCache(name, i)
}

// noCache compares the continuation that a full pass for each token gives: logits after the golden tokens so far, and which is largest.
func (r *run) noCache(name string, i int) error {
	s := r.g.Sequences[i]
	var logits []float32
	wrong := 0.0
	for k, token := range s.NoCache {
		ids := append(slices.Clone(s.IDs), s.NoCache[:k]...)
		tr, err := r.m.Trace(r.ctx, &decoder.Prompt{IDs: ids}, nil, decoder.TraceOptions{Logits: []int{len(ids) - 1}, Hidden: -1})
		if err != nil {
			return err
		}
		row := tr.Logits[0]
		if logits = append(logits, row...); slices.Index(row, slices.Max(row)) != int(token) {
			wrong++
		}
	}
	r.add(name+"greedy_no_cache", wrong, 0)
	return r.compare(name+"greedy_no_cache_logits", logits, TolValue)
}

// table compares the frequencies in use with those recorded for the sequence.
func (r *run) table(name string, i int) error {
	diffs := map[string]float64{}
	for l, layer := range r.g.Layers {
		got, err := decoder.RopeTable(r.m.Spec, l, len(r.g.Sequences[i].IDs))
		if err != nil {
			return err
		}
		if layer.Rope == nil {
			r.flag(fmt.Sprintf("%slayer%d.unrotated", name, l), got == nil)
			continue
		}
		diffs[*layer.Rope] = max(diffs[*layer.Rope], tableDiff(got, r.g.Sequences[i].Rope[*layer.Rope]))
	}
	for _, key := range slices.Sorted(maps.Keys(diffs)) {
		r.add(name+"rope."+key+".inv_freq", diffs[key], TolInvFreq)
	}
	return nil
}

// flag adds a line for what is right or wrong.
func (r *run) flag(name string, ok bool) {
	diff := 0.0
	if !ok {
		diff = 1
	}
	r.add(name, diff, 0)
}

// tableDiff is the largest relative difference of the frequencies and of the factor on cosine and sine.
func tableDiff(got *rope.Table, want ropeTable) float64 {
	if got == nil || len(want.InvFreq) != len(got.InvFreq) {
		return math.Inf(1)
	}
	diff := math.Abs(got.Scale - want.Scaling)
	for p, w := range want.InvFreq {
		diff = max(diff, math.Abs(got.InvFreq[p]-w)/w)
	}
	return diff
}

func (r *run) argmaxDiff(rows [][]float32, want [][]int, t int) float64 {
	n := 0.0
	for l := range rows {
		for h := 0; h*t < len(rows[l]); h++ {
			best := 0
			row := rows[l][h*t : (h+1)*t]
			for j, x := range row {
				if x > row[best] {
					best = j
				}
			}
			if l >= len(want) || h >= len(want[l]) || want[l][h] != best {
				n++
			}
		}
	}
	return n
}

// greedy compares the greedy continuation of a prompt, decoded with the cache.
func (r *run) greedy(name string, p *decoder.Prompt, edits []decoder.Edit, want []int32) error {
	var got []int32
	var gaps []float32
	err := r.m.Ask(r.ctx, []*decoder.Prompt{p}, []decoder.Condition{{Edits: edits}}, decoder.AskOptions{MaxNew: len(want), DecodeBatch: 1},
		func(_, _ int, reply *decoder.Reply) error { got, gaps = reply.Greedy, reply.GreedyGap; return nil })
	if err != nil {
		return err
	}
	r.add(name, differing(got, want), 0)
	if logits, err := r.g.array(name+"_logits", len(want)*r.m.Spec.Vocab); err == nil && edits == nil {
		r.add(name+"_gaps", gapDiff(gaps, logits, r.m.Spec.Vocab), 2*TolValue)
	}
	return nil
}

// gapDiff is the largest difference between the gaps of the two largest logits and those of rows of logits.
func gapDiff(gaps []float32, logits []float32, vocab int) float64 {
	diff := 0.0
	for k := range len(logits) / vocab {
		row := slices.Sorted(slices.Values(logits[k*vocab : (k+1)*vocab]))
		if k >= len(gaps) {
			return math.Inf(1)
		}
		diff = max(diff, math.Abs(float64(gaps[k]-(row[vocab-1]-row[vocab-2]))))
	}
	return diff
}

// intervention compares an edited run of the last sequence.
func (r *run) intervention(iv intervention) error {
	edit, err := r.editOf(iv)
	if err != nil {
		r.skip("iv."+iv.Name, err.Error())
		return nil
	}
	i := len(r.g.Sequences) - 1
	ids := r.g.Sequences[i].IDs
	p := &decoder.Prompt{IDs: ids, Donor: iv.Source}
	tr, err := r.m.Trace(r.ctx, p, []decoder.Edit{edit}, decoder.TraceOptions{Logits: []int{len(ids) - 1}, Hidden: -1})
	if err != nil {
		return err
	}
	if err := r.compare("iv."+iv.Name+".logits", tr.Logits[0], TolValue); err != nil {
		return err
	}
	return r.greedy("iv."+iv.Name+".greedy", p, []decoder.Edit{edit}, iv.Greedy)
}

// editOf translates a golden intervention, or says what of it is unknown.
func (r *run) editOf(iv intervention) (decoder.Edit, error) {
	e := decoder.Edit{Heads: iv.Heads, Scope: decoder.ScopeAll}
	scopes := map[string]decoder.Scope{"all": decoder.ScopeAll, "decode": decoder.ScopeAnswer, "last_prompt": decoder.ScopeLast}
	ops := map[string]decoder.Op{
		"zero_heads": decoder.OpZero, "uniform_heads": decoder.OpUniform, "zero_q_planes": decoder.OpZeroPlanes,
		"zero_qk_legacy": decoder.OpLegacy, "freeze_planes": decoder.OpFreeze, "swap_table": decoder.OpSwap,
		"mean_heads": decoder.OpOwnMean, "patch_heads": decoder.OpPatch,
	}
	var ok bool
	if e.Scope, ok = scopes[iv.Rows]; !ok {
		return e, fmt.Errorf("rows %q are not known", iv.Rows)
	}
	if e.Op, ok = ops[iv.Kind]; !ok {
		return e, fmt.Errorf("kind %q is not known", iv.Kind)
	}
	switch e.Op {
	case decoder.OpZeroPlanes, decoder.OpFreeze:
		e.Planes = iv.Planes
	case decoder.OpLegacy:
		e.Planes = r.planesOf(iv.Dims)
	case decoder.OpSwap:
		e.Table, e.InvFreq = "golden", iv.InvFreq
		heads := r.m.Spec.Heads
		if iv.Scope == "kv_group_0" {
			heads = r.m.Spec.Group()
		}
		for l := range r.m.Spec.Layers {
			for h := range heads {
				e.Heads = append(e.Heads, decoder.Head{Layer: l, Index: h})
			}
		}
	}
	return e, nil
}

// planesOf names the planes whose members are listed.
func (r *run) planesOf(dims []int) []int {
	var out []int
	half := len(r.g.Sequences[0].firstTable())
	for _, d := range dims {
		plane := d % half
		if r.m.Spec.Interleaved {
			plane = d / 2
		}
		out = append(out, plane)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bfloat16 compares logits computed from bfloat16 weights and activations.
func (r *run) bfloat16(be *decoder.Backend, c *loader.Checkpoint, o Options) error {
	m, err := decoder.New(be, c, decoder.Options{DType: "bfloat16", Memory: o.Memory})
	if err != nil {
		return err
	}
	defer m.Close()
	for i, s := range r.g.Sequences {
		all := make([]int, len(s.IDs))
		for j := range all {
			all[j] = j
		}
		tr, err := m.Trace(r.ctx, &decoder.Prompt{IDs: s.IDs}, nil, decoder.TraceOptions{Logits: all, Hidden: -1})
		if err != nil {
			return err
		}
		if err := r.compare(fmt.Sprintf("bf16.seq%d.logits", i), flatten(tr.Logits), TolBFloat16); err != nil {
			return err
		}
	}
	return nil
}

func flatten(rows [][]float32) []float32 {
	var out []float32
	for _, r := range rows {
		out = append(out, r...)
	}
	return out
}

// headsFirst is [T, heads, D] -> [heads, T, D].
func headsFirst(x []float32, t, d int) []float32 {
	h := len(x) / (t * d)
	out := make([]float32, 0, len(x))
	for i := range h {
		for j := range t {
			k := (j*h + i) * d
			out = append(out, x[k:k+d]...)
		}
	}
	return out
}
