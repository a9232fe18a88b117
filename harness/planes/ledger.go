package planes

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/harness/ledger"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// LedgerRequest asks for the score ledger of heads, and for what edits of them do.
type LedgerRequest struct {
	Checkpoint *loader.Checkpoint
	Model      *decoder.Model
	Prompts    *harness.PromptFile
	Heads      []decoder.Head // nil: those of the edits
	Edits      []decoder.Edit // each is predicted and run by itself, head by head, and then at all of its heads
	Command    []string
	Done       func(prompt, of int) // nil: nobody asks
}

// Ledger is the heads' balance over all prompts, and edits predicted from the unmodified model beside what they did.
type Ledger struct {
	harness.Header
	Asked   LedgerAsked  `json:"asked"`
	Heads   []LedgerHead `json:"heads"`
	Edits   []LedgerEdit `json:"edits"`
	Skipped heads.Set    `json:"skipped_heads,omitempty"` // of edits of planes and tables, in layers that do not rotate: left out
	Seconds float64      `json:"seconds"`
}

// LedgerAsked is what was asked for.
type LedgerAsked struct {
	Heads []decoder.Head `json:"heads"`
	Edits []decoder.Edit `json:"edits"`
}

// LedgerHead is one head's balance, mean over prompts.
type LedgerHead struct {
	Head    decoder.Head    `json:"head"`
	InvFreq []float64       `json:"inv_freq"` // of its planes in the last prompt; empty in a layer without rotation
	Last    ledger.Balanced `json:"last"`     // at the last row of the prompt
	Answer  ledger.Balanced `json:"answer"`   // mean over the rows of the fed answer but its last
}

// LedgerEdit is an edit of one head, or of all of its heads together: prediction beside outcome, by prompt and as means.
type LedgerEdit struct {
	Edit    string         `json:"edit"`
	Head    *decoder.Head  `json:"head"` // null: all of the edit's heads
	Prompts []LedgerEffect `json:"prompts"`
	Mean    LedgerEffect   `json:"mean"`
}

// LedgerEffect is what an edit does to one prompt. Of an edit of several heads only the log-probability is known.
type LedgerEffect struct {
	Prompt    string         `json:"prompt,omitempty"`
	Score     Prediction     `json:"score"`     // change of the code's mean score minus the rest's, at the last row
	Attention Prediction     `json:"attention"` // change of the weight on the needle, at the last row
	LogProb   Prediction     `json:"log_prob"`  // change of the answer's log-probability, to first order, in nats
	Logit     Prediction     `json:"logit"`     // change of logit(answer) - logit(decoy) at the first token where they differ, to first order
	Before    harness.Number `json:"attention_before"`
	Worst     harness.Number `json:"worst_score"`      // largest |predicted - measured| of any score at the rows that predict the answer
	Scale     harness.Number `json:"score_scale"`      // largest |score| there
	Reason    string         `json:"reason,omitempty"` // why some of the numbers are null
}

// Prediction is a number predicted from the unmodified run, and what the edited run gave.
type Prediction struct {
	Predicted harness.Number `json:"predicted"`
	Measured  harness.Number `json:"measured"`
}

// KeepLedger runs the prompts without and with the edits.
func KeepLedger(ctx context.Context, r *LedgerRequest) (*Ledger, error) {
	start := time.Now()
	s := &r.Checkpoint.Spec
	l := &Ledger{Asked: LedgerAsked{r.Heads, append([]decoder.Edit{}, r.Edits...)}, Edits: []LedgerEdit{}}
	if l.Asked.Heads == nil {
		for _, e := range r.Edits {
			l.Asked.Heads = append(l.Asked.Heads, e.Heads...)
		}
	}
	l.Asked.Heads = heads.NewSet(l.Asked.Heads...)
	if len(l.Asked.Heads) == 0 {
		return nil, &harness.UsageError{Err: fmt.Errorf("no heads"), Advice: "give --heads L18H6, or an edit of a head"}
	}
	if err := heads.NewSet(l.Asked.Heads...).Validate(s.Layers, s.Heads); err != nil {
		return nil, err
	}
	file := r.Prompts.WithNeedle()
	prompts, err := file.Tokenize(s, r.Checkpoint.Tokenizer, 0)
	if err != nil {
		return nil, err
	}
	runs, err := l.plan(r, prompts)
	if err != nil {
		return nil, err
	}
	h, err := harness.NewHeader(ctx, &harness.HeaderRequest{
		Kind: "ledger", Checkpoint: r.Checkpoint, Model: r.Model, Prompts: file, Command: r.Command, Asked: l.Asked,
	})
	if err != nil {
		return nil, err
	}
	l.Header = *h
	for _, at := range l.Asked.Heads {
		l.Heads = append(l.Heads, LedgerHead{Head: at, InvFreq: []float64{}, Answer: ledger.Balanced{Planes: []ledger.PlaneEntry{}}})
	}
	for i, p := range prompts {
		b, err := newBaseline(ctx, r.Model, p, l.Asked.Heads, runs)
		if err == nil {
			err = l.addPrompt(ctx, r.Model, b, runs, 1/float64(len(prompts)))
		}
		if err != nil {
			return nil, fmt.Errorf("prompt %s: %w", p.Spec.ID, err)
		}
		if r.Done != nil {
			r.Done(i+1, len(prompts))
		}
	}
	for i := range l.Edits {
		l.Edits[i].Mean = meanEffect(l.Edits[i].Prompts)
	}
	l.Seconds = math.Round(time.Since(start).Seconds()*10) / 10
	return l, nil
}

// ledgerRun is an edit at one head, or at all of its heads.
type ledgerRun struct {
	edit  decoder.Edit
	heads []decoder.Head
}

// plan lists the runs of every prompt and refuses edits that are not predicted, before anything is computed.
func (l *Ledger) plan(r *LedgerRequest, prompts []*harness.Prompt) ([]ledgerRun, error) {
	var runs []ledgerRun
	for _, e := range r.Edits {
		if err := heads.NewSet(e.Heads...).Validate(r.Model.Spec.Layers, r.Model.Spec.Heads); err != nil {
			return nil, fmt.Errorf("edit %s: %w", e, err)
		}
		all := heads.NewSet(e.Heads...)
		if err := decoder.CheckEdits(r.Model.Spec, []decoder.Edit{e}, 2, 1); err != nil {
			return nil, &harness.UsageError{Err: err, Advice: "docs/trace.md lists the edits that the ledger predicts; `headscope inspect MODEL` prints which layers rotate"}
		}
		skipped := heads.NewSet(decoder.SkippedHeads(r.Model.Spec, []decoder.Edit{e})...)
		all, l.Skipped = all.Minus(skipped), l.Skipped.Union(skipped)
		for _, h := range all {
			one := e
			one.Heads = []decoder.Head{h}
			runs = append(runs, ledgerRun{one, one.Heads})
			l.Edits = append(l.Edits, LedgerEdit{Edit: one.String(), Head: &h})
			for _, p := range prompts {
				if _, err := r.Model.HeadEdit([]decoder.Edit{one}, h, len(p.IDs), p.Question, len(p.IDs)); err != nil {
					return nil, &harness.UsageError{Err: fmt.Errorf("prompt %s: %w", p.Spec.ID, err), Advice: "docs/trace.md lists the edits that the ledger predicts"}
				}
			}
		}
		if len(all) > 1 {
			e.Heads = all
			runs = append(runs, ledgerRun{e, all})
			l.Edits = append(l.Edits, LedgerEdit{Edit: e.String()})
		}
	}
	return runs, nil
}

// baseline is one prompt's unmodified run.
type baseline struct {
	p       *harness.Prompt
	rows    []int // that predict the answer's tokens
	trace   *decoder.Trace
	heads   map[decoder.Head]*ledger.Head
	grad    *decoder.HeadGradient // of the answer's log-probability; nil where there are no edits
	logProb float64

	differ    int                   // the answer's first token that is not the decoy's; -1 = there is no decoy
	logitGrad *decoder.HeadGradient // of the difference of their logits
}

func newBaseline(ctx context.Context, m *decoder.Model, p *harness.Prompt, hs []decoder.Head, runs []ledgerRun) (*baseline, error) {
	b := &baseline{p: p, heads: map[decoder.Head]*ledger.Head{}, differ: differAt(p.Answer, p.Decoy)}
	for i := range p.Answer {
		b.rows = append(b.rows, len(p.IDs)-1+i)
	}
	all := heads.NewSet(hs...)
	for _, r := range runs {
		all = all.Union(heads.NewSet(r.heads...))
	}
	var err error
	if b.trace, err = m.Trace(ctx, b.ask(), nil, decoder.TraceOptions{Hidden: -1, Attention: b.rows, Scores: true, Logits: b.rows, QK: all.Layers()}); err != nil {
		return nil, err
	}
	for _, h := range all {
		if b.heads[h], err = ledger.NewHead(m, h, b.trace); err != nil {
			return nil, err
		}
	}
	b.logProb = b.answerLogProb(b.trace)
	if len(runs) == 0 {
		return b, nil
	}
	var outcome []decoder.Term
	for i, id := range p.Answer {
		outcome = append(outcome, decoder.Term{Row: b.rows[i], Token: id, Weight: 1})
	}
	ids := slices.Concat(p.IDs, p.Answer)
	if b.grad, err = m.HeadGradient(ctx, ids, outcome); err != nil || b.differ < 0 {
		return b, err
	}
	row := b.rows[b.differ]
	b.logitGrad, err = m.HeadGradient(ctx, ids, []decoder.Term{{Row: row, Token: p.Answer[b.differ], Weight: 1}, {Row: row, Token: p.Decoy[b.differ], Weight: -1}})
	return b, err
}

// differAt is the first place where two answers differ, -1 without a second one.
func differAt(a, b []int32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// logit is logit(answer) - logit(decoy) where they differ.
func (b *baseline) logit(tr *decoder.Trace) float64 {
	row := tr.Logits[b.differ]
	return float64(row[b.p.Answer[b.differ]]) - float64(row[b.p.Decoy[b.differ]])
}

func (b *baseline) ask() *decoder.Prompt {
	return &decoder.Prompt{IDs: b.p.IDs, Answer: b.p.Answer, Question: b.p.Question}
}

// answerLogProb is the log-probability of the fed answer, in nats.
func (b *baseline) answerLogProb(tr *decoder.Trace) float64 {
	sum := 0.0
	for i, id := range b.p.Answer {
		sum += logProb(tr.Logits[i], id)
	}
	return sum
}

func logProb(logits []float32, id int32) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, x := range logits {
		top = math.Max(top, float64(x))
	}
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	return float64(logits[id]) - top - math.Log(sum)
}

// addPrompt adds one prompt's balance, and runs the edits on it.
func (l *Ledger) addPrompt(ctx context.Context, m *decoder.Model, b *baseline, runs []ledgerRun, weight float64) error {
	for i := range l.Heads {
		to := &l.Heads[i]
		h := b.heads[to.Head]
		to.Last.Add(h.Balance(b.rows[0], b.p.Needle, b.p.Code), weight)
		for _, row := range b.rows[1:] {
			to.Answer.Add(h.Balance(row, b.p.Needle, b.p.Code), weight/float64(len(b.rows)-1))
		}
		if t, err := decoder.RopeTable(m.Spec, to.Head.Layer, b.trace.T); err == nil && t != nil {
			to.InvFreq = t.InvFreq
		}
	}
	for i, r := range runs {
		effect, err := b.effect(ctx, m, r)
		if err != nil {
			return fmt.Errorf("edit %s: %w", r.edit, err)
		}
		l.Edits[i].Prompts = append(l.Edits[i].Prompts, *effect)
	}
	return nil
}

// effect predicts one edit from the baseline, and then runs it.
func (b *baseline) effect(ctx context.Context, m *decoder.Model, r ledgerRun) (*LedgerEffect, error) {
	nan := harness.Number(math.NaN())
	none := Prediction{nan, nan}
	out := &LedgerEffect{Prompt: b.p.Spec.ID, Score: none, Attention: none, Logit: none, Before: nan, Worst: nan, Scale: nan}
	edits := []decoder.Edit{r.edit}
	var edit *ledger.Edit // of the last head
	var predicted, logit float64
	for _, at := range r.heads {
		e, err := m.HeadEdit(edits, at, len(b.p.IDs), b.p.Question, b.trace.T)
		if err != nil {
			return nil, err
		}
		h := b.heads[at]
		edit = h.Edit(e)
		outcomes := [][]float32{b.grad.Z[at.Layer]}
		if b.logitGrad != nil {
			outcomes = append(outcomes, b.logitGrad.Z[at.Layer])
		}
		first := h.FirstOrder([]*ledger.Edit{edit}, outcomes, decoder.Rows{Hi: b.trace.T})[0]
		if predicted += first[0]; b.logitGrad != nil {
			logit += first[1]
		}
	}
	tr, err := m.Trace(ctx, b.ask(), edits, decoder.TraceOptions{Hidden: -1, Attention: b.rows, Scores: true, Logits: b.rows})
	if err != nil {
		return nil, err
	}
	out.LogProb = Prediction{harness.Number(predicted), harness.Number(b.answerLogProb(tr) - b.logProb)}
	if b.logitGrad != nil {
		out.Logit = Prediction{harness.Number(logit), harness.Number(b.logit(tr) - b.logit(b.trace))}
	}
	if len(r.heads) == 1 {
		b.compare(out, tr, r.heads[0], edit)
	}
	out.explain(len(r.heads), b.logitGrad != nil)
	return out, nil
}

// overflow is the reason of numbers that are not finite.
const overflow = "not a finite number: scores overflowed"

// explain gives the reason of what is null, and makes null what is no number: an effect that is not finite says nothing of its other parts.
func (e *LedgerEffect) explain(heads int, decoy bool) {
	var why []string
	need := []harness.Number{e.LogProb.Predicted, e.LogProb.Measured}
	if heads > 1 {
		why = append(why, "scores and attention are of one head at a time")
	} else {
		need = append(need, e.Score.Predicted, e.Score.Measured, e.Attention.Predicted, e.Attention.Measured, e.Worst, e.Scale)
	}
	if decoy {
		need = append(need, e.Logit.Predicted, e.Logit.Measured)
	} else {
		why = append(why, "there is no decoy whose logit could be compared")
	}
	if slices.ContainsFunc(need, func(x harness.Number) bool { return x-x != 0 }) {
		nan := harness.Number(math.NaN())
		*e = LedgerEffect{Prompt: e.Prompt, Score: Prediction{nan, nan}, Attention: Prediction{nan, nan}, LogProb: Prediction{nan, nan}, Logit: Prediction{nan, nan}, Before: e.Before, Worst: nan, Scale: nan}
		why = []string{overflow}
	}
	e.Reason = strings.Join(why, "; ")
}

// compare sets prediction and outcome of the scores of the only head that was edited.
func (b *baseline) compare(out *LedgerEffect, tr *decoder.Trace, at decoder.Head, e *ledger.Edit) {
	h := b.heads[at]
	needle, code := b.p.Needle, b.p.Code
	worst, scale := 0.0, 0.0
	for i, row := range b.rows {
		span := h.Visible(row)
		want := h.Scores(row, e)
		got := b.measured(tr, at, i, span)
		for k := range want {
			worst, scale = math.Max(worst, math.Abs(want[k]-got[k])), math.Max(scale, math.Abs(got[k]))
		}
		if i > 0 {
			continue
		}
		before := h.Scores(row, nil)
		ran := b.measured(b.trace, at, i, span)
		out.Score = Prediction{
			harness.Number(ledger.OverRest(want, span, code, needle) - ledger.OverRest(before, span, code, needle)),
			harness.Number(ledger.OverRest(got, span, code, needle) - ledger.OverRest(ran, span, code, needle)),
		}
		mass := ledger.MassOn(ledger.Softmax(ran), span, needle)
		out.Before = harness.Number(mass)
		out.Attention = Prediction{
			harness.Number(ledger.MassOn(ledger.Softmax(want), span, needle) - ledger.MassOn(ledger.Softmax(before), span, needle)),
			harness.Number(ledger.MassOn(ledger.Softmax(got), span, needle) - mass),
		}
	}
	out.Worst, out.Scale = harness.Number(worst), harness.Number(scale)
}

// measured are the scores of visible keys that a run had at the i-th row.
func (b *baseline) measured(tr *decoder.Trace, at decoder.Head, i int, span heads.Span) []float64 {
	from := (at.Index*len(b.rows) + i) * tr.T
	out := make([]float64, span.Len())
	for k := range out {
		out[k] = float64(tr.Attention[at.Layer][from+span[0]+k])
	}
	return out
}

// meanEffect averages over prompts; the worst score is the worst of all.
func meanEffect(all []LedgerEffect) LedgerEffect {
	var m LedgerEffect
	n := harness.Number(len(all))
	for _, e := range all {
		for _, p := range []struct{ to, from *Prediction }{{&m.Score, &e.Score}, {&m.Attention, &e.Attention}, {&m.LogProb, &e.LogProb}, {&m.Logit, &e.Logit}} {
			p.to.Predicted += p.from.Predicted / n
			p.to.Measured += p.from.Measured / n
		}
		m.Before += e.Before / n
		m.Worst, m.Scale = max(m.Worst, e.Worst), max(m.Scale, e.Scale)
		if m.Reason == "" || e.Reason == overflow {
			m.Reason = e.Reason
		}
	}
	return m
}
