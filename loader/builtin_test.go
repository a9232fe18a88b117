package loader_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/builtin"
)

// TestBuiltin opens the embedded model from an empty folder, and as a folder on disk: the same spec, tensors and tokenizer.
func TestBuiltin(t *testing.T) {
	t.Chdir(t.TempDir())
	inside, err := loader.Open(builtin.Needle)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	files, ok := builtin.Files(builtin.Needle)
	if !ok {
		t.Fatal("no files")
	}
	if err := os.CopyFS("copy", files); err != nil {
		t.Fatal(err)
	}
	copied, err := loader.Open("copy")
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if inside.ConfigSHA256 != copied.ConfigSHA256 || inside.Tokenizer.SHA256() != copied.Tokenizer.SHA256() || inside.Tokenizer.EOS() != copied.Tokenizer.EOS() {
		t.Error("config or tokenizer differ from those of the folder")
	}
	size := 0
	for _, name := range copied.Weights.Names() {
		got, err := inside.Weights.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := copied.Weights.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from that of the folder", name)
		}
		size += len(got)
	}
	if size > 1<<20 {
		t.Errorf("%d bytes of weights, want at most 1 MiB", size)
	}

	in, err := loader.Inspect(builtin.Needle, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Refused) > 0 || in.Weights == nil || in.Weights.Bytes != int64(size) || in.Tokenizer == nil {
		t.Errorf("inspection: got %+v", in)
	}
}

// TestBuiltinFolder: a path that exists comes first.
func TestBuiltinFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir(builtin.Needle, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := loader.Open(builtin.Needle); err == nil {
		t.Error("opened past an empty folder of that name")
	}
	if err := os.WriteFile(filepath.Join(builtin.Needle, "config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := loader.Inspect(builtin.Needle, 0); err == nil {
		t.Error("inspected past a folder of that name")
	}
	if _, err := loader.Open("builtin:other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("builtin:other: got error %v", err)
	}
}
