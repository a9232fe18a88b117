package gguf

import "fmt"

// TensorType is the storage format of a tensor, numbered as ggml numbers them (enum ggml_type).
type TensorType uint32

// The storage formats that this package dequantises.
const (
	F32  TensorType = 0
	F16  TensorType = 1
	Q4_0 TensorType = 2 // 32 weights: float16 scale d, 4-bit q; weight d*(q-8)
	Q4_1 TensorType = 3 // 32 weights: float16 scale d, float16 minimum m, 4-bit q; weight d*q+m
	Q8_0 TensorType = 8 // 32 weights: float16 scale d, 8-bit signed q; weight d*q
	BF16 TensorType = 30
)

// layout is the size of one block of a storage format.
type layout struct {
	name   string
	values int // weights a block
	bytes  int // bytes a block
}

// layoutOf returns the block layout of a format, ok false if ggml has none of that number (or no longer has).
//
// The formats that cannot be dequantised are listed too, so that a file holding them can be opened and listed, and be refused by
// name only when such a tensor is read.
func layoutOf(t TensorType) (l layout, ok bool) {
	switch t {
	case F32:
		return layout{"F32", 1, 4}, true
	case F16:
		return layout{"F16", 1, 2}, true
	case Q4_0:
		return layout{"Q4_0", 32, 18}, true
	case Q4_1:
		return layout{"Q4_1", 32, 20}, true
	case 6:
		return layout{"Q5_0", 32, 22}, true
	case 7:
		return layout{"Q5_1", 32, 24}, true
	case Q8_0:
		return layout{"Q8_0", 32, 34}, true
	case 9:
		return layout{"Q8_1", 32, 36}, true
	case BF16:
		return layout{"BF16", 1, 2}, true
	}
	if l, ok = superblockLayout(t); ok {
		return l, true
	}
	return plainLayout(t)
}

func superblockLayout(t TensorType) (layout, bool) {
	switch t {
	case 10:
		return layout{"Q2_K", 256, 84}, true
	case 11:
		return layout{"Q3_K", 256, 110}, true
	case 12:
		return layout{"Q4_K", 256, 144}, true
	case 13:
		return layout{"Q5_K", 256, 176}, true
	case 14:
		return layout{"Q6_K", 256, 210}, true
	case 15:
		return layout{"Q8_K", 256, 292}, true
	case 16:
		return layout{"IQ2_XXS", 256, 66}, true
	case 17:
		return layout{"IQ2_XS", 256, 74}, true
	case 18:
		return layout{"IQ3_XXS", 256, 98}, true
	case 19:
		return layout{"IQ1_S", 256, 50}, true
	case 20:
		return layout{"IQ4_NL", 32, 18}, true
	case 21:
		return layout{"IQ3_S", 256, 110}, true
	case 22:
		return layout{"IQ2_S", 256, 82}, true
	case 23:
		return layout{"IQ4_XS", 256, 136}, true
	case 29:
		return layout{"IQ1_M", 256, 56}, true
	case 34:
		return layout{"TQ1_0", 256, 54}, true
	case 35:
		return layout{"TQ2_0", 256, 66}, true
	case 39:
		return layout{"MXFP4", 32, 17}, true
	}
	return layout{}, false
}

func plainLayout(t TensorType) (layout, bool) {
	switch t {
	case 24:
		return layout{"I8", 1, 1}, true
	case 25:
		return layout{"I16", 1, 2}, true
	case 26:
		return layout{"I32", 1, 4}, true
	case 27:
		return layout{"I64", 1, 8}, true
	case 28:
		return layout{"F64", 1, 8}, true
	}
	return layout{}, false
}

// String returns ggml's name of the format, such as "Q4_1", or "type 77".
func (t TensorType) String() string {
	if l, ok := layoutOf(t); ok {
		return l.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// ValueType is the type of a metadata value, numbered as GGUF numbers them (enum gguf_type).
type ValueType uint32

// The metadata types.
const (
	Uint8 ValueType = iota
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	String
	Array
	Uint64
	Int64
	Float64
)

// String returns the name of the type in lower case.
func (t ValueType) String() string {
	names := [...]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64",
		"int64", "float64"}
	if int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("value type %d", uint32(t))
}

// fixedSize returns the bytes of a value of that type, 0 for strings, arrays and unknown types.
func (t ValueType) fixedSize() int64 {
	switch t {
	case Uint8, Int8, Bool:
		return 1
	case Uint16, Int16:
		return 2
	case Uint32, Int32, Float32:
		return 4
	case Uint64, Int64, Float64:
		return 8
	}
	return 0
}

// minSize returns the fewest bytes that a value of that type takes in a file; ok is false for an unknown type.
func (t ValueType) minSize() (n int64, ok bool) {
	switch t {
	case String:
		return 8, true // the length
	case Array:
		return 12, true // element type and count
	}
	n = t.fixedSize()
	return n, n > 0
}
