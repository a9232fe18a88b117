package loadertest

import (
	"math"

	"github.com/headscope/headscope/loader"
)

// attention projects, rotates and mixes what one layer reads and returns the heads' outputs side by side.
func (p *pass) attention(l int, x [][]float64, w *layer) [][]float64 {
	s, kind := p.spec, p.spec.Kinds[l]
	qPre := p.project(x, w.q, w.qNorm) // [head][T][headDim]
	kPre := p.project(x, w.k, w.kNorm) // [kvHead][T][headDim]
	v := p.project(x, w.v, nil)        // [kvHead][T][headDim]
	if p.gains.Q != nil {
		p.scaleQuery(l, qPre)
	}
	q, k := qPre, kPre
	if kind.Table != loader.Unrotated {
		q, k = p.turns[kind.Table].apply(qPre), p.turns[kind.Table].apply(kPre)
	}
	z := make([][]float64, len(x)) // [T][heads*headDim]
	for t := range z {
		z[t] = make([]float64, s.Heads*s.HeadDim)
	}
	rows := make([][][]float64, s.Heads)
	for h := range q {
		kv := h / s.Group() // query heads of a group are neighbours
		for t := range x {
			gain := 1.0
			if p.gains.Head != nil {
				gain = p.gains.Head(l, h, t)
			}
			weights := p.softmax(q[h][t], k[kv][:t+1], kind.Window)
			rows[h] = append(rows[h], weights)
			slot := z[t][h*s.HeadDim : (h+1)*s.HeadDim]
			for key, weight := range weights {
				for d := range slot {
					slot[d] += gain * weight * v[kv][key][d]
				}
			}
		}
	}
	out := p.out
	out.QPre, out.KPre, out.QRot, out.KRot = append(out.QPre, qPre), append(out.KPre, kPre), append(out.QRot, q), append(out.KRot, k)
	out.Attention, out.V = append(out.Attention, rows), append(out.V, v)
	return z
}

// project returns a projection's heads, [head][T][headDim], clipped and, where there is a weight for it, normalised.
func (p *pass) project(x [][]float64, w projection, norm []float64) [][][]float64 {
	s := p.spec
	y := linear(x, w)
	for _, row := range y {
		for i, v := range row {
			if c := s.QKVClip; c != 0 {
				row[i] = math.Max(-c, math.Min(c, v))
			}
		}
		if norm == nil {
			continue
		}
		width := s.HeadDim // of what is normalised together
		if s.QKNorm == loader.QKNormFull {
			width = len(row)
		}
		for from := 0; from < len(row); from += width {
			weight := norm
			if s.QKNorm == loader.QKNormPerHead {
				weight = norm[from : from+width]
			}
			copy(row[from:], normalized(s, row[from:from+width], weight, nil))
		}
	}
	return split(y, s.HeadDim)
}

// softmax returns the weights of the keys given, which are those up to the query's own; those before the window get none.
func (p *pass) softmax(q []float64, keys [][]float64, window int) []float64 {
	first := 0
	if window > 0 {
		first = max(0, len(keys)-window)
	}
	weights := make([]float64, len(keys))
	largest := math.Inf(-1)
	for i := first; i < len(keys); i++ {
		weights[i] = capped(dot(q, keys[i])*p.spec.ScoreScale, p.spec.ScoreCap)
		largest = math.Max(largest, weights[i])
	}
	sum := 0.0
	for i := first; i < len(keys); i++ {
		weights[i] = math.Exp(weights[i] - largest)
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	return weights
}

// scaleQuery applies the plane gains in place.
func (p *pass) scaleQuery(l int, q [][][]float64) {
	turn := p.turns[max(p.spec.Kinds[l].Table, 0)] // all tables have the same planes
	for h := range q {
		for t, row := range q[h] {
			for plane := range turn.planes {
				a, b := turn.members(plane)
				gain := p.gains.Q(l, h, plane, t)
				row[a], row[b] = row[a]*gain, row[b]*gain
			}
			for d := 2 * turn.planes; d < len(row); d++ {
				row[d] *= p.gains.Q(l, h, turn.planes, t)
			}
		}
	}
}

// writeNorms returns, by row of z, each head's share of the projection alone, without bias, as a Euclidean norm.
func writeNorms(z [][]float64, o projection, headDim int) [][]float64 {
	out := make([][]float64, len(z))
	for t, row := range z {
		for from := 0; from < len(row); from += headDim {
			sum := 0.0
			for _, w := range o.weight {
				y := dot(row[from:from+headDim], w[from:from+headDim])
				sum += y * y
			}
			out[t] = append(out[t], math.Sqrt(sum))
		}
	}
	return out
}
