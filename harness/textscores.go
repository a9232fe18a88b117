package harness

import (
	"context"
	"math"
	"slices"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// TextTotals are what one document showed under one condition: sums over its scored tokens, natural logarithms.
type TextTotals struct {
	Tokens  int    `json:"tokens"`         // scored
	NLL     Number `json:"nll"`            // of the tokens themselves, nats
	KL      Number `json:"kl"`             // of the unmodified model's next-token distributions from these, nats
	Largest Number `json:"largest_change"` // of one token's log-probability against the unmodified model, nats
}

// add takes in a window's scores; base are the unmodified model's.
func (t *TextTotals) add(s, base *decoder.TextScore) {
	t.Tokens += len(s.LogProb)
	if overflowed(s.LogProb) || slices.ContainsFunc(s.KL, func(x float64) bool { return !(x >= -aboveZero && x <= math.MaxFloat64) }) {
		t.NLL, t.KL, t.Largest = nan, nan, nan
		return
	}
	for i, lp := range s.LogProb {
		t.NLL -= Number(lp)
		if d := Number(math.Abs(lp - base.LogProb[i])); d > t.Largest || d != d {
			t.Largest = d
		}
	}
	for _, kl := range s.KL {
		t.KL += Number(kl)
	}
}

// plus adds the totals of more of the document.
func (t *TextTotals) plus(o *TextTotals) {
	t.Tokens, t.NLL, t.KL = t.Tokens+o.Tokens, t.NLL+o.NLL, t.KL+o.KL
	if o.Largest > t.Largest || o.Largest != o.Largest {
		t.Largest = o.Largest
	}
}

// emitWindow takes what a window showed: the unmodified model first, then each list of edits.
type emitWindow func(window int, totals []TextTotals) error

// scoreWindows scores windows of documents by the unmodified model and under each list of edits.
func scoreWindows(ctx context.Context, m *decoder.Model, windows []docWindow, edits [][]decoder.Edit, emit emitWindow) error {
	var asked []decoder.TextWindow
	for _, w := range windows {
		asked = append(asked, w.TextWindow)
	}
	return m.ScoreText(ctx, asked, edits, func(w int, scores []decoder.TextScore) error {
		totals := make([]TextTotals, len(scores))
		for k := range scores {
			totals[k].add(&scores[k], &scores[0])
		}
		if totals[0].NLL != totals[0].NLL {
			return errNotFinite("text " + windows[w].of + ": the unmodified model's log-probabilities are")
		}
		return emit(w, totals)
	})
}

// docWindow is a window and the document that it is of.
type docWindow struct {
	decoder.TextWindow
	doc int
	of  string
}

func allWindows(docs []textWindows) []docWindow {
	var out []docWindow
	for i, d := range docs {
		for _, w := range d.windows {
			out = append(out, docWindow{w, i, d.id})
		}
	}
	return out
}

// checkTextEdits refuses edits that mean nothing to a text without needle, question and answer.
func checkTextEdits(s *loader.Spec, edits []decoder.Edit) error {
	if err := CheckEdits(s, edits); err != nil {
		return err
	}
	for _, e := range edits {
		switch e.Op {
		case decoder.OpPatch, decoder.OpPath:
			return usagef("leave "+string(e.Op)+" edits to prompts with donors", "edit %s: a text has no donor", e)
		case decoder.OpMean:
			return usagef("own_mean is the mean over the text's own rows; study and knockout take mean edits, of the prompts they detect on", "edit %s: a text has no prompts to take means over", e)
		}
		if e.Scope != decoder.ScopeAll {
			return usagef("texts have neither question nor answer: give @all", "edit %s: scope %s", e, e.Scope)
		}
	}
	return checkRows(s, edits, 2, 1)
}

// TextResult is one condition on all documents. Perplexity is exp of the mean over all scored tokens, of all documents together.
type TextResult struct {
	Name       string         `json:"name"`
	Edits      []decoder.Edit `json:"edits"`
	NLL        Metric         `json:"nll"` // nats a token
	Perplexity Metric         `json:"perplexity"`
	Tax        *Metric        `json:"tax,omitempty"` // 100 (perplexity / the unmodified model's - 1), per cent
	KL         *Metric        `json:"kl,omitempty"`  // of the unmodified model's next-token distribution from this one, nats, mean over rows
	Largest    Number         `json:"largest_change"`
	NoOp       string         `json:"no_op,omitempty"` // why it counts as having done nothing: see noOp
	Documents  []TextTotals   `json:"documents"`
}

const documentBootstrap = "bootstrap over documents, 10000, percentile 0.95"

// textResult computes a condition's numbers; base is the unmodified model on the same documents, nil for itself.
func (s *PlanStats) textResult(c NamedEdits, dtype string, totals, base []TextTotals) TextResult {
	r := TextResult{Name: c.Name, Edits: c.Edits, Documents: totals}
	if r.Edits == nil {
		r.Edits = []decoder.Edit{}
	}
	nll := make([]float64, len(totals))
	for i, t := range totals {
		nll[i] = float64(t.NLL)
		if t.Largest > r.Largest || t.Largest != t.Largest {
			r.Largest = t.Largest
		}
	}
	identity := func(x float64) float64 { return x }
	r.NLL = s.perToken(totals, nll, identity)
	r.Perplexity = s.perToken(totals, nll, math.Exp)
	if base == nil {
		return r
	}
	rise, kl := make([]float64, len(totals)), make([]float64, len(totals))
	for i, t := range totals {
		rise[i], kl[i] = nll[i]-float64(base[i].NLL), float64(t.KL)
	}
	tax := s.perToken(totals, rise, func(x float64) float64 { return 100 * math.Expm1(x) })
	tax.Method += ", paired"
	divergence := s.perToken(totals, kl, identity)
	r.Tax, r.KL = &tax, &divergence
	r.NoOp = r.noOp(dtype)
	return r
}

// perToken is f of (the sum of x over documents) / (their scored tokens), with an interval from drawing whole documents.
func (s *PlanStats) perToken(totals []TextTotals, x []float64, f func(float64) float64) Metric {
	clusters := make([]int, len(totals))
	for i := range clusters {
		clusters[i] = i
	}
	b := stats.ClusterBootstrap(clusters, func(members, _ []int) stats.Value {
		sum, tokens := 0.0, 0
		for _, i := range members {
			sum, tokens = sum+x[i], tokens+totals[i].Tokens
		}
		return stats.Number(f(sum / float64(tokens)))
	}, s.resampling(), stats.Source{Seed: s.Seed, Stream: s.Bootstrap})
	m := Metric{Value: Number(b.Estimate.Or(math.NaN())), Low: Number(b.Percentile.Lo), High: Number(b.Percentile.Hi), Method: documentBootstrap, Of: len(totals)}
	switch {
	case slices.ContainsFunc(x, func(v float64) bool { return v != v }):
		m.Low, m.High, m.Reason = nan, nan, overflow
	case b.Estimate.Why() != "":
		m.Low, m.High, m.Reason = nan, nan, "too large for a number"
	case len(totals) == 1:
		m.Low, m.High, m.Reason = nan, nan, "one document gives no interval"
	}
	return m
}
