package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
)

// Float32FromBF16 returns the value of a bfloat16, given by its bits. Every bfloat16 is a float32.
func Float32FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// BF16FromFloat32 returns the bits of the bfloat16 nearest to f, ties to even. Values beyond the largest finite one become an infinity,
// and a NaN keeps its sign and upper payload and becomes quiet.
func BF16FromFloat32(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		// Rounding could carry a NaN's payload away and leave an infinity.
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// Float32FromF16 returns the value of an IEEE 754 binary16, given by its bits. Every binary16 is a float32; a NaN keeps its
// sign and payload.
func Float32FromF16(h uint16) float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)<<13
	if rest >= 0x7c00<<13 {
		return math.Float32frombits(sign | 0x7f800000 | rest)
	}
	// Read as a float32, rest is the value times 2^-112, subnormals included, and the product is exact.
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(rest)*0x1p112))
}

// decodeChunk is how many elements a goroutine of DecodeFloat32 takes at a time: large beside its start, small beside a checkpoint's tensors.
const decodeChunk = 1 << 19

// DecodeFloat32 decodes little-endian F32, F16 or BF16 into dst, exactly. It splits large inputs over GOMAXPROCS goroutines. src must hold
// exactly len(dst) elements; it need not be aligned. Errors name another dtype or a length that does not fit.
func DecodeFloat32(dst []float32, src []byte, dt DType) error {
	var decode func(dst []float32, src []byte)
	switch dt {
	case F32:
		decode = decodeF32
	case F16:
		decode = decodeF16
	case BF16:
		decode = decodeBF16
	default:
		return fmt.Errorf("got dtype %s, want F32, F16 or BF16", dt)
	}
	width := dt.Bits() / 8
	if len(src)%width != 0 || len(src)/width != len(dst) {
		return fmt.Errorf("got %d bytes of %s for %d elements, want %d bytes each", len(src), dt, len(dst), width)
	}
	chunks := (len(dst) + decodeChunk - 1) / decodeChunk
	workers := min(chunks, runtime.GOMAXPROCS(0))
	if workers <= 1 {
		decode(dst, src)
		return nil
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			// Chunks are dealt in turn, so that all workers stay near one place of the file and read ahead helps them all.
			for c := w; c < chunks; c += workers {
				from, to := c*decodeChunk, min((c+1)*decodeChunk, len(dst))
				decode(dst[from:to], src[from*width:to*width])
			}
		})
	}
	wg.Wait()
	return nil
}

func decodeF32(dst []float32, src []byte) {
	for len(dst) >= 4 && len(src) >= 16 {
		dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(src))
		dst[1] = math.Float32frombits(binary.LittleEndian.Uint32(src[4:]))
		dst[2] = math.Float32frombits(binary.LittleEndian.Uint32(src[8:]))
		dst[3] = math.Float32frombits(binary.LittleEndian.Uint32(src[12:]))
		dst, src = dst[4:], src[16:]
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func decodeBF16(dst []float32, src []byte) {
	for len(dst) >= 4 && len(src) >= 8 {
		v := binary.LittleEndian.Uint64(src)
		dst[0] = math.Float32frombits(uint32(v) << 16)
		dst[1] = math.Float32frombits(uint32(v) & 0xffff0000)
		dst[2] = math.Float32frombits(uint32(v>>32) << 16)
		dst[3] = math.Float32frombits(uint32(v>>32) & 0xffff0000)
		dst, src = dst[4:], src[8:]
	}
	for i := range dst {
		dst[i] = Float32FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func decodeF16(dst []float32, src []byte) {
	for len(dst) >= 4 && len(src) >= 8 {
		v := binary.LittleEndian.Uint64(src)
		dst[0] = Float32FromF16(uint16(v))
		dst[1] = Float32FromF16(uint16(v >> 16))
		dst[2] = Float32FromF16(uint16(v >> 32))
		dst[3] = Float32FromF16(uint16(v >> 48))
		dst, src = dst[4:], src[8:]
	}
	for i := range dst {
		dst[i] = Float32FromF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}
