package gguf

import (
	"encoding/binary"
	"math"

	"github.com/headscope/headscope/loader/safetensors"
)

// supported says whether dequantise knows the format.
func supported(t TensorType) bool {
	switch t {
	case F32, F16, BF16, Q4_0, Q4_1, Q8_0:
		return true
	}
	return false
}

// dequantise turns the blocks of raw into dst, whose length is a whole number of blocks. The arithmetic is float32, product and
// sum rounded one after the other, as ggml's reference (dequantize_row_*) and gguf-py do; the explicit conversions keep the
// compiler from fusing them.
func dequantise(t TensorType, dst []float32, raw []byte) {
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = float16(raw[2*i:])
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
		}
	case Q4_0:
		dequantiseQ4(dst, raw, 18)
	case Q4_1:
		dequantiseQ4(dst, raw, 20)
	case Q8_0:
		dequantiseQ8(dst, raw)
	}
}

// dequantiseQ4 reads blocks of Q4_0 (18 bytes) or Q4_1 (20 bytes). Weight i < 16 is the low half of byte i, weight 16+i the high
// half. A block has 16 possible values, so they are made once.
func dequantiseQ4(dst []float32, raw []byte, blockBytes int) {
	for len(dst) >= 32 {
		d := float16(raw)
		var table [16]float32
		if blockBytes == 18 {
			for q := range table {
				table[q] = d * float32(q-8)
			}
		} else {
			m := float16(raw[2:])
			for q := range table {
				table[q] = float32(d*float32(q)) + m
			}
		}
		packed := raw[blockBytes-16 : blockBytes]
		out := dst[:32]
		for i, b := range packed {
			out[i] = table[b&15]
			out[i+16] = table[b>>4]
		}
		dst, raw = dst[32:], raw[blockBytes:]
	}
}

func dequantiseQ8(dst []float32, raw []byte) {
	for len(dst) >= 32 {
		d := float16(raw)
		out := dst[:32]
		for i, q := range raw[2:34] {
			out[i] = d * float32(int8(q))
		}
		dst, raw = dst[32:], raw[34:]
	}
}

// float16 reads an IEEE 754 half-precision number.
func float16(b []byte) float32 { return safetensors.Float32FromF16(binary.LittleEndian.Uint16(b)) }
