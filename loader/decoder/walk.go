package decoder

import (
	"context"
	"fmt"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// kvPair is one layer's keys and values, [B, KV, T, D]. A unit's keys are before rotation, those of a promptCache after it.
type kvPair struct{ k, v *tensors.Tensor }

// unit is a batch of whole sequences under one condition each, walked through the layers together.
type unit struct {
	ids   [][]int32    // [B], each shorter than or as long as t
	t     int          // bucket
	pass  int          // of passOf: the rotary tables that the sequences have in common
	conds []*condition // [B]; nil = unedited

	group *group // whose prompts these are
	holds int    // answers that wait to be decoded over this unit's cache

	parent *unit // shares the layers below fork; nil = runs from the embedding
	fork   int
	stop   int // layers from here on are not run; a trunk that nobody reads stops at its last fork

	probe     *probeInputs
	readProbe bool         // what the probe saw is copied to the host
	taps      map[int]bool // layers whose q and k are returned
	heads     []int        // rows of the first sequence whose head outputs are kept, in every layer; nil = none
	norms     bool         // the mean norms of planes are kept
	rows      []int32      // with hidden: the row of each sequence whose residual is kept after every layer
	keepKV    bool

	x      *tensors.Tensor // the residual that enters the next layer; owned
	kv     []kvPair        // by layer, own layers only
	probed []probeOutput   // by layer
	hidden [][]float32     // by layer, [B * hidden]
	tapped map[int]tapOutput
	headed [][]float32  // by layer, [len(heads), heads, headDim]
	normed []PlaneNorms // by layer, of the first sequence
}

// probeInputs asks for attention rows.
type probeInputs struct {
	mode  probeMode
	rows  []int32 // [B*P]
	spans []int32 // [B*P*S*2], probeStats; [B*S*2], probeObserve
	p, s  int

	toward []float32 // [B*P*hidden], probeObserve
	bare   []int32   // [B*P], probeObserve: 1 where nothing behind the output projection counts

	rowsT, spansT, towardT, bareT *tensors.Tensor
}

// probeOutput is what one layer's probe returned, flat as the program has it.
type probeOutput struct {
	argmax    []int32   // [B, H, P]
	gap, mass []float32 // [B, H, P], [B, H, P, S]
	write     []float32 // [B, H, P]
	rows      []float32 // [B, H, P, T]

	far          []int32   // [B, H, P]
	direct, from []float32 // [B, H, P], [B, H, P, S]
}

// tapOutput is what one layer's taps returned, flat as the program has it, and the residual after the layer [B, T, hidden].
type tapOutput struct{ q, qRot, kRot, z, residual []float32 }

func (u *unit) b() int { return len(u.ids) }

// free releases everything that the unit still holds.
func (u *unit) free() {
	free(u.x)
	u.x = nil
	for _, p := range u.kv {
		free(p.k, p.v)
	}
	u.kv = nil
	if u.probe != nil {
		free(u.probe.rowsT, u.probe.spansT, u.probe.towardT, u.probe.bareT)
		u.probe.rowsT, u.probe.spansT, u.probe.towardT, u.probe.bareT = nil, nil, nil, nil
	}
}

// layerKV is the unit's own or inherited cache of layer l.
func (u *unit) layerKV(l int) kvPair {
	for u.parent != nil && l < u.fork {
		u = u.parent
	}
	return u.kv[l]
}

// walk runs the units through all layers, a layer at a time, and leaves each unit's last residual in u.x (a trunk's: the one that
// enters layer u.stop).
func (m *Model) walk(ctx context.Context, units []*unit) (err error) {
	for _, u := range units {
		if err := m.startUnit(u); err != nil {
			return err
		}
	}
	for l := range m.Spec.Layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		w, err := m.weights.acquire(l)
		if err != nil {
			return err
		}
		// Forks read their parent's residual before the parent gives it away.
		var forks, others []*unit
		for _, u := range units {
			switch {
			case u.parent != nil && l == u.fork:
				forks = append(forks, u)
			case l >= u.fork && l < u.stop:
				others = append(others, u)
			}
		}
		err = m.each(ctx, forks, func(u *unit) error { return m.stepUnit(l, u, u.parent.x, false, w) })
		if err == nil {
			err = m.each(ctx, others, func(u *unit) error { return m.stepUnit(l, u, u.x, true, w) })
		}
		m.weights.release(l)
		if err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
	}
	return nil
}

// each runs f on the units, as many at once as the backend gains from.
func (m *Model) each(ctx context.Context, units []*unit, f func(*unit) error) error {
	if m.workers < 2 || len(units) < 2 {
		for _, u := range units {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(u); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(units))
	slots := make(chan struct{}, m.workers)
	var wg sync.WaitGroup
	for i, u := range units {
		wg.Add(1)
		go func() {
			defer wg.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = f(u)
			}
		}()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// startUnit uploads the embedded tokens of a unit that runs from the start, and its probe.
func (m *Model) startUnit(u *unit) error {
	u.kv = make([]kvPair, m.Spec.Layers)
	u.probed = make([]probeOutput, m.Spec.Layers)
	if u.rows != nil {
		u.hidden = make([][]float32, m.Spec.Layers)
	}
	if u.probe != nil {
		if err := m.uploadProbe(u.probe, u.b()); err != nil {
			return err
		}
	}
	for _, ids := range u.ids {
		if len(ids) > u.t {
			return fmt.Errorf("sequence of %d tokens in a bucket of %d", len(ids), u.t)
		}
	}
	if u.parent != nil {
		return nil
	}
	var err error
	u.x, err = m.embedRows(u.ids, u.t)
	return err
}

// uploadProbe uploads what a probe asks.
func (m *Model) uploadProbe(p *probeInputs, b int) (err error) {
	if p.rowsT, err = m.be.ints(p.rows, b, p.p); err != nil {
		return err
	}
	switch p.mode {
	case probeStats:
		p.spansT, err = m.be.ints(p.spans, b, p.p, p.s, 2)
	case probeObserve:
		if p.spansT, err = m.be.ints(p.spans, b, p.s, 2); err == nil {
			p.towardT, err = m.be.floats(p.toward, dtypes.Float32, b, p.p, m.Spec.Hidden)
		}
		if err == nil {
			p.bareT, err = m.be.ints(p.bare, b, p.p)
		}
	}
	return err
}

// embedRows uploads embedded ids, each padded to t rows with token 0: [B, t, hidden].
func (m *Model) embedRows(ids [][]int32, t int) (*tensors.Tensor, error) {
	flat := make([]int32, 0, len(ids)*t)
	for _, s := range ids {
		flat = append(flat, s...)
		flat = append(flat, make([]int32, t-len(s))...)
	}
	x, err := m.weights.embed(flat)
	if err != nil {
		return nil, err
	}
	return m.be.floats(x, m.cfg.dtype, len(ids), t, m.Spec.Hidden)
}

// stepUnit runs layer l on residual x. The unit owns x when own is set: it is donated, or freed when it cannot be.
func (m *Model) stepUnit(l int, u *unit, x *tensors.Tensor, own bool, w []any) error {
	table, err := m.positionsOf(l, u.t, u.pass, nil)
	if err != nil {
		return err
	}
	window, err := m.windowOf(l)
	if err != nil {
		return err
	}
	edits, owned, err := m.layerEdits(l, u.conds, editSpan{positions: u.t, pass: u.pass})
	if err != nil {
		return err
	}
	if owned {
		defer edits.free()
	}
	variant := blockVariant{taps: u.taps[l], heads: u.heads != nil, norms: u.norms, edits: edits.variant}
	if u.probe != nil {
		variant.probe = u.probe.mode
	}
	prog, err := m.program(fmt.Sprintf("block_%+v", variant), m.cfg.prefillBlock(variant))
	if err != nil {
		return err
	}
	var first any = x
	if own && !x.IsShared() {
		if first, err = graph.DonateTensorBuffer(x, m.be.Backend, 0); err != nil {
			return err
		}
	}
	args := append([]any{first, table.cos, table.sin, window}, edits.args(nil)...)
	if u.probe != nil {
		args = append(args, u.probe.rowsT)
		if u.probe.mode == probeStats || u.probe.mode == probeObserve {
			args = append(args, u.probe.spansT)
		}
		if u.probe.mode == probeObserve {
			args = append(args, u.probe.towardT, u.probe.bareT)
		}
	}
	if u.norms {
		lengths, err := m.be.ints(u.lengths(), u.b())
		if err != nil {
			return err
		}
		defer free(lengths)
		args = append(args, lengths)
	}
	out, err := call(prog, append(args, w...)...)
	if own {
		free(x)
		u.x = nil
	}
	if err != nil {
		return err
	}
	m.countRows(u)
	return m.takeOutputs(l, u, variant, out)
}

func (m *Model) countRows(u *unit) {
	n := 0
	for _, ids := range u.ids {
		n += len(ids)
	}
	m.mu.Lock()
	m.prefillRows += int64(n)
	m.mu.Unlock()
}

// takeOutputs stores a block's results in the unit and frees those that nobody asked for.
func (m *Model) takeOutputs(l int, u *unit, variant blockVariant, out []*tensors.Tensor) error {
	u.x = out[0]
	if u.keepKV {
		u.kv[l] = kvPair{out[1], out[2]}
	} else {
		free(out[1], out[2])
	}
	rest := out[3:]
	defer free(out[3:]...)
	var err error
	switch variant.probe {
	case probeStats:
		if !u.readProbe {
			rest = rest[4:]
			break
		}
		var p probeOutput
		if p.argmax, err = intsOf(rest[0]); err != nil {
			return err
		}
		if p.gap, err = floatsOf(rest[1]); err != nil {
			return err
		}
		if p.mass, err = floatsOf(rest[2]); err != nil {
			return err
		}
		if p.write, err = floatsOf(rest[3]); err != nil {
			return err
		}
		u.probed[l] = p
		rest = rest[4:]
	case probeObserve:
		if u.probed[l], err = readObserve(rest); err != nil {
			return err
		}
		rest = rest[observeOutputs:]
	case probeRows, probeScores:
		if u.probed[l].rows, err = floatsOf(rest[0]); err != nil {
			return err
		}
		rest = rest[1:]
	}
	if variant.taps {
		var t tapOutput
		for i, to := range []*[]float32{&t.q, &t.qRot, &t.kRot, &t.z} {
			if *to, err = floatsOf(rest[i]); err != nil {
				return err
			}
		}
		if t.residual, err = floatsOf(u.x); err != nil {
			return err
		}
		rest = rest[4:]
		if u.tapped == nil {
			u.tapped = map[int]tapOutput{}
		}
		u.tapped[l] = t
	}
	if rest, err = m.takeAsked(u, variant, rest); err != nil {
		return err
	}
	if variant.edits.kinds&kindDonor != 0 {
		means, err := floatsOf(rest[0])
		if err != nil {
			return err
		}
		m.takeMeans(l, u.conds, means)
	}
	if u.rows != nil {
		return m.keepHidden(l, u)
	}
	return nil
}

// takeAsked copies head outputs and plane norms to the host, where asked for, and returns the other results.
func (m *Model) takeAsked(u *unit, variant blockVariant, rest []*tensors.Tensor) ([]*tensors.Tensor, error) {
	if variant.heads {
		z, err := floatsOf(rest[0])
		if err != nil {
			return nil, err
		}
		width := m.cfg.heads * m.cfg.headDim
		var rows []float32
		for _, r := range u.heads {
			rows = append(rows, z[r*width:(r+1)*width]...)
		}
		u.headed, rest = append(u.headed, rows), rest[1:]
	}
	if variant.norms {
		q, err := floatsOf(rest[0])
		if err != nil {
			return nil, err
		}
		k, err := floatsOf(rest[1])
		if err != nil {
			return nil, err
		}
		width := m.cfg.planes() + 1
		u.normed, rest = append(u.normed, PlaneNorms{q[:m.cfg.heads*width], k[:m.cfg.kv*width]}), rest[2:]
	}
	return rest, nil
}

// lengths are the sequences' lengths, [B].
func (u *unit) lengths() []int32 {
	out := make([]int32, u.b())
	for i, ids := range u.ids {
		out[i] = int32(len(ids))
	}
	return out
}

// readObserve reads what observe returned.
func readObserve(out []*tensors.Tensor) (p probeOutput, err error) {
	for i, to := range map[int]*[]int32{0: &p.argmax, 2: &p.far} {
		if *to, err = intsOf(out[i]); err != nil {
			return p, err
		}
	}
	for i, to := range map[int]*[]float32{1: &p.gap, 3: &p.mass, 4: &p.direct, 5: &p.from} {
		if *to, err = floatsOf(out[i]); err != nil {
			return p, err
		}
	}
	return p, nil
}

// keepHidden copies the residual at the unit's rows after layer l to the host.
func (m *Model) keepHidden(l int, u *unit) error {
	prog, err := m.program("gather_rows", func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{graph.ConvertDType(gatherRows(in[0], in[1]), dtypes.Float32)}
	})
	if err != nil {
		return err
	}
	idx, err := m.be.ints(u.rows, u.b(), 1)
	if err != nil {
		return err
	}
	defer free(idx)
	out, err := call(prog, u.x, idx)
	if err != nil {
		return err
	}
	defer free(out...)
	u.hidden[l], err = floatsOf(out[0])
	return err
}
