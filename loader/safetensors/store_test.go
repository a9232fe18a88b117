package safetensors

import (
	"bytes"
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

func TestIndexRules(t *testing.T) {
	replace := func(old, new string) func(b []byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(new), 1) }
	}
	whole := func(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }
	const lmHead = `"lm_head.weight": "` + shard2 + `",`
	total := func(text string) func([]byte) []byte { return replace("330048", text) }
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		rule   Rule
	}{
		{"untouched", replace("", ""), ""},
		{"no total_size", replace(`"total_size"`, `"total_sizes"`), ""},
		{"total_size as a float", total("330048.0"), ""},
		{"total_size with an exponent", total("3.30048e5"), ""},
		{"more metadata", replace(`"total_size"`, `"x": {"y": [null, true, -1.5e-3, "z", [], {}]}, "total_size"`), ""},
		{"metadata null", whole(`{"metadata": null, "weight_map": {"only": "x.safetensors"}}`), RuleShardMissing},
		{"wrong total_size", total("330049"), RuleIndexTotalSize},
		{"total_size a fraction", total("330048.5"), RuleIndexTotalSize},
		{"total_size a string", total(`"330048"`), RuleIndexTotalSize},
		{"total_size huge", total("1e999999999"), RuleIndexTotalSize},
		{"total_size tiny", total("1e-999999999"), RuleIndexTotalSize},
		{"total_size long", total(strings.Repeat("9", 1_000_000)), RuleIndexTotalSize},
		{"tensor missing from the map", replace(lmHead, ""), RuleIndexTensorExtra},
		{"tensor missing from its shard", replace(lmHead, lmHead+`"more.weight": "`+shard2+`",`), RuleIndexTensorMissing},
		{"tensor mapped to the other shard", replace(lmHead, `"lm_head.weight": "`+shard1+`",`), RuleIndexTensorMissing},
		{"tensor mapped twice", replace(lmHead, lmHead+lmHead), RuleDuplicateKey},
		{"two weight maps", replace(`"weight_map"`, `"weight_map": {}, "weight_map"`), RuleDuplicateKey},
		{"total_size twice", replace(`"total_size"`, `"total_size": 1, "total_size"`), RuleDuplicateKey},
		{"nested key twice", replace(`"total_size"`, `"x": {"y": 1, "y": 1}, "total_size"`), RuleDuplicateKey},
		{"shard not there", replace(lmHead, `"lm_head.weight": "model-00003-of-00003.safetensors",`), RuleShardMissing},
		{"shard in the parent", replace(lmHead, `"lm_head.weight": "../`+shard2+`",`), RuleShardName},
		{"shard by absolute path", replace(lmHead, `"lm_head.weight": "/etc/passwd",`), RuleShardName},
		{"shard in a subfolder", replace(lmHead, `"lm_head.weight": "sub/`+shard2+`",`), RuleShardName},
		{"shard with a backslash", replace(lmHead, `"lm_head.weight": "..\\`+shard2+`",`), RuleShardName},
		{"shard with a drive", replace(lmHead, `"lm_head.weight": "C:`+shard2+`",`), RuleShardName},
		{"shard with NUL", replace(lmHead, `"lm_head.weight": "`+shard2+`\u0000",`), RuleShardName},
		{"shard empty", replace(lmHead, `"lm_head.weight": "",`), RuleShardName},
		{"shard is the folder", replace(lmHead, `"lm_head.weight": ".",`), RuleShardName},
		{"shard is the parent", replace(lmHead, `"lm_head.weight": "..",`), RuleShardName},
		{"shard a number", replace(lmHead, `"lm_head.weight": 2,`), RuleIndexField},
		{"weight_map an array", whole(`{"weight_map": []}`), RuleIndexField},
		{"weight_map empty", whole(`{"weight_map": {}}`), RuleIndexField},
		{"no weight_map", whole(`{"metadata": {"total_size": 0}}`), RuleIndexField},
		{"cut off", func(b []byte) []byte { return b[:len(b)/2] }, RuleJSON},
		{"empty", whole(``), RuleJSON},
		{"text behind", func(b []byte) []byte { return append(b, "{}"...) }, RuleJSON},
		{"bad number", total("-"), RuleJSON},
		{"bad literal", replace(`"total_size"`, `"x": nul, "total_size"`), RuleJSON},
		{"nested deep", whole(`{"x": ` + strings.Repeat("[", 5_000_000)), RuleJSON},
		{"not UTF-8", whole("{\"\xff\": 1}"), RuleUTF8},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copySharded(t)
			path := filepath.Join(dir, indexFile)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			after := c.change(bytes.Clone(before))
			if c.name != "untouched" && bytes.Equal(before, after) {
				t.Fatal("the case changes nothing")
			}
			if err := os.WriteFile(path, after, 0o644); err != nil {
				t.Fatal(err)
			}
			checkIndex(t, dir, c.rule)
		})
	}
	t.Run("tensor in two shards", func(t *testing.T) {
		dir := copySharded(t)
		f, err := OpenFile(filepath.Join("testdata", "sharded", shard1))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		entries := append(entriesOf(t, f), Entry{"lm_head.weight", U8, []int{1}, Bytes([]byte{1})})
		if err := WriteFile(filepath.Join(dir, shard1), entries, nil); err != nil {
			t.Fatal(err)
		}
		checkIndex(t, dir, RuleIndexTensorTwice)
	})
}

func checkIndex(t *testing.T, dir string, rule Rule) {
	t.Helper()
	store, err := Open(dir)
	if rule == "" {
		if err != nil {
			t.Fatal(err)
		}
		if len(store.Names()) != 30 {
			t.Errorf("got %d tensors, want 30", len(store.Names()))
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	var bad *IndexError
	if !errors.As(err, &bad) || bad.Rule != rule || bad.File != filepath.Join(dir, indexFile) {
		t.Errorf("got %v, want an *IndexError with rule %q", err, rule)
	}
	if err != nil && len(err.Error()) > 600 {
		t.Errorf("error text of %d bytes: a file decides its length", len(err.Error()))
	}
}
