package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
)

// allocated returns how many bytes f takes from the heap in all, freed ones included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// memoryFactor bounds what Parse allocates, in multiples of the file: the header's text, 72 bytes of Info for an entry of 50 or more, an int for a
// two-byte dimension, a map slot for a metadata string; growing by copying doubles some of it.
const (
	memoryFactor = 16
	memoryBase   = 1 << 18 // copy buffers and small objects
)

func manyTensors(n int) []byte {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		// Names in an order that is neither that of the data nor sorted.
		fmt.Fprintf(&b, `"%07d":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}`, (i*7919)%n, i, i+1)
	}
	b.WriteByte('}')
	return file(b.String(), n)
}

func TestMemoryIsBoundedByFile(t *testing.T) {
	ones := func(n int) string { return strings.TrimSuffix(strings.Repeat("1,", n), ",") }
	var keys strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&keys, `%q:"",`, fmt.Sprint(i))
	}
	meta := strings.TrimSuffix(keys.String(), ",")
	for _, c := range []headerCase{
		{"a million tensors", manyTensors(1_000_000), ""},
		{"a million dimensions", one(`{"dtype":"U8","shape":[`+ones(1_000_000)+`],"data_offsets":[0,1]}`, 1), ""},
		{"a million offsets", one(`{"dtype":"U8","shape":[1],"data_offsets":[`+ones(1_000_000)+`]}`, 1), RuleDataOffsets},
		{"many metadata", file(`{"__metadata__":{`+meta+`}}`, 0), ""},
		{"nested objects", file(strings.Repeat(`{"a":`, 1_000_000), 0), RuleTensorField},
		{"nested metadata", file(`{"__metadata__":`+strings.Repeat(`{"a":`, 1_000_000), 0), RuleMetadata},
		{"one long escaped name", file(`{"`+strings.Repeat(`\u0061`, 1_000_000)+`":`+f32x1+`}`, 4), ""},
		{"string without an end", file(`{"`+strings.Repeat(`a`, 1_000_000), 0), RuleJSON},
		{"huge shape in a small file", one(`{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}`, 1), RuleUncoveredBuffer},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			got := allocated(func() { _, err = parseBytes(c.file) })
			t.Logf("%.1f times the file's %d bytes", float64(got)/float64(len(c.file)), len(c.file))
			if rule := ruleOf(t, err); rule != c.rule {
				t.Errorf("got rule %q (%v), want %q", rule, err, c.rule)
			}
			if limit := uint64(memoryFactor*len(c.file) + memoryBase); got > limit {
				t.Errorf("took %d bytes for a file of %d, want at most %d", got, len(c.file), limit)
			}
		})
	}
}

// For every legal and illegal file, any cut and any single changed byte give a file or an error, never a panic.
func TestEveryCutAndFlip(t *testing.T) {
	for _, c := range append(legalCases(), headerCases()...) {
		if len(c.file) > 4096 {
			continue
		}
		for i := range c.file {
			if f, err := parseBytes(c.file[:i]); err == nil {
				checkCovered(t, f, i)
				if c.rule == "" {
					t.Errorf("%s: cut to %d of %d bytes: got a file with %v, want an error", c.name, i, len(c.file), f.Names())
				}
			}
			for _, bit := range []byte{1, 0x20, 0x80} {
				changed := bytes.Clone(c.file)
				changed[i] ^= bit
				if f, err := parseBytes(changed); err == nil {
					checkCovered(t, f, len(changed))
				}
			}
		}
	}
}

// checkCovered asserts the law that a parsed file promises: tensors tile the data section.
func checkCovered(t *testing.T, f *File, size int) {
	t.Helper()
	covered := make([]int, int64(size)-f.data)
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		b, err := f.Bytes(name)
		if err != nil || int64(len(b)) != info.End-info.Begin || len(b)*8 != info.Elements()*info.DType.Bits() {
			t.Fatalf("%v: got %d bytes and error %v", info, len(b), err)
		}
		for i := info.Begin; i < info.End; i++ {
			covered[i]++
		}
	}
	for i, n := range covered {
		if n != 1 {
			t.Fatalf("byte %d of the data belongs to %d tensors", i, n)
		}
	}
}

type failingReader struct {
	r  io.ReaderAt
	at int64
}

var errDisk = errors.New("disk on fire")

func (f failingReader) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.at {
		return 0, errDisk
	}
	return f.r.ReadAt(p, off)
}

func TestReadErrorsSurface(t *testing.T) {
	whole := one(f32x1, 4)
	r := bytes.NewReader(whole)
	for _, at := range []int64{0, 8, 20} {
		if _, err := Parse(failingReader{r, at}, int64(len(whole))); !errors.Is(err, errDisk) {
			t.Errorf("failure at %d: got %v", at, err)
		}
	}
	f, err := Parse(failingReader{r, int64(len(whole)) - 4}, int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Bytes("a"); !errors.Is(err, errDisk) {
		t.Errorf("data: got %v", err)
	}
	// A size that the reader does not have.
	for _, size := range []int64{math.MaxInt64, int64(len(whole)) + 1, -1} {
		if _, err := Parse(r, size); err == nil {
			t.Errorf("size %d was believed", size)
		}
	}
	if _, err := Parse(bytes.NewReader(whole[:12]), int64(len(whole))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short reader: got %v, want io.ErrUnexpectedEOF", err)
	}
}
