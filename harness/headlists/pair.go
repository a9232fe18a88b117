package headlists

import (
	"fmt"
	"math"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/stats"
)

// Pair is what two detectors say of the same heads.
type Pair struct {
	A       string                `json:"a"` // detector of the first file
	B       string                `json:"b"` // detector of the second
	Held    bool                  `json:"held"`
	Cut     string                `json:"cut,omitempty"` // how a score without a list was made one
	Ties    heads.Set             `json:"ties"`          // heads at that cut that only their order tells apart
	Sets    *heads.SetAgreement   `json:"sets"`          // null where neither lists heads
	Scores  *heads.ScoreAgreement `json:"scores"`        // null unless both score all heads
	KV      *heads.SetAgreement   `json:"kv_sets"`       // the same of the key/value heads that the heads read; null where the group is not known
	KVScore *heads.ScoreAgreement `json:"kv_scores"`     // of the largest score among the heads of a key/value head
	Past    []string              `json:"past"`          // what lies past the tolerance

	scale float64 // that differences of scores of one name are taken relative to
}

// width is the number of heads of a layer in the unit of the comparison.
func (c *Comparison) width() int {
	if c.Unit == "kv_heads" {
		return c.Shape.KVHeads
	}
	return c.Shape.Heads
}

func (c *Comparison) pair(a, b *heads.Detected, src stats.Source) Pair {
	d := heads.Drawing{Resampling: stats.Resampling{N: c.Resamples, Level: level}, Source: src}
	p := Pair{A: a.Detector, B: b.Detector, Ties: heads.Set{}, Past: []string{}}
	setA, setB := a.Heads, b.Heads
	switch { // a score without a list is cut to as many heads as the other lists
	case setA == nil && setB != nil:
		setA = a.Scores.Ranking()[:len(setB)]
		p.Cut, p.Ties = fmt.Sprintf("%s: its %d best", a.Detector, len(setB)), a.Scores.TiesAt(len(setB))
	case setB == nil && setA != nil:
		setB = b.Scores.Ranking()[:len(setA)]
		p.Cut, p.Ties = fmt.Sprintf("%s: its %d best", b.Detector, len(setA)), b.Scores.TiesAt(len(setA))
	}
	group := 0
	if c.Unit == "heads" {
		group = c.Shape.Group()
	}
	if setA != nil {
		x := heads.CompareSets(setA.Set(), setB.Set(), c.Shape.Layers, c.width(), d)
		p.Sets = &x
		if group > 1 {
			d.Stream++
			y := heads.CompareSets(setA.Set().KVHeads(group), setB.Set().KVHeads(group), c.Shape.Layers, c.Shape.KVHeads, d)
			p.KV = &y
		}
	}
	if a.Scores != nil && b.Scores != nil {
		d.Stream++
		x := heads.CompareScores(*a.Scores, *b.Scores, d)
		p.Scores = &x
		if group > 1 {
			d.Stream += 2
			y := heads.CompareScores(a.Scores.KVMax(group), b.Scores.KVMax(group), d)
			p.KVScore = &y
		}
		if a.Detector == b.Detector {
			p.scale = max(1, largest(a.Scores), largest(b.Scores))
		}
	}
	return p
}

func largest(s *heads.Scores) float64 {
	m := 0.0
	for _, v := range s.Data {
		if !math.IsNaN(v) {
			m = max(m, math.Abs(v))
		}
	}
	return m
}

const slack = 1e-12 // 1 - 0.9 is above 0.1

// hold notes what lies past the tolerance.
func (c *Comparison) hold(p *Pair) {
	if c.Tolerance == nil || !p.Held {
		return
	}
	limit := *c.Tolerance + slack
	if p.Sets != nil && 1-p.Sets.Jaccard > limit {
		p.Past = append(p.Past, fmt.Sprintf("1 - Jaccard is %.4g", 1-p.Sets.Jaccard))
	}
	if p.Scores != nil && p.scale > 0 {
		if d, ok := p.Scores.Largest.Get(); !ok {
			p.Past = append(p.Past, "no head has both scores")
		} else if d/p.scale > limit {
			p.Past = append(p.Past, fmt.Sprintf("%s differs by %.4g at %s", p.A, d/p.scale, *p.Scores.At))
		}
	}
	if len(p.Past) > 0 {
		c.Past++
	}
}
