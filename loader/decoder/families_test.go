package decoder

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/rope"
)

// familyLaws hold for every family and variant. Their prompts are longer than the variants' windows, and so are questions and answers.
var familyLaws = map[string]func(t *testing.T, m *Model, name string){
	"bits of prefill":      familyPrefillBits,
	"bits of decoding":     familyDecodingBits,
	"bits of conditions":   familyConditionBits,
	"identity":             familyIdentity,
	"reference":            familyReference,
	"scopes":               familyScopes,
	"answers":              familyAnswers,
	"shift":                familyShift,
	"zero head is weights": familyZeroHead,
	"unrotated layers":     familyUnrotated,
	"probes":               familyProbes,
	"observation":          familyObservation,
}

// bitsOf are the variants on which the bits laws, the dearest, are held by default: every kind of norm, of head norm, of residual and of
// rotation is in one.
var bitsOf = []string{"Cohere/usual", "GPTNeoX/usual", "Gemma2/usual", "Llama/dynamic", "Olmo2/usual", "Qwen3/usual"}

// changesOf are the changes that meet the float64 reference by default: those that switch on what no usual configuration has.
var changesOf = []string{
	"Cohere/head_norms", "GPTNeoX/sequential", "Llama/dynamic", "Phi3/long", "Phi3/longrope", "StableLm/head_norms", "StableLm/parallel",
}

// lawHeld tells whether a law has its turn. Among the slow tests all variants meet all laws on the Go backend, and the usual ones on XLA. By
// default it is a choice, on XLA what compiles few programs; there harness/verify holds the families against transformers.
func lawHeld(be *Backend, v loadertest.Variant, law string) bool {
	switch bits := strings.HasPrefix(law, "bits "); {
	case be.Kind != KindGo && slow():
		return v.Usual
	case be.Kind != KindGo:
		return v.Name == "Gemma2/usual" && (law == "bits of prefill" || law == "reference")
	case slow():
		return true
	case bits:
		return slices.Contains(bitsOf, v.Name)
	case v.Usual:
		return true
	}
	return slices.Contains(changesOf, v.Name) && slices.Contains([]string{"reference", "scopes", "answers"}, law)
}

// TestFamilyLaws holds the laws on the variants of every family.
func TestFamilyLaws(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		held := 0
		for _, v := range loadertest.Variants() {
			for law, holds := range familyLaws {
				if lawHeld(be, v, law) {
					held++
					t.Run(v.Name+"/"+law, func(t *testing.T) { holds(t, model(t, be, v.Name), v.Name) })
				}
			}
		}
		families, all := len(loader.Architectures()), len(familyLaws)
		want := 2
		switch {
		case be.Kind != KindGo && slow():
			want = families * all
		case slow():
			want = len(loadertest.Variants()) * all
		case be.Kind == KindGo:
			want = families*(all-3) + 3*len(bitsOf) + 3*len(changesOf)
		}
		if held != want {
			t.Errorf("%d laws and variants held, want %d", held, want)
		}
	})
}

func familyPrefillBits(t *testing.T, m *Model, _ string) {
	sameShapeBits(t, m.be)
	bitsOfPrefill(t, m, probeStats, bitsPlan{
		bucket: 24, lengths: [5]int{13, 19, 9, 24, 16},
		edits: edits(t, "zero:L1H2@question", "temperature=2:L0H1", "zero_planes:L1H3:0@haystack"),
		other: edits(t, "uniform:L0H0,L1H2", "scale=-3:L0H3"),
	})
}

func familyDecodingBits(t *testing.T, m *Model, _ string) {
	sameShapeBits(t, m.be)
	bitsOfDecoding(t, m, 24, func(i int) int { return 12 + i })
}

func familyConditionBits(t *testing.T, m *Model, _ string) {
	sameShapeBits(t, m.be)
	bitsOfConditions(t, m, 32, 28, [][]Edit{
		nil, edits(t, "zero:L0H2,L1H0@question"), edits(t, "uniform:L0H3@question", "scale=2:L0H3@question"), edits(t, "zero_planes:L0H1,L1H1:0@question"),
	})
}

func familyIdentity(t *testing.T, m *Model, _ string) {
	var seqs []sequence
	for i, n := range []int{13, 24, 9, 20} {
		seqs = append(seqs, newSequence(uint64(80+i), n))
	}
	identityLaw(t, m, 24, seqs)
}

// familyPrompt has a question that with its answer is longer than a window of 8, and reaches into the text before it.
func familyPrompt() *Prompt {
	return &Prompt{IDs: tokens(700, 22), Question: 16, Answer: tokens(701, 4), Spans: [][2]int32{{0, 9}, {9, 22}}}
}

// Tolerances of testdata/parity/README.md, of logits, states, queries and keys, and of attention.
const (
	tolState     = 1e-4
	tolAttention = 1e-5
)

func familyReference(t *testing.T, m *Model, name string) {
	p, es := familyPrompt(), edits(t, "scale_planes=3:L1H2:0@question", "scale=-1.5:L0H1@haystack")
	exact := forwardEdited(t, name, p, es)
	n := len(p.IDs) + len(p.Answer)
	rows := []int{0, 11, n - 1}
	tr := trace(t, m, p, es, TraceOptions{Logits: rowRange(0, n), Attention: rows, Hidden: 19, QK: rowRange(0, m.Spec.Layers)})
	sameTrace(t, m, tr, exact, 19, tolState)
	for l, got := range tr.Attention {
		for h := range m.Spec.Heads {
			for i, r := range rows {
				row := got[(h*len(rows)+i)*n:][:n]
				for key, w := range row {
					want := 0.0
					if key <= r {
						want = exact.Attention[l][h][r][key]
					}
					if d := math.Abs(float64(w) - want); !(d <= tolAttention) {
						t.Fatalf("%v, row %d, key %d: weight %g, want %g", Head{l, h}, r, key, w, want)
					}
				}
			}
		}
	}
}

// forwardEdited runs the float64 reference over prompt and answer.
func forwardEdited(t *testing.T, name string, p *Prompt, es []Edit) *loadertest.Trace {
	t.Helper()
	tr, err := reference(t, ckpt(t, name)).Forward(slices.Concat(p.IDs, p.Answer), gainsOf(es, p))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// familyForms meet every scope; question and answer rows are computed over the kept cache.
var familyForms = []string{
	"", "zero:L0H2@question", "uniform:L1H1@question", "zero_planes:L0H1:0@answer", "scale=-1.5:L0H3@haystack", "temperature=0.4:L0H0,L1H3@last",
}

func familyConditions(t *testing.T) []Condition {
	t.Helper()
	var conds []Condition
	for _, f := range familyForms {
		c := Condition{}
		if f != "" {
			c.Edits = edits(t, f)
		}
		conds = append(conds, c)
	}
	return conds
}

func familyScopes(t *testing.T, m *Model, name string) {
	p, conds := familyPrompt(), familyConditions(t)
	before := m.Work().CacheLayerRows
	replies := ask(t, m, []*Prompt{p}, conds, AskOptions{Batch: 1})[0]
	if m.Work().CacheLayerRows == before {
		t.Error("no rows over a kept cache")
	}
	var plain [][]float64
	for k, c := range conds {
		want := forwardEdited(t, name, p, c.Edits).Logits[len(p.IDs)-1:]
		r := replies[k]
		for j, row := range want {
			s := summarise(row)
			d := math.Abs(float64(r.Gap[j]) - s.gap)
			if j < len(p.Answer) {
				d = max(d, math.Abs(r.LogProb[j]-s.logProb[p.Answer[j]]))
			}
			if !(d <= tolState) || s.gap > tolState && r.Argmax[j] != s.argmax {
				t.Errorf("%q, row %d: off by %.1e, argmax %d, want %d", familyForms[k], j, d, r.Argmax[j], s.argmax)
			}
		}
		if plain == nil {
			plain = want
			continue
		}
		changed(t, familyForms[k], want, plain)
	}
}

// familyAnswers holds greedy answers, of the plain model and over edited rows, against the reference. A key in the cache keeps a dynamic
// table's turn of the pass that made it.
func familyAnswers(t *testing.T, m *Model, name string) {
	p, conds := familyPrompt(), familyConditions(t)[:2]
	p.Answer = nil
	const maxNew = 10
	replies := ask(t, m, []*Prompt{p}, conds, AskOptions{Batch: 1, MaxNew: maxNew, DecodeBatch: 1})[0]
	ref := reference(t, ckpt(t, name))
	ref.Pass = func(row int) int { return max(row+1, len(p.IDs)) }
	for k, c := range conds {
		got := replies[k].Greedy
		if len(got) != maxNew {
			t.Fatalf("%q: %d tokens, want %d", familyForms[k], len(got), maxNew)
		}
		tr, err := ref.Forward(slices.Concat(p.IDs, got[:maxNew-1]), gainsOf(c.Edits, p))
		if err != nil {
			t.Fatal(err)
		}
		for j, row := range tr.Logits[len(p.IDs)-1:] {
			if s := summarise(row); s.gap > m.FragileGap(s.scale) && got[j] != s.argmax {
				t.Errorf("%q, token %d: got %d, want %d by %g", familyForms[k], j, got[j], s.argmax, s.gap)
			}
			if d := math.Abs(float64(replies[k].GreedyGap[j]) - summarise(row).gap); !(d <= tolState) && got[j] == summarise(row).argmax {
				t.Errorf("%q, token %d: gap off by %g", familyForms[k], j, d)
			}
		}
	}
}

func familyProbes(t *testing.T, m *Model, name string) {
	p, es := familyPrompt(), edits(t, "temperature=0.5:L1H2@question")
	a := ask(t, m, []*Prompt{p}, []Condition{{Edits: es, Probe: true}}, AskOptions{Batch: 1})[0][0].Attention
	exact := forwardEdited(t, name, p, es)
	for l := range a.Layers {
		for h := range a.Heads {
			for r := range a.Rows {
				at, row := (l*a.Heads+h)*a.Rows+r, len(p.IDs)-1+r
				weights := exact.Attention[l][h][row]
				s := summarise(weights)
				if s.gap > tolAttention && a.Argmax[at] != s.argmax || math.Abs(float64(a.Gap[at])-s.gap) > tolAttention {
					t.Errorf("%v, row %d: argmax %d by %g, want %d by %g", Head{l, h}, r, a.Argmax[at], a.Gap[at], s.argmax, s.gap)
				}
				write := exact.Write[l][row][h]
				if d := math.Abs(float64(a.Write[at]) - write); !(d <= tolState*max(1, write)) {
					t.Errorf("%v, row %d: write norm %g, want %g", Head{l, h}, r, a.Write[at], write)
				}
				for i, span := range p.Spans {
					mass := 0.0
					for _, w := range weights[span[0]:span[1]] {
						mass += w
					}
					if d := math.Abs(float64(a.Mass[at*a.Spans+i]) - mass); !(d <= tolAttention) {
						t.Errorf("%v, row %d, span %d: mass %g, want %g", Head{l, h}, r, i, a.Mass[at*a.Spans+i], mass)
					}
				}
			}
		}
	}
}

// familyShift scores the queries and keys of a prompt at their positions and at later ones. The angles are float64, so that what float32 loses
// at larger ones does not count.
func familyShift(t *testing.T, m *Model, name string) {
	const rows, shift = 24, 37
	exact := forwardEdited(t, name, &Prompt{IDs: tokens(702, rows)}, nil)
	planes := m.cfg.planes()
	for l := range m.Spec.Layers {
		table, err := RopeTable(m.Spec, l, rows+shift)
		if err != nil {
			t.Fatal(err)
		}
		still := scoresAt(t, m, exact, l, slices.Repeat([]float32{1}, rows*planes), make([]float32, rows*planes))
		if table == nil {
			continue // familyUnrotated
		}
		at := func(from int) []float32 {
			var cos, sin []float32
			for p := range rows {
				cos, sin = table.AppendCosSin(cos, sin, from+p, rope.Float64Angles)
			}
			return scoresAt(t, m, exact, l, cos, sin)
		}
		here := at(0)
		if d, scale := largest(at(shift), here); !(d <= 1e-5*max(1, scale)) {
			t.Errorf("layer %d: scores of up to %g change by %g", l, scale, d)
		}
		if d, _ := largest(still, here); d < 1e-3 {
			t.Errorf("layer %d: without rotation scores change by %g only", l, d)
		}
	}
}

// scoresAt are the scores of a layer's queries and keys, all rows and heads, under given cosines and sines [T, planes].
func scoresAt(t *testing.T, m *Model, exact *loadertest.Trace, l int, cos, sin []float32) []float32 {
	t.Helper()
	n := len(exact.QPre[l][0])
	upload := func(data []float32, dims ...int) any {
		x, err := m.be.floats(data, dtypes.Float32, dims...)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	heads := func(x [][][]float64) any { // [H, T, D]
		var flat []float32
		for _, rows := range x {
			for _, v := range slices.Concat(rows...) {
				flat = append(flat, float32(v))
			}
		}
		return upload(flat, 1, len(x), n, m.cfg.headDim)
	}
	args := []any{heads(exact.QPre[l]), heads(exact.KPre[l]), upload(cos, 1, 1, n, m.cfg.planes()), upload(sin, 1, 1, n, m.cfg.planes())}
	out, err := call(exec(t, m, func(in []*graph.Node) []*graph.Node {
		q, k := m.cfg.rotate(in[0], in[2], in[3]), m.cfg.rotate(in[1], in[2], in[3])
		return []*graph.Node{m.cfg.scores(m.cfg.groupHeads(graph.TransposeAllDims(q, 0, 2, 1, 3)), k)}
	}), args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range args {
		free(x.(*tensors.Tensor))
	}
	defer free(out...)
	return read(t, out[0])
}

// familyZeroHead: a head without output is the checkpoint with zeros in its columns of the output projection.
func familyZeroHead(t *testing.T, m *Model, name string) {
	const layer, head, bucket = 0, 2, 24
	c, d := ckpt(t, name), m.cfg.headDim
	zeroed := rewritten(t, c, map[string]func(int, int) float32{
		m.Spec.Params.Layer(layer).O.Views[0].Tensor: func(_, column int) float32 {
			if column/d == head {
				return 0
			}
			return 1
		},
	})
	s := newSequence(703, 22)
	plain := prefill(t, m, bucket, probeNone, []sequence{s})[0]
	want := prefill(t, sibling(t, m, zeroed, Options{}), bucket, probeNone, []sequence{s})[0]
	s.edits = edits(t, fmt.Sprintf("zero:L%dH%d", layer, head))
	got := prefill(t, m, bucket, probeNone, []sequence{s})[0]
	for _, array := range []string{"residual", "logits"} {
		if d, scale := largest(got[array], want[array]); !(d <= 1e-5*max(1, scale)) {
			t.Errorf("%s: edit and weights disagree by %g", array, d)
		}
		if d, _ := largest(got[array], plain[array]); d < 1e-3 {
			t.Errorf("%s: the head changes it by %g only", array, d)
		}
	}
}

// familyUnrotated: where a layer does not rotate, queries and keys come through as they are, and there are no slow planes to edit.
func familyUnrotated(t *testing.T, m *Model, _ string) {
	var still []int
	for l := range m.Spec.Layers {
		if m.Spec.Unrotated(l) {
			still = append(still, l)
		}
		_, err := m.geo.resolve(edits(t, fmt.Sprintf("zero_planes:L%dH0:slow2", l)), 22, 0)
		if refused := err != nil && strings.Contains(err.Error(), "none of its 1 heads is in a layer that rotates"); refused != m.Spec.Unrotated(l) {
			t.Errorf("layer %d: unrotated %t: slow planes refused %t (%v)", l, m.Spec.Unrotated(l), refused, err)
		}
	}
	if still == nil {
		return
	}
	var list []string
	for l := range m.Spec.Layers {
		list = append(list, fmt.Sprintf("L%dH0", l))
	}
	for _, form := range []string{"zero_planes:%s:slow2", "freeze:%s:slow2", "swap=theta50:%s"} {
		es := edits(t, fmt.Sprintf(form, strings.Join(list, ",")))
		c, err := m.geo.resolve(es, 22, 0)
		if err != nil || len(c.layers) != m.Spec.Layers-len(still) || len(SkippedHeads(m.Spec, es)) != len(still) {
			t.Errorf("%s: %v; the layers that do not rotate are to be left out", form, err)
		}
	}
	tr := trace(t, m, &Prompt{IDs: tokens(704, 22)}, nil, TraceOptions{Hidden: -1, QK: still})
	for _, l := range still {
		if qk := tr.QK[l]; !slices.Equal(qk.QPre, qk.QRot) || !slices.Equal(qk.KPre, qk.KRot) {
			t.Errorf("layer %d: queries or keys turn", l)
		}
	}
}
