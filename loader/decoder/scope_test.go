package decoder

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader/loadertest"
)

// scopeRows spells out which rows a scope means, apart from the code under test.
func scopeRows(s Scope, p *Prompt) func(row int) bool {
	t := len(p.IDs)
	switch s {
	case ScopeAll:
		return func(int) bool { return true }
	case ScopeHaystack:
		return func(row int) bool { return row < p.Question }
	case ScopeQuestion:
		return func(row int) bool { return row >= p.Question }
	case ScopeAnswer:
		return func(row int) bool { return row >= t-1 }
	case ScopeLast:
		return func(row int) bool { return row == t-1 }
	}
	panic(s)
}

// gainsOf turns edits into the gains of the float64 reference. Planes are the 8 of a head of 16 dims whose default ladder slows
// down with the number, so that slow4 is planes 6 and 7, fast4 planes 0 and 1.
func gainsOf(es []Edit, p *Prompt) loadertest.Gains {
	planesOf := func(e Edit) []int {
		switch e.Band {
		case "slow4":
			return []int{6, 7}
		case "fast4":
			return []int{0, 1}
		}
		return e.Planes
	}
	on := func(e Edit, layer, head, row int) bool {
		return slices.Contains(e.Heads, Head{layer, head}) && scopeRows(e.Scope, p)(row)
	}
	return loadertest.Gains{
		Head: func(layer, head, row int) float64 {
			g := 1.0
			for _, e := range es {
				if on(e, layer, head, row) {
					switch e.Op {
					case OpZero:
						g = 0
					case OpScale:
						g *= e.Value
					}
				}
			}
			return g
		},
		Q: func(layer, head, plane, row int) float64 {
			g := 1.0
			for _, e := range es {
				if on(e, layer, head, row) {
					switch {
					case e.Op == OpUniform:
						g = 0
					case e.Op == OpTemperature:
						g /= e.Value
					case e.Op == OpLengthScale:
						g *= max(0, 1+e.Value*math.Log(max(1, float64(row+1)/float64(e.Length))))
					case e.Op == OpZeroPlanes && slices.Contains(planesOf(e), plane):
						g = 0
					case e.Op == OpScalePlanes && slices.Contains(planesOf(e), plane):
						g *= e.Value
					}
				}
			}
			return g
		},
	}
}

// opForms are one edit of every operation, without the scope.
var opForms = []string{
	"zero:L1H2", "scale=-1.5:L0H3,L1H0", "uniform:L1H1,L2H2", "zero_planes:L0H1,L2H0:slow4", "scale_planes=2.5:L1H3:0+3+6",
	"temperature=0.4:L0H0,L2H3",
}

var scopes = []Scope{ScopeAll, ScopeHaystack, ScopeQuestion, ScopeAnswer, ScopeLast}

// scopePrompts are of unequal length and in different buckets, with answers of unequal length.
func scopePrompts() []*Prompt {
	return []*Prompt{
		{IDs: tokens(100, 60), Question: 44, Answer: tokens(101, 4)},
		{IDs: tokens(102, 37), Question: 36, Answer: tokens(103, 1)},
		{IDs: tokens(104, 131), Question: 61, Answer: tokens(105, 5)}, // 75 rows from the question on: two pieces of the row program
	}
}

// The long prompt is costly: it is asked under every fourth condition, which meets every scope and every operation. XLA, which
// compiles shapes for each prompt alone, has all but the first among the slow tests.
const longPrompt, longStride = 2, 4

// scopeConditions are the unmodified model, every operation under every scope, and conditions of several scopes. The short form has
// every other pair, in which each operation meets two scopes or three and each scope three operations.
func scopeConditions(t *testing.T) []Condition {
	conds := []Condition{{}}
	for i, form := range opForms {
		for k, s := range scopes {
			if slow() || (i+k)%2 == 0 {
				conds = append(conds, Condition{Edits: edits(t, form+"@"+string(s))})
			}
		}
	}
	// Two edits of different scopes on different heads, and on one head at its two sites.
	return append(conds,
		Condition{Edits: edits(t, "zero:L1H2@answer", "uniform:L0H3@question")},
		Condition{Edits: edits(t, "scale=2:L2H1@last", "zero_planes:L2H1:fast4@haystack", "zero:L0H0@question")},
	)
}

// TestScopeLaw: under every operation and scope, Ask (which takes the kept cache where it can) says what the dense forward with
// per-row gains says, in float64 and in Trace.
func TestScopeLaw(t *testing.T) {
	const tolerance = 1e-4
	conds := scopeConditions(t)
	prompts := scopePrompts()
	ref := reference(t, ckpt(t, "float32"))
	want := make([][][][]float64, len(prompts)) // [prompt][condition][row][vocab]
	for i, p := range prompts {
		for k, c := range conds {
			if i == longPrompt && k%longStride != 1 {
				want[i] = append(want[i], nil)
				continue
			}
			tr, err := ref.Forward(slices.Concat(p.IDs, p.Answer), gainsOf(c.Edits, p))
			if err != nil {
				t.Fatal(err)
			}
			want[i] = append(want[i], tr.Logits[len(p.IDs)-1:])
		}
	}
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		before := m.Work().CacheLayerRows
		short := prompts[:longPrompt]
		if be.Kind != KindGo && !slow() {
			short = prompts[:1]
		}
		replies := ask(t, m, short, conds, AskOptions{Batch: smallBatch(be)})
		if be.Kind == KindGo || slow() {
			replies = append(replies, askSome(t, m, prompts[longPrompt], conds))
		}
		if m.Work().CacheLayerRows == before {
			t.Error("no rows over a kept cache")
		}
		worst := 0.0
		for i, p := range prompts[:len(replies)] {
			for k, c := range conds {
				if want[i][k] == nil {
					continue
				}
				r := replies[i][k]
				name := fmt.Sprintf("prompt %d, %v", i, c.Edits)
				if len(r.Argmax) != len(p.Answer)+1 || len(r.Gap) != len(p.Answer)+1 || len(r.LogProb) != len(p.Answer) {
					t.Fatalf("%s: got %d log-probabilities and %d rows for an answer of %d", name, len(r.LogProb), len(r.Argmax), len(p.Answer))
				}
				rows := rowRange(len(p.IDs)-1, len(p.IDs)+len(p.Answer))
				dense := trace(t, m, p, c.Edits, TraceOptions{Logits: rows, Hidden: -1})
				for j := range rows {
					s := summarise(want[i][k][j])
					d := math.Abs(float64(r.Gap[j]) - s.gap)
					if j < len(p.Answer) {
						d = max(d, math.Abs(r.LogProb[j]-s.logProb[p.Answer[j]]))
						d = max(d, math.Abs(r.LogProb[j]-summarise(dense.Logits[j]).logProb[p.Answer[j]]))
					}
					asFloat64 := make([]float64, len(dense.Logits[j]))
					for v, x := range dense.Logits[j] {
						asFloat64[v] = float64(x)
					}
					whole, _ := largest(asFloat64, want[i][k][j])
					worst = max(worst, d, whole)
					if !(d <= tolerance) || !(whole <= tolerance) {
						t.Errorf("%s: row %d: Ask off by %.1e, Trace by %.1e, want at most %g", name, j, d, whole, tolerance)
					}
					if s.gap > tolerance && r.Argmax[j] != s.argmax {
						t.Errorf("%s: row %d: argmax got %d, want %d", name, j, r.Argmax[j], s.argmax)
					}
				}
				if k > 0 && i != longPrompt {
					changed(t, name, want[i][k], want[i][0])
				}
			}
		}
		t.Logf("%d prompts x %d conditions, largest difference %.1e", len(replies), len(conds), worst)
	})
}

// askSome asks the long prompt under its conditions.
func askSome(t *testing.T, m *Model, p *Prompt, conds []Condition) []*Reply {
	t.Helper()
	var some []Condition
	for k := 1; k < len(conds); k += longStride {
		some = append(some, conds[k])
	}
	out := make([]*Reply, len(conds))
	for k, r := range ask(t, m, []*Prompt{p}, some, AskOptions{Batch: 1})[0] {
		out[1+longStride*k] = r
	}
	return out
}

// changed checks that the condition moves the answer rows at all, in the reference.
func changed(t *testing.T, name string, edited, plain [][]float64) {
	t.Helper()
	worst := 0.0
	for j := range plain {
		d, _ := largest(edited[j], plain[j])
		worst = max(worst, d)
	}
	if !(worst > 1e-3) {
		t.Errorf("%s: moves the logits by %.1e only", name, worst)
	}
}

// TestConditionsDoNotMix: several conditions at once say what each says alone, in any order.
func TestConditionsDoNotMix(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		prompts := scopePrompts()[:2]
		conds := []Condition{
			{}, {Edits: edits(t, "zero:L1H2@question")}, {Edits: edits(t, "zero:L2H1@all")}, {Edits: edits(t, "uniform:L0H0@answer")},
			{Edits: edits(t, "temperature=2:L1H1@haystack", "zero:L0H2@question")}, {Edits: edits(t, "scale=2:L2H2@question")},
		}
		o := AskOptions{Batch: smallBatch(be)}
		all := ask(t, m, prompts, conds, o)
		order := []int{5, 2, 0, 4, 3, 1}
		var shuffled []Condition
		for _, k := range order {
			shuffled = append(shuffled, conds[k])
		}
		for i := range prompts {
			mixed := ask(t, m, prompts, shuffled, o)
			for at, k := range order {
				sameReply(t, fmt.Sprintf("prompt %d, condition %d in another order", i, k), mixed[i][at], all[i][k])
			}
		}
		for k, c := range conds {
			alone := ask(t, m, prompts, []Condition{c}, o)
			for i := range prompts {
				what := fmt.Sprintf("prompt %d, condition %d alone", i, k)
				if cached := k == 1 || k == 3 || k == 5; !cached {
					sameReply(t, what, alone[i][0], all[i][k])
					continue
				}
				// Conditions over one cache are batch rows of one program: another number of them is another shape.
				bound := shapeBound * float64(m.Spec.Layers) * 20
				for j := range all[i][k].LogProb {
					if d := math.Abs(alone[i][0].LogProb[j] - all[i][k].LogProb[j]); d > bound {
						t.Errorf("%s: log-probability %d off by %.1e", what, j, d)
					}
				}
			}
		}
		// As many conditions over the cache, edited from the same layer on: the same shapes, the same bits.
		same := ask(t, m, prompts, []Condition{{Edits: edits(t, "zero:L1H1@question")}, conds[1]}, o)
		again := ask(t, m, prompts, []Condition{conds[1], conds[5]}, o)
		for i := range prompts {
			sameReply(t, fmt.Sprintf("prompt %d, other mates over the cache", i), same[i][1], again[i][0])
		}
	})
}

func sameReply(t *testing.T, what string, got, want *Reply) {
	t.Helper()
	same := slices.EqualFunc(got.LogProb, want.LogProb, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) &&
		slices.Equal(got.Argmax, want.Argmax) && slices.Equal(got.Gap, want.Gap) && slices.Equal(got.Greedy, want.Greedy) &&
		slices.Equal(got.GreedyGap, want.GreedyGap) && got.Fragile == want.Fragile && got.Verified == want.Verified
	if !same || len(want.LogProb) == 0 {
		t.Errorf("%s: got %+v, want %+v", what, *got, *want)
	}
}
