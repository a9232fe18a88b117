package heads

import (
	"math"
	"slices"

	"github.com/headscope/headscope/stats"
)

// Concentration says how a score is spread over the heads, as published head profiles do. Heads without a score are left out.
type Concentration struct {
	Gini           stats.Value `json:"gini"`                     // 0 = all alike; undefined where there is no score
	ZeroFraction   stats.Value `json:"zero_fraction"`            // share of heads with a score of 0 or less
	BelowThreshold stats.Value `json:"below_threshold_fraction"` // share of heads below the threshold
	Active         int         `json:"n_active_heads"`           // heads with a score above 0
	MeanActive     stats.Value `json:"score_mean_active"`        // their mean score
	TopFive        stats.Value `json:"top5_mass_share"`          // of the sum of all scores, the share of the five largest
}

// Concentration computes the numbers.
func (s Scores) Concentration(threshold float64) Concentration {
	var all, active []float64
	var c Concentration
	zero, below := 0, 0
	for _, v := range s.Data {
		if math.IsNaN(v) {
			continue
		}
		all = append(all, v)
		if v > 0 {
			active = append(active, v)
		} else {
			zero++
		}
		if v < threshold {
			below++
		}
	}
	c.Gini, c.Active = stats.Gini(all), len(active)
	c.ZeroFraction, c.BelowThreshold = share(float64(zero), float64(len(all))), share(float64(below), float64(len(all)))
	c.MeanActive = stats.Describe(active).Mean
	sorted := slices.Sorted(slices.Values(all))
	c.TopFive = share(sum(sorted[max(0, len(sorted)-5):]), sum(all))
	return c
}

func sum(x []float64) float64 {
	t := 0.0
	for _, v := range x {
		t += v
	}
	return t
}

// share is a/b; undefined for an empty whole.
func share(a, b float64) stats.Value {
	if b == 0 {
		return stats.NoValue(stats.ReasonNoData)
	}
	return stats.Number(a / b)
}

// LayerProfile says where in depth heads lie. Depth runs from 0, the first layer, to 1, the last.
type LayerProfile struct {
	Counts   []int       `json:"counts"`             // heads in each layer
	Centre   stats.Value `json:"layer_com"`          // mean depth
	Weighted stats.Value `json:"layer_com_weighted"` // mean depth weighted by score; undefined without scores
	Early    stats.Value `json:"early_frac"`         // share of heads with layer < layers/3
	Mid      stats.Value `json:"mid_frac"`
	Late     stats.Value `json:"late_frac"` // with layer >= 2 layers/3
}

// LayerProfile computes the profile in a model of so many layers; scores, of that model, may be nil. It panics if a head of s lies
// beyond the layers.
func (s Set) LayerProfile(layers int, scores *Scores) LayerProfile {
	p := LayerProfile{Counts: make([]int, layers), Weighted: stats.NoValue(stats.ReasonNoData)}
	depth := func(layer int) float64 { return float64(layer) / float64(max(1, layers-1)) }
	var early, mid, late, total, weight, weighted float64
	for _, h := range s {
		p.Counts[h.Layer]++
		total += depth(h.Layer)
		if scores != nil {
			weight += scores.At(h)
			weighted += scores.At(h) * depth(h.Layer)
		}
		switch at := float64(h.Layer) / float64(layers); {
		case at < 1.0/3:
			early++
		case at < 2.0/3:
			mid++
		default:
			late++
		}
	}
	n := float64(len(s))
	p.Centre, p.Early, p.Mid, p.Late = share(total, n), share(early, n), share(mid, n), share(late, n)
	if scores != nil {
		p.Weighted = share(weighted, weight)
	}
	return p
}

// KVProfile says how heads are spread over key/value heads.
type KVProfile struct {
	Group  int         `json:"group_size"`                  // query heads to a key/value head
	Active int         `json:"n_active_groups"`             // key/value heads that a head of the set reads
	Mean   stats.Value `json:"mean_heads_per_active_group"` //
	Full   stats.Value `json:"full_group_fraction"`         // of the active ones, those whose heads are all in the set
}

// KVProfile computes the profile for a model with group query heads to a key/value head. It panics if group < 1.
func (s Set) KVProfile(group int) KVProfile {
	p := KVProfile{Group: group, Active: len(s.KVHeads(group))}
	perGroup := map[[2]int]int{}
	full := 0
	for _, h := range s {
		at := [2]int{h.Layer, h.Index / group}
		if perGroup[at]++; perGroup[at] == group {
			full++
		}
	}
	p.Mean, p.Full = share(float64(len(s)), float64(p.Active)), share(float64(full), float64(p.Active))
	return p
}
