package rope

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Band names planes by how fast they turn, for any table. The zero value is no band.
type Band struct {
	text        string
	kind        string
	dims        int     // slow, fast, mid, random: dimensions, two a plane
	seed        uint64  // random
	first, last int     // window: ranks by speed, 0 is the slowest
	from, to    float64 // wave: tokens a turn, from <= wavelength < to
}

const bandForms = "slowK, fastK or midK with an even number K of dimensions, randomK/SEED, windowA-B (planes by rank, 0 the slowest) or waveA-B (tokens a turn, e.g. wave100-1000 or wave100-)"

var (
	bandPattern = regexp.MustCompile(`^(?:(slow|fast|mid)(0|[1-9][0-9]*)|(random)(0|[1-9][0-9]*)/(0|[1-9][0-9]*)|(window)(0|[1-9][0-9]*)-(0|[1-9][0-9]*)|(wave)([0-9.]*)-([0-9.]*))$`)
	tokens      = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$`)
)

// ParseBand reads the name of a band. Each has one spelling:
//
//	slow16, fast16     the 8 planes that turn slowest, fastest
//	mid16              8 planes in the middle of the order by speed; of an odd rest the larger half is faster
//	random16/7         8 planes drawn with seed 7, the same for all tables of one size
//	window4-11         the planes of rank 4 to 11 in the order by speed, of which 0 is the slowest
//	wave100-1000       planes with a wavelength from 100 to below 1000 tokens; either end may be left out
func ParseBand(s string) (Band, error) {
	fail := func(format string, args ...any) (Band, error) {
		return Band{}, fmt.Errorf("planes %q: %s", s, fmt.Sprintf(format, args...))
	}
	m := bandPattern.FindStringSubmatch(s)
	if m == nil {
		return fail("want %s", bandForms)
	}
	b := Band{text: s, kind: m[1] + m[3] + m[6] + m[9]}
	var err error
	integer := func(text string) (n int) {
		if err == nil {
			n, err = strconv.Atoi(text)
		}
		return n
	}
	switch b.kind {
	case "window":
		if b.first, b.last = integer(m[7]), integer(m[8]); err == nil && b.first > b.last {
			return fail("rank %d is above %d; want the slower end first", b.first, b.last)
		}
	case "wave":
		if b.from, b.to, err = waveEnds(m[10], m[11]); err == nil && b.from >= b.to {
			return fail("want the shorter wavelength first, and a longer one behind it")
		}
	case "random":
		b.dims = integer(m[4])
		if err == nil {
			b.seed, err = strconv.ParseUint(m[5], 10, 63)
		}
	default:
		b.dims = integer(m[2])
	}
	if err != nil {
		return fail("a number that is too large, or none; want %s", bandForms)
	}
	if b.kind != "window" && b.kind != "wave" && (b.dims == 0 || b.dims%2 != 0) {
		return fail("got %d dimensions, want an even number > 0: a plane has two", b.dims)
	}
	return b, nil
}

// waveEnds reads two wavelengths of which one may be missing.
func waveEnds(a, b string) (from, to float64, err error) {
	to = math.Inf(1)
	if a+b == "" || a != "" && !tokens.MatchString(a) || b != "" && !tokens.MatchString(b) {
		return 0, 0, strconv.ErrSyntax
	}
	if a != "" {
		if from, err = strconv.ParseFloat(a, 64); err != nil {
			return 0, 0, err
		}
	}
	if b != "" {
		to, err = strconv.ParseFloat(b, 64)
	}
	return from, to, err
}

// IsBand tells a band, well formed or not, from a list of plane numbers.
func IsBand(s string) bool {
	return s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
}

// String is the name that ParseBand reads.
func (b Band) String() string { return b.text }

// Planes lists the band's planes in a table, ascending. A plane that does not turn has an infinite wavelength; wave bands open at the long end
// have it. A band of more planes than there are, or of none, is an error.
func (b Band) Planes(t *Table) ([]int, error) {
	n, count := t.Planes(), b.dims/2
	if b.dims > 2*n {
		return nil, fmt.Errorf("band %s: the model rotates %d dimensions", b.text, 2*n)
	}
	order := t.SlowestPlanes(2 * n)
	var out []int
	switch b.kind {
	case "slow":
		out = order[:count]
	case "fast":
		out = order[n-count:]
	case "mid":
		out = order[(n-count)/2:][:count]
	case "random":
		out = RandomPlanes(rand.New(rand.NewPCG(b.seed, bandStream)), n, count)
	case "window":
		if b.last >= n {
			return nil, fmt.Errorf("band %s: the model has planes of ranks 0-%d", b.text, n-1)
		}
		out = order[b.first : b.last+1]
	case "wave":
		for p, w := range t.InvFreq {
			if l := wavelength(w); l >= b.from && (l < b.to || math.IsInf(b.to, 1)) {
				out = append(out, p)
			}
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("band %s: no plane has such a wavelength; the model's are %.6g to %.6g tokens", b.text,
				wavelength(t.InvFreq[order[n-1]]), wavelength(t.InvFreq[order[0]]))
		}
	default:
		return nil, fmt.Errorf("no band; want %s", bandForms)
	}
	out = slices.Clone(out)
	slices.Sort(out)
	return out, nil
}

// Wavelengths returns the tokens that each plane takes for a turn, infinite where it does not turn.
func (t *Table) Wavelengths() []float64 {
	out := make([]float64, t.Planes())
	for i, w := range t.InvFreq {
		out[i] = wavelength(w)
	}
	return out
}

func wavelength(w float64) float64 { return 2 * math.Pi / w }

// IsTableFile tells the path of a table file from the name of a rule.
func IsTableFile(s string) bool { return strings.HasSuffix(s, ".json") }
