package harness

import (
	"context"
	"fmt"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

// nullQuery stands for a question that asks nothing, as in QRHead's calibration.
const nullQuery = "N/A"

// Limits of what is observed of one prompt.
const (
	mostQuestionRows = 256
	fewestRouge      = 0.5 // ROUGE-1 recall of the answer in a decoded one, exclusive: below it detections that decode leave the trial out
)

// alone runs a stage whose trials are one a prompt, unit by unit, or takes them from the trials file.
func (r *runner) alone(ctx context.Context, name string, prompts []*Prompt, f func(context.Context, *Prompt, *Trial) error) ([]Trial, error) {
	c := condition{name: baseline}
	size, ev := r.plan.Run.Unit, Event{Stage: name, Total: r.o.Shard.size(len(prompts), r.plan.Run.Unit)}
	var all []Trial
	for from := 0; from < len(prompts); from += size {
		unit, id := prompts[from:min(from+size, len(prompts))], unitID{name, from / size}
		if !r.o.Shard.has(id.unit) {
			continue
		}
		trials, err := r.stored(id, []condition{c}, unit)
		if err != nil {
			return nil, err
		}
		if ev.Resumed += len(trials); trials == nil {
			for _, p := range unit {
				t := newTrial(name, id.unit, p, &c)
				t.Outcome, t.Sum, t.Margin, t.MinGap = Observed, nan, nan, nan
				if err := f(ctx, p, &t); err != nil && !t.outOfMemory(err) {
					return nil, fmt.Errorf("%s: prompt %s: %w", name, p.Spec.ID, err)
				}
				trials = append(trials, t)
				ev.Done++
				r.event(ev)
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

// observed runs the detectors of stage observe on prompts whose trials of stage detect are there.
func (r *runner) observed(ctx context.Context, prompts []*Prompt, detected []Trial) ([]Trial, error) {
	greedy := map[string]*Trial{}
	for i := range detected {
		greedy[detected[i].Prompt] = &detected[i]
	}
	decoys := !slices.ContainsFunc(prompts, func(p *Prompt) bool { return p.Decoy == nil })
	return r.alone(ctx, StageObserve, prompts, func(ctx context.Context, p *Prompt, t *Trial) error {
		d := greedy[p.Spec.ID]
		if d.Outcome == Failed {
			t.Outcome, t.Error = Failed, d.Error
			return nil
		}
		o := &observer{r: r, p: p, t: t, decoys: decoys, greedy: d.Greedy, text: d.Text}
		return o.run(ctx)
	})
}

// observer scores the heads in one prompt.
type observer struct {
	r      *runner
	p      *Prompt
	t      *Trial
	decoys bool    // every prompt has a decoy to compare with
	greedy []int32 // what the unmodified model answers, the end token included
	text   string
	copies bool  // Wu's detection counts the answer
	steps  []int // of greedy, that spell the answer: those of locos

	rows []decoder.LookAt
}

func (o *observer) asks(names ...string) bool { return o.r.plan.Detect.asks(names...) }

// score stores one prompt's scores under a detector, where it is asked for.
func (o *observer) score(name string, values []float64) {
	if !o.asks(name) {
		return
	}
	if o.t.HeadScores == nil {
		o.t.HeadScores = map[string]floats{}
	}
	f := make(floats, len(values))
	for i, v := range values {
		f[i] = float32(v)
	}
	o.t.HeadScores[name] = f
}

// leaveOut says why detectors have no score of this prompt.
func (o *observer) leaveOut(reason string, names ...string) {
	for _, name := range names {
		if o.asks(name) {
			if o.t.Unscored == nil {
				o.t.Unscored = map[string]string{}
			}
			o.t.Unscored[name] = reason
		}
	}
}

// look adds rows from..to-1 and returns where they begin among those asked for.
func (o *observer) look(from, to int, contrast func(i int) *decoder.Contrast) int {
	at := len(o.rows)
	for i := from; i < to; i++ {
		row := decoder.LookAt{Row: i}
		if contrast != nil {
			row.Contrast = contrast(i - from)
		}
		o.rows = append(o.rows, row)
	}
	return at
}

// run looks at the prompt with its answer fed; at the rows of the decoded answer, in the same pass where it begins with the fed one; and,
// for qr_cal, at the prompt with a null query.
func (o *observer) run(ctx context.Context) error {
	p, t := o.p, len(o.p.IDs)
	n := len(p.Answer)
	last := o.look(t-1, t, nil)
	answer := o.look(t-1, t-1+n, func(i int) *decoder.Contrast {
		return &decoder.Contrast{Token: p.Answer[i], Against: decoder.MeanLogit}
	})
	direct := answer
	if o.decoys {
		direct = o.look(t-1, t-1+n, func(i int) *decoder.Contrast { return &decoder.Contrast{Token: p.Answer[i], Against: p.Decoy[i]} })
	}
	question, asks := -1, o.asks("qr_raw", "qr_cal")
	switch rows := t - p.Question; {
	case asks && p.Question == 0:
		o.leaveOut("the prompt has no question span", "qr_raw", "qr_cal")
	case asks && rows > mostQuestionRows:
		o.leaveOut(fmt.Sprintf("the question has %d rows, at most %d are looked at", rows, mostQuestionRows), "qr_raw", "qr_cal")
	case asks:
		question = o.look(p.Question, t, nil)
	}
	feed := p.Answer[:n-1]
	var decoded *decodedRows
	wants := o.wantsDecoded()
	if wants && len(o.greedy) >= n && slices.Equal(o.greedy[:n], p.Answer) {
		feed, decoded = o.greedy[:len(o.greedy)-1], o.lookDecoded()
	}
	v, err := o.observe(ctx, p.IDs, feed, p.needleTokens(t))
	if err != nil {
		return err
	}
	o.score("argmax_nosink", v.NoSink(last, p.Needle))
	if p.DecoyAt.Len() > 0 {
		o.score("select", v.Select(last, p.Code, p.DecoyAt))
	} else {
		o.leaveOut("the prompt has no decoy", "select")
	}
	o.score("locos_logit", v.Locos(answer, o.keys(n, nil), p.Needle))
	o.score("logit_attr", v.MeanDirect(direct, direct+n))
	if decoded != nil {
		o.scoreDecoded(v, decoded)
	} else if wants {
		if err := o.decodeAgain(ctx); err != nil {
			return err
		}
	}
	if question < 0 {
		return nil
	}
	return o.query(ctx, v, question)
}

// observe asks the model; the first span is the needle, the others its tokens.
func (o *observer) observe(ctx context.Context, ids, feed []int32, spans [][2]int32) (heads.View, error) {
	seen, err := o.r.see(ctx, &decoder.Prompt{IDs: ids, Answer: feed}, o.rows, spans)
	if err != nil {
		return heads.View{}, err
	}
	if slices.ContainsFunc(seen.Direct, func(x float64) bool { return x-x != 0 }) || slices.ContainsFunc(seen.Mass, func(x float32) bool { return x != x }) {
		return heads.View{}, errNotFinite("attention weights or heads' writes are")
	}
	return heads.View{Observation: seen, Rows: len(o.rows), Spans: len(spans)}, nil
}

// query scores qr_raw, and qr_cal with another pass in which the question is a null query.
func (o *observer) query(ctx context.Context, v heads.View, from int) error {
	t := len(o.p.IDs)
	o.score("qr_raw", v.MeanMass(from, from+t-o.p.Question, 0))
	if !o.asks("qr_cal") {
		return nil
	}
	ids, reason, err := o.p.withNullQuery(o.r.o.Checkpoint.Tokenizer)
	if err != nil {
		return err
	}
	if reason != "" {
		o.leaveOut(reason, "qr_cal")
		return nil
	}
	spans := o.p.needleTokens(t)
	asked := byToken(v, from, from+t-o.p.Question, len(spans))
	o.rows = nil
	o.look(o.p.Question, len(ids), nil)
	null, err := o.observe(ctx, ids, nil, spans)
	if err != nil {
		return err
	}
	o.score("qr_cal", heads.Calibrated(asked, byToken(null, 0, len(o.rows), len(spans))))
	return nil
}

// byToken is the mean mass on each of the spans but the first.
func byToken(v heads.View, from, to, spans int) (out [][]float64) {
	for s := 1; s < spans; s++ {
		out = append(out, v.MeanMass(from, to, s))
	}
	return out
}

// needleTokens are the needle as a span, then each of its tokens as one.
func (p *Prompt) needleTokens(t int) [][2]int32 {
	out := [][2]int32{{int32(p.Needle[0]), int32(p.Needle[1])}}
	for i := p.Needle[0]; i < min(p.Needle[1], t); i++ {
		out = append(out, [2]int32{int32(i), int32(i) + 1})
	}
	return out
}

// withNullQuery is the prompt with its question replaced, or why there is none: all that stands before the question has to keep its tokens.
func (p *Prompt) withNullQuery(tok *tokenizer.Tokenizer) (ids []int32, reason string, err error) {
	s := p.Spec
	text := s.Text[:s.Question[0]] + nullQuery + s.Text[s.Question[1]:]
	enc, err := tok.Encode(text, tokenizer.Options{AddSpecial: s.AddSpecial == nil || *s.AddSpecial})
	if err != nil {
		return nil, "", err
	}
	if len(enc.IDs) <= p.Question || !slices.Equal(enc.IDs[:p.Question], p.IDs[:p.Question]) {
		return nil, "with a null query the text before it has other tokens", nil
	}
	if n := len(enc.IDs) - p.Question; n > mostQuestionRows {
		return nil, fmt.Sprintf("the null query has %d rows, at most %d are looked at", n, mostQuestionRows), nil
	}
	return enc.IDs, "", nil
}
