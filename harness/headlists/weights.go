package headlists

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
)

// The scores. Row r of a head is row h*headDim + r of the query projection W [heads*headDim, hidden]; each score is the mean over the
// head's rows.
const (
	// ScoreL1 is sum_x |W[r,x]|: what published head studies mean by the L1 of a dimension.
	ScoreL1 = "wq_l1"
	// ScoreBias adds |b[r]|. Where the projection has a bias.
	ScoreBias = "wq_l1_bias"
	// ScoreInput is sum_x |W[r,x] g[x]| with g the scale of the norm before attention: what W multiplies is already times g.
	ScoreInput = "wq_l1_input"
	// ScoreQNorm is sum_x |W[r,x]| |q[r]| with q the scale of the norm of queries.
	ScoreQNorm = "wq_l1_qnorm"
	// ScoreAll has the bias and both scales: (sum_x |W[r,x] g[x]| + |b[r]|) |q[r]|.
	ScoreAll = "wq_l1_all"
	// ScoreInt8 is sum_x round(127 |W[r,x]| / max_x |W[r,x]|): the L1 of a row's 8-bit codes, as bitsandbytes stores a row. It knows a row's
	// shape and nothing of its size. Published means of 20 to 26 a weight are of this kind.
	ScoreInt8 = "wq_l1_int8"
)

// weightScores reads layer after layer; one layer's query projection is in memory at a time. Scores that this family cannot tell
// apart from wq_l1 are left out. The second result is the sha256 of the parameters' bytes as they were read.
func weightScores(ctx context.Context, c *loader.Checkpoint) ([]heads.Scores, string, error) {
	r := &reader{c: c, hash: sha256.New()}
	var rows []layerRows
	for l := range c.Spec.Layers {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		x, err := r.layer(l)
		if err != nil {
			return nil, "", fmt.Errorf("layer %d: %w", l, err)
		}
		rows = append(rows, x)
	}
	names := []string{ScoreL1}
	for _, x := range []struct {
		name string
		has  bool
	}{{ScoreBias, r.bias}, {ScoreInput, r.input}, {ScoreQNorm, r.qnorm}, {ScoreAll, r.bias && (r.input || r.qnorm) || r.input && r.qnorm}, {ScoreInt8, true}} {
		if x.has {
			names = append(names, x.name)
		}
	}
	var out []heads.Scores
	for _, name := range names {
		s := heads.NewScores(name, c.Spec.Layers, c.Spec.Heads)
		for l := range rows {
			for i, v := range rows[l][name] {
				s.Data[l*s.Heads+i/c.Spec.HeadDim] += v / float64(c.Spec.HeadDim)
			}
		}
		out = append(out, s)
	}
	return out, hex.EncodeToString(r.hash.Sum(nil)), nil
}

// layerRows are the values of the rows of one layer's query projection, [heads*headDim], by score.
type layerRows map[string][]float64

type reader struct {
	c                  *loader.Checkpoint
	hash               hash.Hash
	buf                []float32 // of the projection, used again
	bias, input, qnorm bool      // some layer has one
}

// read decodes a parameter and lets its pages go; nil where the model has none.
func (r *reader) read(p loader.Param, buf []float32) ([]float32, error) {
	if !p.Has() {
		return nil, nil
	}
	_, chunks, err := r.c.Chunks(p)
	if err != nil {
		return nil, err
	}
	for _, b := range chunks {
		r.hash.Write(b)
	}
	x, err := r.c.Float32s(p, buf)
	if err != nil {
		return nil, err
	}
	return x, r.c.Release(p)
}

// scale reads the weight of a norm as the factor that it is: Gemma's norms multiply by 1 + weight.
func (r *reader) scale(p loader.Param) ([]float64, error) {
	x, err := r.read(p, nil)
	if x == nil || err != nil {
		return nil, err
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
		if r.c.Spec.Norm == loader.RMSNormOffset {
			out[i]++
		}
	}
	return out, nil
}

func (r *reader) layer(l int) (layerRows, error) {
	s := &r.c.Spec
	p := s.Params.Layer(l)
	w, err := r.read(p.Q, r.buf)
	if err != nil {
		return nil, err
	}
	r.buf = w
	bias, err := r.read(p.QBias, nil)
	if err != nil {
		return nil, err
	}
	input, err := r.scale(p.PreAttn)
	if err != nil {
		return nil, err
	}
	qnorm, err := r.scale(p.QNorm)
	if err != nil {
		return nil, err
	}
	r.bias, r.input, r.qnorm = r.bias || bias != nil, r.input || input != nil, r.qnorm || qnorm != nil
	n := s.Heads * s.HeadDim
	out := layerRows{}
	for _, name := range []string{ScoreL1, ScoreBias, ScoreInput, ScoreQNorm, ScoreAll, ScoreInt8} {
		out[name] = make([]float64, n)
	}
	for i := range n {
		x := measure(w[i*s.Hidden:][:s.Hidden], input)
		b, q := 0.0, 1.0
		if bias != nil {
			b = math.Abs(float64(bias[i]))
		}
		if qnorm != nil { // [headDim] for all heads, or one a row
			q = math.Abs(qnorm[i%len(qnorm)])
		}
		out[ScoreL1][i], out[ScoreBias][i], out[ScoreInput][i], out[ScoreQNorm][i] = x.l1, x.l1+b, x.scaled, x.l1*q
		out[ScoreAll][i], out[ScoreInt8][i] = (x.scaled+b)*q, x.codes
	}
	return out, nil
}

// rowSums is what one row of a projection adds up to.
type rowSums struct{ l1, scaled, codes float64 }

func measure(w []float32, g []float64) rowSums {
	var x rowSums
	largest := float32(0)
	for _, v := range w {
		a := max(v, -v)
		x.l1 += float64(a)
		largest = max(largest, a)
	}
	x.scaled = x.l1
	if g != nil {
		x.scaled = 0
		for i, v := range w {
			x.scaled += math.Abs(float64(v) * g[i])
		}
	}
	if largest > 0 {
		step := 127 / float64(largest)
		for _, v := range w {
			x.codes += math.RoundToEven(math.Abs(float64(v)) * step)
		}
	}
	return x
}
