package decoder

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
)

func TestBuckets(t *testing.T) {
	for n, want := range map[int]int{
		1: 128, 127: 128, 128: 128, 129: 256, 1023: 1024, 1024: 1024, 1025: 1152, 1152: 1152, 1153: 1280, 2048: 2048, 2049: 2304,
		4096: 4096, 4097: 4608, 8191: 8192, 32768: 32768, 32769: 36864,
	} {
		if got := LengthBucket(n); got != want {
			t.Errorf("LengthBucket(%d): got %d, want %d", n, got, want)
		}
	}
	distinct := map[int]bool{}
	for n := 1; n <= 1<<17; n++ {
		b := LengthBucket(n)
		distinct[b] = true
		if b < n || n > 1024 && 8*(b-n) >= n+7 {
			t.Fatalf("LengthBucket(%d) = %d", n, b)
		}
		if LengthBucket(b) != b {
			t.Fatalf("LengthBucket(%d) = %d is no bucket itself", n, b)
		}
	}
	if want := 8 + 7*8; len(distinct) != want {
		t.Errorf("buckets up to 131072: got %d, want %d", len(distinct), want)
	}
	for n, want := range map[int]int{1: 1, 2: 8, 8: 8, 9: 24, 24: 24, 25: 32, 32: 32, 33: 48, 49: 64, 64: 64} {
		if got := rowBucket(n); got != want {
			t.Errorf("rowBucket(%d): got %d, want %d", n, got, want)
		}
	}
	for n, want := range map[int]int{1: 1, 2: 2, 4: 4, 5: 6, 9: 10, 16: 16, 17: 24, 64: 64} {
		if got := scoreBucket(n); got != want {
			t.Errorf("scoreBucket(%d): got %d, want %d", n, got, want)
		}
	}
	for n, want := range map[int]int{0: 32, 32: 32, 33: 64, 100: 128} {
		if got := tailBucket(n); got != want {
			t.Errorf("tailBucket(%d): got %d, want %d", n, got, want)
		}
	}
	for _, c := range [][3]int{{1, 16, 1}, {3, 16, 4}, {16, 16, 16}, {17, 16, 16}} {
		if got := powerOfTwo(c[0], c[1]); got != c[2] {
			t.Errorf("powerOfTwo(%d, %d): got %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// within holds the largest difference relative to the largest value under the bound between program shapes.
func within(t *testing.T, m *Model, what string, got, want []float32) float64 {
	t.Helper()
	d, scale := largest(got, want)
	rel := d / scale / float64(m.Spec.Layers)
	if !(rel <= shapeBound) {
		t.Errorf("%s: largest difference %.2e of a scale of %.3g, %.1e a layer, want at most %.1e", what, d, scale, rel, shapeBound)
	}
	return rel
}

// TestBoundBetweenShapes: another bucket, another batch size, or rows over a kept cache change a number by no more than the bound
// that FragileGap rests on, and no argmax that is clear of it.
func TestBoundBetweenShapes(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		worst := map[string]float64{}
		compare := func(kind string, got, want outcome) {
			for _, name := range []string{"residual", "logits"} {
				worst[kind] = max(worst[kind], within(t, m, kind+": "+name, got[name], want[name]))
			}
			v := m.Spec.Vocab
			for at := 0; at < len(want["logits"]); at += v {
				a, b := summarise(got["logits"][at:at+v]), summarise(want["logits"][at:at+v])
				if b.gap > m.FragileGap(b.scale) && a.argmax != b.argmax {
					t.Errorf("%s: row %d: argmax got %d, want %d with a lead of %g", kind, at/v, a.argmax, b.argmax, b.gap)
				}
			}
		}
		for i := range 3 {
			s := newSequence(uint64(70+i), 48+20*i, edits(t, "scale=0.5:L0H1@question", "temperature=1.5:L1H3")...)
			four := prefill(t, m, 128, probeNone, []sequence{s, s, s, s})[0]
			compare("batch 1 for 4", prefill(t, m, 128, probeNone, []sequence{s})[0], four)
			compare("bucket 256 for 128", prefill(t, m, 256, probeNone, []sequence{s})[0], four)
			// The last eight rows over the cache of the others, alone and as one of eight.
			n := len(s.ids)
			tail := outcome{"residual": four["residual"][(n-8)*m.Spec.Hidden:], "logits": four["logits"][7*m.Spec.Vocab:]}
			u := walked(t, m, 128, probeNone, []sequence{s, s, s, s})
			for kind, b := range map[string]int{"8 rows": 4, "8 rows, batch 1": 1} {
				r := rowsRun{caches: []cacheRow{{u, 0}}, from: repeated(int32(n-8), b), length: repeated(n, b), edits: repeated(s.edits, b), steps: [][][]int32{repeated(s.ids[n-8:], b)}}
				got := r.run(t, m)[0]
				got["logits"] = got["logits"][7*m.Spec.Vocab:]
				compare(kind+" for prefill", got, tail)
			}
			r := rowsRun{caches: repeated(cacheRow{u, 0}, 8), from: repeated(int32(n-3), 8), length: repeated(n, 8), edits: repeated(s.edits, 8)}
			for _, id := range s.ids[n-3:] {
				r.steps = append(r.steps, repeated([]int32{id}, 8))
			}
			got := r.run(t, m)[0]
			got["logits"] = got["logits"][2*m.Spec.Vocab:]
			compare("decoding for prefill", got, outcome{"residual": tail["residual"][5*m.Spec.Hidden:], "logits": tail["logits"]})
		}
		for kind, w := range worst {
			t.Logf("%-24s largest difference %.1e of the scale a layer (bound %.0e)", kind, w, shapeBound)
		}
	})
}

// TestFragileGap pins the two formulas.
func TestFragileGap(t *testing.T) {
	for name, want := range map[string]float64{"float32": 10 * 2e-6 * 3 * 7, "bfloat16": 7. / 256 * math.Sqrt(3) / 4} {
		if got := model(t, backend(t, "go"), name).FragileGap(7); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: got %g, want %g", name, got, want)
		}
	}
}

// TestIdentityLaw: identity inputs against the same programs built without edit inputs.
func TestIdentityLaw(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		for _, name := range dtypesOn(be) {
			seqs := []sequence{newSequence(80, 60), newSequence(81, 90), newSequence(82, 128), newSequence(83, 5)}
			t.Run(name, func(t *testing.T) { identityLaw(t, model(t, be, name), 128, seqs) })
		}
	})
}

// identityLaw holds the walk of the sequences, and one layer of the row program over the first one's cache.
func identityLaw(t *testing.T, m *Model, bucket int, seqs []sequence) {
	t.Helper()
	cfg := m.cfg
	cfg.plain = true
	u := walked(t, m, bucket, probeNone, seqs)
	identical(t, m, "prefill", read(t, u.x), plainWalk(t, m, exec(t, m, cfg.prefillBlock(blockVariant{})), u))
	identical(t, m, "rows", rowLayer(t, m, &m.cfg, u), rowLayer(t, m, &cfg, u))
}

// identical wants equal bits on the Go backend; XLA fuses the gains into their neighbours and may round elsewhere.
func identical(t *testing.T, m *Model, what string, got, want []float32) {
	t.Helper()
	d, scale := largest(got, want)
	if len(want) == 0 || scale == 0 {
		t.Fatalf("%s: nothing to compare", what)
	}
	if m.be.Kind == KindGo {
		sameBits(t, what, outcome{"residual": got}, outcome{"residual": want})
		return
	}
	t.Logf("%s: identity inputs against none: largest difference %.1e of a scale of %.3g", what, d, scale)
	bound := shapeBound * float64(m.Spec.Layers) * scale
	if m.DType() == "bfloat16" {
		bound = m.FragileGap(scale)
	}
	if !(d <= bound) {
		t.Errorf("%s: largest difference %g, want at most %g", what, d, bound)
	}
}

// plainWalk walks u's sequences through a block without edit inputs.
func plainWalk(t *testing.T, m *Model, block *graph.Exec, u *unit) []float32 {
	t.Helper()
	x, err := m.embedRows(u.ids, u.t)
	if err != nil {
		t.Fatal(err)
	}
	for l := range m.Spec.Layers {
		table, err := m.positionsOf(l, u.t, u.pass, nil)
		if err != nil {
			t.Fatal(err)
		}
		window, err := m.windowOf(l)
		if err != nil {
			t.Fatal(err)
		}
		w, err := m.weights.acquire(l)
		if err != nil {
			t.Fatal(err)
		}
		out, err := call(block, append([]any{x, table.cos, table.sin, window}, w...)...)
		m.weights.release(l)
		if err != nil {
			t.Fatal(err)
		}
		free(x, out[1], out[2])
		x = out[0]
	}
	defer free(x)
	return read(t, x)
}

// rowLayer runs cfg's row program for the first layer over u's cache and returns all that it computes.
func rowLayer(t *testing.T, m *Model, cfg *blockConfig, u *unit) []float32 {
	t.Helper()
	const b = 8
	at := int32(len(u.ids[0]))
	kv, err := m.stack(repeated(cacheRow{u, 0}, b))
	if err != nil {
		t.Fatal(err)
	}
	defer kv.free()
	run, err := m.newCacheRun(kv, repeated(at, b), make([]*condition, b), 32)
	if err != nil {
		t.Fatal(err)
	}
	defer run.free()
	for i := range b {
		run.tailPos[i*run.capacity] = at
	}
	in, err := run.upload(repeated(at, b), answerRow, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer in.free()
	x, err := m.embedRows(repeated(tokens(84, 1), b), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer free(x)
	table, err := m.positionsOf(0, run.tp+run.capacity, run.pass, nil)
	if err != nil {
		t.Fatal(err)
	}
	window, err := m.windowOf(0)
	if err != nil {
		t.Fatal(err)
	}
	args := []any{
		x, in.pos, in.branch, table.cos, table.sin, window, kv.kv[0].k, kv.kv[0].v, in.promptLen,
		run.empty.k, run.empty.v, in.tailPos, in.tailBranch, in.slot,
	}
	if !cfg.plain {
		args = append(args, run.edits[0].args(nil)...)
	}
	w, err := m.weights.acquire(0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.weights.release(0)
	out, err := call(exec(t, m, cfg.rowBlock(editVariant{})), append(args, w...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer free(out...)
	return slices.Concat(read(t, out[0]), read(t, out[1]), read(t, out[2]))
}

// exec is a program of the test's own.
func exec(t *testing.T, m *Model, build func([]*graph.Node) []*graph.Node) *graph.Exec {
	t.Helper()
	e, err := graph.NewExec(m.be.Backend, build)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Finalize)
	return e
}

func TestConditionBatch(t *testing.T) {
	want := map[int]int{1: 1, 2: 2, 3: 4, 4: 4, 5: 4, 6: 8, 8: 8, 9: 8, 11: 8, 12: 16, 16: 16, 17: 16, 40: 16}
	for n, b := range want {
		if got := conditionBatch(n, maxConditions); got != b {
			t.Errorf("%d conditions: batch %d, want %d", n, got, b)
		}
	}
}
