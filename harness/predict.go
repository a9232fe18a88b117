package harness

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/headscope/headscope/harness/ledger"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// predicting is an experiment whose conditions the score ledger may predict from the unmodified model, before they are run: a stage of its
// own with one trial a tested prompt.
type predicting interface{ predicts() bool }

// ledgerStage is the name of that stage.
func ledgerStage(x experiment) string { return x.stage() + "_ledger" }

// mostPredicted is how many heads an edit may have to be predicted: to first order, none of them feeds another.
const mostPredicted = 64

// TrialPrediction is what the ledger says of one prompt under one condition, as changes against the unmodified model.
type TrialPrediction struct {
	Score  Number `json:"score"`       // mean score of the code's tokens less that of the keys outside of the needle, at the last row; mean over the heads
	Sum    Number `json:"sum_logprob"` // to first order
	Margin Number `json:"margin"`      // to first order; null without a decoy

	Measured Number `json:"measured_score"` // what the edited run's score changed by; null where it was not looked at
}

// Prediction is the mean over prompts.
type Prediction struct {
	N      int    `json:"n"`                  // prompts
	Score  Number `json:"score_change"`       // exact for a head that no other edited head feeds
	Sum    Number `json:"sum_logprob_change"` // to first order, nats
	Margin Number `json:"margin_change"`
	Drop   Number `json:"drop"` // of the primary outcome

	Measured Number `json:"measured_score_change"` // null where it was not looked at
}

// unpredicted says why the ledger does not predict a condition; empty where it does.
func (c *condition) unpredicted(k *PlanControls) string {
	var hs []decoder.Head
	for i := range c.edits {
		if e := &c.edits[i]; !e.Op.OfOneHead() {
			return fmt.Sprintf("%s is not worked out by the ledger", e.Op)
		}
		hs = append(hs, c.edits[i].Heads...)
	}
	switch n := len(heads.NewSet(hs...)); {
	case n == 0:
		return "it edits no head"
	case n > mostPredicted:
		return fmt.Sprintf("it edits %d heads, and to first order none feeds another: at most %d are predicted", n, mostPredicted)
	case c.controlOf != "" && slices.Contains(k.WholePasses, c.scope):
		return "controls of whole passes are measured alone"
	}
	return ""
}

// predicted lists those of an experiment's conditions that the ledger predicts.
func predicted(x experiment, conds []condition) []condition {
	if p, ok := x.(predicting); !ok || !p.predicts() {
		return nil
	}
	_, k := x.about()
	return slices.DeleteFunc(slices.Clone(conds), func(c condition) bool { return c.name == baseline || c.unpredicted(k) != "" })
}

// predict makes the trials of an experiment's ledger stage, or takes them from the trials file.
func (r *runner) predict(ctx context.Context, x experiment, conds []condition, prompts []*Prompt) ([]Trial, error) {
	conds = predicted(x, conds)
	if len(conds) == 0 {
		return nil, nil
	}
	return r.alone(ctx, ledgerStage(x), prompts, func(ctx context.Context, p *Prompt, t *Trial) error {
		pr := &predictor{r: r, p: p, conds: conds, of: map[decoder.Head][]int{}}
		if err := pr.run(ctx); err != nil {
			return err
		}
		t.Ledger = map[string]TrialPrediction{}
		for i := range conds {
			t.Ledger[conds[i].name] = pr.total(i)
		}
		return pr.measure(ctx, t.Ledger)
	})
}

// predictor works out one prompt.
type predictor struct {
	r     *runner
	p     *Prompt
	conds []condition
	set   heads.Set
	of    map[decoder.Head][]int // conditions that edit a head

	answer, decoy *decoder.HeadGradient // of the log-probabilities; decoy nil where there is none
	mu            sync.Mutex
	parts         map[decoder.Head][]TrialPrediction // by entry of `of`
	visible       map[decoder.Head]heads.Span        // to the prompt's last row
}

func (pr *predictor) run(ctx context.Context) (err error) {
	var all []decoder.Head
	for i := range pr.conds {
		var hs []decoder.Head
		for _, e := range pr.conds[i].edits {
			hs = append(hs, e.Heads...)
		}
		for _, h := range heads.NewSet(hs...) {
			pr.of[h] = append(pr.of[h], i)
		}
		all = append(all, hs...)
	}
	pr.set, pr.parts = heads.NewSet(all...), map[decoder.Head][]TrialPrediction{}
	pr.visible = map[decoder.Head]heads.Span{}
	if pr.answer, err = pr.gradient(ctx, pr.p.Answer); err != nil {
		return err
	}
	if pr.p.Decoy != nil {
		if pr.decoy, err = pr.gradient(ctx, pr.p.Decoy); err != nil {
			return err
		}
	}
	spec := &pr.r.o.Checkpoint.Spec
	layer := product(4, len(pr.p.IDs)+128, 3*(spec.Heads+spec.KVHeads)*spec.HeadDim+spec.Hidden)
	for some := range slices.Chunk(pr.set.Layers(), int(max(1, traceBytes/layer))) {
		if err := pr.layers(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// gradient is the derivative of a fed answer's log-probability by the heads' outputs.
func (pr *predictor) gradient(ctx context.Context, answer []int32) (*decoder.HeadGradient, error) {
	var terms []decoder.Term
	for i, id := range answer {
		terms = append(terms, decoder.Term{Row: len(pr.p.IDs) - 1 + i, Token: id, Weight: 1})
	}
	return pr.r.o.Model.HeadGradient(ctx, slices.Concat(pr.p.IDs, answer), terms)
}

// layers predicts what edits of the heads of some layers do, several heads at a time.
func (pr *predictor) layers(ctx context.Context, some []int) error {
	o := decoder.TraceOptions{QK: some, Hidden: -1}
	fed, err := pr.r.trace(ctx, &decoder.Prompt{IDs: pr.p.IDs, Answer: pr.p.Answer}, nil, o)
	if err != nil {
		return err
	}
	other := fed
	if pr.decoy != nil {
		if other, err = pr.r.trace(ctx, &decoder.Prompt{IDs: pr.p.IDs, Answer: pr.p.Decoy}, nil, o); err != nil {
			return err
		}
	}
	var wait sync.WaitGroup
	var first error
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, h := range pr.set {
		if !slices.Contains(some, h.Layer) {
			continue
		}
		slots <- struct{}{}
		wait.Go(func() {
			parts, span, err := pr.head(h, fed, other)
			pr.mu.Lock()
			if pr.parts[h], pr.visible[h] = parts, span; err != nil {
				first = fmt.Errorf("head %s: %w", h, err)
			}
			pr.mu.Unlock()
			<-slots
		})
	}
	wait.Wait()
	return first
}

// head predicts what each condition that edits a head does there; fed and other are the runs with the answer and with the decoy.
func (pr *predictor) head(at decoder.Head, fed, other *decoder.Trace) ([]TrialPrediction, heads.Span, error) {
	m, n := pr.r.o.Model, len(pr.p.IDs)
	ready := func(tr *decoder.Trace) (h *ledger.Head, edits []*ledger.Edit, err error) {
		if h, err = ledger.NewHead(m, at, tr); err != nil {
			return nil, nil, err
		}
		for _, i := range pr.of[at] {
			var own []decoder.Edit
			for _, e := range pr.conds[i].edits {
				if slices.Contains(e.Heads, at) {
					e.Heads = []decoder.Head{at}
					own = append(own, e)
				}
			}
			e, err := m.HeadEdit(own, at, n, pr.p.Question, tr.T)
			if err != nil {
				return nil, nil, err
			}
			edits = append(edits, h.Edit(e))
		}
		return h, edits, nil
	}
	h, edits, err := ready(fed)
	if err != nil {
		return nil, heads.Span{}, err
	}
	span := h.Visible(n - 1)
	out := make([]TrialPrediction, len(edits))
	answer := pr.answer.Z[at.Layer]
	prompt, later := decoder.Rows{Hi: n}, decoder.Rows{Lo: n, Hi: decoder.Forever}
	outcomes := [][]float32{answer}
	if pr.decoy != nil {
		outcomes = append(outcomes, pr.decoy.Z[at.Layer])
	}
	early := h.FirstOrder(edits, outcomes, prompt) // rows that both runs have
	late := h.FirstOrder(edits, [][]float32{answer}, later)
	for i := range out {
		out[i].Score = Number(h.ScoreChange(n-1, edits[i], pr.p.Code, pr.p.Needle))
		out[i].Sum, out[i].Margin = Number(early[i][0]+late[i][0]), nan
	}
	if pr.decoy == nil {
		return out, span, nil
	}
	if h, edits, err = ready(other); err != nil {
		return nil, span, err
	}
	decoy := h.FirstOrder(edits, [][]float32{pr.decoy.Z[at.Layer]}, later)
	for i := range out {
		out[i].Margin = out[i].Sum - Number(early[i][1]+decoy[i][0])
	}
	return out, span, nil
}

// measure sets beside the predicted scores what they are in edited runs, under the conditions that say so.
func (pr *predictor) measure(ctx context.Context, to map[string]TrialPrediction) error {
	rows := []int{len(pr.p.IDs) - 1}
	ask := &decoder.Prompt{IDs: pr.p.IDs, Answer: pr.p.Answer, Question: pr.p.Question}
	run := func(edits []decoder.Edit) (*decoder.Trace, error) {
		return pr.r.trace(ctx, ask, edits, decoder.TraceOptions{Hidden: -1, Attention: rows, Scores: true})
	}
	mean := func(c *condition, tr *decoder.Trace) float64 {
		sum := 0.0
		for _, h := range c.heads {
			span := pr.visible[h]
			scores := make([]float64, span.Len())
			for k := range scores {
				scores[k] = float64(tr.Attention[h.Layer][h.Index*tr.T+span[0]+k])
			}
			sum += ledger.OverRest(scores, span, pr.p.Code, pr.p.Needle) / float64(len(c.heads))
		}
		return sum
	}
	var plain *decoder.Trace
	for i := range pr.conds {
		c := &pr.conds[i]
		x := to[c.name]
		if x.Measured = nan; c.looksAtScores {
			var err error
			if plain == nil {
				if plain, err = run(nil); err != nil {
					return err
				}
			}
			edited, err := run(c.edits)
			if err != nil {
				return err
			}
			x.Measured = Number(mean(c, edited) - mean(c, plain))
		}
		to[c.name] = x
	}
	return nil
}

// total sums a condition's heads, of the score their mean, in the order of the heads.
func (pr *predictor) total(cond int) TrialPrediction {
	var t TrialPrediction
	n := 0
	for _, h := range pr.set {
		if i := slices.Index(pr.of[h], cond); i >= 0 {
			x := pr.parts[h][i]
			t.Score, t.Sum, t.Margin, n = t.Score+x.Score, t.Sum+x.Sum, t.Margin+x.Margin, n+1
		}
	}
	t.Score /= Number(n)
	return t
}

// fillPredictions sets what the ledger stage said beside the conditions' numbers.
// byName are the experiment's trials by condition: a prompt counts where the drop beside the prediction counts it.
func (e *evidence) fillPredictions(x experiment, conds []condition, results []ConditionResult, byName map[string][]Trial) {
	trials := e.trials[ledgerStage(x)]
	if p, ok := x.(predicting); !ok || !p.predicts() {
		return
	}
	_, k := x.about()
	base := e.baseline()
	for i := range conds {
		c, r := &conds[i], &results[i]
		if c.name == baseline {
			continue
		}
		if r.Unpredicted = c.unpredicted(k); r.Unpredicted != "" {
			continue
		}
		p := Prediction{}
		for j := range trials {
			if trials[j].Outcome == Failed || base[j].Outcome == Failed || byName[c.name][j].Outcome == Failed {
				continue
			}
			x := trials[j].Ledger[c.name]
			p.N, p.Score, p.Sum, p.Margin = p.N+1, p.Score+x.Score, p.Sum+x.Sum, p.Margin+x.Margin
			p.Measured += x.Measured
		}
		n := Number(p.N) // of none, 0/0 is null
		p.Score, p.Sum, p.Margin, p.Measured = p.Score/n, p.Sum/n, p.Margin/n, p.Measured/n
		if p.Drop = -p.Sum; e.plan.Primary.Metric == metricMargin {
			p.Drop = -p.Margin
		}
		if r.Predicted = &p; p.N == 0 {
			r.Unpredicted = "no prompt has a prediction and a drop: trials failed"
		}
	}
}

// checkPredictions says what the trials of a ledger stage lack.
func (e *evidence) checkPredictions(x experiment, conds []condition) error {
	for _, t := range e.trials[ledgerStage(x)] {
		if t.Outcome == Failed {
			continue
		}
		for i := range conds {
			if _, ok := t.Ledger[conds[i].name]; !ok {
				return fmt.Errorf("stage %s: %s: no prediction of %s", ledgerStage(x), t.Prompt, conds[i].name)
			}
		}
	}
	return nil
}
