package decoder

import (
	"fmt"

	"github.com/headscope/headscope/loader/rope"
)

// headTable is the rotary table of one head: the layer's own, altered.
type headTable struct {
	swap   *rope.Rule
	exact  []float64 // frequencies, in place of a rule
	frozen []int     // planes of frequency 0
	key    string    // equal for equal alterations
}

// apply alters a layer's table; nil for a head that turns by the layer's own, or a layer that does not rotate, changes nothing.
func (h *headTable) apply(base *rope.Table) (*rope.Table, error) {
	if h == nil || base == nil {
		return base, nil
	}
	out := &rope.Table{InvFreq: append([]float64(nil), base.InvFreq...), Scale: base.Scale, RotaryDim: base.RotaryDim}
	switch {
	case h.exact != nil:
		if len(h.exact) != base.Planes() {
			return nil, fmt.Errorf("table of %d frequencies: the model rotates %d planes", len(h.exact), base.Planes())
		}
		copy(out.InvFreq, h.exact)
	case h.swap != nil:
		var err error
		if out, err = h.swap.Apply(base); err != nil {
			return nil, err
		}
	}
	for _, p := range h.frozen {
		out.InvFreq[p] = 0
	}
	return out, nil
}
