package decoder

import (
	"context"
	"math"
	"strings"
	"testing"
)

func scoreText(t *testing.T, m *Model, windows []TextWindow, edits ...[]Edit) [][]TextScore {
	t.Helper()
	var out [][]TextScore
	err := m.ScoreText(context.Background(), windows, edits, func(i int, s []TextScore) error {
		if i != len(out) {
			t.Errorf("window %d comes as number %d", i, len(out))
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// logSoftmaxOf is in float64.
func logSoftmaxOf(logits []float32) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, x := range logits {
		top = max(top, float64(x))
	}
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	out := make([]float64, len(logits))
	for i, x := range logits {
		out[i] = float64(x) - top - math.Log(sum)
	}
	return out
}

// TestScoreText: log-probabilities and divergences are those of the logits that a trace of the same edits gives, over windows that take
// one and two pieces of rows; what is scored does not depend on where scoring begins or on what else is asked.
func TestScoreText(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		windows := []TextWindow{{tokens(901, 40), 1}, {tokens(902, 100), 20}}
		lists := [][]Edit{
			edits(t, "zero:L1H0,L1H1,L2H3"), edits(t, "swap=nope:L0H0,L0H1,L0H2,L0H3"), edits(t, "scale=0.999:L2H1"), edits(t, "own_mean:L1H2"),
		}
		if be.Kind != KindGo && !slow() {
			lists, windows[0].From = lists[:1], 24 // as many rows as the other's second piece: each shape has to be compiled
		}
		got := scoreText(t, m, windows, lists...)
		for i, w := range windows {
			rows := make([]int, len(w.IDs)-w.From)
			for j := range rows {
				rows[j] = w.From - 1 + j
			}
			var base [][]float32
			for k, list := range append([][]Edit{nil}, lists...) {
				tr, err := m.Trace(context.Background(), &Prompt{IDs: w.IDs}, list, TraceOptions{Logits: rows, Hidden: -1})
				if err != nil {
					t.Fatal(err)
				}
				if k == 0 {
					base = tr.Logits
				}
				s := got[i][k]
				if len(s.LogProb) != len(rows) || k == 0 && s.KL != nil || k > 0 && len(s.KL) != len(rows) {
					t.Fatalf("window %d, list %d: %d log-probabilities and %d divergences of %d rows", i, k, len(s.LogProb), len(s.KL), len(rows))
				}
				for j := range rows {
					q, p := logSoftmaxOf(tr.Logits[j]), logSoftmaxOf(base[j])
					if d := s.LogProb[j] - q[w.IDs[w.From+j]]; !(math.Abs(d) < 2e-5) {
						t.Errorf("window %d, list %d, row %d: log-probability off by %g", i, k, j, d)
					}
					if k == 0 {
						continue
					}
					kl := 0.0
					for x := range p {
						kl += math.Exp(p[x]) * (p[x] - q[x])
					}
					if !(math.Abs(s.KL[j]-kl) < 1e-6+1e-4*kl) {
						t.Errorf("window %d, list %d, row %d: divergence %g, want %g", i, k, j, s.KL[j], kl)
					}
				}
			}
		}
		if mean := meanOf(got[1][1].KL); mean < 1e-4 {
			t.Errorf("the knock-out moves the distributions by %g nats only: nothing was compared", mean)
		}
		alone := scoreText(t, m, windows[1:], lists[0])
		for j, lp := range alone[0][1].LogProb {
			if lp != got[1][1].LogProb[j] {
				t.Fatalf("row %d: %g alone, %g in company", j, lp, got[1][1].LogProb[j])
			}
		}
	})
}

func meanOf(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// TestScoreTextIdentity: edits that change nothing give the bits of the unmodified model, and a divergence of exactly 0.
func TestScoreTextIdentity(t *testing.T) {
	m := model(t, backend(t, "go"), "float32")
	got := scoreText(t, m, []TextWindow{{tokens(903, 30), 1}}, edits(t, "scale=1:L0H0"), nil)
	for k, s := range got[0][1:] {
		for j := range s.KL {
			if s.LogProb[j] != got[0][0].LogProb[j] || s.KL[j] != 0 {
				t.Errorf("list %d, row %d: log-probability %g, divergence %g; want %g and 0", k, j, s.LogProb[j], s.KL[j], got[0][0].LogProb[j])
			}
		}
	}
}

func TestScoreTextErrors(t *testing.T) {
	m := model(t, backend(t, "go"), "float32")
	ids := tokens(904, 10)
	for want, c := range map[string]struct {
		w    TextWindow
		edit string
	}{
		"scored from token 0":   {TextWindow{ids, 0}, "zero:L0H0"},
		"scored from token 10":  {TextWindow{ids, 10}, "zero:L0H0"},
		"empty":                 {TextWindow{nil, 1}, "zero:L0H0"},
		"no question span":      {TextWindow{ids, 1}, "zero:L0H0@question"},
		"no donor":              {TextWindow{ids, 1}, "patch:L0H0@last"},
		"L9H0":                  {TextWindow{ids, 1}, "zero:L9H0"},
		"the vocabulary has":    {TextWindow{[]int32{1, int32(m.Spec.Vocab)}, 1}, "zero:L0H0"},
		"the model's window is": {TextWindow{tokens(905, m.Spec.MaxPositions+1), 1}, "zero:L0H0"},
	} {
		err := m.ScoreText(context.Background(), []TextWindow{c.w}, [][]Edit{edits(t, c.edit)}, func(int, []TextScore) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
