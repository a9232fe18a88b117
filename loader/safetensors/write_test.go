package safetensors

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func sampleEntries() []Entry {
	return []Entry{
		{"z.weight", F32, []int{2, 3}, Bytes(bytes.Repeat([]byte{1}, 24))},
		{"a\"<&>\u2028\n", BF16, []int{}, Bytes([]byte{2, 3})},
		{"none", I64, []int{0, 5}, Bytes(nil)},
		{"nibbles", F4, []int{3, 2}, func(w io.Writer) error {
			for i := range 3 { // in pieces
				if _, err := w.Write([]byte{byte(i)}); err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

// onlyFile fails the test unless dir holds exactly the files named.
func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("files left: got %q, want %q", got, want)
	}
}

func TestWriteFileRoundTrip(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	meta := map[string]string{"format": "pt", "b": "é\x00", "a": ""}
	if err := WriteFile(path, sampleEntries(), meta); err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, dir, "x.safetensors")
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var want bytes.Buffer
	if err := Write(&want, sampleEntries(), meta); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(raw, want.Bytes()) {
		t.Errorf("two writes of the same tensors differ (%v)", err)
	}
	parsed, err := parseBytes(raw)
	if err != nil {
		t.Fatal(err)
	}
	sameContents(t, parsed, f)
	// Data order is the order given.
	var end int64
	for _, e := range sampleEntries() {
		info, ok := f.Info(e.Name)
		if !ok || info.Begin != end {
			t.Errorf("%q: got %v, want it to begin at %d", e.Name, info, end)
		}
		end = info.End
	}
	const head = `{"__metadata__":{"a":"","b":"é\u0000","format":"pt"},"z.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},`
	if got := string(raw[8:]); !strings.HasPrefix(got, head) {
		t.Errorf("header: got %.200q, want it to begin with %q", got, head)
	}
}

func TestWriteRefuses(t *testing.T) {
	entry := func(change func(e *Entry)) []Entry {
		e := Entry{"a", U8, []int{2}, Bytes([]byte{1, 2})}
		change(&e)
		return []Entry{e}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	if err := WriteFile(path, sampleEntries(), nil); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	for _, c := range []struct {
		name    string
		entries []Entry
		meta    map[string]string
		want    string
	}{
		{"reserved name", entry(func(e *Entry) { e.Name = "__metadata__" }), nil, "reserved"},
		{"name not UTF-8", entry(func(e *Entry) { e.Name = "\xff" }), nil, "UTF-8"},
		{"metadata not UTF-8", nil, map[string]string{"k": "\xff"}, "UTF-8"},
		{"name twice", append(sampleEntries(), sampleEntries()[0]), nil, "z.weight: duplicate"},
		{"no dtype", entry(func(e *Entry) { e.DType = "" }), nil, "unknown dtype"},
		{"negative dimension", entry(func(e *Entry) { e.Shape = []int{-1} }), nil, "bad shape"},
		{"overflow", entry(func(e *Entry) { e.Shape = []int{math.MaxInt, 2} }), nil, "overflow"},
		{"sum overflow", append(entry(func(e *Entry) { e.Shape = []int{math.MaxInt64 / 8} }), manyHuge(9)...), nil, "data section"},
		{"partial byte", entry(func(e *Entry) { e.DType = F4; e.Shape = []int{3} }), nil, "partial byte"},
		{"no function", entry(func(e *Entry) { e.Write = nil }), nil, "no Write"},
		{"too few bytes", entry(func(e *Entry) { e.Shape = []int{3} }), nil, "a: got 2 bytes, want 3"},
		{"too many bytes", entry(func(e *Entry) { e.Shape = []int{1} }), nil, "a: got 1 bytes or more beyond"},
		{"too many bytes, error dropped", entry(func(e *Entry) {
			e.Write = func(w io.Writer) error { w.Write([]byte{1, 2}); w.Write([]byte{3}); return nil }
		}), nil, "beyond"},
		{"source fails", entry(func(e *Entry) { e.Write = func(io.Writer) error { return errDisk } }), nil, "a: disk on fire"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := WriteFile(path, c.entries, c.meta)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("got %v, want %q in the error and the path in front", err, c.want)
			}
			if err := Write(io.Discard, c.entries, c.meta); err == nil {
				t.Error("Write took it")
			}
			onlyFiles(t, dir, "x.safetensors")
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the old file was touched")
			}
		})
	}
}

func manyHuge(n int) []Entry {
	var entries []Entry
	for i := range n {
		entries = append(entries, Entry{string(rune('b' + i)), U8, []int{math.MaxInt64 / 8}, Bytes(nil)})
	}
	return entries
}

func TestWriteLeavesNothingOnPanic(t *testing.T) {
	dir := t.TempDir()
	func() {
		defer func() { _ = recover() }()
		_ = WriteFile(filepath.Join(dir, "x.safetensors"), []Entry{{"a", U8, []int{1}, func(io.Writer) error { panic("x") }}}, nil)
		t.Error("the panic was swallowed")
	}()
	onlyFiles(t, dir)
}

// brokenOutput is a real file that fails where it is told to.
type brokenOutput struct {
	*os.File
	write      func(p []byte) (int, error)
	sync, shut error
}

func (b *brokenOutput) Write(p []byte) (int, error) {
	if b.write != nil {
		return b.write(p)
	}
	return b.File.Write(p)
}
func (b *brokenOutput) Sync() error { return errors.Join(b.File.Sync(), b.sync) }

func (b *brokenOutput) Close() error { return errors.Join(b.File.Close(), b.shut) }

func TestWriteFailuresSurface(t *testing.T) {
	big := []Entry{{"big", U8, []int{5 << 20}, Bytes(make([]byte, 5<<20))}}
	for _, c := range []struct {
		name  string
		out   brokenOutput
		wrong error
	}{
		{"disk full", brokenOutput{write: func([]byte) (int, error) { return 0, syscall.ENOSPC }}, syscall.ENOSPC},
		{"short write", brokenOutput{write: func(p []byte) (int, error) { return len(p) / 2, nil }}, io.ErrShortWrite},
		{"sync", brokenOutput{sync: errDisk}, errDisk},
		{"close", brokenOutput{shut: errDisk}, errDisk},
	} {
		for size, entries := range map[string][]Entry{"small": sampleEntries(), "big": big} {
			t.Run(c.name+" "+size, func(t *testing.T) {
				dir := t.TempDir()
				err := writeFile(filepath.Join(dir, "x.safetensors"), entries, nil, func(name string) (output, error) {
					f, err := os.Create(name)
					out := c.out
					out.File = f
					return &out, err
				})
				if !errors.Is(err, c.wrong) {
					t.Errorf("got %v, want %v", err, c.wrong)
				}
				onlyFiles(t, dir)
			})
		}
	}
}

// The same through the system: a device on which every write finds the disk full.
func TestWriteFullDevice(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/dev/full is Linux's")
	}
	dir := t.TempDir()
	err := writeFile(filepath.Join(dir, "x.safetensors"), sampleEntries(), nil, func(name string) (output, error) {
		if err := os.Symlink("/dev/full", name); err != nil {
			return nil, err
		}
		return os.OpenFile(name, os.O_WRONLY, 0)
	})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	onlyFiles(t, dir)
}

func TestWriteFileBesideLeftovers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	// What a killed run with this process number left behind is not written through.
	var leftover string
	_, err := writeFileTempName(path, &leftover)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(leftover, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, sampleEntries(), nil); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(leftover); err != nil || string(b) != "old" {
		t.Errorf("leftover: got %q %v", b, err)
	}
	if err := WriteFile(filepath.Join(dir, "missing", "x.safetensors"), nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder that is not there: got %v", err)
	}
}

// writeFileTempName learns the first temporary name without making the file.
func writeFileTempName(path string, name *string) (output, error) {
	out, _, err := createTemp(path, func(n string) (output, error) { *name = n; return nil, nil })
	return out, err
}
