package safetensors

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	shard1 = "model-00001-of-00002.safetensors"
	shard2 = "model-00002-of-00002.safetensors"
)

// goldenTensor is one entry of testdata/*/tensors.json.
type goldenTensor struct {
	File   string
	Shape  []int
	SHA256 string
	First  float32
}

func TestOpenGolden(t *testing.T) {
	for _, c := range []struct {
		path, golden string
		files        []string
	}{
		{"testdata/single", "testdata/single", []string{"model.safetensors"}},
		{"testdata/single/model.safetensors", "testdata/single", []string{"model.safetensors"}},
		{"testdata/sharded", "testdata/sharded", []string{shard1, shard2}},
		{"testdata/sharded/model.safetensors.index.json", "testdata/sharded", []string{shard1, shard2}},
	} {
		t.Run(c.path, func(t *testing.T) {
			store, err := Open(c.path)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			raw, err := os.ReadFile(filepath.Join(c.golden, "tensors.json"))
			if err != nil {
				t.Fatal(err)
			}
			golden := map[string]goldenTensor{}
			if err := json.Unmarshal(raw, &golden); err != nil {
				t.Fatal(err)
			}
			if want := slices.Sorted(maps.Keys(golden)); !slices.Equal(store.Names(), want) {
				t.Fatalf("names: got %q, want %q", store.Names(), want)
			}
			var files []string
			for _, path := range store.Files() {
				files = append(files, filepath.Base(path))
			}
			if !slices.Equal(files, c.files) {
				t.Errorf("files: got %q, want %q", files, c.files)
			}
			var dst []float32
			for name, want := range golden {
				dst = checkTensor(t, store, name, want, dst)
			}
		})
	}
}

func checkTensor(t *testing.T, store *Store, name string, want goldenTensor, dst []float32) []float32 {
	t.Helper()
	info, ok := store.Info(name)
	if !ok || info.DType != F32 || !slices.Equal(info.Shape, want.Shape) || filepath.Base(store.Path(name)) != want.File {
		t.Errorf("%s: got %v in %s, want %v in %s", name, info, store.Path(name), want.Shape, want.File)
	}
	data, err := store.Bytes(name)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want.SHA256 {
		t.Errorf("%s: bytes differ", name)
	}
	dst, err = store.Float32s(name, dst)
	if err != nil {
		t.Fatal(err)
	}
	if len(dst) != info.Elements() || dst[0] != want.First {
		t.Errorf("%s: got %d values from %v, want %d from %v", name, len(dst), dst[0], info.Elements(), want.First)
	}
	for i, v := range dst {
		if math.Float32bits(v) != binary.LittleEndian.Uint32(data[4*i:]) {
			t.Fatalf("%s: value %d differs from its bytes", name, i)
		}
	}
	if err := store.Release(name); err != nil {
		t.Error(err)
	}
	return dst
}

func TestFloat32sDTypes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	half := []byte{0x00, 0x3c, 0x00, 0xc0} // 1, -2 in binary16
	if err := WriteFile(path, []Entry{
		{"byte", U8, []int{1}, Bytes([]byte{7})}, // leaves the rest unaligned
		{"f16", F16, []int{2}, Bytes(half)},
		{"bf16", BF16, []int{2, 1}, Bytes([]byte{0x80, 0x3f, 0x00, 0xc0})},
		{"f32", F32, []int{}, Bytes([]byte{0, 0, 0x80, 0x3f})},
		{"empty", F32, []int{0}, Bytes(nil)},
		{"f64", F64, []int{1}, Bytes(make([]byte, 8))},
	}, nil); err != nil {
		t.Fatal(err)
	}
	store, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	dst := make([]float32, 0, 8)
	for name, want := range map[string][]float32{"f16": {1, -2}, "bf16": {1, -2}, "f32": {1}, "empty": {}} {
		got, err := store.Float32s(name, dst)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v %v, want %v", name, got, err, want)
		}
		if cap(got) != cap(dst) {
			t.Errorf("%s: a new slice although dst had room", name)
		}
	}
	for name, want := range map[string]string{"f64": "got dtype F64", "byte": "got dtype U8", "none": "no such tensor"} {
		if _, err := store.Float32s(name, nil); err == nil || !strings.Contains(err.Error(), path+": "+name+": "+want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	if _, err := store.Bytes("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Bytes: got %v", err)
	}
	if err := store.Release("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Release: got %v", err)
	}
	if _, ok := store.Info("none"); ok || store.Path("none") != "" {
		t.Error("a tensor that is not there was found")
	}
}

func TestOpenRefusesFolders(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string
		want  string
	}{
		{"empty", nil, "save_pretrained"},
		{"pickles", []string{"config.json", "pytorch_model.bin"}, "safe_serialization=True"},
		{"sharded pickles", []string{"pytorch_model.bin.index.json"}, "safe_serialization=True"},
		{"lost index", []string{shard1, shard2, "pytorch_model.bin"}, "fetch the index"},
		{"gguf", []string{"m.gguf"}, "import"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Open(dir)
			var bad *OpenError
			if !errors.As(err, &bad) || bad.Path != dir || !strings.Contains(bad.Hint, c.want) {
				t.Errorf("got %v, want an *OpenError with the hint %q", err, c.want)
			}
		})
	}
	pickle := filepath.Join(t.TempDir(), "pytorch_model.bin")
	if err := os.WriteFile(pickle, make([]byte, 100), 0o644); err != nil {
		t.Fatal(err)
	}
	var bad *OpenError
	if _, err := Open(pickle); !errors.As(err, &bad) || !strings.Contains(bad.Hint, "safe_serialization") {
		t.Errorf("a pickle by name: got %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: got %v", err)
	}
}

// Where both forms are present the single file wins, as in transformers.
func TestOpenPrefersSingleFile(t *testing.T) {
	dir := copySharded(t)
	if err := WriteFile(filepath.Join(dir, "model.safetensors"), []Entry{{"only", U8, []int{1}, Bytes([]byte{1})}}, nil); err != nil {
		t.Fatal(err)
	}
	store, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if !slices.Equal(store.Names(), []string{"only"}) {
		t.Errorf("got %q", store.Names())
	}
}

func copySharded(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{shard1, shard2, indexFile} {
		b, err := os.ReadFile(filepath.Join("testdata", "sharded", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenTruncatedShard(t *testing.T) {
	dir := copySharded(t)
	path := filepath.Join(dir, shard2)
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		size int64
		rule Rule
	}{{st.Size() - 1, RuleUncoveredBuffer}, {st.Size() / 2, RuleUncoveredBuffer}, {100, RuleHeaderLength}, {0, RuleHeaderTooSmall}} {
		if err := os.Truncate(path, c.size); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir)
		var bad *HeaderError
		if !errors.As(err, &bad) || bad.Rule != c.rule || bad.File != path {
			t.Errorf("cut to %d bytes: got %v, want rule %q for %s", c.size, err, c.rule, path)
		}
	}
}
