package gguf

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	magic            = 0x46554747 // "GGUF"
	defaultAlignment = 32
	maxDims          = 4  // GGML_MAX_DIMS
	minPairBytes     = 13 // key length, type, one byte of value
	minTensorBytes   = 24 // name length, dimension count, type, offset
)

// parse reads and checks everything before the data section.
func parse(r io.ReaderAt, size int64) (*File, error) {
	c := &cursor{r: r, size: size}
	f := &File{r: r, values: map[string]Value{}, byName: map[string]int{}}
	tensors, pairs, err := f.readPreamble(c)
	if err != nil {
		return nil, err
	}
	for i := range pairs {
		if err := f.readPair(c); err != nil {
			return nil, fmt.Errorf("metadata %d: %w", i, err)
		}
	}
	alignment, err := f.alignment()
	if err != nil {
		return nil, err
	}
	if tensors > uint64(c.left()/minTensorBytes) {
		return nil, fmt.Errorf("%d tensors, file has %d bytes left: %w", tensors, c.left(), io.ErrUnexpectedEOF)
	}
	for i := range tensors {
		t, err := readTensor(c, alignment)
		if err != nil {
			return nil, fmt.Errorf("tensor %d: %w", i, err)
		}
		if _, dup := f.byName[t.Name]; dup {
			return nil, fmt.Errorf("%s: tensor is there twice", t.Name)
		}
		f.byName[t.Name] = len(f.tensors)
		f.tensors = append(f.tensors, t)
	}
	return f, f.placeTensors(c, alignment)
}

// readPreamble reads magic, version and the two counts.
func (f *File) readPreamble(c *cursor) (tensors, pairs uint64, err error) {
	m, err := c.u32()
	if err != nil {
		return 0, 0, err
	}
	if m != magic {
		return 0, 0, fmt.Errorf("not a GGUF file: got magic %#08x, want %#08x", m, magic)
	}
	if f.Version, err = c.u32(); err != nil {
		return 0, 0, err
	}
	switch {
	case f.Version&0xffff == 0 && f.Version != 0:
		return 0, 0, fmt.Errorf("GGUF version %#08x: a big-endian file, only little-endian ones are read", f.Version)
	case f.Version != 2 && f.Version != 3:
		return 0, 0, fmt.Errorf("got GGUF version %d, want 2 or 3", f.Version)
	}
	if tensors, err = c.u64(); err != nil {
		return 0, 0, err
	}
	if pairs, err = c.u64(); err != nil {
		return 0, 0, err
	}
	if pairs > uint64(c.left()/minPairBytes) {
		return 0, 0, fmt.Errorf("%d metadata pairs, file has %d bytes left: %w", pairs, c.left(), io.ErrUnexpectedEOF)
	}
	return tensors, pairs, nil
}

func (f *File) readPair(c *cursor) error {
	key, err := c.str()
	if err != nil {
		return err
	}
	if key == "" || !utf8.ValidString(key) {
		return fmt.Errorf("key %q: want UTF-8 text", key)
	}
	if _, dup := f.values[key]; dup {
		return fmt.Errorf("%s: key is there twice", key)
	}
	t, err := c.u32()
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	v, err := readValue(c, ValueType(t), 0)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	f.keys = append(f.keys, key)
	f.values[key] = v
	return nil
}

// alignment returns the alignment of tensor data in bytes.
func (f *File) alignment() (int64, error) {
	const key = "general.alignment"
	v, ok := f.values[key]
	if !ok {
		return defaultAlignment, nil
	}
	n, err := v.Int()
	if err != nil || v.Type != Uint32 {
		return 0, fmt.Errorf("%s: got %v, want uint32", key, v.Type)
	}
	if n == 0 || n&(n-1) != 0 {
		return 0, fmt.Errorf("%s: got %d, want a power of two", key, n)
	}
	return n, nil
}

// readTensor reads one description; its offset is still relative to the data section.
func readTensor(c *cursor, alignment int64) (Tensor, error) {
	var t Tensor
	var err error
	if t.Name, err = c.str(); err != nil {
		return t, err
	}
	if t.Name == "" || !utf8.ValidString(t.Name) || strings.ContainsRune(t.Name, 0) {
		return t, fmt.Errorf("name %q: want UTF-8 text", t.Name)
	}
	if err := t.readShape(c); err != nil {
		return t, fmt.Errorf("%s: %w", t.Name, err)
	}
	kind, err := c.u32()
	if err != nil {
		return t, fmt.Errorf("%s: %w", t.Name, err)
	}
	offset, err := c.u64()
	if err != nil {
		return t, fmt.Errorf("%s: %w", t.Name, err)
	}
	t.Type = TensorType(kind)
	l, ok := layoutOf(t.Type)
	if !ok {
		return t, fmt.Errorf("%s: unknown ggml %v", t.Name, t.Type)
	}
	if t.RowLen()%l.values != 0 {
		return t, fmt.Errorf("%s: rows of %d values, want a multiple of the %d values of a %v block", t.Name, t.RowLen(), l.values, t.Type)
	}
	blocks := int64(t.Len() / l.values)
	if blocks > math.MaxInt64/int64(l.bytes) {
		return t, fmt.Errorf("%s: shape %v overflows", t.Name, t.Shape)
	}
	t.bytes = blocks * int64(l.bytes)
	if offset > uint64(c.size) {
		return t, fmt.Errorf("%s: data at offset %d, file has %d bytes: %w", t.Name, offset, c.size, io.ErrUnexpectedEOF)
	}
	if offset%uint64(alignment) != 0 {
		return t, fmt.Errorf("%s: data at offset %d, want a multiple of the alignment %d", t.Name, offset, alignment)
	}
	t.offset = int64(offset)
	return t, nil
}

// readShape reads the dimensions; their product fits in an int.
func (t *Tensor) readShape(c *cursor) error {
	n, err := c.u32()
	if err != nil {
		return err
	}
	if n > maxDims {
		return fmt.Errorf("got %d dimensions, want at most %d", n, maxDims)
	}
	t.Shape = make([]int, n)
	product := uint64(1)
	for i := range t.Shape {
		d, err := c.u64()
		if err != nil {
			return err
		}
		if d == 0 {
			return fmt.Errorf("dimension %d is 0", i)
		}
		if d > math.MaxInt64/product {
			return fmt.Errorf("dimensions overflow: %d weights times %d", product, d)
		}
		product *= d
		t.Shape[int(n)-1-i] = int(d)
	}
	if product > math.MaxInt {
		return fmt.Errorf("%d weights do not fit in this machine's int", product)
	}
	return nil
}

// placeTensors turns offsets into file positions and checks that all data lies in the file without overlap.
func (f *File) placeTensors(c *cursor, alignment int64) error {
	if len(f.tensors) == 0 {
		return nil
	}
	start := (c.pos + alignment - 1) / alignment * alignment
	order := make([]int, len(f.tensors))
	for i := range f.tensors {
		t := &f.tensors[i]
		order[i] = i
		if room := c.size - start - t.offset; room < t.bytes {
			return fmt.Errorf("%s: %d bytes of %v data at offset %d, file has %d there: %w", t.Name, t.bytes, t.Type, t.offset,
				max(room, 0), io.ErrUnexpectedEOF)
		}
		t.offset += start
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(f.tensors[a].offset, f.tensors[b].offset) })
	for i := 1; i < len(order); i++ {
		before, t := f.tensors[order[i-1]], f.tensors[order[i]]
		if before.offset+before.bytes > t.offset {
			return fmt.Errorf("%s: data overlaps that of %s", t.Name, before.Name)
		}
	}
	return nil
}
