package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/safetensors"
)

// Tolerances of loader/testdata/parity/README.md.
const (
	tolState     = 1e-4
	tolAttention = 1e-5
)

// golden is what a folder of loader/testdata/parity says.
type golden struct {
	Shape struct {
		Layers, Heads, Hidden, Vocab int
		KVHeads                      int `json:"kv_heads"`
		HeadDim                      int `json:"head_dim"`
	}
	Sequences []struct {
		IDs []int32 `json:"ids"`
	}
	Interventions []struct {
		Name, Kind, Rows string
		Heads            [][2]int
		Planes           []int
	}

	dir    string
	arrays *safetensors.Store
}

// quickGolden are the folders of loader/testdata/parity that a test without HEADSCOPE_SLOW=1 takes: they differ in what these verbs show.
var quickGolden = []string{"cohere", "gemma3_text", "gpt_neox", "llama_gqa_llama3rope", "olmo2", "phi3"}

// eachGolden runs fn on folders of loader/testdata/parity and on those below the folders that HEADSCOPE_GOLDEN lists.
func eachGolden(t *testing.T, fn func(t *testing.T, g *golden)) {
	t.Helper()
	for _, root := range append([]string{goldenDir()}, filepath.SplitList(os.Getenv("HEADSCOPE_GOLDEN"))...) {
		found, err := filepath.Glob(filepath.Join(root, "*", "golden.json"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no golden folders: %v", root, err)
		}
		for _, f := range found {
			if root == goldenDir() && os.Getenv("HEADSCOPE_SLOW") != "1" && !slices.Contains(quickGolden, filepath.Base(filepath.Dir(f))) {
				continue
			}
			t.Run(filepath.Base(filepath.Dir(f)), func(t *testing.T) {
				g := &golden{dir: filepath.Dir(f)}
				c, err := loader.Open(g.dir)
				if err != nil && root != goldenDir() {
					t.Skipf("NOT RUN: %v", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				c.Close()
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(b, g); err != nil {
					t.Fatal(err)
				}
				if g.arrays, err = safetensors.Open(filepath.Join(g.dir, "golden.safetensors")); err != nil {
					t.Fatal(err)
				}
				defer g.arrays.Close()
				fn(t, g)
			})
		}
	}
}

func (g *golden) array(t *testing.T, format string, args ...any) []float32 {
	t.Helper()
	x, err := g.arrays.Float32s(fmt.Sprintf(format, args...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// command runs the command in this process and returns what it printed.
func command(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs, getenv: os.Getenv}
	if got := a.run(context.Background(), args); got != want {
		t.Fatalf("%v: exit code %d, want %d: %s", args, got, want, errs.String())
	}
	return out.String(), errs.String()
}

// ids writes token ids as the flag takes them.
func idList(ids []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
}

// dumped is a dump read back.
type dumped struct {
	*safetensors.Store
	t *testing.T
}

func dump(t *testing.T, dir string, args ...string) dumped {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.safetensors")
	command(t, exitDone, append([]string{"dump", dir, "--device", "go", "--out", path}, args...)...)
	s, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return dumped{s, t}
}

// floats returns an array and checks its shape.
func (d dumped) floats(name string, shape ...int) []float32 {
	d.t.Helper()
	info, ok := d.Info(name)
	if !ok || !slices.Equal(info.Shape, shape) {
		d.t.Fatalf("%s: got shape %v (there: %t), want %v", name, info.Shape, ok, shape)
	}
	x, err := d.Float32s(name, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return x
}

// near compares arrays of equal length.
func near[A, B float32 | float64](t *testing.T, name string, got []A, want []B, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d values, want %d", name, len(got), len(want))
		return
	}
	worst := 0.0
	for i := range got {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if !(d <= tol) {
			t.Errorf("%s: value %d: got %v, want %v within %g", name, i, got[i], want[i], tol)
			return
		}
		worst = max(worst, d)
	}
	t.Logf("%-22s %6d values, largest difference %.1e", name, len(got), worst)
}

// swapped turns [a, b, n] into [b, a, n].
func swapped(x []float32, a, b, n int) []float32 {
	out := make([]float32, 0, len(x))
	for j := range b {
		for i := range a {
			out = append(out, x[(i*b+j)*n:][:n]...)
		}
	}
	return out
}

// TestDumpGolden holds a dump against transformers' arrays.
func TestDumpGolden(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden) {
		s := g.Shape
		for i, seq := range g.Sequences {
			n := len(seq.IDs)
			d := dump(t, g.dir, "--ids", idList(seq.IDs), "--what", "all")
			near(t, "logits", d.floats("logits", n, s.Vocab), g.array(t, "seq%d.logits", i), tolState)
			var attention, residual []float32
			for l := range s.Layers {
				a := d.floats(fmt.Sprintf("layer%02d/attention", l), s.Heads, n, n)
				for h := range s.Heads {
					attention = append(attention, a[(h*n+n-1)*n:][:n]...)
				}
				residual = append(residual, d.floats(fmt.Sprintf("layer%02d/residual", l), n, s.Hidden)[(n-1)*s.Hidden:]...)
			}
			near(t, "attention", attention, g.array(t, "seq%d.attn_last", i), tolAttention)
			near(t, "residual", residual, g.array(t, "seq%d.hidden_last", i), tolState)
			for _, l := range []int{0, s.Layers - 1} {
				for ours, theirs := range map[string]string{"q": "q_pre", "q_rot": "q_rot", "k": "k_pre", "k_rot": "k_rot"} {
					heads := s.Heads
					if ours[0] == 'k' {
						heads = s.KVHeads
					}
					got := d.floats(fmt.Sprintf("layer%02d/%s", l, ours), n, heads, s.HeadDim)
					near(t, fmt.Sprintf("layer %d %s", l, ours), got, swapped(g.array(t, "seq%d.layer%d.%s", i, l, theirs), heads, n, s.HeadDim), tolState)
				}
			}
		}
	})
}

// TestDumpEdits holds the logits under edits against transformers', and the head outputs against what the edit says.
func TestDumpEdits(t *testing.T) {
	ran := 0
	eachGolden(t, func(t *testing.T, g *golden) {
		s, ids := g.Shape, g.Sequences[len(g.Sequences)-1].IDs
		for _, iv := range g.Interventions {
			op := map[string]string{"zero_heads": "zero", "uniform_heads": "uniform", "zero_q_planes": "zero_planes"}[iv.Kind]
			scope := map[string]string{"all": "all", "decode": "answer"}[iv.Rows]
			if op == "" || scope == "" {
				continue
			}
			ran++
			var heads []string
			for _, h := range iv.Heads {
				heads = append(heads, fmt.Sprintf("L%dH%d", h[0], h[1]))
			}
			edit := op + ":" + strings.Join(heads, ",")
			if op == "zero_planes" {
				edit += ":" + strings.Trim(strings.ReplaceAll(fmt.Sprint(iv.Planes), " ", "+"), "[]")
			}
			d := dump(t, g.dir, "--ids", idList(ids), "--what", "logits,z", "--rows", "-1", "--edit", edit+"@"+scope)
			near(t, edit, d.floats("logits", 1, s.Vocab), g.array(t, "iv.%s.logits", iv.Name), tolState)
			for _, h := range iv.Heads {
				z := d.floats(fmt.Sprintf("layer%02d/z", h[0]), 1, s.Heads, s.HeadDim)[h[1]*s.HeadDim:][:s.HeadDim]
				if zero := slices.Equal(z, make([]float32, len(z))); zero != (op == "zero") {
					t.Errorf("%s: z of L%dH%d is zero: %t", edit, h[0], h[1], zero)
				}
			}
		}
	})
	if ran < 6 {
		t.Errorf("%d interventions compared, want at least 6", ran)
	}
}

// TestDumpAgainstReference: z, v and the residual of every row and layer are those of the plain float64 forward pass, and the residual
// of a layer follows from z and the residual before it: x + z O^T, then + mlp(norm(x)).
func TestDumpAgainstReference(t *testing.T) {
	dir := t.TempDir()
	o := loadertest.Options{Layers: 3, KVHeads: 2, AttentionBias: true, MLPBias: true, Seed: 5}
	if err := loadertest.Write(dir, o); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ref, err := loadertest.NewReference(c)
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{5, 9, 2, 40, 41, 3, 3, 17, 60, 1, 0}
	zeroed := loadertest.Gains{Head: func(layer, head, row int) float64 {
		if layer == 1 && head == 2 {
			return 0
		}
		return 1
	}}
	for name, test := range map[string]struct {
		gains loadertest.Gains
		flags []string
	}{"plain": {}, "edited": {zeroed, []string{"--edit", "zero:L1H2"}}} {
		t.Run(name, func(t *testing.T) {
			tr, err := ref.Forward(ids, test.gains)
			if err != nil {
				t.Fatal(err)
			}
			s, n := &c.Spec, len(ids)
			d := dump(t, dir, append([]string{"--ids", idList(ids), "--what", "z,v,residual"}, test.flags...)...)
			before := tokenRows(t, c, ids)
			for l := range s.Layers {
				z := d.floats(fmt.Sprintf("layer%02d/z", l), n, s.Heads, s.HeadDim)
				near(t, fmt.Sprintf("layer %d z", l), z, slices.Concat(tr.HeadOut[l]...), tolState)
				v := d.floats(fmt.Sprintf("layer%02d/v", l), n, s.KVHeads, s.HeadDim)
				for row := range n {
					for h := range s.KVHeads {
						if got, want := v[(row*s.KVHeads+h)*s.HeadDim], tr.V[l][h][row][0]; math.Abs(float64(got)-want) > tolState {
							t.Errorf("layer %d v: row %d head %d: got %v, want %v", l, row, h, got, want)
						}
					}
				}
				x := d.floats(fmt.Sprintf("layer%02d/residual", l), n, s.Hidden)
				near(t, fmt.Sprintf("layer %d residual", l), x, slices.Concat(tr.Hidden[l]...), tolState)
				near(t, fmt.Sprintf("layer %d from z", l), x, layerOutput(t, c, l, before, z), tolState)
				before = x
			}
		})
	}
}

// tokenRows is the embedded text, [T, hidden].
func tokenRows(t *testing.T, c *loader.Checkpoint, ids []int32) []float32 {
	t.Helper()
	e := weight(t, c, c.Spec.Params.Embed)
	var out []float32
	for _, id := range ids {
		out = append(out, e[int(id)*c.Spec.Hidden:][:c.Spec.Hidden]...)
	}
	return out
}

func weight(t *testing.T, c *loader.Checkpoint, p loader.Param) []float32 {
	t.Helper()
	if !p.Has() {
		return nil
	}
	w, err := c.Float32s(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// layerOutput computes a layer's output from its input x [T, hidden] and its head outputs z [T, heads*headDim].
func layerOutput(t *testing.T, c *loader.Checkpoint, l int, x, z []float32) []float64 {
	t.Helper()
	s, n := &c.Spec, c.Spec.Params.Layer(l)
	w := func(p loader.Param) []float32 { return weight(t, c, p) }
	linear := func(x []float64, weight, bias []float32) []float64 {
		out := make([]float64, len(weight)/len(x))
		for o := range out {
			for i, v := range x {
				out[o] += float64(weight[o*len(x)+i]) * v
			}
			if bias != nil {
				out[o] += float64(bias[o])
			}
		}
		return out
	}
	var out []float64
	width := s.Heads * s.HeadDim
	for row := range len(x) / s.Hidden {
		mid := linear(wide(z[row*width:][:width]), w(n.O), w(n.OBias))
		square := 0.0
		for i := range mid {
			mid[i] += float64(x[row*s.Hidden+i])
			square += mid[i] * mid[i] / float64(s.Hidden)
		}
		norm := make([]float64, s.Hidden)
		for i, g := range w(n.PreMLP) {
			norm[i] = mid[i] / math.Sqrt(square+s.NormEps) * float64(g)
		}
		gate, up := linear(norm, w(n.Gate), w(n.GateBias)), linear(norm, w(n.Up), w(n.UpBias))
		for i, g := range gate {
			gate[i] = g / (1 + math.Exp(-g)) * up[i]
		}
		for i, y := range linear(gate, w(n.Down), w(n.DownBias)) {
			out = append(out, mid[i]+y)
		}
	}
	return out
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
