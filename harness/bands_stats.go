package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
)

// StagePlanes looks at the rotary planes of the heads on the detect prompts: one unit, one trial.
const StagePlanes = "planes"

// TrialPlanes is what the planes of some heads add to their scores, over the rows of the detect prompts that predict the answer.
type TrialPlanes struct {
	Prompts int          `json:"prompts"`
	Heads   []HeadPlanes `json:"heads"`
}

// HeadPlanes are means over the rows of one head. A plane's term is its part of the score, the head's scale included, before any cap; term
// P, behind those of the P planes, is the unrotated dimensions'.
type HeadPlanes struct {
	Head         decoder.Head `json:"head"`
	Rows         int          `json:"rows"`
	Covariance   []Number     `json:"covariance"`   // of two terms over the visible keys: [0,0], [1,0], [1,1], [2,0] ... [P,P]
	Contribution []Number     `json:"contribution"` // of each term: its mean over the needle's keys less that over the other visible ones, [P+1]
	NeedleRows   int          `json:"needle_rows"`  // rows that see the needle: those behind contribution
	Norm         []Number     `json:"norm"`         // |q||k|, mean over visible keys, [P]
}

// planeHead is one head of one prompt, ready for its sums.
type planeHead struct {
	rot       *rope.Table
	layout    rope.Layout
	q         [][]float32 // [rows][D], rotated
	k         []float32   // [T, D], rotated
	positions []int       // of the rows
	window    int         // visible keys, 0 = all
	scale     float64
	needle    heads.Span
}

// planeSums are the sums of one head over rows.
type planeSums struct {
	planes             int
	rows, needleRows   int
	covariance         []float64 // [P+1, P+1] packed
	contribution, norm []float64
}

func newPlaneSums(planes int) *planeSums {
	n := planes + 1
	return &planeSums{planes: planes, covariance: make([]float64, n*(n+1)/2), contribution: make([]float64, n), norm: make([]float64, planes)}
}

// add sums the rows of one prompt, in float64.
func (s *planeSums) add(h *planeHead) {
	d := len(h.q[0])
	members := make([][]int, s.planes+1)
	for p := range s.planes {
		members[p] = h.layout.Dims([]int{p}, h.rot.RotaryDim)
	}
	for i := h.rot.RotaryDim; i < d; i++ {
		members[s.planes] = append(members[s.planes], i)
	}
	for i, q := range h.q {
		s.row(h, members, q, h.positions[i])
	}
}

func (s *planeSums) row(h *planeHead, members [][]int, q []float32, at int) {
	n, d := s.planes+1, len(q)
	first := 0
	if h.window > 0 {
		first = max(0, at-h.window+1)
	}
	keys := at + 1 - first
	terms := make([]float64, keys*n)
	mean, needle := make([]float64, n), make([]float64, n)
	seen := 0
	for j := range keys {
		k := h.k[(first+j)*d:][:d]
		inside := first+j >= h.needle[0] && first+j < h.needle[1]
		if inside {
			seen++
		}
		for p, dims := range members {
			dot, qq, kk := 0.0, 0.0, 0.0
			for _, i := range dims {
				dot += float64(q[i]) * float64(k[i])
				qq, kk = qq+float64(q[i])*float64(q[i]), kk+float64(k[i])*float64(k[i])
			}
			x := dot * h.scale
			terms[j*n+p] = x
			mean[p] += x
			if inside {
				needle[p] += x
			}
			if p < s.planes {
				s.norm[p] += math.Sqrt(qq*kk) / float64(keys)
			}
		}
	}
	if rest := keys - seen; seen > 0 && rest > 0 {
		s.needleRows++
		for p := range n {
			s.contribution[p] += needle[p]/float64(seen) - (mean[p]-needle[p])/float64(rest)
		}
	}
	for p := range mean {
		mean[p] /= float64(keys)
	}
	for j := range keys {
		x := terms[j*n:][:n]
		for p := range x {
			x[p] -= mean[p]
		}
		at := 0
		for p := range n {
			for r := range p + 1 {
				s.covariance[at] += x[p] * x[r] / float64(keys)
				at++
			}
		}
	}
	s.rows++
}

// means is what is kept of the sums.
func (s *planeSums) means(h decoder.Head) HeadPlanes {
	over := func(x []float64, n int) []Number {
		out := make([]Number, len(x))
		for i, v := range x {
			out[i] = Number(v / float64(n))
		}
		return out
	}
	return HeadPlanes{h, s.rows, over(s.covariance, s.rows), over(s.contribution, s.needleRows), s.needleRows, over(s.norm, s.rows)}
}

// cov is the covariance of terms p and r.
func (h *HeadPlanes) cov(p, r int) float64 {
	if p < r {
		p, r = r, p
	}
	return float64(h.Covariance[p*(p+1)/2+r])
}

// variance is that of the sum of the terms for which in is true.
func (h *HeadPlanes) variance(in func(term int) bool) float64 {
	sum := 0.0
	for p := range h.Contribution {
		for r := range h.Contribution {
			if in(p) && in(r) {
				sum += h.cov(p, r)
			}
		}
	}
	return sum
}

// tracedLayers is how many layers one pass over a prompt returns queries and keys of.
func tracedLayers(spec *loader.Spec, p *Prompt) int {
	layer := product(4, len(p.IDs)+len(p.Answer)+128, 3*(spec.Heads+spec.KVHeads)*spec.HeadDim+spec.Hidden)
	return int(max(1, traceBytes/layer))
}

// observePlanes looks at the heads' planes on the prompts, a pass or a few a prompt, and keeps sums.
func (r *runner) observePlanes(ctx context.Context, set heads.Set, prompts []*Prompt, progress func()) (*TrialPlanes, error) {
	spec := &r.o.Checkpoint.Spec
	sums := make([]*planeSums, len(set))
	for _, p := range prompts {
		for some := range slices.Chunk(set.Layers(), tracedLayers(spec, p)) {
			tr, err := r.trace(ctx, &decoder.Prompt{IDs: p.IDs, Answer: p.Answer}, nil, decoder.TraceOptions{QK: some, Hidden: -1})
			if err != nil {
				return nil, err
			}
			if err := r.sumPlanes(sums, set, p, tr); err != nil {
				return nil, fmt.Errorf("prompt %s: %w", p.Spec.ID, err)
			}
		}
		progress()
	}
	out := &TrialPlanes{Prompts: len(prompts)}
	for i, s := range sums {
		out.Heads = append(out.Heads, s.means(set[i]))
	}
	return out, nil
}

// sumPlanes adds one pass to the sums of the heads whose layers it returned, several heads at a time.
func (r *runner) sumPlanes(sums []*planeSums, set heads.Set, p *Prompt, tr *decoder.Trace) error {
	spec := &r.o.Checkpoint.Spec
	var wait sync.WaitGroup
	defer wait.Wait() // before an error, too: the sums are the caller's again
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, h := range set {
		x, ok := tr.QK[h.Layer]
		if !ok {
			continue
		}
		table, err := decoder.RopeTable(spec, h.Layer, tr.T)
		if err != nil {
			return err
		}
		if sums[i] == nil {
			sums[i] = newPlaneSums(table.Planes())
		}
		d, kv := spec.HeadDim, h.Index/spec.Group()
		in := &planeHead{rot: table, layout: rope.LayoutOf(spec.Interleaved), k: x.KRot[kv*tr.T*d:][:tr.T*d], window: spec.Kinds[h.Layer].Window, scale: spec.ScoreScale, needle: p.Needle}
		for row := len(p.IDs) - 1; row < len(p.IDs)-1+max(1, len(p.Answer)); row++ {
			in.q, in.positions = append(in.q, x.QRot[(row*spec.Heads+h.Index)*d:][:d]), append(in.positions, row)
			if slices.ContainsFunc(in.q[len(in.q)-1], func(v float32) bool { return v-v != 0 }) {
				return errNotFinite("queries are")
			}
		}
		if slices.ContainsFunc(in.k[:(in.positions[len(in.positions)-1]+1)*d], func(v float32) bool { return v-v != 0 }) {
			return errNotFinite("keys are")
		}
		slots <- struct{}{}
		wait.Go(func() {
			sums[i].add(in)
			<-slots
		})
	}
	return nil
}

// observing is an experiment that looks at the unmodified model on the detect prompts before it asks: one trial, a unit of a stage of its own.
type observing interface {
	// observes is the name of that stage; empty where there is nothing to see.
	observes(t *target) string
	observe(ctx context.Context, r *runner, t *target, prompts []*Prompt) (Trial, error)
}

// observe makes the trial of an experiment that observes, or takes it from the trials file.
func (s *Study) observe(ctx context.Context, r *runner, e *evidence, x experiment) error {
	name, err := e.observes(x)
	if err != nil || name == "" {
		return err
	}
	trials, err := r.storedAlone(unitID{name, 0}, 1)
	if err != nil {
		return err
	}
	if trials == nil {
		trial, err := x.(observing).observe(ctx, r, e.chosen[x.stage()], s.detects)
		if err != nil {
			return err
		}
		trials = []Trial{trial}
		if err := r.keep(trials); err != nil {
			return err
		}
	}
	e.trials[name] = trials
	return nil
}

// observes is the stage in which an experiment observes; empty where it does not.
func (e *evidence) observes(x experiment) (string, error) {
	o, ok := x.(observing)
	if !ok {
		return "", nil
	}
	t, err := e.target(x)
	if err != nil {
		return "", err
	}
	return o.observes(t), nil
}

func (b *PlanBands) observes(t *target) string {
	if b.Planes == nil || len(t.heads) == 0 {
		return ""
	}
	return StagePlanes
}

func (b *PlanBands) observe(ctx context.Context, r *runner, t *target, prompts []*Prompt) (Trial, error) {
	trial := Trial{Stage: StagePlanes, Prompt: "detect", Condition: baseline, Outcome: Observed, Sum: nan, Margin: nan, MinGap: nan}
	ev := Event{Stage: StagePlanes, Total: len(prompts)}
	planes, err := r.observePlanes(ctx, t.heads, prompts, func() { ev.Done++; r.event(ev) })
	if trial.outOfMemory(err) {
		return trial, nil
	}
	if err != nil {
		return trial, errors.Join(errors.New("planes of the heads"), err)
	}
	trial.Planes = planes
	return trial, nil
}
