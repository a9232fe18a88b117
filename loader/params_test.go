package loader_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/safetensors"
)

// rowsOf are the bytes of rows [begin, end) of a stored tensor.
func rowsOf(t *testing.T, c *loader.Checkpoint, tensor string, begin, end int) []byte {
	t.Helper()
	info, ok := c.Weights.Info(tensor)
	if !ok {
		t.Fatalf("%s: no such tensor", tensor)
	}
	data, err := c.Weights.Bytes(tensor)
	if err != nil {
		t.Fatal(err)
	}
	width := len(data) / info.Shape[0]
	return data[begin*width : end*width]
}

func chunks(t *testing.T, c *loader.Checkpoint, p loader.Param) [][]byte {
	t.Helper()
	dtype, list, err := c.Chunks(p)
	if err != nil || dtype != safetensors.F32 {
		t.Fatalf("got dtype %s, %v", dtype, err)
	}
	return list
}

// Views give the rows that the family's fused tensors hold, in one slice where they are neighbours.
func TestChunks(t *testing.T) {
	phi := mustOpen(t, "testdata/parity/phi3") // 4 heads of 16 on 2, MLP of 64
	l := phi.Spec.Params.Layer(1)
	const qkv, gateUp = "model.layers.1.self_attn.qkv_proj.weight", "model.layers.1.mlp.gate_up_proj.weight"
	for name, tc := range map[string]struct {
		p          loader.Param
		tensor     string
		begin, end int
	}{"q": {l.Q, qkv, 0, 64}, "k": {l.K, qkv, 64, 96}, "v": {l.V, qkv, 96, 128}, "gate": {l.Gate, gateUp, 0, 64}, "up": {l.Up, gateUp, 64, 128}, "down": {l.Down, "model.layers.1.mlp.down_proj.weight", 0, 64}} {
		got := chunks(t, phi, tc.p)
		if len(got) != 1 || !bytes.Equal(got[0], rowsOf(t, phi, tc.tensor, tc.begin, tc.end)) {
			t.Errorf("phi3 %s: got %d chunks, or other rows than %d to %d", name, len(got), tc.begin, tc.end)
		}
	}

	neox := mustOpen(t, "testdata/parity/gpt_neox") // 4 heads of 16: q, k, v of head 0, of head 1, ...
	l = neox.Spec.Params.Layer(0)
	for part, params := range [][2]loader.Param{{l.Q, l.QBias}, {l.K, l.KBias}, {l.V, l.VBias}} {
		for i, kind := range []string{"weight", "bias"} {
			got := chunks(t, neox, params[i])
			if len(got) != 4 {
				t.Fatalf("gpt_neox part %d: got %d chunks, want one a head", part, len(got))
			}
			for h, chunk := range got {
				begin := (3*h + part) * 16
				if !bytes.Equal(chunk, rowsOf(t, neox, "gpt_neox.layers.0.attention.query_key_value."+kind, begin, begin+16)) {
					t.Errorf("gpt_neox part %d, head %d, %s: got other rows than those from %d on", part, h, kind, begin)
				}
			}
		}
	}

	lm := mustOpen(t, "testdata/parity/stablelm_parallel") // a norm tensor for each of 4 heads
	norm := lm.Spec.Params.Layer(2).KNorm
	flat, err := lm.Float32s(norm, nil)
	if err != nil || len(flat) != 4*16 {
		t.Fatalf("got %d elements (%v), want 64", len(flat), err)
	}
	third, err := lm.Weights.Float32s("model.layers.2.self_attn.k_layernorm.norms.3.weight", nil)
	if err != nil || !slices.Equal(flat[48:], third) {
		t.Errorf("stablelm: got %v for head 3, want %v (%v)", flat[48:], third, err)
	}
	if err := lm.Release(norm); err != nil {
		t.Error(err)
	}
	again, err := lm.Float32s(norm, make([]float32, 0, 64))
	if err != nil || !slices.Equal(again, flat) {
		t.Errorf("after release: got %v (%v), want %v", again, err, flat)
	}
}

// Whatever a view says, the parameters of a checkpoint have as many elements as its tensors.
func TestParamsCoverTheFile(t *testing.T) {
	for _, dir := range goldenFolders(t)[:cases] {
		c := mustOpen(t, dir)
		params := c.Spec.Params.Outer()
		for l := range c.Spec.Layers {
			layer := c.Spec.Params.Layer(l)
			params = append(params, layer.All()...)
		}
		var got, want int64
		for _, p := range params {
			got += p.Elements()
			if !p.Has() {
				continue
			}
			flat, err := c.Float32s(p, nil)
			if err != nil || int64(len(flat)) != p.Elements() {
				t.Errorf("%s: %v: got %d elements (%v), want %d", dir, p.Views[0], len(flat), err, p.Elements())
			}
		}
		for _, name := range c.Weights.Names() {
			info, _ := c.Weights.Info(name)
			want += int64(info.Elements())
		}
		if got != want {
			t.Errorf("%s: got parameters of %d elements, want the file's %d", dir, got, want)
		}
	}
}

func TestChunksRefuse(t *testing.T) {
	c := mustOpen(t, "testdata/parity/phi3")
	const qkv, norm = "model.layers.0.self_attn.qkv_proj.weight", "model.norm.weight"
	for name, tc := range map[string]struct {
		p        loader.Param
		contains string
	}{
		"no tensor":     {loader.Param{Shape: []int{1}, Views: []loader.View{{Tensor: "absent"}}}, "absent: got no such tensor"},
		"rows too many": {loader.Param{Shape: []int{2, 64}, Views: []loader.View{{Tensor: qkv, First: 127, Rows: 2, Times: 1}}}, "got 128 rows, want rows 127 to 128"},
		"no rows":       {loader.Param{Shape: []int{2, 64}, Views: []loader.View{{Tensor: qkv, First: 5, Times: 1}}}, "want rows 5 to 4"},
		"shape smaller": {loader.Param{Shape: []int{2}, Views: []loader.View{{Tensor: norm}}}, "got more elements than shape [2] has"},
		"shape larger":  {loader.Param{Shape: []int{65}, Views: []loader.View{{Tensor: norm}}}, "got 64 of the 65 elements"},
	} {
		if _, err := c.Float32s(tc.p, nil); err == nil || !strings.Contains(err.Error(), tc.contains) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tc.contains)
		}
	}
}

// caseFolder copies a golden case, its weights changed by edit.
func caseFolder(t *testing.T, name string, edit func([]safetensors.Entry) []safetensors.Entry) string {
	t.Helper()
	dir, from := t.TempDir(), filepath.Join("testdata/parity", name)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), read(t, from, "config.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	store, err := safetensors.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), edit(entriesOf(t, store)), nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFusedWeightsAreChecked(t *testing.T) {
	const qkv = "model.layers.0.self_attn.qkv_proj.weight"
	for name, tc := range map[string]struct {
		family   string
		edit     func([]safetensors.Entry) []safetensors.Entry
		contains string
	}{
		"rows short": {"phi3", replaced(zeros(qkv, safetensors.F32, 127, 64)), qkv + ": got shape [127 64], want [128 64]"},
		"columns":    {"phi3", replaced(zeros(qkv, safetensors.F32, 128, 63)), "got shape [128 63], want [128 64]"},
		"missing":    {"phi3", without(qkv), qkv + ": got no such tensor, want one of shape [128 64]"},
		"apart": {"phi3", func(e []safetensors.Entry) []safetensors.Entry {
			return append(e, zeros("model.layers.0.self_attn.q_proj.weight", safetensors.F32, 64, 64))
		}, "q_proj.weight: got a tensor that config.json does not account for"},
		"a head's norm": {"stablelm_parallel", without("model.layers.1.self_attn.q_layernorm.norms.2.weight"), "norms.2.weight: got no such tensor, want one of shape [16]"},
		"one head more": {"stablelm_parallel", func(e []safetensors.Entry) []safetensors.Entry {
			return append(e, zeros("model.layers.1.self_attn.q_layernorm.norms.4.weight", safetensors.F32, 16))
		}, "norms.4.weight: got a tensor that"},
		"neox rows": {"gpt_neox", replaced(zeros("gpt_neox.layers.1.attention.query_key_value.bias", safetensors.F32, 64)), "got shape [64], want [192]"},
		"olmo with a norm": {"olmo", func(e []safetensors.Entry) []safetensors.Entry {
			return append(e, zeros("model.norm.weight", safetensors.F32, 48))
		}, "model.norm.weight: got a tensor that"},
	} {
		if _, err := loader.Open(caseFolder(t, tc.family, tc.edit)); err == nil || !strings.Contains(err.Error(), tc.contains) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tc.contains)
		}
	}
	buffers := func(e []safetensors.Entry) []safetensors.Entry { // as in the published Pythia files
		return append(e, zeros("gpt_neox.layers.0.attention.bias", safetensors.BOOL, 1, 1, 8, 8), zeros("gpt_neox.layers.0.attention.masked_bias", safetensors.F32),
			zeros("gpt_neox.layers.0.attention.rotary_emb.inv_freq", safetensors.F32, 2))
	}
	mustOpen(t, caseFolder(t, "gpt_neox", buffers))
}
