package rope

import (
	"cmp"
	"fmt"
	"math"
)

// divide is linear scaling: positions shrink by the factor.
func (t *Table) divide(c Config) error {
	if err := c.require(need{"factor", c.Factor}); err != nil {
		return err
	}
	for i := range t.InvFreq {
		t.InvFreq[i] /= c.Factor
	}
	return nil
}

// raiseBase is dynamic NTK scaling, transformers' _compute_dynamic_ntk_parameters: beyond the trained length the base grows with the
// length of the pass, so that the slowest plane's wavelength grows in proportion.
func (t *Table) raiseBase(c Config, passLength int) error {
	trained := float64(c.MaxPositions)
	if err := c.require(need{"factor", c.Factor}, need{"max_position_embeddings", trained}); err != nil {
		return err
	}
	if t.RotaryDim < 4 {
		return fmt.Errorf("rope: dynamic: rotary dimensions: got %d, want at least 4", t.RotaryDim)
	}
	length := max(float64(passLength), trained)
	d := float64(t.RotaryDim)
	base := c.Theta * math.Pow(c.Factor*length/trained-(c.Factor-1), d/(d-2))
	t.InvFreq = ladder(base, t.RotaryDim)
	return nil
}

// smoothLlama3 stretches the slow planes as transformers' _compute_llama3_parameters does: wavelengths longer than orig/low are
// multiplied by factor, those shorter than orig/high kept, those between interpolated in the number of turns over orig.
func (t *Table) smoothLlama3(c Config) error {
	orig := float64(c.OriginalMaxPositions)
	if err := c.require(need{"factor", c.Factor}, need{"low_freq_factor", c.LowFreqFactor}, need{"high_freq_factor", c.HighFreqFactor},
		need{"original_max_position_embeddings", orig}); err != nil {
		return err
	}
	if c.HighFreqFactor <= c.LowFreqFactor {
		return fmt.Errorf("rope: llama3: high_freq_factor: got %v, want more than low_freq_factor %v", c.HighFreqFactor, c.LowFreqFactor)
	}
	for i, w := range t.InvFreq {
		length := wavelength(w)
		switch {
		case length < orig/c.HighFreqFactor:
		case length > orig/c.LowFreqFactor:
			t.InvFreq[i] = w / c.Factor
		default:
			s := (orig/length - c.LowFreqFactor) / (c.HighFreqFactor - c.LowFreqFactor)
			t.InvFreq[i] = (1-s)*w/c.Factor + s*w
		}
	}
	return nil
}

// ramp is YaRN (Peng et al. 2023, section 3) as transformers' _compute_yarn_parameters has it: planes that turn more than BetaFast times
// over the original length are kept, those below BetaSlow turns divided by the factor, with a linear ramp over the plane's index between.
func (t *Table) ramp(c Config) error {
	orig := float64(c.OriginalMaxPositions)
	if err := c.require(need{"original_max_position_embeddings", orig}, need{"factor", c.factor()}, need{"beta_fast", cmp.Or(c.BetaFast, 32)},
		need{"beta_slow", cmp.Or(c.BetaSlow, 1)}); err != nil {
		return err
	}
	if c.Theta == 1 {
		return fmt.Errorf("rope: yarn: rope_theta: got 1, want another base: all planes turn alike")
	}
	r := float64(t.RotaryDim)
	// plane is the index, fractional, of the plane that turns so many times.
	plane := func(turns float64) float64 {
		return r * math.Log(orig/(turns*2*math.Pi)) / (2 * math.Log(c.Theta))
	}
	low, high := plane(cmp.Or(c.BetaFast, 32)), plane(cmp.Or(c.BetaSlow, 1))
	if !c.Untruncated {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, r-1) // r-1 although there are r/2 planes: as transformers has it
	if low == high {
		high += 0.001
	}
	for i, w := range t.InvFreq {
		divided := min(max((float64(i)-low)/(high-low), 0), 1)
		t.InvFreq[i] = w/c.factor()*divided + w*(1-divided)
	}
	t.Scale = c.attentionFactor()
	return nil
}

// factor is the given one, else the ratio of the lengths.
func (c Config) factor() float64 {
	return cmp.Or(c.Factor, float64(c.MaxPositions)/float64(c.OriginalMaxPositions))
}

// attentionFactor is yarn's factor on cosine and sine: 0.1 ln(factor) + 1, or the quotient of two such with a coefficient each.
func (c Config) attentionFactor() float64 {
	if c.AttentionFactor != 0 {
		return c.AttentionFactor
	}
	scale := func(coefficient float64) float64 {
		if c.factor() <= 1 {
			return 1
		}
		return 0.1*coefficient*math.Log(c.factor()) + 1
	}
	if c.MScale != 0 && c.MScaleAllDim != 0 {
		return scale(c.MScale) / scale(c.MScaleAllDim)
	}
	return scale(1)
}

// divideEach is LongRoPE (Ding et al. 2024) as transformers' _compute_longrope_parameters has it: each plane has a divisor, of one list
// up to the original length and of another beyond. The factor on cosine and sine is the same for both.
func (t *Table) divideEach(c Config, passLength int) error {
	orig := float64(c.OriginalMaxPositions)
	if err := c.require(need{"original_max_position_embeddings", orig}, need{"factor", c.factor()}); err != nil {
		return err
	}
	for _, l := range []struct {
		key  string
		list []float64
	}{{"short_factor", c.ShortFactor}, {"long_factor", c.LongFactor}} {
		if len(l.list) != t.Planes() {
			return fmt.Errorf("rope: longrope: %s: got %d factors, want %d, one a plane", l.key, len(l.list), t.Planes())
		}
		for i, f := range l.list {
			if !positive(f) {
				return fmt.Errorf("rope: longrope: %s: got %v at plane %d, want a finite number > 0", l.key, f, i)
			}
		}
	}
	factors := c.ShortFactor
	if passLength > c.OriginalMaxPositions {
		factors = c.LongFactor
	}
	for i := range t.InvFreq {
		t.InvFreq[i] /= factors[i]
	}
	switch {
	case c.AttentionFactor != 0:
		t.Scale = c.AttentionFactor
	case c.factor() > 1:
		t.Scale = math.Sqrt(1 + math.Log(c.factor())/math.Log(orig))
	}
	return nil
}

// stopSlow is transformers' _compute_proportional_rope_parameters: the fastest part of the planes turns, the others have frequency 0.
func (t *Table) stopSlow(c Config) error {
	if p := cmp.Or(c.Proportion, 1); !positive(p) || p > 1 {
		return fmt.Errorf("rope: proportional: partial_rotary_factor: got %v, want 0 to 1", p)
	}
	turning := int(math.Floor(cmp.Or(c.Proportion, 1)*float64(t.RotaryDim))) / 2
	for i := range t.InvFreq {
		if t.InvFreq[i] /= cmp.Or(c.Factor, 1); i >= turning {
			t.InvFreq[i] = 0
		}
	}
	return nil
}
