package decoder

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/headscope/headscope/loader/rope"
)

// TableRule makes one rotary table from another: what a swap names.
type TableRule struct {
	kind  string
	value float64
}

// tableRules are the kinds of TableRule and what their number is.
var tableRules = []struct{ kind, about string }{
	{"theta", "base of the ladder theta^(-2i/d)"},
	{"moebius", "N of pi(2i+1)/N"},
	{"times", "factor on the checkpoint's own frequencies"},
	{"nope", ""},
}

// ParseTable reads the name of a table: "theta500000" (another base), "moebius64" (pi(2i+1)/64), "times0.5" (the checkpoint's own
// frequencies times 0.5) or "nope" (nothing turns).
func ParseTable(name string) (TableRule, error) {
	for _, r := range tableRules {
		digits, ok := strings.CutPrefix(name, r.kind)
		if !ok {
			continue
		}
		if r.about == "" {
			if digits == "" {
				return TableRule{kind: r.kind}, nil
			}
			continue
		}
		v, err := strconv.ParseFloat(digits, 64)
		if err != nil || !(v > 0) || math.IsInf(v, 0) {
			return TableRule{}, fmt.Errorf("table %q: want a finite number above 0 behind %s: %s", name, r.kind, r.about)
		}
		return TableRule{r.kind, v}, nil
	}
	return TableRule{}, fmt.Errorf("table %q: want thetaB, moebiusN, timesF or nope, e.g. theta10000", name)
}

// Apply returns a table of base's size; its factor on cosine and sine stays.
func (r TableRule) Apply(base *rope.Table) *rope.Table {
	out := &rope.Table{InvFreq: make([]float64, base.Planes()), Scale: base.Scale, RotaryDim: base.RotaryDim}
	for i := range out.InvFreq {
		switch r.kind {
		case "theta":
			out.InvFreq[i] = math.Pow(r.value, -2*float64(i)/float64(base.RotaryDim))
		case "moebius":
			out.InvFreq[i] = math.Pi * float64(2*i+1) / r.value
		case "times":
			out.InvFreq[i] = base.InvFreq[i] * r.value
		}
	}
	return out
}

// headTable is the rotary table of one head: the layer's own, altered.
type headTable struct {
	swap   *TableRule
	exact  []float64 // frequencies, in place of a rule
	frozen []int     // planes of frequency 0
	key    string    // equal for equal alterations
}

func (h *headTable) apply(base *rope.Table) (*rope.Table, error) {
	out := &rope.Table{InvFreq: append([]float64(nil), base.InvFreq...), Scale: base.Scale, RotaryDim: base.RotaryDim}
	switch {
	case h.exact != nil:
		if len(h.exact) != base.Planes() {
			return nil, fmt.Errorf("table of %d frequencies: the model rotates %d planes", len(h.exact), base.Planes())
		}
		copy(out.InvFreq, h.exact)
	case h.swap != nil:
		out = h.swap.Apply(base)
	}
	for _, p := range h.frozen {
		out.InvFreq[p] = 0
	}
	return out, nil
}
