package gguf

import (
	"fmt"
	"math"
)

// ropeScaling is a rope_scaling entry of config.json in transformers' terms.
type ropeScaling struct {
	kind     string // "linear", "yarn" or "llama3"
	factor   float64
	original int // positions before scaling, 0: not given
}

// The low and high frequency factors and the original context that all published llama3-scaled checkpoints use.
const (
	llama3Low      = 1.0
	llama3High     = 4.0
	llama3Original = 8192
)

func (s *ropeScaling) object() any {
	if s == nil {
		return nil
	}
	o := object{{"factor", s.factor}}
	if s.kind == "llama3" {
		o = append(o, member{"high_freq_factor", llama3High}, member{"low_freq_factor", llama3Low})
	}
	if s.original > 0 {
		o = append(o, member{"original_max_position_embeddings", s.original})
	}
	return append(o, member{"rope_type", s.kind})
}

// readScaling reads the rotary scaling of a llama-type file, from its keys or from its rope_freqs.weight tensor.
func readScaling(f *File, m *llama) (*ropeScaling, error) {
	k := &keys{f: f}
	const typeKey, factorKey, legacyKey = "llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.rope.scale_linear"
	const originalKey = "llama.rope.scaling.original_context_length"
	_, hasFactor := f.values[factorKey]
	_, hasLegacy := f.values[legacyKey]
	_, hasOriginal := f.values[originalKey]
	if hasFactor && hasLegacy {
		return nil, fmt.Errorf("%s: both this and %s are given", legacyKey, factorKey)
	}
	// llama.cpp: a factor without a type scales linearly.
	kind := k.text(typeKey, "linear")
	s := &ropeScaling{kind: kind, factor: k.decimal(factorKey, k.decimal(legacyKey, 1))}
	if hasOriginal {
		s.original = k.count(originalKey, 0)
	}
	if k.err != nil {
		return nil, k.err
	}
	switch kind {
	case "none":
		s = nil
	case "linear":
		s.original = 0 // plays no part in linear scaling
		if s.factor == 1 {
			s = nil
		}
	case "yarn":
		if !hasFactor {
			return nil, fmt.Errorf("%s: key is missing", factorKey)
		}
	default:
		return nil, fmt.Errorf("%s: %w", typeKey, unsupported("got %q, want none, linear or yarn", kind))
	}
	if _, ok := f.Tensor(ropeFreqs); !ok {
		return s, nil
	}
	if s != nil {
		return nil, fmt.Errorf("%s: %w", ropeFreqs, unsupported("the file also scales positions by %q", kind))
	}
	return scalingOfFactors(f, m)
}

// scalingOfFactors finds the llama3 parameters that give the divisors of rope_freqs.weight. llama.cpp's converter stores only the
// divisors; they are accepted when the published parameters give every one of them to within the rounding of its float32
// arithmetic (1e-5 at the steepest point; an original context of one position less already moves them by ten times that).
func scalingOfFactors(f *File, m *llama) (*ropeScaling, error) {
	t, err := f.readable(ropeFreqs)
	if err != nil {
		return nil, err
	}
	if t.Len() != m.headDim/2 {
		return nil, fmt.Errorf("%s: got %d factors, want %d, one a plane", ropeFreqs, t.Len(), m.headDim/2)
	}
	got := make([]float32, t.Len())
	if err := f.readRows(t, 0, got, nil); err != nil {
		return nil, err
	}
	s := &ropeScaling{kind: "llama3", original: llama3Original}
	for _, x := range got {
		s.factor = max(s.factor, float64(x))
	}
	for i, x := range got {
		want := llama3Divisor(math.Pow(m.theta, -2*float64(i)/float64(m.headDim)), s.factor)
		if !(math.Abs(float64(x)-want) <= 1e-5*want) {
			return nil, fmt.Errorf("%s: %w", ropeFreqs, unsupported("factor %d is %v: these are not llama3 scaling factors with low %v, "+
				"high %v, original context %d, and config.json has no other way to say them", i, x, llama3Low, llama3High, llama3Original))
		}
	}
	if s.factor == 1 {
		return nil, nil
	}
	return s, nil
}

// llama3Divisor returns what llama3 scaling divides a frequency (radians a position) by; transformers'
// _compute_llama3_parameters.
func llama3Divisor(frequency, factor float64) float64 {
	turns := llama3Original * frequency / (2 * math.Pi) // in the original context
	switch {
	case turns > llama3High:
		return 1
	case turns < llama3Low:
		return factor
	}
	smooth := (turns - llama3Low) / (llama3High - llama3Low)
	return 1 / ((1-smooth)/factor + smooth)
}
