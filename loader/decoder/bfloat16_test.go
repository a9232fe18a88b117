package decoder

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader/safetensors"
)

// TestBFloat16Logits: in bfloat16 the logits are as near to the float32 ones as transformers' own.
func TestBFloat16Logits(t *testing.T) {
	const most = 1.2 // times transformers' error: two correct computations differ in it, see the folder's README
	g := openCasts(t)
	onBackends(t, func(t *testing.T, be *Backend) {
		worst := 0.0
		names := g.castCases(be)
		if len(names) < len(g.Cases) {
			names = []string{"cohere", "gemma3_text", "olmo2"}
		}
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				m, _ := parityModel(t, be, name, "bfloat16")
				sum, n := 0.0, 0
				for i, p := range paritySequences(t, name) {
					got, want := allLogits(t, m, p.IDs), parityLogits(t, name, i)
					for k := range want {
						d := float64(got[k] - want[k])
						sum, n = sum+d*d, n+1
					}
				}
				ratio := math.Sqrt(sum/float64(n)) / g.Cases[name].RMS["eager"]
				worst = max(worst, ratio)
				t.Logf("%d logits, error %.2f of transformers'", n, ratio)
				if !(ratio <= most) {
					t.Errorf("error %.2f of transformers', want at most %g", ratio, most)
				}
			})
		}
		t.Logf("largest error %.2f of transformers'", worst)
	})
}

// allLogits are those of every row of a prompt, flat; on the Go backend, which has no need of few shapes, without padding.
func allLogits(t *testing.T, m *Model, ids []int32) []float32 {
	t.Helper()
	u := &unit{ids: [][]int32{ids}, t: 40, pass: passOf(m.Spec, len(ids)), stop: m.Spec.Layers, conds: []*condition{nil}}
	if m.be.Kind == KindGo {
		u.t = len(ids)
	}
	defer u.free()
	if err := m.walk(t.Context(), []*unit{u}); err != nil {
		t.Fatal(err)
	}
	idx := make([]int32, u.t)
	for i := range ids {
		idx[i] = int32(i)
	}
	logits, err := m.logitRows(u.x, [][]int32{idx})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(logits[0][:len(ids)]...)
}

const parityDir = "../testdata/parity"

// paritySequence is a prompt of a golden folder and transformers' continuation with the cache.
type paritySequence struct {
	IDs    []int32 `json:"ids"`
	Greedy []int32 `json:"greedy"`
}

func paritySequences(t *testing.T, name string) []paritySequence {
	t.Helper()
	var g struct{ Sequences []paritySequence }
	text, err := os.ReadFile(filepath.Join(parityDir, name, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Sequences) != 3 {
		t.Fatalf("%s: %d sequences, want 3", name, len(g.Sequences))
	}
	return g.Sequences
}

func parityLogits(t *testing.T, name string, sequence int) []float32 {
	t.Helper()
	arrays, err := safetensors.OpenFile(filepath.Join(parityDir, name, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Close()
	array := fmt.Sprintf("seq%d.logits", sequence)
	info, ok := arrays.Info(array)
	if !ok {
		t.Fatalf("%s: no %s", name, array)
	}
	raw, err := arrays.Bytes(array)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, info.Elements())
	if err := safetensors.DecodeFloat32(out, raw, info.DType); err != nil {
		t.Fatal(err)
	}
	return out
}
