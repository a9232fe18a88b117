package loadertest_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/safetensors"
)

var tokens = []int32{7, 19, 3, 42, 7, 19, 55, 0, 63, 11}

func reference(t *testing.T, c *loader.Checkpoint) *loadertest.Reference {
	t.Helper()
	r, err := loadertest.NewReference(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func forward(t *testing.T, c *loader.Checkpoint, ids []int32, g loadertest.Gains) *loadertest.Trace {
	t.Helper()
	tr, err := reference(t, c).Forward(ids, g)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func largest(a, b [][]float64) float64 {
	worst := 0.0
	for i := range a {
		for j := range a[i] {
			worst = math.Max(worst, math.Abs(a[i][j]-b[i][j]))
		}
	}
	return worst
}

// Every option has to change the numbers, or a test that varies it tests nothing.
func TestOptionsMatter(t *testing.T) {
	plain := forward(t, loadertest.Open(t, loadertest.Options{}), tokens, loadertest.Gains{}).Logits
	for name, o := range map[string]loadertest.Options{
		"seed": {Seed: 1}, "gqa": {KVHeads: 2}, "attention bias": {AttentionBias: true}, "mlp bias": {MLPBias: true}, "tied": {Tied: true},
		"theta": {Theta: 500}, "llama3": {Llama3: true}, "layers": {Layers: 3}, "head dim": {HeadDim: 8}, "bfloat16": {BFloat16: true},
	} {
		c := loadertest.Open(t, o)
		if d := largest(plain, forward(t, c, tokens, loadertest.Gains{}).Logits); d < 1e-3 {
			t.Errorf("%s: largest change of the logits is %.1e", name, d)
		}
		if want := map[bool]string{false: "float32", true: "bfloat16"}[o.BFloat16]; c.Spec.DType != want {
			t.Errorf("%s: got dtype %s, want %s", name, c.Spec.DType, want)
		}
	}
}

func TestWriteIsReproducible(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		if err := loadertest.Write(dir, loadertest.Options{Llama3: true, Seed: 5}); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"config.json", "model.safetensors"} {
		x, errX := os.ReadFile(filepath.Join(a, file))
		y, errY := os.ReadFile(filepath.Join(b, file))
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			t.Errorf("%s: two writes differ (%v, %v)", file, errX, errY)
		}
	}
}

func TestIdentityGains(t *testing.T) {
	c := loadertest.Open(t, loadertest.Options{KVHeads: 2})
	one := func(_, _, _ int) float64 { return 1 }
	a := forward(t, c, tokens, loadertest.Gains{})
	b := forward(t, c, tokens, loadertest.Gains{Head: one, Q: func(_, _, _, _ int) float64 { return 1 }})
	if d := largest(a.Logits, b.Logits); d != 0 {
		t.Errorf("gains of 1 change the logits by %g", d)
	}
}

// A query plane of gain 0 in every head of a layer is the model whose query projection has zeros in those rows.
func TestZeroPlaneEqualsZeroWeights(t *testing.T) {
	const layer, plane = 0, 5
	o := loadertest.Options{KVHeads: 2, Seed: 4}
	c := loadertest.Open(t, o)
	s := c.Spec
	edited := forward(t, c, tokens, loadertest.Gains{Q: func(l, _, p, _ int) float64 {
		if l == layer && p == plane {
			return 0
		}
		return 1
	}})
	zeroed := rewrite(t, o, s.Params.Layer(layer).Q.Views[0].Tensor, func(row, _ int) bool { return row%(s.HeadDim/2) == plane })
	if d := largest(edited.Logits, forward(t, zeroed, tokens, loadertest.Gains{}).Logits); d > 1e-12 {
		t.Errorf("gain and weights disagree by %g", d)
	}
}

// Rows below the first edited one keep their bits, and no row sees a later one.
func TestCausal(t *testing.T) {
	c := loadertest.Open(t, loadertest.Options{Llama3: true})
	whole := forward(t, c, tokens, loadertest.Gains{})
	part := forward(t, c, tokens[:6], loadertest.Gains{})
	if d := largest(part.Logits, whole.Logits[:6]); d != 0 {
		t.Errorf("later tokens change earlier logits by %g", d)
	}
	late := forward(t, c, tokens, loadertest.Gains{Head: func(_, _, row int) float64 {
		if row >= 6 {
			return 0
		}
		return 1
	}})
	if d := largest(late.Logits[:6], whole.Logits[:6]); d != 0 {
		t.Errorf("an edit from row 6 changes earlier logits by %g", d)
	}
	if d := largest(late.Logits[6:], whole.Logits[6:]); d < 1e-3 {
		t.Errorf("an edit from row 6 changes later logits by %g only", d)
	}
}

// With no query left, attention is the mean of the visible values.
func TestZeroQueryIsUniform(t *testing.T) {
	c := loadertest.Open(t, loadertest.Options{})
	tr := forward(t, c, tokens, loadertest.Gains{Q: func(_, _, _, _ int) float64 { return 0 }})
	for row, p := range tr.Attention[1][3] {
		for key, got := range p {
			if want := 1 / float64(row+1); math.Abs(got-want) > 1e-15 {
				t.Fatalf("row %d: key %d: got %v, want %v", row, key, got, want)
			}
		}
	}
}

func TestForwardRefusesBadTokens(t *testing.T) {
	r := reference(t, loadertest.Open(t, loadertest.Options{}))
	for _, ids := range [][]int32{{}, {-1}, {64}} {
		if _, err := r.Forward(ids, loadertest.Gains{}); err == nil {
			t.Errorf("%v: accepted", ids)
		}
	}
}

// rewrite writes the checkpoint of o with the chosen elements of one matrix at zero and opens it.
func rewrite(t *testing.T, o loadertest.Options, name string, zero func(row, column int) bool) *loader.Checkpoint {
	t.Helper()
	src := loadertest.Open(t, o)
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(src.Dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	var entries []safetensors.Entry
	for _, n := range src.Weights.Names() {
		info, _ := src.Weights.Info(n)
		view, err := src.Weights.Bytes(n)
		if err != nil {
			t.Fatal(err)
		}
		data := slices.Clone(view)
		for i := range info.Elements() {
			if n == name && zero(i/info.Shape[1], i%info.Shape[1]) {
				clear(data[4*i : 4*i+4])
			}
		}
		entries = append(entries, safetensors.Entry{Name: n, DType: info.DType, Shape: info.Shape, Write: safetensors.Bytes(data)})
	}
	if err := safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), entries, nil); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

func open(t *testing.T, dir string) *loader.Checkpoint {
	t.Helper()
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
