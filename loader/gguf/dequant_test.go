package gguf

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
)

func halves(bits ...uint16) []byte {
	var out []byte
	for _, h := range bits {
		out = binary.LittleEndian.AppendUint16(out, h)
	}
	return out
}

// TestDequantise reads one tensor of each format whose weights were worked out by hand from ggml's block layouts.
func TestDequantise(t *testing.T) {
	// Byte i of a 4-bit block holds i in its low half and 15-i in its high half.
	var nibbles []byte
	for i := range 16 {
		nibbles = append(nibbles, byte(i|(15-i)<<4))
	}
	q8 := make([]byte, 32)
	q8[0], q8[1], q8[2], q8[3], q8[31] = 0x80, 0xff, 0, 1, 127 // -128, -1, 0, 1, 127
	tests := []struct {
		kind TensorType
		data []byte
		want []float32
	}{
		{F32, []byte{0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0}, []float32{1, -2.5}},
		{F16, halves(0x3c00, 0xc000, 0x3555, 0x0001, 0x03ff, 0x0400, 0x7bff, 0xfc00), []float32{1, -2, 0x1.554p-2, 0x1p-24,
			0x1.ff8p-15, 0x1p-14, 65504, float32(math.Inf(-1))}},
		{BF16, halves(0x3f80, 0x4049, 0xbf00, 0x0001, 0x7f80), []float32{1, 3.140625, -0.5, 0x1p-133, float32(math.Inf(1))}},
		// d = 0.5: weight = (q-8)/2.
		{Q4_0, slices.Concat(halves(0x3800), nibbles), []float32{-4, -3.5, -3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5,
			3.5, 3, 2.5, 2, 1.5, 1, 0.5, 0, -0.5, -1, -1.5, -2, -2.5, -3, -3.5, -4}},
		// d = 0.25, m = -1: weight = q/4 - 1.
		{Q4_1, slices.Concat(halves(0x3400, 0xbc00), nibbles), []float32{-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75,
			2, 2.25, 2.5, 2.75, 2.75, 2.5, 2.25, 2, 1.75, 1.5, 1.25, 1, 0.75, 0.5, 0.25, 0, -0.25, -0.5, -0.75, -1}},
		// d = -2: weight = -2q.
		{Q8_0, slices.Concat(halves(0xc000), q8), []float32{256, 2, 0, -2, 31: -254}},
	}
	for _, test := range tests {
		t.Run(test.kind.String(), func(t *testing.T) {
			f := newBuilder().add("before", F32, []int{3}, make([]byte, 12)).
				add("w", test.kind, []int{len(test.want)}, test.data).open(t)
			got, err := f.Float32s("w")
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if math.Float32bits(got[i]+0) != math.Float32bits(test.want[i]+0) {
					t.Errorf("weight %d: got %v, want %v", i, got[i], test.want[i])
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("got %d weights, want %d", len(got), len(test.want))
			}
		})
	}
}

// A NaN and a negative zero keep their bits.
func TestDequantiseHalfBits(t *testing.T) {
	f := newBuilder().add("w", F16, []int{2}, halves(0x8000, 0x7e01)).open(t)
	got, err := f.Float32s("w")
	if err != nil {
		t.Fatal(err)
	}
	if math.Float32bits(got[0]) != 0x80000000 || got[1] == got[1] {
		t.Errorf("got %v, want -0 and NaN", got)
	}
}

// TestReadRows reads a tensor of several read chunks whole, and rows that lie across the chunk border.
func TestReadRows(t *testing.T) {
	const rows, cols = 50, 1024 // 51,200 weights, chunks of 32,768
	var data []byte
	want := make([]float32, 0, rows*cols)
	for block := range rows * cols / 32 {
		data = append(data, halves(0x3000)...) // 0.125
		for i := range 32 {
			q := int8(block*5 + i*3)
			data = append(data, byte(q))
			want = append(want, 0.125*float32(q))
		}
	}
	f := newBuilder().add("w", Q8_0, []int{rows, cols}, data).open(t)
	whole, err := f.Float32s("w")
	if err != nil || !slices.Equal(whole, want) {
		t.Fatalf("whole tensor is wrong (error %v)", err)
	}
	got := make([]float32, 40*cols)
	if err := f.ReadRows("w", 9, got); err != nil || !slices.Equal(got, want[9*cols:49*cols]) {
		t.Errorf("rows 9 to 48 are wrong (error %v)", err)
	}
	for _, bad := range []struct{ first, n int }{{-1, cols}, {50, cols}, {49, 2 * cols}, {0, cols - 1}, {math.MaxInt, cols}} {
		if err := f.ReadRows("w", bad.first, make([]float32, bad.n)); err == nil {
			t.Errorf("rows from %d, %d values: no error", bad.first, bad.n)
		}
	}
	if err := f.ReadRows("v", 0, nil); err == nil {
		t.Error("a tensor that is not there: no error")
	}
}

// A format that is not dequantised can be listed, and is refused by name when read.
func TestUnsupportedFormat(t *testing.T) {
	f := newBuilder().add("blk.0.attn_q.weight", 12, []int{2, 256}, make([]byte, 288)).open(t)
	if got := f.Tensors()[0].Type.String(); got != "Q4_K" {
		t.Errorf("got type %s, want Q4_K", got)
	}
	_, err := f.Float32s("blk.0.attn_q.weight")
	if err == nil || !strings.Contains(err.Error(), "test.gguf: blk.0.attn_q.weight: got ggml type Q4_K") {
		t.Errorf("got %v, want an error that names tensor and type", err)
	}
}
