package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// ieeeValue is the value of a small float by the definition of IEEE 754, in float64, where it is exact.
func ieeeValue(bits uint16, expBits, manBits int) float64 {
	sign := 1 - 2*float64(bits>>15)
	exp, man := int(bits>>manBits)&(1<<expBits-1), float64(bits&(1<<manBits-1))
	bias, scale := 1<<(expBits-1)-1, math.Ldexp(1, manBits)
	switch {
	case exp == 1<<expBits-1 && man == 0:
		return math.Inf(int(sign))
	case exp == 1<<expBits-1:
		return math.NaN()
	case exp == 0:
		return sign * math.Ldexp(man/scale, 1-bias)
	}
	return sign * math.Ldexp(1+man/scale, exp-bias)
}

func TestDecodeEveryHalf(t *testing.T) {
	for _, c := range []struct {
		dt               DType
		decode           func(uint16) float32
		expBits, manBits int
	}{{F16, Float32FromF16, 5, 10}, {BF16, Float32FromBF16, 8, 7}} {
		t.Run(string(c.dt), func(t *testing.T) {
			// All values, in order and shifted by one byte: the vector paths and the tails see each.
			src := make([]byte, 2*65536+1)
			for i := range 65536 {
				binary.LittleEndian.PutUint16(src[1+2*i:], uint16(i))
			}
			dst := make([]float32, 65536)
			if err := DecodeFloat32(dst, src[1:], c.dt); err != nil {
				t.Fatal(err)
			}
			for i, got := range dst {
				bits := uint16(i)
				want := ieeeValue(bits, c.expBits, c.manBits)
				one := c.decode(bits)
				if math.Float32bits(one) != math.Float32bits(got) {
					t.Fatalf("%04x: alone %x, in a row %x", bits, math.Float32bits(one), math.Float32bits(got))
				}
				if math.IsNaN(want) {
					payload := uint32(bits&(1<<c.manBits-1)) << (23 - c.manBits)
					if b := math.Float32bits(got); b != uint32(bits&0x8000)<<16|0x7f800000|payload {
						t.Fatalf("%04x: got %08x, want a NaN of that sign and payload", bits, b)
					}
					continue
				}
				if float64(got) != want || math.Signbit(float64(got)) != math.Signbit(want) {
					t.Fatalf("%04x: got %v, want %v", bits, got, want)
				}
			}
		})
	}
}

func TestBF16FromFloat32(t *testing.T) {
	for i := range 65536 {
		bits := uint16(i)
		f := Float32FromBF16(bits)
		want := bits
		if f != f {
			want |= 0x40
		}
		if got := BF16FromFloat32(f); got != want {
			t.Fatalf("%04x: comes back as %04x, want %04x", bits, got, want)
		}
	}
	// Between two neighbours the nearer one wins, and at the middle the even one.
	for i := range uint32(0x7f80) {
		low, high := ieeeValue(uint16(i), 8, 7), ieeeValue(uint16(i+1), 8, 7)
		if math.IsInf(high, 0) {
			high = math.Ldexp(1, 128) // rounding treats the step beyond the largest finite value as one more step
		}
		for _, rest := range []uint32{1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			bits := i<<16 | rest
			f := math.Float32frombits(bits)
			below, above := float64(f)-low, high-float64(f)
			want := uint16(i)
			if above < below || above == below && i&1 == 1 {
				want++
			}
			if got := BF16FromFloat32(f); got != want {
				t.Fatalf("%08x: got %04x, want %04x", bits, got, want)
			}
			if got := BF16FromFloat32(-f); got != want|0x8000 {
				t.Fatalf("-%08x: got %04x, want %04x", bits, got, want|0x8000)
			}
		}
	}
	for _, bits := range []uint32{0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff} {
		got := BF16FromFloat32(math.Float32frombits(bits))
		if f := Float32FromBF16(got); f == f || got>>15 != uint16(bits>>31) {
			t.Errorf("NaN %08x: got %04x", bits, got)
		}
	}
}

func TestDecodeSplits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dt := range []DType{F32, F16, BF16} {
		width := dt.Bits() / 8
		for _, n := range []int{0, 1, 3, 4, 5, 7, decodeChunk - 1, decodeChunk, decodeChunk + 1, 3*decodeChunk + 5} {
			src := make([]byte, n*width+1)[1:] // unaligned
			for i := range src {
				src[i] = byte(rng.Uint32())
			}
			dst := make([]float32, n)
			if err := DecodeFloat32(dst, src, dt); err != nil {
				t.Fatal(err)
			}
			for i, got := range dst {
				var want uint32
				switch dt {
				case F32:
					want = binary.LittleEndian.Uint32(src[4*i:])
				case F16:
					want = math.Float32bits(Float32FromF16(binary.LittleEndian.Uint16(src[2*i:])))
				case BF16:
					want = uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16
				}
				if math.Float32bits(got) != want {
					t.Fatalf("%s: %d elements: element %d: got %08x, want %08x", dt, n, i, math.Float32bits(got), want)
				}
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		elements, bytes int
		dt              DType
		want            string
	}{{1, 8, F64, "F64"}, {1, 1, F8E4M3, "F8_E4M3"}, {1, 3, F16, "3 bytes"}, {2, 2, BF16, "2 elements"}, {1, 8, F32, "8 bytes"}, {1, 4, "", "want F32"}} {
		err := DecodeFloat32(make([]float32, c.elements), make([]byte, c.bytes), c.dt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes of %q for %d elements: got %v, want an error with %q", c.bytes, c.dt, c.elements, err, c.want)
		}
	}
}

func BenchmarkDecodeFloat32(b *testing.B) {
	const size = 500_000_000 // bytes of a checkpoint
	for _, dt := range []DType{BF16, F16, F32} {
		n := size / (dt.Bits() / 8)
		src, dst := make([]byte, size), make([]float32, n)
		for i := range src {
			src[i] = byte(i * 7)
		}
		clear(dst) // the system hands out the pages here, not in the first round
		b.Run(fmt.Sprintf("%s/500MB", dt), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if err := DecodeFloat32(dst, src, dt); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
