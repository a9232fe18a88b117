package verify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headscope/headscope/harness/verify"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/safetensors"
)

const tree = "../../loader/testdata/parity"

// goldenDirs are the folders of this tree and those that HEADSCOPE_GOLDEN names.
func goldenDirs(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(tree, "*", "golden.json"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no golden folders: %v", err)
	}
	for _, d := range filepath.SplitList(os.Getenv("HEADSCOPE_GOLDEN")) {
		more, _ := filepath.Glob(filepath.Join(d, "*", "golden.json"))
		dirs = append(dirs, more...)
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

// onGo and onXLA are the folders of this tree that have their turn by default. On the Go backend they have every form of block between them; on XLA,
// which compiles each folder's shapes anew, one that has windows, two tables and norms around the sublayers, and one with parallel branches.
// Tables that vary with the length, and bfloat16, are held against the same values in loader/decoder.
var (
	onGo = []string{
		"cohere", "gemma2", "gemma3_text", "glm4", "gpt_neox", "granite", "llama_yarn", "olmo", "olmo2", "phi3", "smollm3", "stablelm_parallel",
	}
	onXLA = []string{"gemma3_text", "gpt_neox"}
)

// TestParity recomputes golden folders as the command does: by default a part of those in the tree, all among the slow tests, and those that
// HEADSCOPE_GOLDEN names.
func TestParity(t *testing.T) {
	for device, byDefault := range map[string][]string{"go": onGo, "cpu": onXLA} {
		t.Run(device, func(t *testing.T) {
			be, err := decoder.OpenBackend(decoder.BackendOptions{Device: device})
			if err != nil {
				t.Skipf("NOT RUN on %s: %v", device, err)
			}
			defer be.Finalize()
			inTree, all := 0, 0
			for _, dir := range goldenDirs(t) {
				name := filepath.Base(dir)
				if filepath.Dir(dir) == tree {
					all++
					if !slow() && !slices.Contains(byDefault, name) {
						continue
					}
					inTree++
				}
				t.Run(name, func(t *testing.T) { reproduces(t, be, dir) })
			}
			want := len(byDefault)
			if slow() {
				want = all
			}
			if inTree != want {
				t.Errorf("%d folders of %s, want %d", inTree, tree, want)
			}
		})
	}
}

func reproduces(t *testing.T, be *decoder.Backend, dir string) {
	r, err := verify.Dir(context.Background(), be, dir, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + b.String())
	if !r.OK {
		t.Error("differs from the golden values")
	}
	want := stored(t, dir)
	var compared []string
	for _, l := range r.Lines {
		if l.Skipped != "" {
			t.Errorf("%s: skipped: %s", l.Name, l.Skipped)
		}
		compared = append(compared, l.Name)
	}
	slices.Sort(want)
	slices.Sort(compared)
	if d := cmp.Diff(want, compared); d != "" {
		t.Errorf("quantities, - stored, + compared:\n%s", d)
	}
}

// stored lists what a folder holds to compare, told from its files alone.
func stored(t *testing.T, dir string) (quantities []string) {
	t.Helper()
	var g struct {
		Layers    []struct{ Rope *string }
		Sequences []struct {
			Rope    map[string]any
			NoCache []int `json:"greedy_no_cache"`
		}
		Interventions []struct{ Name string }
	}
	text, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	for i, s := range g.Sequences {
		name := fmt.Sprintf("seq%d.", i)
		quantities = append(quantities, name+"attn_argmax", name+"greedy")
		for key := range s.Rope {
			quantities = append(quantities, name+"rope."+key+".inv_freq")
		}
		for l, layer := range g.Layers {
			if layer.Rope == nil {
				quantities = append(quantities, fmt.Sprintf("%slayer%d.unrotated", name, l))
			}
		}
		if s.NoCache != nil {
			quantities = append(quantities, name+"greedy_no_cache")
		}
	}
	for _, iv := range g.Interventions {
		quantities = append(quantities, "iv."+iv.Name+".greedy")
	}
	arrays, err := safetensors.OpenFile(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer arrays.Close()
	for _, array := range arrays.Names() {
		// With the cache the gaps of the logits are compared, which are what decoding returns.
		quantities = append(quantities, strings.Replace(array, ".greedy_logits", ".greedy_gaps", 1))
	}
	return quantities
}
