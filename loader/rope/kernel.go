package rope

import "math"

// Kernel is c(n) = mean over planes of cos(n w_i): the score that a query has for the same content n tokens back, over its score at distance
// 0, where all planes have equal energy. Scale is left out.
func (t *Table) Kernel(n float64) float64 {
	sum := 0.0
	for _, w := range t.InvFreq {
		sum += math.Cos(n * w)
	}
	return sum / float64(t.Planes())
}

// MoebiusKernel is the closed form of [Moebius]'s kernel, sin(dx)/(d sin x) with d = 2 planes and x = pi n/length: multiply the sum by 2 sin x
// and it telescopes. |c(n)| <= 1/(d |sin x|), c(length-n) = -c(n), and zeros lie at multiples of length/d.
func MoebiusKernel(planes int, length, n float64) float64 {
	// In distances from the nearest multiple of length, where x is small, no digit is lost.
	rest := math.Remainder(n, length)
	sign := 1.0
	if math.Mod(math.Round((n-rest)/length), 2) != 0 {
		sign = -1
	}
	if rest == 0 {
		return sign
	}
	d, x := float64(2*planes), math.Pi*rest/length
	return sign * math.Sin(d*x) / (d * math.Sin(x))
}

// PeriodicKernel is the closed form of [Periodic]'s kernel, sin(Mx)cos((M-1+2 first)x)/(M sin x) with M planes and x = pi n/length.
func PeriodicKernel(planes int, length float64, first int, n float64) float64 {
	rest := math.Remainder(n, length)
	if rest == 0 {
		return 1
	}
	m, x := float64(planes), math.Pi*rest/length
	return math.Sin(m*x) * math.Cos((m-1+2*float64(first))*x) / (m * math.Sin(x))
}

// HalfWidth is the half-width of the kernel's main lobe: the smallest distance, in tokens and not whole, at which c is 0. ok is false where it
// stays above 0 up to limit. That of [Moebius] is length/d, d = 2 planes.
func (t *Table) HalfWidth(limit float64) (n float64, ok bool) {
	fastest := 0.0
	for _, w := range t.InvFreq {
		fastest = max(fastest, w)
	}
	if fastest == 0 {
		return 0, false
	}
	// No plane is faster, so a dip below 0 that is shorter than an eighth of its half turn is all that this can miss.
	step := math.Pi / fastest / 8
	for low := 0.0; low < limit; low += step {
		high := min(low+step, limit)
		if t.Kernel(high) > 0 {
			continue
		}
		for range 60 {
			if mid := (low + high) / 2; t.Kernel(mid) > 0 {
				low = mid
			} else {
				high = mid
			}
		}
		return high, true
	}
	return 0, false
}

// Holonomy is the rotation after some number of tokens, all planes together.
type Holonomy string

const (
	Identity Holonomy = "+I"
	Reversal Holonomy = "-I" // every plane has turned by an odd number of half turns
	Neither  Holonomy = "neither"
)

// Holonomy tells what the rotation over n tokens is, and the smallest and the largest cosine of its planes. An angle counts as a
// multiple of pi where it is within 1e-9 of it, relative to the turns made.
func (t *Table) Holonomy(n float64) (h Holonomy, minCos, maxCos float64) {
	minCos, maxCos = 1, -1
	plus, minus := true, true
	for _, w := range t.InvFreq {
		sin, cos := math.Sincos(n * w)
		minCos, maxCos = min(minCos, cos), max(maxCos, cos)
		whole := math.Abs(sin) <= 1e-9*max(1, n*w/math.Pi)
		plus, minus = plus && whole && cos > 0, minus && whole && cos < 0
	}
	switch {
	case plus:
		return Identity, minCos, maxCos
	case minus:
		return Reversal, minCos, maxCos
	}
	return Neither, minCos, maxCos
}

// LeastAngle is the angle, in radians, that some plane has to turn by for an edit of the planes to say anything about rotation. Below it
// their cosines are above .995, and what an edit removes is content.
const LeastAngle = 0.1

// LargestAngle is the largest angle, in radians, that one of the planes turns by over a distance in tokens; see [LeastAngle].
func (t *Table) LargestAngle(planes []int, distance float64) float64 {
	angle := 0.0
	for _, p := range planes {
		angle = max(angle, t.InvFreq[p]*distance)
	}
	return angle
}
