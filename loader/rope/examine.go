package rope

import (
	"fmt"
	"math"
	"strings"
)

// Examination is what there is to say about a table: its planes, its kernel, and what its bands can test. It is what `headscope inspect --table`
// prints, and its JSON.
type Examination struct {
	Name        string     `json:"name"`
	Formula     string     `json:"formula"`
	RotaryDim   int        `json:"rotary_dim"`
	Layout      Layout     `json:"layout"`
	Scale       float64    `json:"scale"`       // factor on cosine and sine
	Planes      []float64  `json:"planes"`      // frequencies, radians a token
	Wavelengths []*float64 `json:"wavelengths"` // tokens a turn, null where a plane does not turn
	Order       []int      `json:"order"`       // planes, slowest first

	Length        int           `json:"length"` // tokens: the distances below go up to it
	Kernel        []KernelPoint `json:"kernel"`
	MaxDifference *float64      `json:"max_difference"` // largest |direct - closed| over all whole distances, null without a closed form
	HalfWidth     *float64      `json:"half_width"`     // tokens, see Table.HalfWidth; null where c stays above 0
	Holonomy      []HolonomyAt  `json:"holonomy"`
	Bands         []BandAngle   `json:"bands"`

	Curve []float64 `json:"-"` // c(0) to c(Length)
}

// WavelengthList returns the wavelengths as numbers, infinite where a plane does not turn.
func (e *Examination) WavelengthList() []float64 { return plain(e.Planes).Wavelengths() }

// KernelPoint is the kernel at one distance.
type KernelPoint struct {
	N              float64  `json:"n"`
	Direct         float64  `json:"direct"`          // mean of the cosines
	Closed         *float64 `json:"closed"`          // null where no closed form is known
	TokenInversion float64  `json:"token_inversion"` // see TokenInversion
}

// HolonomyAt is the rotation after N tokens.
type HolonomyAt struct {
	N        float64  `json:"n"`
	Rotation Holonomy `json:"rotation"`
	MinCos   float64  `json:"min_cos"`
	MaxCos   float64  `json:"max_cos"`
}

// BandAngle is how far a band turns.
type BandAngle struct {
	Band   string  `json:"band"`
	Planes []int   `json:"planes"`
	Dims   []int   `json:"dims"`
	Angle  float64 `json:"angle"`          // the largest over Length, radians
	Tests  bool    `json:"tests_rotation"` // Angle reaches LeastAngle
}

// Subject is a table under examination.
type Subject struct {
	Name   string
	Table  *Table
	Layout Layout
	Rule   *Rule // that made it, nil for a file
	Length int   // tokens; 0 = twice the N of a ladder that has one, else 4096
}

// defaultLength is that of a table about whose length nothing is known.
const defaultLength = 4096

// mostLength bounds the distances that are gone through one by one.
const mostLength = 1 << 20

// Examine computes it all. The error is that of a length that is out of range.
func Examine(s Subject) (*Examination, error) {
	t, length := s.Table, s.Length
	var closed func(float64) float64
	period := 0.0
	formula := "frequencies from a file"
	if s.Rule != nil {
		formula, period, closed = s.Rule.Formula(), s.Rule.Length(), s.Rule.Closed(t.Planes())
	}
	switch {
	case length > 0:
	case period > 0:
		length = int(math.Ceil(min(2*period, mostLength)))
	default:
		length = defaultLength
	}
	if length > mostLength {
		return nil, fmt.Errorf("rope: length: got %d, want at most %d tokens", length, mostLength)
	}
	out := &Examination{Name: s.Name, Formula: formula, RotaryDim: t.RotaryDim, Layout: s.Layout, Scale: t.Scale, Planes: t.InvFreq,
		Order: t.SlowestPlanes(t.RotaryDim), Length: length}
	for _, l := range t.Wavelengths() {
		if math.IsInf(l, 0) {
			out.Wavelengths = append(out.Wavelengths, nil)
		} else {
			out.Wavelengths = append(out.Wavelengths, &l)
		}
	}
	out.kernels(t, closed)
	if n, ok := t.HalfWidth(float64(length)); ok {
		out.HalfWidth = &n
	}
	if period == 0 {
		period = float64(length)
	}
	for _, n := range []float64{period, 2 * period} {
		h, low, high := t.Holonomy(n)
		out.Holonomy = append(out.Holonomy, HolonomyAt{n, h, low, high})
	}
	return out, out.bands(t)
}

// kernels goes through all distances, and keeps powers of two.
func (e *Examination) kernels(t *Table, closed func(float64) float64) {
	worst := 0.0
	e.Curve = make([]float64, e.Length+1)
	for n := range e.Curve {
		x := float64(n)
		p := KernelPoint{N: x, Direct: t.Kernel(x)}
		e.Curve[n] = p.Direct
		if closed != nil {
			c := closed(x)
			p.Closed, worst = &c, max(worst, math.Abs(c-p.Direct))
		}
		if p.TokenInversion = TokenInversion(p.Direct); n&(n-1) == 0 || n == e.Length {
			e.Kernel = append(e.Kernel, p)
		}
	}
	if closed != nil {
		e.MaxDifference = &worst
	}
}

// doses are the sizes in dimensions at which slow bands are edited.
func doses() []int { return []int{8, 16, 32, 48, 64} }

func (e *Examination) bands(t *Table) error {
	for _, k := range doses() {
		for _, name := range []string{"slow", "mid", "fast"} {
			if k >= t.RotaryDim {
				continue
			}
			b, err := ParseBand(fmt.Sprint(name, k))
			if err != nil {
				return err
			}
			planes, err := b.Planes(t)
			if err != nil {
				return err
			}
			angle := t.LargestAngle(planes, float64(e.Length))
			e.Bands = append(e.Bands, BandAngle{b.String(), planes, e.Layout.Dims(planes, t.RotaryDim), angle, angle >= LeastAngle})
		}
	}
	return nil
}

// Plot draws the kernel over the distances as text, rows lines of columns characters between a scale on the left and one below. A column
// that stands for several distances is drawn from its smallest value to its largest.
func (e *Examination) Plot(columns, rows int) string {
	columns = min(columns, len(e.Curve))
	grid := make([][]byte, rows)
	row := func(c float64) int { return int(math.Round((1 - c) / 2 * float64(rows-1))) }
	for i := range grid {
		grid[i] = []byte(strings.Repeat(" ", columns))
	}
	for x := range columns {
		grid[row(0)][x] = '-'
	}
	for x := range columns {
		from, to := x*len(e.Curve)/columns, (x+1)*len(e.Curve)/columns
		low, high := math.Inf(1), math.Inf(-1)
		for _, c := range e.Curve[from:to] {
			low, high = min(low, c), max(high, c)
		}
		for y := row(min(high, 1)); y <= row(max(low, -1)); y++ {
			grid[y][x] = '*'
		}
	}
	var b strings.Builder
	for y, line := range grid {
		label := "  "
		switch y {
		case 0:
			label = " 1"
		case row(0):
			label = " 0"
		case rows - 1:
			label = "-1"
		}
		fmt.Fprintf(&b, "%s |%s\n", label, strings.TrimRight(string(line), " "))
	}
	end := fmt.Sprint(e.Length)
	fmt.Fprintf(&b, "    0%*s\n", max(columns-1, len(end)+1), end)
	return b.String()
}
