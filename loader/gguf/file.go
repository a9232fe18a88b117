package gguf

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// File is an open GGUF file. It is immutable and safe for concurrent use.
type File struct {
	Version uint32 // 2 or 3

	path    string
	r       io.ReaderAt
	closer  io.Closer
	keys    []string
	values  map[string]Value
	tensors []Tensor
	byName  map[string]int
}

// Tensor describes one tensor of a file.
type Tensor struct {
	Name string
	Type TensorType
	// Shape is row-major, the slowest dimension first: a projection is [out, in]. GGUF stores dimensions the other way round.
	Shape []int

	offset int64 // in the file
	bytes  int64
}

// Rows returns the number of rows, all dimensions but the last.
func (t Tensor) Rows() int {
	n := 1
	for _, d := range t.Shape[:max(len(t.Shape)-1, 0)] {
		n *= d
	}
	return n
}

// RowLen returns the length of a row, the last dimension; 1 for a scalar.
func (t Tensor) RowLen() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// Len returns the number of weights.
func (t Tensor) Len() int { return t.Rows() * t.RowLen() }

// Open opens a GGUF file and checks its header: counts, lengths, dimensions, alignment, and that the data of every tensor lies
// inside the file and overlaps no other's. The tensor data is not read. Errors name the file.
func Open(path string) (*File, error) {
	fh, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := fh.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", path)
	}
	if err != nil {
		fh.Close()
		return nil, err
	}
	f, err := NewFile(path, fh, st.Size())
	if err != nil {
		fh.Close()
		return nil, err
	}
	f.closer = fh
	return f, nil
}

// NewFile reads a GGUF file of the given size from r; name stands in errors. See [Open] for what is checked.
func NewFile(name string, r io.ReaderAt, size int64) (*File, error) {
	f, err := parse(r, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.path = name
	return f, nil
}

// Close closes a file from Open; it does nothing for one from NewFile.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Keys returns the metadata keys in file order.
func (f *File) Keys() []string { return slices.Clone(f.keys) }

// Value returns the metadata value of a key, ok false if the file has none.
func (f *File) Value(key string) (v Value, ok bool) {
	v, ok = f.values[key]
	return v, ok
}

// Metadata returns all metadata values by key.
func (f *File) Metadata() map[string]Value { return maps.Clone(f.values) }

// Tensors returns the tensors in file order.
func (f *File) Tensors() []Tensor {
	out := slices.Clone(f.tensors)
	for i := range out {
		out[i].Shape = slices.Clone(out[i].Shape)
	}
	return out
}

// Tensor returns the description of one tensor, ok false if the file has none of that name.
func (f *File) Tensor(name string) (t Tensor, ok bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	t = f.tensors[i]
	t.Shape = slices.Clone(t.Shape)
	return t, true
}

// Float32s reads and dequantises a whole tensor, row-major. Errors name file and tensor; a storage format that is not
// dequantised is an [UnsupportedError] that names it too.
func (f *File) Float32s(name string) ([]float32, error) {
	t, err := f.readable(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	out := make([]float32, t.Len())
	if err := f.readRows(t, 0, out, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return out, nil
}

// ReadRows reads and dequantises the rows [first, first+len(dst)/RowLen) of a tensor into dst, whose length must be a whole
// number of rows. Errors are those of [File.Float32s].
func (f *File) ReadRows(name string, first int, dst []float32) error {
	t, err := f.readable(name)
	if err == nil {
		rows := len(dst) / t.RowLen()
		if rows*t.RowLen() != len(dst) || first < 0 || first > t.Rows()-rows {
			err = fmt.Errorf("%s: got %d values from row %d, want whole rows of %d within %d rows", name, len(dst), first, t.RowLen(),
				t.Rows())
		} else {
			err = f.readRows(t, first, dst, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}

// readChunk is how many weights are dequantised at a time, a multiple of every block.
const readChunk = 32 << 10

// readRows is ReadRows for a tensor and a range that have been checked. scratch, if not nil, is used and kept for the next call.
func (f *File) readRows(t Tensor, first int, dst []float32, scratch *[]byte) error {
	l, _ := layoutOf(t.Type)
	if scratch == nil {
		scratch = new([]byte)
	}
	raw := grow(*scratch, min(len(dst), readChunk)/l.values*l.bytes)
	*scratch = raw
	at := t.offset + int64(first)*int64(t.RowLen()/l.values*l.bytes)
	for len(dst) > 0 {
		n := min(len(dst), readChunk)
		b := raw[:n/l.values*l.bytes]
		if err := readFull(f.r, b, at); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		dequantise(t.Type, dst[:n], b)
		dst = dst[n:]
		at += int64(len(b))
	}
	return nil
}

// readable finds a tensor and checks that its format can be dequantised.
func (f *File) readable(name string) (Tensor, error) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, fmt.Errorf("no tensor %q", name)
	}
	t := f.tensors[i]
	if !supported(t.Type) {
		return Tensor{}, unsupported("%s: got ggml type %v, want F32, F16, BF16, Q4_0, Q4_1 or Q8_0", name, t.Type)
	}
	return t, nil
}
