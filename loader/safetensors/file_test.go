package safetensors

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/edsrzf/mmap-go"
)

func noMap(*os.File, int) (mmap.MMap, error) { return nil, errors.New("no map today") }

func TestMappedAndReadAgree(t *testing.T) {
	path := filepath.Join("testdata", "single", "model.safetensors")
	mapped, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	read, err := openFile(path, noMap)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if !mapped.Mapped() || read.Mapped() {
		t.Fatalf("mapped: got %v and %v, want true and false", mapped.Mapped(), read.Mapped())
	}
	sameContents(t, mapped, read)
	if err := read.Release("lm_head.weight"); err != nil {
		t.Error(err)
	}
	// A view costs no memory, a read costs the tensor and no more.
	const size = 112 * 64 * 4
	if got := allocated(func() { _, _ = mapped.Bytes("lm_head.weight") }); got > size/4 {
		t.Errorf("a view took %d bytes", got)
	}
	if got := allocated(func() { _, _ = read.Bytes("lm_head.weight") }); got > 2*size {
		t.Errorf("a read of %d bytes took %d", size, got)
	}
	view, _ := mapped.Bytes("lm_head.weight")
	if again, _ := mapped.Bytes("lm_head.weight"); &view[0] != &again[0] {
		t.Error("two views of a tensor lie in different places")
	}
	if cap(view) != len(view) {
		t.Error("appending to a view would write into the next tensor")
	}
}

func TestFileErrors(t *testing.T) {
	dir := t.TempDir()
	for _, open := range []func() (*File, error){
		func() (*File, error) { return OpenFile(filepath.Join("testdata", "single", "model.safetensors")) },
		func() (*File, error) {
			return openFile(filepath.Join("testdata", "single", "model.safetensors"), noMap)
		},
	} {
		f, err := open()
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{second(f.Bytes("no.such")), f.Release("no.such")} {
			if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "model.safetensors: no.such") {
				t.Errorf("name that is not there: got %v", err)
			}
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Error(err)
		}
		if _, err := f.Bytes("lm_head.weight"); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after Close: got %v", err)
		}
		if err := f.Release("lm_head.weight"); err != nil {
			t.Errorf("Release after Close: got %v", err)
		}
	}
	if _, err := OpenFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
	var open *OpenError
	if _, err := OpenFile(dir); !errors.As(err, &open) {
		t.Errorf("a folder: got %v, want an *OpenError", err)
	}
	bad := filepath.Join(dir, "bad.safetensors")
	if err := os.WriteFile(bad, file(`{}`, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	var header *HeaderError
	if _, err := OpenFile(bad); !errors.As(err, &header) || header.File != bad || !strings.HasPrefix(err.Error(), bad+": ") {
		t.Errorf("bad file: got %v, want a *HeaderError that names the file", err)
	}
}

func second[T any](_ T, err error) error { return err }

// Readers and Close may meet: each read gives the bytes or says that the file is closed. Run with -race.
func TestConcurrentUse(t *testing.T) {
	f, err := openFile(filepath.Join("testdata", "single", "model.safetensors"), noMap)
	if err != nil {
		t.Fatal(err)
	}
	want, err := f.Bytes("model.norm.weight")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				got, err := f.Bytes("model.norm.weight")
				if err != nil && !errors.Is(err, fs.ErrClosed) || err == nil && !bytes.Equal(got, want) {
					t.Errorf("got %d bytes and %v", len(got), err)
				}
			}
		})
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// residentFile returns how many bytes of mapped files the process holds in memory.
func residentFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssFile:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Skip("no RssFile line")
	return 0
}

func TestReleaseGivesPagesBack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("resident pages are read from /proc")
	}
	const size = 32 << 20
	path := filepath.Join(t.TempDir(), "x.safetensors")
	data := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, size/7+1)[:size]
	if err := WriteFile(path, []Entry{{"a", U8, []int{3}, Bytes([]byte{1, 2, 3})}, {"big", U8, []int{size}, Bytes(data)}}, nil); err != nil {
		t.Fatal(err)
	}
	store, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	view, err := store.Bytes("big")
	if err != nil {
		t.Fatal(err)
	}
	start := residentFile(t)
	if !bytes.Equal(view, data) {
		t.Fatal("contents differ")
	}
	touched := residentFile(t)
	if touched-start < size*9/10 {
		t.Fatalf("reading %d bytes made %d resident", size, touched-start)
	}
	if err := store.Release("big"); err != nil {
		t.Fatal(err)
	}
	if left := residentFile(t) - start; left > size/10 {
		t.Errorf("%d bytes still resident after Release", left)
	}
	if !bytes.Equal(view, data) {
		t.Error("contents differ after Release")
	}
}
