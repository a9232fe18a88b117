package harness

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// BandMatch is a band's controls of a pool that rests on statistics of planes. The planes of each are in the conditions' edits.
type BandMatch struct {
	Pool   string          `json:"pool"`
	Band   string          `json:"band"`
	Sets   int             `json:"sets"` // distinct controls: one match in every head each
	Heads  []BandMatchHead `json:"heads"`
	Reason string          `json:"reason,omitempty"` // why there are fewer than asked for, or none

	sets  [][]int // which match of each head
	found []patch.PlaneMatches
}

// BandMatchHead is what was found in one head.
type BandMatchHead struct {
	Head    decoder.Head `json:"head"`
	Planes  []int        `json:"planes"`  // edited in the first control
	Gain    Number       `json:"gain"`    // of these planes; of temperature, of the planes that are left
	Ratio   Number       `json:"ratio"`   // that control's size over the band's; of temperature, the spread of scores without the band over that with it
	Kind    string       `json:"kind"`    // matched, fewer, partial, unmatched, or rescaled
	Matches int          `json:"matches"` // distinct ones that controls take
	Exist   int          `json:"exist"`   // of as many whole planes within the tolerance; 0 = not counted
	Lowest  Number       `json:"lowest_ratio"`
	Highest Number       `json:"highest_ratio"`
}

const matchRescaled = "rescaled"

// matchOf names a band's controls: a pool and a dose.
type matchOf struct {
	pool string
	k    int
}

// matches are the controls by pool and dose; nil where the statistics are not there yet.
func (b *PlanBands) matches(e *evidence, t *target) (map[matchOf]*BandMatch, error) {
	trials := e.trials[StagePlanes]
	if b.Planes == nil || len(trials) == 0 {
		return nil, nil
	}
	if t.matches != nil {
		return t.matches, nil
	}
	most := 0
	for _, n := range b.PlaneControls {
		most = max(most, n)
	}
	out := map[matchOf]*BandMatch{}
	for _, k := range b.K {
		for _, pool := range matchedPools {
			if pool == PoolTemperature && k != b.Focus {
				continue
			}
			m := &BandMatch{Pool: pool, Band: slow(k), Heads: []BandMatchHead{}}
			out[matchOf{pool, k}] = m
			if trials[0].Outcome == Failed {
				m.Reason = "the planes could not be looked at: " + trials[0].Error
				continue
			}
			if err := b.match(e, t, m, most); err != nil {
				return nil, err
			}
		}
	}
	t.matches = out
	return out, nil
}

// match finds the controls of a pool and dose in all heads, up to n.
func (b *PlanBands) match(e *evidence, t *target, m *BandMatch, n int) error {
	seen := e.trials[StagePlanes][0].Planes
	if seen == nil || len(seen.Heads) != len(t.heads) {
		return fmt.Errorf("trial of stage %s does not hold the planes of the %d heads", StagePlanes, len(t.heads))
	}
	for i := range t.heads {
		h := &seen.Heads[i]
		table := b.table(h.Head.Layer)
		if h.Head != t.heads[i] || table == nil || len(h.Contribution) != len(table.InvFreq)+1 || len(h.Covariance) != len(h.Contribution)*(len(h.Contribution)+1)/2 || len(h.Norm) != len(table.InvFreq) {
			return fmt.Errorf("trial of stage %s: planes of head %s in place of %s, or not of its table", StagePlanes, h.Head, t.heads[i])
		}
		band, err := table.planes(m.Band)
		if err != nil {
			return err
		}
		got, err := b.matchHead(e, h, m, band, n)
		if err == nil && b.op() == decoder.OpLegacy && got.Sets[0].Kind == patch.MatchedPartial {
			err = errors.New("a share of planes has no published form")
		}
		if err != nil {
			m.Reason, m.Heads, m.found = fmt.Sprintf("head %s: %v", h.Head, err), m.Heads[:0], nil
			return nil
		}
		one := BandMatchHead{h.Head, got.Sets[0].Planes, Number(got.Sets[0].Gain), Number(got.Sets[0].Ratio), got.Sets[0].Kind, len(got.Sets), got.Exist, nan, nan}
		low, high := math.Inf(1), math.Inf(-1)
		for _, s := range got.Sets {
			low, high = min(low, s.Ratio), max(high, s.Ratio)
		}
		one.Lowest, one.Highest = Number(low), Number(high)
		m.Heads, m.found = append(m.Heads, one), append(m.found, got)
	}
	m.combine(n, b.planesRand(&e.plan.Statistics, decoder.Head{Layer: 1 << 20}))
	return nil
}

// combine draws distinct controls: a match in every head each, the first one the nearest everywhere.
func (m *BandMatch) combine(n int, rng *rand.Rand) {
	possible := 1.0
	for i := range m.found {
		possible *= float64(len(m.found[i].Sets))
	}
	seen := map[string]bool{}
	for tries := 0; len(m.sets) < n && float64(len(m.sets)) < possible && tries < drawTries; tries++ {
		set := make([]int, len(m.found))
		for i := range set {
			if tries > 0 {
				set[i] = rng.IntN(len(m.found[i].Sets))
			}
		}
		if key := fmt.Sprint(set); !seen[key] {
			seen[key], m.sets = true, append(m.sets, set)
		}
	}
	m.Sets = len(m.sets)
	if m.Sets >= n {
		return
	}
	if m.Pool == PoolTemperature {
		m.Reason = "there is one such control"
		return
	}
	var few []string
	for _, h := range m.Heads {
		if h.Matches < n && len(few) < 5 {
			why := fmt.Sprintf("%s %d %s", h.Head, h.Matches, h.Kind)
			if h.Kind == patch.Unmatched {
				why = fmt.Sprintf("%s unmatched: ratio %.2f", h.Head, float64(h.Ratio))
			}
			few = append(few, why)
		}
	}
	m.Reason = fmt.Sprintf("asked for %d, the heads' matches make %d: %s", n, m.Sets, strings.Join(few, ", "))
}

// noP says why the controls are not ranked: in some heads they are larger or smaller than the band.
func (m *BandMatch) noP() string {
	var off []string
	for _, h := range m.Heads {
		if h.Kind == patch.Unmatched {
			off = append(off, fmt.Sprintf("%s ratio %.2f", h.Head, float64(h.Ratio)))
		}
	}
	if off == nil {
		return ""
	}
	return "needs controls that match in every head: " + strings.Join(off[:min(len(off), 5)], ", ")
}

// matchHead finds one head's controls.
func (b *PlanBands) matchHead(e *evidence, h *HeadPlanes, m *BandMatch, band []int, n int) (patch.PlaneMatches, error) {
	if m.Pool != PoolTemperature {
		return patch.MatchPlaneSets(h.size(m.Pool), band, b.Planes.Tolerance, max(1, n), b.planesRand(&e.plan.Statistics, h.Head))
	}
	whole := h.variance(func(int) bool { return true })
	rest := h.variance(func(p int) bool { return !slices.Contains(band, p) })
	if !(whole > 0) || !(rest > 0) {
		return patch.PlaneMatches{}, fmt.Errorf("its scores do not vary without the band")
	}
	var left []int
	for p := range h.Norm {
		if !slices.Contains(band, p) {
			left = append(left, p)
		}
	}
	return patch.PlaneMatches{Sets: []patch.PlaneMatch{{Planes: left, Gain: math.Sqrt(whole / rest), Ratio: math.Sqrt(rest / whole), Kind: matchRescaled}}}, nil
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

// edits are those of control i; main is the condition that it is a control of.
func (m *BandMatch) edits(main *condition, i int) []decoder.Edit {
	op, scope := main.edits[0].Op, main.scope
	var out []decoder.Edit
	if m.Pool == PoolTemperature {
		out = slices.Clone(main.edits)
		if op != decoder.OpLegacy { // which edits keys too: there the mean factor of each head has to do
			return append(out, patch.KeepSpread(main.heads, scope)...)
		}
	}
	for j, h := range m.Heads {
		one, match := []decoder.Head{h.Head}, m.found[j].Sets[m.sets[i][j]]
		switch {
		case m.Pool == PoolTemperature:
			out = append(out, patch.Temperature(one, 1/match.Gain, scope)...)
		case match.Gain == 0 && op == decoder.OpLegacy:
			out = append(out, patch.LegacyPlanes(one, match.Planes, scope)...)
		case match.Gain == 0:
			out = append(out, patch.ZeroPlanes(one, match.Planes, scope)...)
		default:
			out = append(out, patch.ScalePlanes(one, match.Planes, match.Gain, scope)...)
		}
	}
	return out
}

// planesRand is the stream of one head's matching: independent of which other heads there are.
func (b *PlanBands) planesRand(s *PlanStats, h decoder.Head) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, b.Planes.Stream+uint64(h.Layer)<<32+uint64(h.Index)<<12))
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
