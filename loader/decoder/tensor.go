package decoder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/headscope/headscope/loader/safetensors"
)

// free releases device memory now: XLA buffers lie outside Go's heap, so the collector sees no need to hurry.
func free(ts ...*tensors.Tensor) {
	for _, t := range ts {
		if t != nil && t.Ok() {
			_ = t.FinalizeAll()
		}
	}
}

// ints uploads int32 data.
func (b *Backend) ints(data []int32, dims ...int) (*tensors.Tensor, error) {
	return tensors.FromRaw(b.Backend, 0, shapes.Make(dtypes.Int32, dims...), bytesOf(data))
}

// floats uploads float32 data as dtype (float32 or bfloat16, rounded to nearest even).
func (b *Backend) floats(data []float32, dtype dtypes.DType, dims ...int) (*tensors.Tensor, error) {
	shape := shapes.Make(dtype, dims...)
	if dtype == dtypes.Float32 {
		return tensors.FromRaw(b.Backend, 0, shape, bytesOf(data))
	}
	raw := make([]byte, 2*len(data))
	for i, f := range data {
		binary.LittleEndian.PutUint16(raw[2*i:], safetensors.BF16FromFloat32(f))
	}
	return tensors.FromRaw(b.Backend, 0, shape, raw)
}

// roundBFloat16 rounds to nearest even, as floats does.
func roundBFloat16(x float32) float32 {
	return math.Float32frombits(uint32(safetensors.BF16FromFloat32(x)) << 16)
}

func bytesOf[T int32 | float32](data []T) []byte {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 4*len(data))
}

// floatsOf copies a float tensor to the host as float32.
func floatsOf(t *tensors.Tensor) ([]float32, error) {
	if t.DType() == dtypes.Float32 {
		return tensors.CopyFlatData[float32](t)
	}
	out := make([]float32, t.Size())
	err := t.ConstBytes(func(raw []byte) {
		for i := range out {
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
		}
	})
	return out, err
}

func intsOf(t *tensors.Tensor) ([]int32, error) { return tensors.CopyFlatData[int32](t) }

// call runs a program and turns what the backend says when memory is short into an *OutOfMemoryError.
func call(e *graph.Exec, args ...any) (out []*tensors.Tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", e.Name(), r)
		}
	}()
	out, err = e.Call(args...)
	if err != nil {
		msg, _, _ := strings.Cut(err.Error(), "\n")
		err = fmt.Errorf("%s: %w", e.Name(), errors.New(msg))
		if l := strings.ToLower(msg); strings.Contains(l, "resource_exhausted") || strings.Contains(l, "out of memory") {
			err = &OutOfMemoryError{err}
		}
	}
	return out, err
}
