package decoder

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/safetensors"
)

const castDir = "../loadertest/testdata/bf16"

// castGolden is what transformers computes in bfloat16, of all cases.
type castGolden struct {
	Cases map[string]struct {
		IDs    []int32 `json:"ids"`
		Rows   []int32 `json:"rows"`
		Layers []int   `json:"rotation_layers"`
		RMS    map[string]float64
	}
	arrays *safetensors.File
}

func openCasts(t *testing.T) *castGolden {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(castDir, "bf16.json"))
	if err != nil {
		t.Fatal(err)
	}
	g := &castGolden{}
	if err := json.Unmarshal(text, g); err != nil {
		t.Fatal(err)
	}
	if g.arrays, err = safetensors.OpenFile(filepath.Join(castDir, "bf16.safetensors")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.arrays.Close() })
	return g
}

// castCase is one of them and the model that has to reproduce it.
type castCase struct {
	*castGolden
	name string
	rows []int32
	m    *Model
}

func (c castCase) has(array string) bool {
	_, ok := c.arrays.Info(c.name + "." + array)
	return ok
}

// bits are the stored bits of an array: 16 of each number, or 32.
func (c castCase) bits(t *testing.T, array string) ([]byte, safetensors.Info) {
	t.Helper()
	info, ok := c.arrays.Info(c.name + "." + array)
	if !ok {
		t.Fatalf("no golden array %s.%s", c.name, array)
	}
	raw, err := c.arrays.Bytes(c.name + "." + array)
	if err != nil {
		t.Fatal(err)
	}
	return raw, info
}

func (c castCase) tensor(t *testing.T, array string) *tensors.Tensor {
	t.Helper()
	raw, info := c.bits(t, array)
	dtype := map[safetensors.DType]dtypes.DType{safetensors.BF16: dtypes.BFloat16, safetensors.F32: dtypes.Float32}[info.DType]
	x, err := tensors.FromRaw(c.m.be.Backend, 0, shapes.Make(dtype, info.Shape...), raw)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// run computes all steps in one program.
func (c castCase) run(t *testing.T, steps []castStep) [][]float32 {
	t.Helper()
	index := map[string]int{}
	var args []any
	for _, s := range steps {
		for _, name := range s.in {
			if _, ok := index[name]; !ok {
				index[name] = len(args)
				args = append(args, c.tensor(t, name))
			}
		}
	}
	out, err := call(exec(t, c.m, func(all []*graph.Node) []*graph.Node {
		var out []*graph.Node
		for _, s := range steps {
			var in []*graph.Node
			for _, name := range s.in {
				in = append(in, all[index[name]])
			}
			out = append(out, s.build(in))
		}
		return out
	}), args...)
	if err != nil {
		t.Fatal(err)
	}
	var values [][]float32
	for _, x := range out {
		values = append(values, read(t, x))
	}
	free(out...)
	for _, x := range args {
		free(x.(*tensors.Tensor))
	}
	return values
}

// tolTurn is for the tables that stay float32. Frequencies that differ in their last bit turn by 1e-6 more or less within the prompt.
const tolTurn = 1e-6

// sameCast holds values to the bits of a golden array.
func (c castCase) sameCast(t *testing.T, what, array string, got []float32) {
	t.Helper()
	raw, info := c.bits(t, array)
	if len(got) != info.Elements() || len(got) == 0 {
		t.Fatalf("%s: got %d values, want %d", what, len(got), info.Elements())
	}
	wrong := 0
	for i, x := range got {
		var want float32
		if info.DType == safetensors.F32 {
			if want = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); math.Abs(float64(x-want)) <= tolTurn {
				continue
			}
		} else {
			want = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
		}
		if math.Float32bits(x) != math.Float32bits(want) {
			if wrong++; wrong == 1 {
				t.Errorf("%s: value %d: got %v, want %v", what, i, x, want)
			}
		}
	}
	if wrong > 1 {
		t.Errorf("%s: %d of %d values differ", what, wrong, len(got))
	}
}

// parityModel runs the checkpoint of a golden folder.
func parityModel(t *testing.T, be *Backend, name, dtype string) (*Model, *loader.Checkpoint) {
	t.Helper()
	c, err := loader.Open(filepath.Join(parityDir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	m, err := New(be, c, Options{DType: dtype})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, c
}

// castCases are the cases to compare. On XLA, which takes seconds to compile each, those have their turn by default that between them
// have every kind of norm, order of the residual and rotation, and all multipliers.
func (g *castGolden) castCases(be *Backend) []string {
	if be.Kind != KindGo && !slow() {
		return []string{"cohere", "gemma3_text", "gpt_neox", "granite", "olmo2", "qwen3", "stablelm_parallel"}
	}
	return slices.Sorted(maps.Keys(g.Cases))
}

// longest leaves out the steps of which a longer chain with the same result is held anyway.
func longest(steps []castStep) []castStep {
	most := map[string]castStep{}
	for _, s := range steps {
		if len(s.in) > len(most[s.want].in) {
			most[s.want] = s
		}
	}
	if most["pre_mlp.out"].want != "" && len(most["pre_mlp.out"].in) == len(most["mid"].in) {
		delete(most, "mid")
	}
	return slices.Collect(maps.Values(most))
}

// TestCastOrder: what stands between the matrix products gives, in bfloat16, the bits that transformers computes.
func TestCastOrder(t *testing.T) {
	g := openCasts(t)
	if len(g.Cases) != 27 {
		t.Errorf("%d cases, want 27", len(g.Cases))
	}
	onBackends(t, func(t *testing.T, be *Backend) {
		for _, name := range g.castCases(be) {
			t.Run(name, func(t *testing.T) {
				m, _ := parityModel(t, be, name, "bfloat16")
				m.cfg.turns = false // the steps' own matrices are [out, in]
				c := castCase{g, name, g.Cases[name].Rows, m}
				steps := c.steps()
				c.leavesNothingOut(t, steps)
				if be.Kind != KindGo && !slow() {
					steps = longest(steps)
				}
				for i, got := range c.run(t, steps) {
					s := steps[i]
					c.sameCast(t, s.want+" of "+strings.Join(s.in, ", "), s.want, got)
				}
				c.embedding(t)
				c.tables(t)
			})
		}
	})
}

// leavesNothingOut wants every array of the case in some step, but for the logits (TestBFloat16Logits) and what embedding and tables hold.
func (c castCase) leavesNothingOut(t *testing.T, steps []castStep) {
	t.Helper()
	used := map[string]bool{"x": true, "embed": true, "seq0.logits": true, "seq1.logits": true, "seq2.logits": true}
	for _, s := range steps {
		used[s.want] = true
		for _, name := range s.in {
			used[name] = true
		}
	}
	for _, array := range c.arrays.Names() {
		if name, ok := strings.CutPrefix(array, c.name+"."); ok && !used[name] {
			t.Errorf("%s: not compared", array)
		}
	}
}

// embedding holds rows of the embedding and the input of the first layer.
func (c castCase) embedding(t *testing.T) {
	t.Helper()
	ids := make([]int32, len(c.rows))
	for i, r := range c.rows {
		ids[i] = c.Cases[c.name].IDs[r]
	}
	x, err := c.m.embedRows([][]int32{ids}, len(ids))
	if err != nil {
		t.Fatal(err)
	}
	defer free(x)
	c.sameCast(t, "input", "x", read(t, x))
	all, err := c.m.weights.ckpt.Float32s(c.m.Spec.Params.Embed, nil)
	if err != nil {
		t.Fatal(err)
	}
	var rows []float32
	for _, id := range ids {
		for _, v := range all[int(id)*c.m.Spec.Hidden : (int(id)+1)*c.m.Spec.Hidden] {
			rows = append(rows, roundBFloat16(v))
		}
	}
	c.sameCast(t, "embedding", "embed", rows)
}

// tables holds cosines and sines.
func (c castCase) tables(t *testing.T) {
	t.Helper()
	n := len(c.Cases[c.name].IDs)
	for _, l := range c.Cases[c.name].Layers {
		table, err := c.m.positionsOf(l, n, passOf(c.m.Spec, n), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range map[string]*tensors.Tensor{"cos": table.cos, "sin": table.sin} {
			all, planes := read(t, x), c.m.cfg.planes()
			var got []float32
			for _, r := range c.rows {
				got = append(got, all[int(r)*planes:(int(r)+1)*planes]...)
			}
			c.sameCast(t, name, fmt.Sprintf("layer%d.%s", l, name), got)
		}
	}
}
