package stats

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/combin"
)

// Permutation is a permutation test of a statistic T. Values of T within 1e-12 of the largest absolute value of the data tie, and
// ties count as extreme. Where the arrangements are sampled, the counts are of the sampled ones.
type Permutation struct {
	T Value `json:"t"` // observed

	// PCentred counts |T* - E0| >= |T - E0|, PAbs |T*| >= |T|. They are the same test only where E0, the mean of T* over all
	// arrangements, is 0. PTwiceMin is min(1, 2 min(PGreater, PLess)), which on a skewed null is neither.
	PCentred  Value `json:"p_centred"`
	PAbs      Value `json:"p_abs"`
	PGreater  Value `json:"p_greater"`
	PLess     Value `json:"p_less"`
	PTwiceMin Value `json:"p_twice_min"`
	SE        Value `json:"se_p_centred"` // Monte Carlo standard error of PCentred
	SEAbs     Value `json:"se_p_abs"`

	CountCentred int `json:"count_centred"`
	CountAbs     int `json:"count_abs"`

	NullMean Value `json:"null_mean"` // E0, from its closed form where there is one, else of the arrangements counted
	NullSD   Value `json:"null_sd"`   // likewise
	Z        Value `json:"z"`         // (T - E0) / sd
	Draws    Draws `json:"draws"`
}

func noPermutation(why Undefined) Permutation {
	v := NoValue(why)
	return Permutation{T: v, PCentred: v, PAbs: v, PGreater: v, PLess: v, PTwiceMin: v, SE: v, SEAbs: v, NullMean: v, NullSD: v, Z: v, Draws: Draws{Arrangements: v}}
}

// tails counts the arrangements that are as extreme as the observed t.
type tails struct {
	t, centre, slack            float64
	abs, centred, greater, less int
}

func (c *tails) add(x float64) {
	if math.Abs(x) >= math.Abs(c.t)-c.slack {
		c.abs++
	}
	if math.Abs(x-c.centre) >= math.Abs(c.t-c.centre)-c.slack {
		c.centred++
	}
	if x >= c.t-c.slack {
		c.greater++
	}
	if x <= c.t+c.slack {
		c.less++
	}
}

// result is the test without the moments of the null.
func (c *tails) result(d Draws) Permutation {
	g, l := d.p(c.greater), d.p(c.less)
	r := Permutation{
		T: Number(c.t), PCentred: Number(d.p(c.centred)), PAbs: Number(d.p(c.abs)), PGreater: Number(g), PLess: Number(l),
		PTwiceMin: Number(min(1, 2*min(g, l))), CountCentred: c.centred, CountAbs: c.abs, Draws: d,
	}
	r.SE, r.SEAbs = d.se(r.PCentred), d.se(r.PAbs)
	return r
}

func (r *Permutation) moments(mean, variance, slack float64) {
	r.NullMean, r.NullSD = Number(mean), Number(math.Sqrt(max(variance, 0)))
	r.Z = NoValue(ReasonNullConstant)
	if variance > slack*slack {
		r.Z = Number((r.T.Or(0) - mean) / math.Sqrt(variance))
	}
}

// stratum is a part of the data inside which labels move freely. Its contribution to the statistic is a sum.
type stratum interface {
	log10() float64            // of its number of arrangements
	all() []float64            // the sum under each of them
	draw(r *rand.Rand) float64 // the sum under a random one
	moments() (mean, variance float64)
}

// linearTest is a permutation test of T = scale * A + shift, A the sum over strata whose labels move independently.
type linearTest struct {
	strata       []stratum
	scale, shift float64
	observed     float64 // T
	slack        float64
}

func (l *linearTest) run(s Sampling) Permutation {
	s.check()
	var mean, variance, log10 float64
	for _, g := range l.strata {
		m, v := g.moments()
		mean, variance, log10 = mean+m, variance+v, log10+g.log10()
	}
	mean, variance = l.scale*mean+l.shift, l.scale*l.scale*variance
	count := tails{t: l.observed, centre: mean, slack: l.slack}
	var d Draws
	if fewEnough(log10) {
		d = enumerated(l.enumerate(&count))
	} else {
		d = sampled(s, log10)
		rng := s.Rand()
		for range s.B {
			sum := 0.0
			for _, g := range l.strata {
				sum += g.draw(rng)
			}
			count.add(l.scale*sum + l.shift)
		}
	}
	r := count.result(d)
	r.moments(mean, variance, l.slack)
	return r
}

// enumerate adds every combination of the strata's arrangements and returns how many there are.
func (l *linearTest) enumerate(count *tails) int {
	sums := []float64{0}
	for _, g := range l.strata {
		part := g.all()
		next := make([]float64, 0, len(sums)*len(part))
		for _, a := range sums {
			for _, b := range part {
				next = append(next, a+b)
			}
		}
		sums = next
	}
	for _, a := range sums {
		count.add(l.scale*a + l.shift)
	}
	return len(sums)
}

// choice is a stratum in which k of the values are labelled: its sum is over the labelled ones.
type choice struct {
	values []float64
	k      int
	buffer []float64
}

func (c *choice) log10() float64 { return log10Choose(len(c.values), c.k) }

func (c *choice) all() []float64 {
	if c.k == 0 {
		return []float64{0} // combin has no such case
	}
	var out []float64
	each := combin.NewCombinationGenerator(len(c.values), c.k)
	at := make([]int, c.k)
	for each.Next() {
		sum := 0.0
		for _, i := range each.Combination(at) {
			sum += c.values[i]
		}
		out = append(out, sum)
	}
	return out
}

// draw takes k values without replacement by a partial shuffle; a shuffle of a shuffled slice is as good as one of the original.
func (c *choice) draw(r *rand.Rand) float64 {
	n := len(c.values)
	if c.k == 0 {
		return 0
	}
	if c.buffer == nil {
		c.buffer = append([]float64(nil), c.values...)
	}
	sum := 0.0
	for i := range min(c.k, n-1) {
		j := i + r.IntN(n-i)
		c.buffer[i], c.buffer[j] = c.buffer[j], c.buffer[i]
		sum += c.buffer[i]
	}
	if c.k == n {
		sum += c.buffer[n-1]
	}
	return sum
}

// moments are those of a sum of k of N values drawn without replacement: k mean and k (1 - k/N) s^2.
func (c *choice) moments() (mean, variance float64) {
	n, k := float64(len(c.values)), float64(c.k)
	if n == 0 {
		return 0, 0
	}
	mean = k * Mean(c.values)
	if n > 1 {
		sd := SD(c.values)
		variance = k * (1 - k/n) * sd * sd
	}
	return mean, variance
}

// sign is a stratum of one difference, which is as likely negative as positive.
type sign float64

func (d sign) log10() float64                    { return math.Log10(2) }
func (d sign) all() []float64                    { return []float64{float64(d), -float64(d)} }
func (d sign) moments() (mean, variance float64) { return 0, float64(d * d) }
func (d sign) draw(r *rand.Rand) float64 {
	if r.Uint64()&1 == 0 {
		return float64(d)
	}
	return -float64(d)
}

// SignFlip tests whether paired differences are as likely negative as positive: each sign is flipped or not, T is the mean, and PAbs
// is the two-sided p. Zero differences stay in. The smallest two-sided p of n differences is 2^(1-n): 0.03125 for six.
// Undefined without data or with a NaN or infinity. SignFlip panics if s.B < 1.
func SignFlip(d []float64, s Sampling) Permutation {
	s.check()
	if len(d) == 0 {
		return noPermutation(ReasonNoData)
	}
	if why := checkData(d); why != "" {
		return noPermutation(why)
	}
	strata := make([]stratum, len(d))
	for i, v := range d {
		strata[i] = sign(v)
	}
	l := linearTest{strata: strata, scale: 1 / float64(len(d)), observed: Mean(d), slack: tieTolerance * largestAbs(d)}
	return l.run(s)
}

// MeanDifference tests whether two groups have the same distribution: labels are shuffled over all values, T is mean(x) - mean(y).
// Undefined for an empty group or with a NaN or infinity. MeanDifference panics if s.B < 1.
func MeanDifference(x, y []float64, s Sampling) Permutation {
	s.check()
	if len(x) == 0 || len(y) == 0 {
		return noPermutation(ReasonEmptyGroup)
	}
	if why := checkData(x, y); why != "" {
		return noPermutation(why)
	}
	pool := append(append([]float64(nil), x...), y...)
	return twoGroups([]stratum{&choice{values: pool, k: len(x)}}, pool, len(x), Mean(x)-Mean(y)).run(s)
}

// twoGroups tests a difference of means mean(labelled) - mean(others), which is linear in the sum A of the labelled values:
// A/n1 - (S-A)/n0, with S the sum of all.
func twoGroups(strata []stratum, values []float64, n1 int, observed float64) *linearTest {
	k1, k0 := float64(n1), float64(len(values)-n1)
	total := Mean(values) * float64(len(values))
	return &linearTest{strata: strata, scale: 1/k1 + 1/k0, shift: -total / k0, observed: observed, slack: tieTolerance * largestAbs(values)}
}

// VarianceRatio is a permutation test of T = ln(var x / var y).
type VarianceRatio struct {
	Permutation
	ZeroVariance int `json:"zero_variance"` // arrangements in which an arm is constant: |T*| is infinite, and counts as extreme
}

// LogVarianceRatio tests whether two arms spread alike, for the few seeds that an arm has: each arm is centred by its median, labels
// are shuffled over the pooled deviations, and T is the logarithm of the ratio of variances (ddof 1). PAbs is the two-sided p, with a
// floor of 2/924 for six and six. T* is within 1e-12 of T for a tie; a variance below 1e-24 of the largest squared deviation is 0.
//
// NullMean, NullSD and Z are undefined: there is no closed form, and constant arms make T* infinite. Undefined for an arm with
// fewer than two values, a constant arm, a NaN or infinity. LogVarianceRatio panics if s.B < 1.
func LogVarianceRatio(x, y []float64, s Sampling) VarianceRatio {
	s.check()
	if len(x) < 2 || len(y) < 2 {
		return VarianceRatio{Permutation: noPermutation(ReasonGroupOfOne)}
	}
	if why := checkData(x, y); why != "" {
		return VarianceRatio{Permutation: noPermutation(why)}
	}
	if constant(x) || constant(y) {
		return VarianceRatio{Permutation: noPermutation(ReasonGroupConstant)}
	}
	pool := append(deviations(x, median(x)), deviations(y, median(y))...)
	floor := 1e-24 * largestAbs(pool) * largestAbs(pool)
	ratio := func(pool []float64) float64 {
		a, b := SD(pool[:len(x)]), SD(pool[len(x):])
		switch {
		case b*b < floor:
			return math.Inf(1)
		case a*a < floor:
			return math.Inf(-1)
		}
		return 2 * math.Log(a/b)
	}
	r := VarianceRatio{}
	count := tails{t: ratio(pool), slack: tieTolerance}
	d := splits(pool, len(x), s, func(pool []float64) {
		t := ratio(pool)
		if math.IsInf(t, 0) {
			r.ZeroVariance++
		}
		count.add(t)
	})
	r.Permutation = count.result(d)
	none := NoValue(ReasonNoMoments)
	r.PCentred, r.SE, r.CountCentred = none, none, 0
	r.NullMean, r.NullSD, r.Z = none, none, none
	return r
}

func deviations(x []float64, centre float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v - centre
	}
	return out
}

// splits calls fn with the pool ordered so that its first k values are the first group, for every split or for s.B random ones.
func splits[T any](pool []T, k int, s Sampling, fn func([]T)) Draws {
	n := len(pool)
	if log10 := log10Choose(n, k); !fewEnough(log10) {
		rng := s.Rand()
		shuffled := append([]T(nil), pool...)
		for range s.B {
			for i := range k {
				j := i + rng.IntN(n-i)
				shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
			}
			fn(shuffled)
		}
		return sampled(s, log10)
	}
	each, at := combin.NewCombinationGenerator(n, k), make([]int, k)
	count := 0
	ordered := make([]T, n)
	chosen := make([]bool, n)
	for each.Next() {
		clear(chosen)
		for i, v := range each.Combination(at) {
			chosen[v], ordered[i] = true, pool[v]
		}
		rest := k
		for i, in := range chosen {
			if !in {
				ordered[rest] = pool[i]
				rest++
			}
		}
		fn(ordered)
		count++
	}
	return enumerated(count)
}
