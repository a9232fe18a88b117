package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// maxArrayDepth bounds arrays of arrays; no published file nests them at all.
const maxArrayDepth = 4

// Value is one metadata value. Arrays stay in the file: Value remembers where, and its methods read them.
type Value struct {
	Type ValueType // of the value
	Elem ValueType // of an array's elements
	N    int       // elements of an array

	bits uint64 // of a number or bool
	text string

	r      io.ReaderAt
	offset int64 // of an array's first element
	bytes  int64 // that all elements take
}

// readValue reads a value of type t. depth counts the arrays around it.
func readValue(c *cursor, t ValueType, depth int) (Value, error) {
	v := Value{Type: t}
	switch {
	case t == String:
		var err error
		v.text, err = c.str()
		return v, err
	case t == Array:
		return readArray(c, depth)
	case t.fixedSize() == 0:
		return v, fmt.Errorf("unknown %v", t)
	}
	b, err := c.view(int(t.fixedSize()))
	if err != nil {
		return v, err
	}
	var wide [8]byte
	copy(wide[:], b)
	v.bits = binary.LittleEndian.Uint64(wide[:])
	if t == Bool && v.bits > 1 {
		return v, fmt.Errorf("bool is %d, want 0 or 1", v.bits)
	}
	return v, nil
}

// readArray notes where an array lies and walks over it, so that every length in it has been checked.
func readArray(c *cursor, depth int) (Value, error) {
	v := Value{Type: Array, r: c.r}
	if depth >= maxArrayDepth {
		return v, fmt.Errorf("arrays nested deeper than %d", maxArrayDepth)
	}
	elem, err := c.u32()
	if err != nil {
		return v, err
	}
	count, err := c.u64()
	if err != nil {
		return v, err
	}
	v.Elem = ValueType(elem)
	least, ok := v.Elem.minSize()
	if !ok {
		return v, fmt.Errorf("array of unknown %v", v.Elem)
	}
	if count > uint64(c.left()/least) {
		return v, fmt.Errorf("array of %d %v elements, file has %d bytes left: %w", count, v.Elem, c.left(), io.ErrUnexpectedEOF)
	}
	v.N, v.offset = int(count), c.pos
	switch v.Elem {
	case String:
		for range v.N {
			n, err := c.stringLength()
			if err != nil {
				return v, err
			}
			c.pos += n
		}
	case Array:
		for range v.N {
			if _, err := readArray(c, depth+1); err != nil {
				return v, err
			}
		}
	default:
		c.pos += int64(count) * v.Elem.fixedSize()
	}
	v.bytes = c.pos - v.offset
	return v, nil
}

// Text returns a string value. It is an error if the value is no string or not UTF-8.
func (v Value) Text() (string, error) {
	if v.Type != String {
		return "", fmt.Errorf("got %v, want string", v.Type)
	}
	if !utf8.ValidString(v.text) {
		return "", fmt.Errorf("string is not UTF-8")
	}
	return v.text, nil
}

// Bool returns a bool value.
func (v Value) Bool() (bool, error) {
	if v.Type != Bool {
		return false, fmt.Errorf("got %v, want bool", v.Type)
	}
	return v.bits == 1, nil
}

// Int returns a value of any integer type. A uint64 above the range of int64 is an error.
func (v Value) Int() (int64, error) { return integer(v.Type, v.bits) }

func integer(t ValueType, bits uint64) (int64, error) {
	switch t {
	case Uint8, Uint16, Uint32:
		return int64(bits), nil
	case Uint64:
		if bits > math.MaxInt64 {
			return 0, fmt.Errorf("%d does not fit in int64", bits)
		}
		return int64(bits), nil
	case Int8:
		return int64(int8(bits)), nil
	case Int16:
		return int64(int16(bits)), nil
	case Int32:
		return int64(int32(bits)), nil
	case Int64:
		return int64(bits), nil
	}
	return 0, fmt.Errorf("got %v, want an integer", t)
}

// Decimal returns a float32 or float64 value as the shortest decimal that reads back as the same value of the stored type, such
// as 1e-05 for the float32 nearest to it, parsed as a float64.
func (v Value) Decimal() (float64, error) {
	switch v.Type {
	case Float32:
		short := strconv.FormatFloat(float64(math.Float32frombits(uint32(v.bits))), 'g', -1, 32)
		return strconv.ParseFloat(short, 64)
	case Float64:
		return math.Float64frombits(v.bits), nil
	}
	return 0, fmt.Errorf("got %v, want a float", v.Type)
}

// Texts reads an array of strings. It is an error if one of them is not UTF-8.
func (v Value) Texts() ([]string, error) {
	raw, err := v.elements(String)
	if err != nil {
		return nil, err
	}
	all := string(raw) // one copy that all elements share
	out := make([]string, v.N)
	at := uint64(0)
	for i := range out {
		var n uint64
		if left := uint64(len(all)) - at; left >= 8 {
			n = binary.LittleEndian.Uint64(raw[at:])
		}
		if left := uint64(len(all)) - at; left < 8 || n > left-8 { // lengths were checked at Open: the file has changed since
			return nil, fmt.Errorf("element %d: %w", i, io.ErrUnexpectedEOF)
		}
		out[i] = all[at+8 : at+8+n]
		if !utf8.ValidString(out[i]) {
			return nil, fmt.Errorf("element %d is not UTF-8", i)
		}
		at += 8 + n
	}
	return out, nil
}

// Ints reads an array of any integer type.
func (v Value) Ints() ([]int64, error) {
	if _, err := integer(v.Elem, 0); v.Type == Array && err != nil {
		return nil, fmt.Errorf("elements: %w", err)
	}
	raw, err := v.elements(v.Elem)
	if err != nil {
		return nil, err
	}
	size := int(v.Elem.fixedSize())
	out := make([]int64, v.N)
	for i := range out {
		var wide [8]byte
		copy(wide[:], raw[i*size:(i+1)*size])
		if out[i], err = integer(v.Elem, binary.LittleEndian.Uint64(wide[:])); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return out, nil
}

// elements reads the bytes of an array of the given element type; their lengths were checked when the file was opened.
func (v Value) elements(elem ValueType) ([]byte, error) {
	if v.Type != Array {
		return nil, fmt.Errorf("got %v, want an array", v.Type)
	}
	if v.Elem != elem {
		return nil, fmt.Errorf("got an array of %v, want of %v", v.Elem, elem)
	}
	raw := make([]byte, v.bytes)
	return raw, readFull(v.r, raw, v.offset)
}

// String shows the value for error messages and listings; long strings are cut, arrays shown by length and type.
func (v Value) String() string {
	switch v.Type {
	case String:
		if len(v.text) > 80 {
			return fmt.Sprintf("%q...", v.text[:80])
		}
		return strconv.Quote(v.text)
	case Array:
		return fmt.Sprintf("array of %d %v", v.N, v.Elem)
	case Bool:
		return strconv.FormatBool(v.bits == 1)
	case Float32, Float64:
		f, _ := v.Decimal()
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	if i, err := v.Int(); err == nil {
		return strconv.FormatInt(i, 10)
	}
	return strconv.FormatUint(v.bits, 10)
}
