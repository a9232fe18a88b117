package rope

import "math"

// TokenInversion is the probability that two keys, of which the query scores the first higher at distance 0, are scored the other way round
// where both are r tokens back: arccos(c(r))/pi with c = [Table.Kernel](r), for isotropic Gaussian content and planes of equal energy. The rates are
// those that Du et al. (arXiv 2605.15514) count in models.
func TokenInversion(c float64) float64 { return math.Acos(min(max(c, -1), 1)) / math.Pi }

// LocalityInversion is the probability that a key is scored higher r2 tokens back than r1 tokens back, for keys that correlate with the query by rho and
// are Gaussian besides, planes of equal energy: Phi(-rho (c(r1)-c(r2)) / sqrt((1-rho^2)(1-c(r2-r1))/M)) for M planes. rho = 0 gives 1/2 at all
// distances. ok is false where the two scores cannot differ.
func (t *Table) LocalityInversion(r1, r2, rho float64) (p float64, ok bool) {
	apart := 1 - t.Kernel(r2-r1)
	if apart <= 1e-12 || math.Abs(rho) >= 1 {
		return 0, false
	}
	z := -rho * (t.Kernel(r1) - t.Kernel(r2)) / math.Sqrt((1-rho*rho)*apart/float64(t.Planes()))
	return math.Erfc(-z/math.Sqrt2) / 2, true
}
