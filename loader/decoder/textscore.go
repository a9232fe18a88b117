package decoder

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// TextWindow is a sequence of tokens of which those from From on are scored, each by the row before it.
type TextWindow struct {
	IDs  []int32
	From int // 1 or more: the first token has no row before it
}

// TextScore is what the model says to one window under one list of edits, an entry a scored token.
type TextScore struct {
	LogProb []float64 // natural logarithm
	KL      []float64 // of the unmodified model's next-token distribution from the edited one's, nats, >= 0; nil for the unmodified model
}

// EmitText takes the scores of one window: of the unmodified model, then of each list of edits.
type EmitText func(window int, scores []TextScore) error

// textBytes bounds the residuals of the windows that are in work together.
const textBytes = DefaultCacheBytes

// ScoreText scores every window by the unmodified model and under each list of edits, and calls emit window by window. The scopes of
// edits count from the whole window; it has no question. Logits stay on the device: of 64 rows at a time there are log-probabilities of
// the unmodified model beside those of one list of edits.
//
// KL = sum_v p(v) (ln p(v) - ln q(v)) with p of the unmodified model, in float32 and in a form that loses nothing where both are near.
func (m *Model) ScoreText(ctx context.Context, windows []TextWindow, edits [][]Edit, emit EmitText) error {
	conds := make([][]*condition, len(windows)) // by window
	for i, w := range windows {
		if err := m.check(i, &Prompt{IDs: w.IDs}, &AskOptions{}); err != nil {
			return err
		}
		if w.From < 1 || w.From >= len(w.IDs) {
			return fmt.Errorf("window %d: scored from token %d of %d, want 1 or more and a token to score", i, w.From, len(w.IDs))
		}
		for _, list := range edits {
			c, err := m.geo.resolve(list, len(w.IDs), 0)
			if err == nil && len(c.givenHeads()) > 0 {
				err = errors.New("a text has no donor, and no other prompts to take means over")
			}
			if err != nil {
				return fmt.Errorf("window %d: %w", i, err)
			}
			conds[i] = append(conds[i], c)
		}
	}
	for from := 0; from < len(windows); {
		to, bytes := from, int64(0)
		for to < len(windows) && (to == from || bytes < textBytes) {
			bytes += int64(len(edits)+1) * int64(LengthBucket(len(windows[to].IDs))) * int64(m.Spec.Hidden) * int64(m.cfg.dtype.Size())
			to++
		}
		err := m.scoreTexts(ctx, windows[from:to], conds[from:to], func(i int, s []TextScore) error { return emit(from+i, s) })
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// scoreTexts walks the windows together.
func (m *Model) scoreTexts(ctx context.Context, windows []TextWindow, conds [][]*condition, emit EmitText) error {
	var units []*unit
	defer func() {
		for _, u := range units {
			u.free()
		}
	}()
	for i, w := range windows {
		add := func(c *condition) *unit {
			u := &unit{ids: [][]int32{w.IDs}, t: LengthBucket(len(w.IDs)), pass: passOf(m.Spec, len(w.IDs)), stop: m.Spec.Layers, conds: []*condition{c}}
			units = append(units, u)
			return u
		}
		base := add(nil)
		for _, c := range conds[i] {
			u := add(c)
			u.parent, u.fork = base, min(c.first, m.Spec.Layers-1) // the layers below are the unmodified model's
		}
	}
	if err := m.walk(ctx, units); err != nil {
		return err
	}
	for i, w := range windows {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := 1 + len(conds[i])
		scores, err := m.scoreWindow(w, units[:n])
		if err != nil {
			return err
		}
		for _, u := range units[:n] {
			u.free()
		}
		units = units[n:]
		if err := emit(i, scores); err != nil {
			return err
		}
	}
	return nil
}

// scoreWindow scores one window under all conditions; the first unit is the unmodified model's.
func (m *Model) scoreWindow(w TextWindow, units []*unit) ([]TextScore, error) {
	plain, err := m.program("text", func(in []*graph.Node) []*graph.Node {
		return m.cfg.textGraph(in[0], in[1], in[2], (&nodeReader{in[3:]}).final(&m.cfg))
	})
	if err != nil {
		return nil, err
	}
	edited, err := m.program("text_kl", func(in []*graph.Node) []*graph.Node {
		return m.cfg.divergenceGraph(in[0], in[1], in[2], in[3], (&nodeReader{in[4:]}).final(&m.cfg))
	})
	if err != nil {
		return nil, err
	}
	out := make([]TextScore, len(units))
	for at := w.From; at < len(w.IDs); {
		n := min(len(w.IDs)-at, rowBuckets[len(rowBuckets)-1])
		p := scoreBucket(n)
		rows := make([]int32, n)
		for i := range rows {
			rows[i] = int32(at + i - 1)
		}
		idx, targets := padRows([][]int32{rows}, 0, n, p), padRows([][]int32{w.IDs[at : at+n]}, 0, n, p)
		base, err := m.callFinal(plain, []*tensors.Tensor{units[0].x}, p, idx, targets)
		if err != nil {
			return nil, err
		}
		err = out[0].read(base[:1], n)
		for k, u := range units[1:] {
			if err != nil {
				break
			}
			var got []*tensors.Tensor
			if got, err = m.callFinal(edited, []*tensors.Tensor{base[1], u.x}, p, idx, targets); err == nil {
				err = out[k+1].read(got, n)
				free(got...)
			}
		}
		free(base...)
		if err != nil {
			return nil, err
		}
		at += n
	}
	return out, nil
}

// read appends the first n log-probabilities, and divergences where there are any.
func (s *TextScore) read(got []*tensors.Tensor, n int) error {
	for i, to := range []*[]float64{&s.LogProb, &s.KL}[:len(got)] {
		x, err := floatsOf(got[i])
		if err != nil {
			return err
		}
		for _, v := range x[:n] {
			*to = append(*to, float64(v))
		}
	}
	return nil
}
