package npz_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headscope/headscope/harness/npz"
)

func entries() []npz.Entry {
	return []npz.Entry{
		{Name: "layer05/z", Shape: []int{2, 3}, Data: []float32{1, -2.5, float32(math.Inf(1)), float32(math.NaN()), 0, 1e-40}},
		{Name: "tokens", Shape: []int{4}, Data: []int32{-1, 2, math.MaxInt32, math.MinInt32}},
		{Name: "wide", Shape: []int{1, 2}, Data: []int64{math.MaxInt64, math.MinInt64}},
		{Name: "double", Shape: []int{2}, Data: []float64{0.1, math.Inf(-1)}},
		{Name: "scalar", Data: []float32{7}},
		{Name: "none", Shape: []int{0, 5}, Data: []float32{}},
		{Name: "meta.json", Data: []byte(`{"é": 1}`)},
	}
}

func archive(t *testing.T, e []npz.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := npz.Write(&b, e); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func members(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if out[f.Name], err = io.ReadAll(r); err != nil { // checks the CRC too
			t.Fatal(err)
		}
	}
	return out
}

// TestBytes holds one array against the bytes that NumPy 2.4 writes for it: numpy.save of float32 [[1, 2, 3], [4, 5, 6]].
func TestBytes(t *testing.T) {
	got := members(t, archive(t, []npz.Entry{{Name: "a", Shape: []int{2, 3}, Data: []float32{1, 2, 3, 4, 5, 6}}}))["a.npy"]
	want := "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" + strings.Repeat(" ", 58) + "\n" +
		"\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@\x00\x00\xc0@"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestHeaders(t *testing.T) {
	m := members(t, archive(t, entries()))
	for name, shape := range map[string]string{"tokens": "(4,)", "wide": "(1, 2)", "scalar": "()", "none": "(0, 5)"} {
		b := m[name+".npy"]
		n := 10 + int(b[8]) + int(b[9])<<8
		if n%64 != 0 || b[n-1] != '\n' || !strings.Contains(string(b[:n]), "'shape': "+shape+", }") {
			t.Errorf("%s: header %q", name, b[:n])
		}
	}
	if got := string(m["meta.json"]); got != `{"é": 1}` {
		t.Errorf("meta.json: got %q", got)
	}
}

func TestSameBytes(t *testing.T) {
	if !bytes.Equal(archive(t, entries()), archive(t, entries())) {
		t.Error("two archives of the same arrays differ")
	}
}

// TestLong crosses the pieces in which elements are written.
func TestLong(t *testing.T) {
	data := make([]int64, 20_001)
	for i := range data {
		data[i] = int64(i) * 3
	}
	b := members(t, archive(t, []npz.Entry{{Name: "a", Shape: []int{len(data)}, Data: data}}))["a.npy"]
	if want := 128 + 8*len(data); len(b) != want {
		t.Fatalf("got %d bytes, want %d", len(b), want)
	}
	for i := range data {
		at := b[128+8*i:]
		if got := int64(at[0]) | int64(at[1])<<8 | int64(at[2])<<16; got != data[i] {
			t.Fatalf("element %d: got %d, want %d", i, got, data[i])
		}
	}
}

func TestRefused(t *testing.T) {
	for _, e := range []npz.Entry{
		{Name: "", Data: []float32{1}},
		{Name: "../a", Data: []float32{1}},
		{Name: "/a", Data: []float32{1}},
		{Name: `a\b`, Data: []float32{1}},
		{Name: "a\xff", Data: []float32{1}},
		{Name: "a.npy", Data: []float32{1}},
		{Name: "a", Shape: []int{2}, Data: []float32{1}},
		{Name: "a", Shape: []int{-1}, Data: []float32{1}},
		{Name: "a", Shape: []int{math.MaxInt, 3}, Data: []float32{1}},
		{Name: "a", Data: []string{"1"}},
		{Name: "a", Data: nil},
		{Name: "a.npy", Data: []byte("x")},
		{Name: "a", Shape: []int{1}, Data: []byte("x")},
	} {
		if err := npz.Write(io.Discard, []npz.Entry{e}); err == nil {
			t.Errorf("%+v: no error", e)
		}
	}
	twice := []npz.Entry{{Name: "a", Data: []float32{1}}, {Name: "a", Data: []int32{1}}}
	if err := npz.Write(io.Discard, twice); err == nil {
		t.Error("two entries of one name: no error")
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.npz")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := npz.WriteFile(path, []npz.Entry{{Name: "a", Shape: []int{2}, Data: []float32{1}}}); err == nil {
		t.Error("no error")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("after an error: got %q, %v", b, err)
	}
	if err := npz.WriteFile(path, entries()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, archive(t, entries())) {
		t.Errorf("the file differs from what Write writes: %v", err)
	}
	if err := npz.WriteFile(filepath.Join(dir, "no", "a.npz"), entries()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no such folder", err)
	}
	if err := npz.WriteFile(dir, entries()); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// TestFull: a writer that fails at any byte is an error.
func TestFull(t *testing.T) {
	n := len(archive(t, entries()))
	for at := range n {
		if err := npz.Write(&full{at}, entries()); err == nil {
			t.Fatalf("no error after %d of %d bytes", at, n)
		}
	}
	if err := npz.Write(&full{n}, entries()); err != nil {
		t.Error(err)
	}
}

// TestNumPy reads an archive with NumPy where there is one.
func TestNumPy(t *testing.T) {
	python := os.Getenv("HEADSCOPE_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import numpy").Run(); err != nil {
		t.Skipf("NOT RUN: no NumPy for %s (HEADSCOPE_PYTHON names another python)", python)
	}
	path := filepath.Join(t.TempDir(), "a.npz")
	if err := npz.WriteFile(path, entries()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "-c", `
import sys, numpy as np
z = np.load(sys.argv[1])
assert z.files == ["layer05/z", "tokens", "wide", "double", "scalar", "none", "meta.json"], z.files
assert z["layer05/z"].dtype == np.float32 and z["layer05/z"].shape == (2, 3)
np.testing.assert_array_equal(z["layer05/z"], np.array([[1, -2.5, np.inf], [np.nan, 0, 1e-40]], np.float32))
assert z["tokens"].dtype == np.int32 and z["tokens"].tolist() == [-1, 2, 2**31 - 1, -2**31]
assert z["wide"].dtype == np.int64 and z["wide"].tolist() == [[2**63 - 1, -2**63]]
assert z["double"].dtype == np.float64 and z["double"].tolist() == [0.1, -np.inf]
assert z["scalar"].shape == () and z["scalar"] == 7
assert z["none"].shape == (0, 5)
assert z["meta.json"].decode() == '{"é": 1}'
print("ok")
`, path).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Errorf("%v: %s", err, out)
	}
}
