package loadertest

import (
	"fmt"
	"math"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

// Gains are the edits of a forward pass. A nil function stands for 1 everywhere. Rows are positions from 0.
type Gains struct {
	// Head multiplies a head's output, the slice of the output projection's input.
	Head func(layer, head, row int) float64
	// Q multiplies both members of a plane of a head's query, after the bias and before the rotation. The plane behind the last one
	// stands for the dimensions that do not rotate. Zero on all of them makes the head attend uniformly.
	Q func(layer, head, plane, row int) float64
}

// Trace is what one forward pass computed. T is the number of tokens.
type Trace struct {
	Logits    [][]float64     // [T][vocab]
	Hidden    [][][]float64   // [layer][T][hidden], output of each layer, before the final norm
	Attention [][][][]float64 // [layer][head][query row][key up to the query's], sums to 1
	HeadOut   [][][]float64   // [layer][T][heads*headDim], after the gain, before the output projection
	Write     [][][]float64   // [layer][T][head], norm of what the head's part of HeadOut adds to the residual
	V         [][][][]float64 // [layer][kvHead][T][headDim]
	QPre      [][][][]float64 // [layer][head][T][headDim], after bias and gain, before rotation
	KPre      [][][][]float64 // [layer][kvHead][T][headDim], after bias, before rotation
	QRot      [][][][]float64 // QPre after rotation
	KRot      [][][][]float64 // KPre after rotation
}

// Reference computes a checkpoint token by token in float64.
type Reference struct {
	Precision rope.Precision // of the rotary angles; the zero value is transformers' float32

	c     *loader.Checkpoint
	table *rope.Table
}

// NewReference prepares c, which has to stay open.
func NewReference(c *loader.Checkpoint) (*Reference, error) {
	table, err := rope.New(c.Spec.Tables[0], c.Spec.HeadDim, c.Spec.MaxPositions)
	if err != nil {
		return nil, err
	}
	if c.Spec.Activation != loader.SiLU {
		return nil, fmt.Errorf("reference: activation: got %q, want %q", c.Spec.Activation, loader.SiLU)
	}
	return &Reference{c: c, table: table}, nil
}

// Forward runs the tokens, at least one, through the model.
func (r *Reference) Forward(ids []int32, gains Gains) (*Trace, error) {
	s := &r.c.Spec
	outer, err := r.loadOuter()
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("reference: got no tokens, want at least one")
	}
	x := make([][]float64, len(ids)) // [T][hidden], the residual stream
	for t, id := range ids {
		if id < 0 || int(id) >= s.Vocab {
			return nil, fmt.Errorf("reference: token %d: got id %d, want 0 to %d", t, id, s.Vocab-1)
		}
		x[t] = outer.embed[id]
	}
	out := &Trace{}
	for l := range s.Layers {
		w, err := r.loadLayer(l)
		if err != nil {
			return nil, err
		}
		z := r.attention(l, rmsNorm(x, w.inputNorm, s.NormEps), w, gains, out)
		out.Write = append(out.Write, writeNorms(z, w.o, s.HeadDim))
		x = addRows(x, linear(z, w.o))
		x = addRows(x, mlp(rmsNorm(x, w.postNorm, s.NormEps), w))
		out.HeadOut, out.Hidden = append(out.HeadOut, z), append(out.Hidden, x)
	}
	out.Logits = linear(rmsNorm(x, outer.norm, s.NormEps), projection{weight: outer.head})
	return out, nil
}

// attention projects, rotates and mixes one layer's normalised input and returns the heads' outputs side by side.
func (r *Reference) attention(l int, x [][]float64, w *layer, gains Gains, out *Trace) [][]float64 {
	s := &r.c.Spec
	qPre := split(linear(x, w.q), s.HeadDim) // [head][T][headDim]
	kPre := split(linear(x, w.k), s.HeadDim) // [kvHead][T][headDim]
	v := split(linear(x, w.v), s.HeadDim)    // [kvHead][T][headDim]
	if gains.Q != nil {
		r.scaleQuery(qPre, func(head, plane, row int) float64 { return gains.Q(l, head, plane, row) })
	}
	q, k := r.rotate(qPre), r.rotate(kPre)

	z := make([][]float64, len(x)) // [T][heads*headDim]
	rows := make([][][]float64, len(q))
	for t := range z {
		z[t] = make([]float64, s.Heads*s.HeadDim)
	}
	for h := range q {
		kv := h / s.Group() // query heads of a group are neighbours
		for t := range x {
			gain := 1.0
			if gains.Head != nil {
				gain = gains.Head(l, h, t)
			}
			p := causalRow(q[h][t], k[kv][:t+1])
			rows[h] = append(rows[h], p)
			slot := z[t][h*s.HeadDim : (h+1)*s.HeadDim]
			for key, weight := range p {
				for d := range slot {
					slot[d] += gain * weight * v[kv][key][d]
				}
			}
		}
	}
	out.QPre, out.KPre, out.QRot, out.KRot = append(out.QPre, qPre), append(out.KPre, kPre), append(out.QRot, q), append(out.KRot, k)
	out.Attention, out.V = append(out.Attention, rows), append(out.V, v)
	return z
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

// causalRow returns softmax(q·k / sqrt(headDim)) over the keys given, which are those the query may see.
func causalRow(q []float64, keys [][]float64) []float64 {
	p := make([]float64, len(keys))
	largest := math.Inf(-1)
	for i, k := range keys {
		p[i] = dot(q, k) / math.Sqrt(float64(len(q)))
		largest = math.Max(largest, p[i])
	}
	sum := 0.0
	for i := range p {
		p[i] = math.Exp(p[i] - largest)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// scaleQuery applies the plane gains in place.
func (r *Reference) scaleQuery(q [][][]float64, gain func(head, plane, row int) float64) {
	half := r.table.Planes()
	for h := range q {
		for t, row := range q[h] {
			for d := range row {
				plane := half // unrotated
				if d < r.table.RotaryDim {
					plane = d % half
				}
				row[d] *= gain(h, plane, t)
			}
		}
	}
}

// rotate turns plane i, dimensions i and i+RotaryDim/2, of the row at position t by t*InvFreq[i]; the other dimensions pass.
func (r *Reference) rotate(x [][][]float64) [][][]float64 {
	half := r.table.Planes()
	cos, sin := r.table.CosSin(len(x[0]), r.Precision) // [T, planes]
	out := make([][][]float64, len(x))
	for h := range x {
		for t, row := range x[h] {
			turned := append([]float64(nil), row...)
			for i := range half {
				c, s := float64(cos[t*half+i]), float64(sin[t*half+i])
				a, b := row[i], row[i+half]
				turned[i], turned[i+half] = a*c-b*s, b*c+a*s
			}
			out[h] = append(out[h], turned)
		}
	}
	return out
}

// mlp is down(silu(gate(x)) * up(x)).
func mlp(x [][]float64, w *layer) [][]float64 {
	gate, up := linear(x, w.gate), linear(x, w.up) // [T][intermediate]
	for t := range gate {
		for i, g := range gate[t] {
			gate[t][i] = g / (1 + math.Exp(-g)) * up[t][i]
		}
	}
	return linear(gate, w.down)
}
