package harness

import (
	"encoding/json"
	"math"
	"strconv"
)

// Number is a float64 that is null in JSON where it is not finite: Go's encoder refuses NaN, and readers of JSON lines do too.
type Number float64

// MarshalJSON writes the shortest decimal that reads back as the same number, or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return json.Marshal(f)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

const nanBits = 0x7FF8000000000001

var nan = Number(math.Float64frombits(nanBits)) // what JSON's null is read as

// floats is a slice of float32 with the same rule.
type floats []float32

func (f floats) MarshalJSON() ([]byte, error) {
	if f == nil {
		return []byte("null"), nil
	}
	b := make([]byte, 0, 8*len(f)+2)
	b = append(b, '[')
	for i, x := range f {
		if i > 0 {
			b = append(b, ',')
		}
		if x64 := float64(x); math.IsNaN(x64) || math.IsInf(x64, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, x64, 'g', -1, 32)
		}
	}
	return append(b, ']'), nil
}

func (f *floats) UnmarshalJSON(b []byte) error {
	var list []*float32
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*f = make(floats, len(list))
	for i, x := range list {
		(*f)[i] = float32(math.NaN())
		if x != nil {
			(*f)[i] = *x
		}
	}
	return nil
}

// Numbers are x as a result holds them.
func Numbers(x []float64) []Number {
	out := make([]Number, len(x))
	for i, v := range x {
		out[i] = Number(v)
	}
	return out
}
