package verify_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headscope/headscope/harness/verify"
	"github.com/headscope/headscope/loader/decoder"
)

// goldenDirs are the folders of this tree and those that HEADSCOPE_GOLDEN names.
func goldenDirs(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("../../loader/testdata/parity/*/golden.json")
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

// TestParity holds every golden folder on the Go backend. On XLA, which compiles each folder's shapes anew, the plainest one is left
// to the slow tests: the others have what it has, and grouped heads, scaled frequencies, bfloat16 or biases.
func TestParity(t *testing.T) {
	for _, device := range []string{"go", "cpu"} {
		t.Run(device, func(t *testing.T) {
			be, err := decoder.OpenBackend(decoder.BackendOptions{Device: device})
			if err != nil {
				t.Skipf("NOT RUN on %s: %v", device, err)
			}
			defer be.Finalize()
			for _, dir := range goldenDirs(t) {
				if name := filepath.Base(dir); slow() || device == "go" || name != "llama_mha" {
					t.Run(name, func(t *testing.T) { reproduces(t, be, dir) })
				}
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
}
