package decoder

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"
)

// sequence is one batch row of a whole-sequence run: its real tokens, what stands behind them in the padding, its edits.
type sequence struct {
	ids, junk []int32
	edits     []Edit
	rows      []int32 // probed and scored, 8 of them
}

// newSequence scores and probes eight rows, the last one among them.
func newSequence(stream uint64, n int, es ...Edit) sequence {
	s := sequence{ids: tokens(stream, n), edits: es}
	for i := range 8 {
		s.rows = append(s.rows, int32((i+1)*n/8-1))
	}
	return s
}

func (s sequence) withJunk(stream uint64, bucket int) sequence {
	s.junk = tokens(stream, bucket-len(s.ids))
	return s
}

// outcome holds everything that a run says of one batch row, padding left out.
type outcome map[string][]float32

// differences names what differs in its bits.
func (o outcome) differences(want outcome) string {
	var out []string
	for name, w := range want {
		g := o[name]
		n := 0
		for i := range w {
			if i >= len(g) || math.Float32bits(g[i]) != math.Float32bits(w[i]) {
				n++
			}
		}
		if n > 0 || len(g) != len(w) {
			d, _ := largest(g, w)
			out = append(out, fmt.Sprintf("%s: %d of %d values differ, largest %.1e", name, n, len(w), d))
		}
	}
	for name := range o {
		if _, ok := want[name]; !ok {
			out = append(out, name+": unexpected")
		}
	}
	sort.Strings(out)
	return strings.Join(out, "; ")
}

func sameBits(t *testing.T, what string, got, want outcome) {
	t.Helper()
	if len(want) == 0 {
		t.Fatalf("%s: nothing to compare", what)
	}
	if d := got.differences(want); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

// walked runs a batch of whole sequences; the unit is freed with the test.
func walked(t *testing.T, m *Model, bucket int, mode probeMode, batch []sequence) *unit {
	t.Helper()
	u := &unit{t: bucket, pass: passOf(m.Spec, bucket), stop: m.Spec.Layers, keepKV: true, readProbe: true}
	if mode != probeNone {
		u.probe = &probeInputs{mode: mode, p: 8, s: 2}
	}
	for _, s := range batch {
		c, err := m.geo.resolve(s.edits, len(s.ids), len(s.ids)/2)
		if err != nil {
			t.Fatal(err)
		}
		u.ids, u.conds = append(u.ids, slices.Concat(s.ids, s.junk)), append(u.conds, c)
		if u.probe == nil {
			continue
		}
		u.probe.rows = append(u.probe.rows, s.rows...)
		for range 8 {
			u.probe.spans = append(u.probe.spans, 0, int32(len(s.ids)/3), int32(len(s.ids)/3), int32(len(s.ids)))
		}
	}
	t.Cleanup(u.free)
	if err := m.walk(context.Background(), []*unit{u}); err != nil {
		t.Fatal(err)
	}
	return u
}

// prefill runs a batch of whole sequences and reads everything that it computed.
func prefill(t *testing.T, m *Model, bucket int, mode probeMode, batch []sequence) []outcome {
	t.Helper()
	u := walked(t, m, bucket, mode, batch)
	defer u.free()
	out := make([]outcome, len(batch))
	x := read(t, u.x)
	var idx [][]int32
	for i, s := range batch {
		w := m.Spec.Hidden
		out[i] = outcome{"residual": x[i*bucket*w:][:len(s.ids)*w]}
		idx = append(idx, s.rows)
	}
	readScoresInto(t, m, out, u, idx)
	for l, kv := range u.kv {
		k, v := read(t, kv.k), read(t, kv.v)
		n, d := m.cfg.kv*bucket*m.cfg.headDim, m.cfg.headDim
		for i, s := range batch {
			out[i][fmt.Sprintf("k%d", l)] = cutRows(k[i*n:(i+1)*n], bucket*d, len(s.ids)*d)
			out[i][fmt.Sprintf("v%d", l)] = cutRows(v[i*n:(i+1)*n], bucket*d, len(s.ids)*d)
		}
	}
	for l, p := range u.probed {
		n := m.cfg.heads * 8
		for i, s := range batch {
			switch mode {
			case probeStats:
				out[i][fmt.Sprintf("argmax%d", l)] = asFloats(p.argmax[i*n : (i+1)*n])
				out[i][fmt.Sprintf("gap%d", l)] = p.gap[i*n : (i+1)*n]
				out[i][fmt.Sprintf("mass%d", l)] = p.mass[2*i*n : 2*(i+1)*n]
			case probeRows:
				out[i][fmt.Sprintf("attention%d", l)] = cutRows(p.rows[i*n*bucket:(i+1)*n*bucket], bucket, len(s.ids))
			}
		}
	}
	return out
}

func readScoresInto(t *testing.T, m *Model, out []outcome, u *unit, idx [][]int32) {
	t.Helper()
	scores, err := m.scoreRows(u.x, idx, idx) // any targets do; row numbers are token ids too, up to the vocabulary
	if err != nil {
		t.Fatal(err)
	}
	logits, err := m.logitRows(u.x, idx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range out {
		for _, s := range scores[i] {
			out[i]["score"] = append(out[i]["score"], float32(s.logProb), float32(s.argmax), s.gap, s.scale)
		}
		out[i]["logits"] = append(out[i]["logits"], slices.Concat(logits[i]...)...)
	}
}

func asFloats(x []int32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// TestBitsOfPrefill: on one shape a sequence's numbers depend on nothing but the sequence.
func TestBitsOfPrefill(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		sameShapeBits(t, be)
		for _, name := range []string{"float32", "bfloat16"} {
			m := model(t, be, name)
			modes := []probeMode{probeStats}
			if slow() && name == "float32" {
				modes = []probeMode{probeNone, probeStats, probeRows}
			}
			for _, mode := range modes {
				t.Run(fmt.Sprintf("%s/probe%d", name, mode), func(t *testing.T) {
					bitsOfPrefill(t, m, mode, bitsPlan{
						bucket: 128, lengths: [5]int{50, 97, 33, 128, 61},
						edits: edits(t, "zero:L1H2@question", "temperature=2:L0H1", "zero_planes:L2H3:slow8@haystack"),
						other: edits(t, "uniform:L0H0,L1H2,L2H1", "scale=-3:L0H0"),
					})
				})
			}
		}
	})
}

// bitsPlan sizes the bits law: the lengths of four sequences and of a mate, and edits, the first one of a question.
type bitsPlan struct {
	bucket       int
	lengths      [5]int
	edits, other []Edit
}

func bitsOfPrefill(t *testing.T, m *Model, mode probeMode, p bitsPlan) {
	t.Helper()
	n, bucket := p.lengths, p.bucket
	a, b := newSequence(1, n[0]), newSequence(2, n[1], p.edits...)
	c, d := newSequence(3, n[2], p.edits[:1]...), newSequence(4, n[3])
	other := newSequence(5, n[4], p.other...)
	base := prefill(t, m, bucket, mode, []sequence{a, b, c, d})
	for i, got := range prefill(t, m, bucket, mode, []sequence{a, b, c, d}) {
		sameBits(t, fmt.Sprintf("rerun, sequence %d", i), got, base[i])
	}
	for i, got := range prefill(t, m, bucket, mode, []sequence{d, c, b, a}) {
		sameBits(t, fmt.Sprintf("other slot, sequence %d", 3-i), got, base[3-i])
	}
	for i, got := range prefill(t, m, bucket, mode, []sequence{b, b, b, b}) {
		sameBits(t, fmt.Sprintf("copies, slot %d", i), got, base[1])
	}
	mates := prefill(t, m, bucket, mode, []sequence{other, b, other.withJunk(9, bucket), c})
	sameBits(t, "other mates, sequence 1", mates[1], base[1])
	sameBits(t, "other mates, sequence 2", mates[3], base[2])
	junk := []sequence{a.withJunk(6, bucket), b.withJunk(7, bucket), c.withJunk(8, bucket), d.withJunk(10, bucket)}
	for i, got := range prefill(t, m, bucket, mode, junk) {
		sameBits(t, fmt.Sprintf("junk in the padding, sequence %d", i), got, base[i])
	}
	if d := base[1].differences(prefill(t, m, bucket, mode, []sequence{a, newSequence(2, n[1]), c, d})[1]); d == "" {
		t.Error("edits change nothing: the comparison is blind")
	}
}
