package rope

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Table is the frequency table of one head.
type Table struct {
	InvFreq   []float64 // [planes], radians a position
	Scale     float64   // factor on cosine and sine of both query and key, so scores scale by its square
	RotaryDim int       // rotated dimensions of the head, twice the number of planes

	from *origin // of New, nil for a table that was made otherwise
}

// origin is what New made a table from.
type origin struct {
	config              Config
	headDim, passLength int
}

// New builds the table of c for heads of headDim dimensions and a pass of passLength tokens; [Config.VariesBeyond] says whether the length
// matters.
//
// An unknown type is an *UnsupportedError; a missing or impossible value an error that names its config key.
func New(c Config, headDim, passLength int) (*Table, error) {
	r := c.RotaryDim
	if r == 0 {
		r = headDim
	}
	switch {
	case passLength <= 0:
		return nil, fmt.Errorf("rope: context length: got %d, want > 0", passLength)
	case r <= 0 || r > headDim:
		return nil, fmt.Errorf("rope: rotary dimensions: got %d, want 2 to the head's %d", r, headDim)
	case r%2 != 0:
		return nil, fmt.Errorf("rope: rotary dimensions: got %d, want an even number", r)
	case c.Type == "exact":
		return exact(c, r)
	case !positive(c.Theta):
		return nil, fmt.Errorf("rope: rope_theta: got %v, want a finite number > 0", c.Theta)
	}
	t := &Table{InvFreq: ladder(c.Theta, r), Scale: 1, RotaryDim: r, from: &origin{c, headDim, passLength}}
	var err error
	switch c.Type {
	case "default":
	case "linear":
		err = t.divide(c)
	case "dynamic":
		err = t.raiseBase(c, passLength)
	case "llama3":
		err = t.smoothLlama3(c)
	case "yarn":
		err = t.ramp(c)
	case "longrope":
		err = t.divideEach(c, passLength)
	case "proportional":
		err = t.stopSlow(c)
	default:
		err = &UnsupportedError{Type: c.Type}
	}
	if err != nil {
		return nil, err
	}
	for i, w := range t.InvFreq {
		if !nonNegative(w) {
			return nil, fmt.Errorf("rope: %s: plane %d: got frequency %v, want a finite one", c.Type, i, w)
		}
	}
	if !positive(t.Scale) {
		return nil, fmt.Errorf("rope: %s: factor on cosine and sine: got %v, want a finite number > 0", c.Type, t.Scale)
	}
	return t, nil
}

// exact is the table of Config.Exact.
func exact(c Config, r int) (*Table, error) {
	if len(c.Exact) != r/2 {
		return nil, fmt.Errorf("rope: exact: got %d frequencies, want %d, one a plane of %d rotated dimensions", len(c.Exact), r/2, r)
	}
	for i, w := range c.Exact {
		if !nonNegative(w) {
			return nil, fmt.Errorf("rope: exact: plane %d: got frequency %v, want a finite number >= 0", i, w)
		}
	}
	return &Table{InvFreq: slices.Clone(c.Exact), Scale: cmp.Or(c.AttentionFactor, 1), RotaryDim: r}, nil
}

// ladder returns theta^(-2i/r), the frequencies of RoFormer (Su et al. 2021, section 3.4.2).
func ladder(theta float64, r int) []float64 {
	w := make([]float64, r/2)
	for i := range w {
		w[i] = math.Pow(theta, -2*float64(i)/float64(r))
	}
	return w
}

// Planes returns the number of planes.
func (t *Table) Planes() int { return len(t.InvFreq) }

// SlowestPlanes returns the k/2 planes that turn slowest, by ascending frequency, planes of equal frequency by index. k counts
// dimensions, two a plane, as published "k lowest dims" do; whole planes of equal frequency are taken, where an argsort over the
// dimensions would take one member of each. It panics unless k is even and between 0 and RotaryDim: check user input first.
func (t *Table) SlowestPlanes(k int) []int {
	if k < 0 || k > t.RotaryDim || k%2 != 0 {
		panic(fmt.Sprintf("rope: SlowestPlanes(%d): want an even number of dimensions up to %d", k, t.RotaryDim))
	}
	order := upTo(t.Planes())
	slices.SortStableFunc(order, func(a, b int) int {
		switch wa, wb := t.InvFreq[a], t.InvFreq[b]; {
		case wa < wb:
			return -1
		case wa > wb:
			return 1
		}
		return 0
	})
	return order[:k/2]
}

// Precision says in which arithmetic the angle position*frequency is formed.
type Precision int

const (
	// Float32Angles rounds frequency and product to float32 before the cosine, as transformers does. At position 100000 the angle of
	// the fastest plane is then off by up to 0.004 radians, and the checkpoint was trained with that.
	Float32Angles Precision = iota
	// Float64Angles rounds only the result.
	Float64Angles
)

func (p Precision) String() string {
	if p == Float64Angles {
		return "float64"
	}
	return "float32"
}

// CosSin returns Scale*cos and Scale*sin of the angles at positions 0 to positions-1, [positions, planes] each, row-major.
func (t *Table) CosSin(positions int, precision Precision) (cos, sin []float32) {
	cos = make([]float32, 0, positions*t.Planes())
	sin = make([]float32, 0, positions*t.Planes())
	for p := range positions {
		cos, sin = t.AppendCosSin(cos, sin, p, precision)
	}
	return cos, sin
}

// AppendCosSin appends Scale*cos and Scale*sin of the angles at one position, [planes] each.
func (t *Table) AppendCosSin(cos, sin []float32, position int, precision Precision) (newCos, newSin []float32) {
	for _, w := range t.InvFreq {
		if precision == Float64Angles {
			s, c := math.Sincos(float64(position) * w)
			cos, sin = append(cos, float32(c*t.Scale)), append(sin, float32(s*t.Scale))
			continue
		}
		// The conversion keeps the compiler from fusing the product into a wider one.
		angle := float32(float32(position) * float32(w))
		s, c := math.Sincos(float64(angle))
		scale := float32(t.Scale)
		cos, sin = append(cos, float32(c)*scale), append(sin, float32(s)*scale)
	}
	return cos, sin
}
