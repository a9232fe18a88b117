package safetensors

import (
	"fmt"
	"math"
)

// DType is the element type of a tensor, spelled as in the header.
type DType string

// The dtypes of the format.
const (
	BOOL       DType = "BOOL"    // one byte, 0 or 1
	F4         DType = "F4"      // 4-bit E2M1, two to a byte
	F6E2M3     DType = "F6_E2M3" // 6 bits, packed
	F6E3M2     DType = "F6_E3M2" // 6 bits, packed
	U8         DType = "U8"
	I8         DType = "I8"
	F8E5M2     DType = "F8_E5M2"
	F8E4M3     DType = "F8_E4M3"
	F8E8M0     DType = "F8_E8M0" // power-of-two scale
	F8E4M3FNUZ DType = "F8_E4M3FNUZ"
	F8E5M2FNUZ DType = "F8_E5M2FNUZ"
	I16        DType = "I16"
	U16        DType = "U16"
	F16        DType = "F16"  // IEEE 754 binary16
	BF16       DType = "BF16" // upper half of binary32
	I32        DType = "I32"
	U32        DType = "U32"
	F32        DType = "F32"
	C64        DType = "C64" // two binary32: real, imaginary
	F64        DType = "F64"
	I64        DType = "I64"
	U64        DType = "U64"
)

// Bits returns the size of one element in bits, 0 for a dtype that the format does not have.
func (d DType) Bits() int {
	switch d {
	case F4:
		return 4
	case F6E2M3, F6E3M2:
		return 6
	case BOOL, U8, I8, F8E5M2, F8E4M3, F8E8M0, F8E4M3FNUZ, F8E5M2FNUZ:
		return 8
	case I16, U16, F16, BF16:
		return 16
	case I32, U32, F32:
		return 32
	case C64, F64, I64, U64:
		return 64
	}
	return 0
}

// byteSize returns how many bytes a tensor of that dtype and shape takes.
func byteSize(d DType, shape []int) (int64, *HeaderError) {
	bits := d.Bits()
	if bits == 0 {
		return 0, broken(RuleDType, "got dtype %.40q, want one of the format's", string(d))
	}
	// The product is checked step by step, as the reference reader does: an overflow ahead of a zero is still refused.
	n := int64(1)
	for _, dim := range shape {
		if dim < 0 {
			return 0, broken(RuleShape, "got dimension %d, want a count", dim)
		}
		if dim != 0 && n > math.MaxInt64/int64(dim) {
			return 0, broken(RuleOverflow, "the product of the shape does not fit 63 bits")
		}
		n *= int64(dim)
	}
	if n > math.MaxInt64/int64(bits) {
		return 0, broken(RuleOverflow, "%d elements of %d bits do not fit 63 bits", n, bits)
	}
	total := n * int64(bits)
	if total%8 != 0 {
		return 0, broken(RuleSubByte, "%d elements of %d bits are no whole number of bytes", n, bits)
	}
	return total / 8, nil
}

// Info says where a tensor lies and what it is.
type Info struct {
	Name  string
	DType DType
	Shape []int // row-major; empty for a scalar
	Begin int64 // first byte, counted from the start of the data section
	End   int64 // first byte after it
}

// Elements returns the product of the shape, 1 for a scalar.
func (i Info) Elements() int {
	n := 1
	for _, dim := range i.Shape {
		n *= dim
	}
	return n
}

// String is the form used in listings: name dtype[shape].
func (i Info) String() string { return fmt.Sprintf("%s %s%v", i.Name, i.DType, i.Shape) }
