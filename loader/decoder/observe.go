package decoder

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/safetensors"
)

// Contrast is a difference of logits that a head's write is measured by: Token's minus Against's, or, where Against is MeanLogit, minus
// the mean over the vocabulary.
type Contrast struct {
	Token, Against int32

	// Bare measures by the product with Token's row of the output matrix as it is stored, without norms and factors behind the output
	// projection, and without Against: the direction of logit-contribution scoring (Gema et al. 2026). Not logits.
	Bare bool
}

// MeanLogit stands for the mean logit of the vocabulary: what a softmax is blind to.
const MeanLogit int32 = -1

// LookAt is one row that an observation looks at, and the contrast that writes there are measured by; nil measures none.
type LookAt struct {
	Row      int
	Contrast *Contrast
}

// Observation is what the heads of a model do at some rows of one sequence. N is the number of rows asked for, S of spans.
type Observation struct {
	Argmax    []int32   // [layers, heads, N]: key of the largest weight, the lowest on ties; every key competes
	Gap       []float32 // [layers, heads, N]: largest weight minus the second
	ArgmaxFar []int32   // [layers, heads, N]: the same with key 0 left out; means nothing at row 0
	Mass      []float32 // [layers, heads, N, S]: weight on spans

	// Direct is what the head adds to the row's contrast, in logits before any cap: its output through its slice of the output projection
	// and all norms behind it, their statistics frozen at those of this pass (direct logit attribution). 0 without a contrast.
	Direct []float64 // [layers, heads, N]
	// From is the part of Direct that comes from the keys of a span: weight x value, the same way. Over all keys it adds up to Direct.
	From []float64 // [layers, heads, N, S]

	Next    []int32   // [N]: the token that the model predicts at the row, the lowest on ties
	NextGap []float32 // [N]: its lead in logits
	Fragile []bool    // [N]: that lead is within the bound between program shapes
}

func (l LookAt) bare() bool { return l.Contrast != nil && l.Contrast.Bare }

// MaxObserved is how many rows one observation can ask for.
const MaxObserved = 512

// Observe runs the unmodified model over one whole sequence, p.IDs and then p.Answer, and reduces what its heads do at the rows, layer by
// layer: no attention matrix leaves the block. Spans are key ranges [start, end). Draft, Decoy and Spans of p are not used.
func (m *Model) Observe(ctx context.Context, p *Prompt, rows []LookAt, spans [][2]int32) (*Observation, error) {
	if err := m.check(0, p, &AskOptions{}); err != nil {
		return nil, err
	}
	ids := slices.Concat(p.IDs, p.Answer)
	if err := m.checkObserved(rows, spans, len(ids)); err != nil {
		return nil, err
	}
	toward, err := m.contrasts(rows)
	if err != nil {
		return nil, err
	}
	u := &unit{ids: [][]int32{ids}, t: LengthBucket(len(ids)), pass: passOf(m.Spec, len(ids)), stop: m.Spec.Layers, conds: make([]*condition, 1), readProbe: true}
	defer u.free()
	n := observedBucket(len(rows))
	pr := &probeInputs{mode: probeObserve, p: n, s: max(1, len(spans)), toward: make([]float32, 0, n*m.Spec.Hidden), bare: make([]int32, n)}
	for i := range n {
		if rows[min(i, len(rows)-1)].bare() {
			pr.bare[i] = 1
		}
		pr.rows = append(pr.rows, int32(rows[min(i, len(rows)-1)].Row))
		pr.toward = append(pr.toward, toward[min(i, len(rows)-1)]...)
	}
	for _, s := range append(slices.Clone(spans), [2]int32{})[:pr.s] {
		pr.spans = append(pr.spans, s[0], s[1])
	}
	u.probe = pr
	if err := m.walk(ctx, []*unit{u}); err != nil {
		return nil, err
	}
	return m.readObserved(u, rows, len(spans))
}

// observedBucket rounds a number of rows up to one that other prompts have too.
func observedBucket(n int) int {
	if n <= rowBuckets[len(rowBuckets)-1] {
		return rowBucket(n)
	}
	return (n + 31) / 32 * 32
}

func (m *Model) checkObserved(rows []LookAt, spans [][2]int32, t int) error {
	if len(rows) == 0 || len(rows) > MaxObserved {
		return fmt.Errorf("observe: got %d rows, want 1 to %d", len(rows), MaxObserved)
	}
	for _, r := range rows {
		if r.Row < 0 || r.Row >= t {
			return fmt.Errorf("observe: row %d does not exist: the sequence has rows 0-%d", r.Row, t-1)
		}
		if c := r.Contrast; c != nil && (c.Token < 0 || int(c.Token) >= m.Spec.Vocab || c.Against < MeanLogit || int(c.Against) >= m.Spec.Vocab) {
			return fmt.Errorf("observe: contrast of tokens %d and %d: the vocabulary has %d tokens", c.Token, c.Against, m.Spec.Vocab)
		}
	}
	for _, s := range spans {
		if s[0] < 0 || s[1] < s[0] || int(s[1]) > t {
			return fmt.Errorf("observe: span %v outside the sequence of %d tokens", s, t)
		}
	}
	return nil
}

// contrasts are the directions of the final residual stream along which the rows' contrasts grow, up to the size of that stream.
func (m *Model) contrasts(rows []LookAt) ([][]float32, error) {
	out := make([][]float32, len(rows))
	for i, r := range rows {
		out[i] = make([]float32, m.Spec.Hidden)
		if r.Contrast == nil {
			continue
		}
		d, err := m.weights.contrast(*r.Contrast)
		if err != nil {
			return nil, err
		}
		for k, x := range d {
			out[i][k] = float32(x)
		}
	}
	return out, nil
}

// readObserved cuts the rows that were asked for out of what the blocks returned and divides writes by the size of the final residual.
func (m *Model) readObserved(u *unit, rows []LookAt, spans int) (*Observation, error) {
	o, n, s := &Observation{}, u.probe.p, u.probe.s
	sizes, err := m.finalSizes(u, rows)
	if err != nil {
		return nil, err
	}
	for _, l := range u.probed {
		for h := range m.cfg.heads {
			from := h * n
			o.Argmax = append(o.Argmax, l.argmax[from:from+len(rows)]...)
			o.Gap = append(o.Gap, l.gap[from:from+len(rows)]...)
			o.ArgmaxFar = append(o.ArgmaxFar, l.far[from:from+len(rows)]...)
			for r := range rows {
				o.Direct = append(o.Direct, float64(l.direct[from+r])/sizes[r])
				o.Mass = append(o.Mass, l.mass[(from+r)*s:][:spans]...)
				for _, x := range l.from[(from+r)*s:][:spans] {
					o.From = append(o.From, float64(x)/sizes[r])
				}
			}
		}
	}
	idx, targets := make([]int32, len(rows)), make([]int32, len(rows))
	for i, r := range rows {
		idx[i] = int32(r.Row)
	}
	scores, err := m.scoreRows(u.x, [][]int32{idx}, [][]int32{targets})
	if err != nil {
		return nil, err
	}
	for _, sc := range scores[0] {
		o.Next, o.NextGap, o.Fragile = append(o.Next, sc.argmax), append(o.NextGap, sc.gap), append(o.Fragile, m.closeCall(sc))
	}
	return o, nil
}

// finalSizes are what the final norm divides the residual stream at the rows by; 1 where the contrast leaves it out.
func (m *Model) finalSizes(u *unit, rows []LookAt) ([]float64, error) {
	prog, err := m.program("gather_rows", func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{graph.ConvertDType(gatherRows(in[0], in[1]), dtypes.Float32)}
	})
	if err != nil {
		return nil, err
	}
	idx, err := m.be.ints(u.probe.rows, 1, u.probe.p)
	if err != nil {
		return nil, err
	}
	defer free(idx)
	out, err := call(prog, u.x, idx)
	if err != nil {
		return nil, err
	}
	defer free(out...)
	x, err := floatsOf(out[0])
	if err != nil {
		return nil, err
	}
	d := m.Spec.Hidden
	sizes := make([]float64, len(rows))
	for i := range rows {
		if rows[i].bare() {
			sizes[i] = 1
			continue
		}
		row, mean, sum := x[i*d:(i+1)*d], 0.0, 0.0
		if centres(m.Spec) {
			for _, v := range row {
				mean += float64(v) / float64(d)
			}
		}
		for _, v := range row {
			sum += (float64(v) - mean) * (float64(v) - mean)
		}
		sizes[i] = math.Sqrt(sum/float64(d) + m.Spec.NormEps)
	}
	return sizes, nil
}

func centres(s *loader.Spec) bool {
	return s.Norm == loader.LayerNorm || s.Norm == loader.LayerNormBare
}

// contrast is the direction [hidden] of a final residual stream of size 1 along which a contrast of logits grows: the rows of the output
// matrix, times the final norm's weight and the family's factors on logits, in the dtype that the weights are used in.
func (s *weightStore) contrast(c Contrast) ([]float64, error) {
	spec := &s.ckpt.Spec
	d, err := s.outputRow(c.Token)
	if err != nil || c.Bare {
		return d, err
	}
	var against []float64
	if c.Against == MeanLogit {
		against, err = s.meanOutput()
	} else {
		against, err = s.outputRow(c.Against)
	}
	if err != nil {
		return nil, err
	}
	weight := make([]float32, 0)
	if p := spec.Params.FinalNorm; p.Has() {
		if weight, err = s.ckpt.Float32s(p, nil); err != nil {
			return nil, err
		}
	}
	mean := 0.0
	for i := range d {
		d[i] = (d[i] - against[i]) * spec.LogitScale / spec.LogitDivide
		switch spec.Norm {
		case loader.RMSNorm, loader.RMSNormFloat, loader.LayerNorm:
			d[i] *= float64(weight[i])
		case loader.RMSNormOffset:
			d[i] *= float64(weight[i]) + 1
		}
		mean += d[i] / float64(len(d))
	}
	if centres(spec) {
		for i := range d {
			d[i] -= mean
		}
	}
	return d, nil
}

// outputRows hands f rows of the output matrix one by one, from..to-1.
func (s *weightStore) outputRows(from, to int, f func(row []float32)) error {
	p := s.ckpt.Spec.Params.Head
	if s.ckpt.Spec.Tied {
		p = s.ckpt.Spec.Params.Embed
	}
	stored, chunks, err := s.ckpt.Chunks(p)
	if err != nil {
		return err
	}
	defer s.ckpt.Release(p)
	if len(chunks) != 1 {
		return fmt.Errorf("output matrix: got %d pieces, want one", len(chunks))
	}
	width, row := len(chunks[0])/p.Shape[0], make([]float32, p.Shape[1])
	for i := from; i < to; i++ {
		if err := safetensors.DecodeFloat32(row, chunks[0][i*width:(i+1)*width], stored); err != nil {
			return fmt.Errorf("output matrix: %w", err)
		}
		f(row)
	}
	return nil
}

func (s *weightStore) outputRow(id int32) (out []float64, err error) {
	err = s.outputRows(int(id), int(id)+1, func(row []float32) {
		for _, x := range row {
			out = append(out, float64(x))
		}
	})
	return out, err
}

// meanOutput is the mean row of the output matrix, computed once.
func (s *weightStore) meanOutput() ([]float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mean != nil {
		return s.mean, nil
	}
	mean, n := make([]float64, s.ckpt.Spec.Hidden), s.ckpt.Spec.Vocab
	err := s.outputRows(0, n, func(row []float32) {
		for i, x := range row {
			mean[i] += float64(x) / float64(n)
		}
	})
	if err != nil {
		return nil, err
	}
	s.mean = mean
	return mean, nil
}
