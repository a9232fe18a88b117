package harness

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
	"github.com/headscope/headscope/patch"
)

// planeControls adds a dose's controls that are other planes, or dimensions, of the same heads: n sets a pool as far as there are so many.
func (c *bandConditions) planeControls(main *condition, k, n int) ([]comparison, error) {
	op, band := main.edits[0].Op, slow(k)
	random, err := c.randomPlanes([]string{band}, k, n)
	if err != nil {
		return nil, err
	}
	out := []comparison{{pool: PoolRandomPlanes, reason: random.reason, of: "plane-set"}}
	for i, name := range random.bands {
		c.control(main, PoolRandomPlanes, i, c.t.heads, patch.Band(c.t.heads, op, name, main.scope))
	}
	if op == decoder.OpFreeze {
		return out, nil // a dimension does not turn by itself, and planes are matched on what they add to scores
	}
	dims, reason, err := c.randomDims(band, k, n)
	if err != nil {
		return nil, err
	}
	out = append(out, comparison{pool: PoolRandomDims, reason: reason, of: "dimension-set"})
	for i, set := range dims {
		c.control(main, PoolRandomDims, i, c.t.heads, patch.ZeroDims(c.t.heads, set, main.scope))
	}
	more, err := c.matched(main, k, n)
	return append(out, more...), err
}

// randomBands are bands of random planes, the same in all heads.
type randomBands struct {
	bands  []string
	reason string // why there are fewer than asked for
}

// enough says why there are fewer sets than asked for: all that exist are used, or the band has all planes.
func enough(found, n int, possible *big.Int, what string) string {
	switch {
	case found == n:
		return ""
	case possible.Sign() <= 0:
		return "there are no other sets of as many " + what
	}
	return fmt.Sprintf("asked for %d, %s other sets of as many %s exist, %d are used", n, possible, what, found)
}

// drawTries bounds the drawing of distinct sets where few exist.
const drawTries = 20000

// randomPlanes draws distinct sets of dims/2 planes, none of them what one of the bands is in one of the tables.
func (c *bandConditions) randomPlanes(bands []string, dims, n int) (randomBands, error) {
	table := c.b.smallest()
	planes := len(table.InvFreq)
	seen := map[string]bool{}
	for i := range c.b.Tables {
		for _, band := range bands {
			own, err := c.b.Tables[i].planes(band)
			if err != nil {
				return randomBands{}, err
			}
			seen[fmt.Sprint(own)] = true
		}
	}
	possible := new(big.Int).Binomial(int64(planes), int64(dims/2))
	possible.Sub(possible, big.NewInt(int64(len(seen))))
	want := n
	if possible.Cmp(big.NewInt(int64(n))) < 0 {
		want = int(possible.Int64())
	}
	var out randomBands
	for seed := c.e.plan.Statistics.Seed % 1e9 * 1e6; len(out.bands) < want && seed%1e6 < drawTries; seed++ {
		name := fmt.Sprintf("random%d/%d", dims, seed)
		set, err := table.planes(name)
		if err != nil {
			return out, err
		}
		if key := fmt.Sprint(set); !seen[key] {
			seen[key], out.bands = true, append(out.bands, name)
		}
	}
	out.reason = enough(len(out.bands), n, possible, "planes")
	return out, nil
}

// randomDims draws distinct sets of single dimensions.
func (c *bandConditions) randomDims(band string, dims, n int) (sets [][]int, reason string, err error) {
	if c.b.op() == decoder.OpLegacy {
		return nil, "the published form takes whole planes from queries and keys", nil
	}
	rotary := 2 * len(c.b.smallest().InvFreq)
	seen := map[string]bool{}
	for i := range c.b.Tables {
		own, err := c.b.Tables[i].planes(band)
		if err != nil {
			return nil, "", err
		}
		own = c.b.layout().Dims(own, 2*len(c.b.Tables[i].InvFreq))
		slices.Sort(own)
		seen[fmt.Sprint(own)] = true
	}
	possible := new(big.Int).Binomial(int64(rotary), int64(dims))
	possible.Sub(possible, big.NewInt(int64(len(seen))))
	want := n
	if possible.Cmp(big.NewInt(int64(n))) < 0 {
		want = int(possible.Int64())
	}
	rng := rand.New(rand.NewPCG(c.e.plan.Statistics.Seed, streamDims+uint64(dims)<<8))
	for tries := 0; len(sets) < want && tries < drawTries; tries++ {
		set := rope.RandomDims(rng, rotary, dims)
		if key := fmt.Sprint(set); !seen[key] {
			seen[key], sets = true, append(sets, set)
		}
	}
	return sets, enough(len(sets), n, possible, "dimensions"), nil
}

func (b *PlanBands) layout() rope.Layout { return rope.LayoutOf(b.Interleaved) }

// matched adds the controls that are matched on what the planes do; temperature, of which there is one, at the focus.
func (c *bandConditions) matched(main *condition, k, n int) ([]comparison, error) {
	all, err := c.b.matches(c.e, c.t)
	if err != nil {
		return nil, err
	}
	var out []comparison
	for _, pool := range matchedPools {
		if pool == PoolTemperature && k != c.b.Focus {
			continue
		}
		with := comparison{pool: pool, reason: c.b.NoPlanes, of: "plane-set"}
		switch m := all[matchOf{pool, k}]; {
		case c.b.Planes == nil:
		case m == nil && !c.t.guessed:
			return nil, fmt.Errorf("the planes of the heads have not been looked at: controls %s of %s", pool, main.name)
		case c.t.guessed: // an estimate: planes that stand in
			for i := range map[bool]int{true: 1, false: n}[pool == PoolTemperature] {
				c.control(main, pool, i, c.t.heads, patch.Band(c.t.heads, main.edits[0].Op, slow(k), main.scope))
			}
		default:
			with.reason, with.noP = m.Reason, m.noP()
			for i := range min(n, len(m.sets)) {
				c.control(main, pool, i, c.t.heads, m.edits(main, i))
			}
		}
		out = append(out, with)
	}
	return out, nil
}
