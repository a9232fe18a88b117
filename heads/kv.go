package heads

import (
	"fmt"
	"math"

	"github.com/headscope/headscope/loader/decoder"
)

// KVHeads returns the key/value heads that the query heads of s read, for a model with group query heads to a key/value head. It
// panics if group < 1.
func (s Set) KVHeads(group int) Set {
	mustGroup(group)
	out := make([]decoder.Head, len(s))
	for i, h := range s {
		out[i] = decoder.Head{Layer: h.Layer, Index: h.Index / group}
	}
	return NewSet(out...)
}

// KVMax returns a score for each key/value head, [layers, heads/group]: the largest of the query heads that read it, as a cache that is
// kept for one of them is kept. NaN where none of them has a score. It panics unless group divides the heads.
func (s Scores) KVMax(group int) Scores {
	return s.kv(group, func(values []float64) float64 {
		best := math.NaN()
		for _, v := range values {
			if !(best >= v) && !math.IsNaN(v) { // NaN >= v is false
				best = v
			}
		}
		return best
	})
}

// KVMean is [Scores.KVMax] with the mean in place of the largest.
func (s Scores) KVMean(group int) Scores {
	return s.kv(group, func(values []float64) float64 {
		sum, n := 0.0, 0
		for _, v := range values {
			if !math.IsNaN(v) {
				sum, n = sum+v, n+1
			}
		}
		return sum / float64(n)
	})
}

func (s Scores) kv(group int, reduce func([]float64) float64) Scores {
	mustGroup(group)
	if s.Heads%group != 0 {
		panic(fmt.Sprintf("heads: %s: groups of %d in %d heads", s.Detector, group, s.Heads))
	}
	out := Scores{Detector: s.Detector, Layers: s.Layers, Heads: s.Heads / group, N: s.N}
	for i := 0; i < len(s.Data); i += group {
		out.Data = append(out.Data, reduce(s.Data[i:i+group]))
	}
	return out
}

func mustGroup(group int) {
	if group < 1 {
		panic(fmt.Sprintf("heads: %d query heads to a KV head", group))
	}
}
