package harness

import (
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// BandMatch is a control of the band of the dose curve's focus that rests on statistics of planes.
type BandMatch struct {
	Pool   string          `json:"pool"`
	Heads  []BandMatchHead `json:"heads"`
	Reason string          `json:"reason,omitempty"` // why there is none
}

// BandMatchHead is that control in one head.
type BandMatchHead struct {
	Head   decoder.Head `json:"head"`
	Planes []int        `json:"planes"` // edited in the control
	Gain   Number       `json:"gain"`   // of these planes; of temperature, of the planes that are left
	Ratio  Number       `json:"ratio"`  // the control's size over the band's; of temperature, the spread of scores without the band over that with it
	Kind   string       `json:"kind"`   // matched, fewer, partial, unmatched, or rescaled
}

const matchRescaled = "rescaled"

// matches are the controls by pool; nil where the statistics are not there yet.
func (b *PlanBands) matches(e *evidence, t *target) (map[string]*BandMatch, error) {
	trials := e.trials[StagePlanes]
	if b.Planes == nil || len(trials) == 0 {
		return nil, nil
	}
	out := map[string]*BandMatch{}
	seen := trials[0].Planes
	for _, pool := range matchedPools {
		m := &BandMatch{Pool: pool, Heads: []BandMatchHead{}}
		out[pool] = m
		switch {
		case trials[0].Outcome == Failed:
			m.Reason = "the planes could not be looked at: " + trials[0].Error
		case seen == nil || len(seen.Heads) != len(t.heads):
			return nil, fmt.Errorf("trial of stage %s does not hold the planes of the %d heads", StagePlanes, len(t.heads))
		}
		for i := 0; i < len(t.heads) && m.Reason == ""; i++ {
			h := &seen.Heads[i]
			table := b.table(h.Head.Layer)
			if h.Head != t.heads[i] || table == nil || len(h.Contribution) != len(table.InvFreq)+1 || len(h.Covariance) != len(h.Contribution)*(len(h.Contribution)+1)/2 || len(h.Norm) != len(table.InvFreq) {
				return nil, fmt.Errorf("trial of stage %s: planes of head %s in place of %s, or not of its table", StagePlanes, h.Head, t.heads[i])
			}
			band, err := table.planes(slow(b.Focus))
			if err != nil {
				return nil, err
			}
			got, err := b.matchHead(e, h, pool, band)
			if err != nil {
				m.Reason = fmt.Sprintf("head %s: %v", h.Head, err)
				m.Heads = m.Heads[:0]
				break
			}
			m.Heads = append(m.Heads, got)
		}
	}
	return out, nil
}

// matchHead finds one head's control of a pool.
func (b *PlanBands) matchHead(e *evidence, h *HeadPlanes, pool string, band []int) (BandMatchHead, error) {
	if pool == PoolTemperature {
		whole := h.variance(func(int) bool { return true })
		rest := h.variance(func(p int) bool { return !slices.Contains(band, p) })
		if !(whole > 0) || !(rest > 0) {
			return BandMatchHead{}, fmt.Errorf("its scores do not vary without the band")
		}
		var left []int
		for p := range h.Norm {
			if !slices.Contains(band, p) {
				left = append(left, p)
			}
		}
		return BandMatchHead{h.Head, left, Number(math.Sqrt(whole / rest)), Number(math.Sqrt(rest / whole)), matchRescaled}, nil
	}
	m, err := patch.MatchPlanes(h.size(pool), band, b.Planes.Tolerance, b.planesRand(&e.plan.Statistics, h.Head))
	return BandMatchHead{h.Head, m.Planes, Number(m.Gain), Number(m.Ratio), m.Kind}, err
}

// size is what the planes of a head are matched on.
func (h *HeadPlanes) size(pool string) patch.PlaneSize {
	n := len(h.Norm)
	float := func(x []Number) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = float64(x[i])
		}
		return out
	}
	switch pool {
	case PoolContribution:
		return patch.PlaneSize{Linear: float(h.Contribution)}
	case PoolNorm:
		return patch.PlaneSize{Linear: float(h.Norm)}
	}
	pairs := make([][]float64, n)
	for p := range pairs {
		for r := range n {
			pairs[p] = append(pairs[p], h.cov(p, r))
		}
	}
	return patch.PlaneSize{Pairs: pairs}
}

// edits are the control's; main is the condition that it is a control of.
func (m *BandMatch) edits(main *condition) []decoder.Edit {
	op, scope := main.edits[0].Op, main.scope
	var out []decoder.Edit
	if m.Pool == PoolTemperature {
		out = slices.Clone(main.edits)
		if op != decoder.OpLegacy { // which edits keys too: there the mean factor of each head has to do
			return append(out, patch.KeepSpread(main.heads, scope)...)
		}
	}
	for _, h := range m.Heads {
		one := []decoder.Head{h.Head}
		switch {
		case m.Pool == PoolTemperature:
			out = append(out, patch.Temperature(one, 1/float64(h.Gain), scope)...)
		case h.Gain == 0 && op == decoder.OpLegacy:
			out = append(out, patch.LegacyPlanes(one, h.Planes, scope)...)
		case h.Gain == 0:
			out = append(out, patch.ZeroPlanes(one, h.Planes, scope)...)
		default:
			out = append(out, patch.ScalePlanes(one, h.Planes, float64(h.Gain), scope)...)
		}
	}
	return out
}

// cannotRotate is the angle below which a band cannot be about rotation: its planes keep their direction.
const cannotRotate = 0.1

// fastest is the largest frequency of a band over the tables of the heads' layers.
func (b *PlanBands) fastest(t *target, band string) (float64, error) {
	largest := 0.0
	for i := range b.Tables {
		table := &b.Tables[i]
		if !slices.ContainsFunc(t.heads, func(h decoder.Head) bool { return slices.Contains(table.Layers, h.Layer) }) {
			continue
		}
		planes, err := table.planes(band)
		if err != nil {
			return 0, err
		}
		for _, p := range planes {
			largest = max(largest, math.Abs(table.InvFreq[p]))
		}
	}
	return largest, nil
}
