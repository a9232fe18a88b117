package decoder

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

// positionTable holds cosines and sines of all positions, [P, planes]; float32 where the family rotates in it, else the model's dtype.
type positionTable struct {
	cos, sin *tensors.Tensor
	used     uint64
}

// positionKey says which: of a rotary table of the Spec, for P positions of a pass.
type positionKey struct {
	table, positions, pass int
	head                   string // of headTable: the alteration for single heads
}

// mostTables bounds what is kept on the device where every length has a table of its own.
const mostTables = 64

// passOf stands for all lengths of a pass, in tokens, that have the same rotary tables as n: what is computed together has one.
func passOf(s *loader.Spec, n int) int {
	pass := s.MaxPositions
	for _, t := range s.Tables {
		switch beyond := t.VariesBeyond(); {
		case beyond == 0:
		case n <= beyond:
			pass = min(pass, beyond)
		case t.Type == "dynamic":
			return n
		default:
			pass = max(pass, beyond+1)
		}
	}
	return pass
}

// switchLength is the longest pass with the table of all shorter ones where longer passes have another one for all their positions and
// the family's cache does not go on; 0 = there is none.
func switchLength(s *loader.Spec) int {
	for _, t := range s.Tables {
		if s.Recompute && t.Type == "longrope" {
			return t.VariesBeyond()
		}
	}
	return 0
}

// ropeTable is the table of layer l in passes of a length; nil where the layer does not rotate.
func ropeTable(s *loader.Spec, l, pass int) (*rope.Table, error) {
	if s.Unrotated(l) {
		return nil, nil
	}
	return rope.New(s.Tables[s.Kinds[l].Table], s.HeadDim, pass)
}

// RopeTable is the rotary table of layer l in a pass over so many tokens; nil where the layer does not rotate.
func RopeTable(s *loader.Spec, l, tokens int) (*rope.Table, error) {
	return ropeTable(s, l, passOf(s, tokens))
}

// positionsOf returns layer l's tables of positions 0..p-1 for passes of a length; head is nil, or alters them for single heads.
func (m *Model) positionsOf(l, p, pass int, head *headTable) (*positionTable, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := positionKey{table: m.Spec.Kinds[l].Table, positions: p, pass: pass}
	if head != nil {
		key.head = head.key
	}
	m.turns++
	if t := m.tables[key]; t != nil {
		t.used = m.turns
		return t, nil
	}
	cos, sin, err := m.turnsOf(l, p, pass, head)
	if err != nil {
		return nil, err
	}
	dtype := m.cfg.dtype
	if m.Spec.RotateFloat {
		if m.Spec.RoundTurns && dtype == dtypes.BFloat16 {
			for i := range cos {
				cos[i], sin[i] = roundBFloat16(cos[i]), roundBFloat16(sin[i])
			}
		}
		dtype = dtypes.Float32
	}
	ct, err := m.be.floats(cos, dtype, p, m.cfg.planes())
	if err != nil {
		return nil, err
	}
	st, err := m.be.floats(sin, dtype, p, m.cfg.planes())
	if err != nil {
		free(ct)
		return nil, err
	}
	if len(m.tables) >= mostTables {
		m.dropTable()
	}
	t := &positionTable{ct, st, m.turns}
	m.tables[key] = t
	return t, nil
}

// dropTable frees the tables that were used longest ago.
func (m *Model) dropTable() {
	oldest := slices.MinFunc(slices.Collect(maps.Keys(m.tables)), func(a, b positionKey) int {
		return cmp.Compare(m.tables[a].used, m.tables[b].used)
	})
	free(m.tables[oldest].cos, m.tables[oldest].sin)
	delete(m.tables, oldest)
}

// turnsOf computes cosines and sines. A layer without rotation has the angle 0 everywhere. Where tables vary with the length,
// positions that come after a pass, one by one, each have the table of their own pass.
func (m *Model) turnsOf(l, p, pass int, head *headTable) (cos, sin []float32, err error) {
	tableFor := func(pass int) (*rope.Table, error) {
		base, err := ropeTable(m.Spec, l, pass)
		if err != nil {
			return nil, err
		}
		return head.apply(base)
	}
	t, err := tableFor(pass)
	if err != nil {
		return nil, nil, err
	}
	if t == nil {
		cos, sin = make([]float32, p*m.cfg.planes()), make([]float32, p*m.cfg.planes())
		for i := range cos {
			cos[i] = 1
		}
		return cos, sin, nil
	}
	varies := m.Spec.Tables[m.Spec.Kinds[l].Table].VariesBeyond() > 0
	for at := range p {
		if varies && at >= pass {
			if t, err = tableFor(at + 1); err != nil {
				return nil, nil, err
			}
		}
		cos, sin = t.AppendCosSin(cos, sin, at, m.angles)
	}
	return cos, sin, nil
}

// windowOf is the window input of layer l.
func (m *Model) windowOf(l int) (*tensors.Tensor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.Spec.Kinds[l].Window
	if w := m.windows[n]; w != nil {
		return w, nil
	}
	width := int32(Forever)
	if n > 0 {
		width = int32(n)
	}
	w, err := m.be.ints([]int32{width})
	if err != nil {
		return nil, err
	}
	m.windows[n] = w
	return w, nil
}
