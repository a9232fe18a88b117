package harness

import (
	"context"
	"fmt"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// StageTexts scores plain texts under the conditions of experiments that are meant for them too: what an edit costs beside the task.
const StageTexts = "texts"

// Texts are texts cut for a model, ready to be scored beside an experiment.
type Texts struct {
	plan *PlanTexts
	docs []textWindows
}

// CutTexts tokenises and cuts texts for a checkpoint.
func CutTexts(c *loader.Checkpoint, set *TextSet, w Windows) (*Texts, error) {
	plan, docs, err := planTexts(c, set, w)
	if err != nil {
		return nil, err
	}
	return &Texts{plan, docs}, nil
}

// textConditions lists what texts are asked: the unmodified model, then the conditions of experiments that are meant for texts.
func (e *evidence) textConditions() ([]condition, error) {
	if e.plan.Texts == nil {
		return nil, nil
	}
	out := []condition{{name: baseline}}
	for _, x := range e.plan.experiments() {
		conds, err := e.conditions(x)
		if err != nil {
			return nil, err
		}
		for _, c := range conds {
			if c.texts {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// texts scores each document under all conditions, a work unit each, or takes it from the trials file.
func (r *runner) texts(ctx context.Context, docs []textWindows, conds []condition) ([]Trial, error) {
	var all []Trial
	ev := Event{Stage: StageTexts, Total: r.o.Shard.size(len(docs), 1) * len(conds)}
	for i := range docs {
		if !r.o.Shard.has(i) {
			continue
		}
		id := unitID{StageTexts, i}
		trials, err := r.storedAlone(id, len(conds))
		if err != nil {
			return nil, err
		}
		for k, t := range trials {
			if t.Prompt != docs[i].id || t.Condition != conds[k].name {
				return nil, &HeaderMismatchError{r.file.path, fmt.Sprintf("%s under %s", t.Prompt, t.Condition), fmt.Sprintf("%s under %s", docs[i].id, conds[k].name)}
			}
		}
		if trials != nil {
			ev.Resumed += len(trials)
		} else {
			if trials, err = r.scoreDocument(ctx, id, docs[i], conds); err != nil {
				return nil, err
			}
			if err := r.keep(trials); err != nil {
				return nil, err
			}
		}
		all = append(all, trials...)
		ev.Done = len(all)
		r.event(ev)
	}
	return all, nil
}

func (r *runner) scoreDocument(ctx context.Context, id unitID, doc textWindows, conds []condition) ([]Trial, error) {
	trials := make([]Trial, len(conds))
	var edits [][]decoder.Edit
	for k, c := range conds {
		trials[k] = Trial{Stage: id.stage, Unit: id.unit, Prompt: doc.id, Condition: c.name, Outcome: Observed, Sum: nan, Margin: nan, MinGap: nan}
		if k > 0 {
			edits = append(edits, c.edits)
		}
	}
	sums := make([]TextTotals, len(conds))
	err := scoreWindows(ctx, r.o.Model, allWindows([]textWindows{doc}), edits, func(_ int, totals []TextTotals) error {
		for k := range totals {
			sums[k].plus(&totals[k])
			trials[k].Document = &sums[k]
		}
		return nil
	})
	for k := range trials {
		if !trials[k].outOfMemory(err) && err != nil {
			return nil, err
		}
	}
	return trials, nil
}

// fillTexts computes the numbers of texts. A document that failed under a condition is left out of it.
func (e *evidence) fillTexts(res *Result) error {
	conds, err := e.textConditions()
	if err != nil || len(conds) == 0 {
		return err
	}
	res.take(e.trials[StageTexts])
	sorted := byCondition(e.trials[StageTexts], conds)
	base := sorted[baseline]
	for k, c := range conds {
		var totals, plain []TextTotals
		for i, t := range sorted[c.name] {
			if t.Document != nil && base[i].Document != nil {
				totals, plain = append(totals, *t.Document), append(plain, *base[i].Document)
			}
		}
		if len(totals) == 0 {
			continue
		}
		if k == 0 {
			plain = nil
		}
		res.Texts = append(res.Texts, e.plan.Statistics.textResult(NamedEdits{c.name, c.edits}, e.plan.Run.DType, totals, plain))
	}
	return nil
}

// checkTexts tells whether every document has its trials.
func (e *evidence) checkTexts() error {
	conds, err := e.textConditions()
	if err != nil || len(conds) == 0 {
		return err
	}
	got := e.trials[StageTexts]
	if len(got) != len(e.plan.Texts.Texts)*len(conds) {
		return fmt.Errorf("stage %s: %d trials, want %d", StageTexts, len(got), len(e.plan.Texts.Texts)*len(conds))
	}
	for i, t := range got {
		doc, c := e.plan.Texts.Texts[i/len(conds)], conds[i%len(conds)].name
		switch {
		case t.Prompt != doc.ID || t.Condition != c:
			return fmt.Errorf("stage %s: trial %d is %s under %s, want %s under %s", StageTexts, i, t.Prompt, t.Condition, doc.ID, c)
		case t.Outcome != Failed && (t.Document == nil || t.Document.Tokens != doc.Scored):
			return fmt.Errorf("stage %s: %s under %s: not of %d scored tokens", StageTexts, t.Prompt, t.Condition, doc.Scored)
		}
	}
	return nil
}

// textOf is a condition's numbers on texts; nil where it has none.
func (r *Result) textOf(name string) *TextResult {
	for i := range r.Texts {
		if r.Texts[i].Name == name {
			return &r.Texts[i]
		}
	}
	return nil
}

// textStandIns is as many conditions as texts can be asked, the unmodified model among them.
func (s *Study) textStandIns() ([]condition, error) {
	out := []condition{{name: baseline}}
	for _, x := range s.Plan.experiments() {
		conds, err := s.standInConditions(x)
		if err != nil {
			return nil, err
		}
		for _, c := range conds {
			if c.texts {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// textPrompts are the windows of texts as prompts of one token each, whose answers are all that follows: what they cost is the same.
func (t *Texts) textPrompts() []*Prompt {
	var out []*Prompt
	for _, d := range t.docs {
		for _, w := range d.windows {
			out = append(out, &Prompt{Spec: &PromptSpec{ID: d.id}, IDs: w.IDs[:1], Answer: w.IDs[1:]})
		}
	}
	return out
}
