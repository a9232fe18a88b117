package harness

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// TimeEstimate is how long the run will take, by a short calibration.
type TimeEstimate struct {
	Seconds     Number         `json:"seconds"` // compilation left out
	Compile     Number         `json:"compile_seconds"`
	Calibration Number         `json:"calibration_seconds"` // that the estimate itself took
	Parts       []TimeMeasured `json:"parts"`
}

// TimeMeasured is one thing that the calibration timed, and how often the run does it.
type TimeMeasured struct {
	Name    string `json:"name"`
	Seconds Number `json:"seconds"` // once, on the calibration's prompt
	Tokens  int    `json:"tokens"`  // of that prompt
	Times   Number `json:"times"`   // in the run, by prompts of that length
}

// calibrationConditions is how many conditions of a scope are timed together: as many as share a row program.
const calibrationConditions = 16

// calibrationSeconds is how long the calibration goes on asking prompts for the spread of the primary change.
const calibrationSeconds = 10

// timer times conditions on one prompt.
type timer struct {
	s       *Study
	p       *Prompt
	compile float64
}

// once asks the conditions twice: the first time compiles, the second is timed.
func (t *timer) once(ctx context.Context, conds []condition) (float64, error) {
	var took [2]float64
	for i := range took {
		start := time.Now()
		if _, err := t.s.askDry(ctx, t.p, conds); err != nil {
			return 0, err
		}
		took[i] = time.Since(start).Seconds()
	}
	t.compile += max(0, took[0]-took[1])
	return took[1], nil
}

// askDry puts one prompt to the model and returns its trials, which nobody keeps.
func (s *Study) askDry(ctx context.Context, p *Prompt, conds []condition) ([]Trial, error) {
	r := &runner{o: s.o, plan: s.Plan, ask: s.ask}
	trials, err := r.compute(ctx, unitID{"calibration", 0}, conds, []*Prompt{p}, func() {})
	if err == nil && len(trials) > 0 && trials[0].Outcome == Failed {
		err = &hintError{fmt.Errorf("calibration: %s", trials[0].Error), "lower --batch, or free memory on the device"}
	}
	return trials, err
}

// calibrate times each kind of work of the stages on one prompt, and scales it by the tokens of all.
func (s *Study) calibrate(ctx context.Context, stages []dryStage, e *Estimate) error {
	start := time.Now()
	e.Time = &TimeEstimate{}
	total := 0.0
	cache := map[string]float64{}
	compile := 0.0
	for i := range stages {
		st := &stages[i]
		t := &timer{s: s, p: median(st.prompts)}
		if st.name == StageVariants || st.name == StageTexts || st.name == StageRepeat {
			t.p = median(s.prompts)
		}
		tokens := 0
		for _, p := range st.prompts {
			if tokens += len(p.IDs); st.name == StageTexts {
				tokens += len(p.Answer)
			}
		}
		times := float64(tokens) / float64(len(t.p.IDs)) // prompts as long as the one that is timed
		var parts []TimeMeasured
		var err error
		if st.look != nil {
			parts, err = t.look(ctx, st.look, cache)
		} else {
			parts, err = t.stage(ctx, st, cache)
		}
		if err != nil {
			return err
		}
		compile += t.compile
		for _, part := range parts {
			part.Name, part.Tokens, part.Times = st.name+": "+part.Name, len(t.p.IDs), part.Times*Number(times)
			total += float64(part.Seconds) * float64(part.Times)
			e.Time.Parts = append(e.Time.Parts, part)
		}
	}
	e.Time.Seconds, e.Time.Compile = Number(total), Number(compile)
	err := s.spread(ctx, stages, e, start)
	e.Time.Calibration = Number(math.Round(time.Since(start).Seconds()*10) / 10)
	return err
}

// stage times the unmodified model, one condition that takes a whole pass, and a batch of rows of each scope. cache keeps what an
// earlier stage has timed.
func (t *timer) stage(ctx context.Context, st *dryStage, cache map[string]float64) ([]TimeMeasured, error) {
	timed := func(name string, conds []condition) (float64, error) {
		if x, ok := cache[name]; ok {
			return x, nil
		}
		x, err := t.once(ctx, conds)
		cache[name] = x
		return x, err
	}
	plain := []condition{{name: baseline}}
	asked := false
	var whole []condition
	rows := map[decoder.Scope][]condition{}
	var order []decoder.Scope
	for _, c := range st.conds {
		switch lo := c.firstRow(t.p); {
		case lo < 0:
			asked = true
		case lo == 0 || c.probe:
			whole = append(whole, c)
		default:
			scope := c.edits[0].Scope
			if rows[scope] == nil {
				order = append(order, scope)
			}
			rows[scope] = append(rows[scope], c)
		}
	}
	base, err := timed("unmodified", plain)
	if err != nil {
		return nil, err
	}
	var out []TimeMeasured
	if asked || len(order) > 0 {
		out = append(out, TimeMeasured{Name: "unmodified", Seconds: Number(base), Times: 1})
	}
	if len(whole) > 0 {
		// The first condition is what the study is about, and may break answers that then have to be decoded; the last is a control.
		some := []condition{whole[0]}
		if len(whole) > 1 {
			some = append(some, whole[len(whole)-1])
		}
		x, err := timed("whole", append(plain, some...))
		if err != nil {
			return nil, err
		}
		out = append(out, TimeMeasured{Name: "condition in a whole pass", Seconds: Number(max(0, x-base) / float64(len(some))), Times: Number(len(whole))})
	}
	for _, scope := range order {
		list := rows[scope]
		some := list[:min(len(list), calibrationConditions)]
		x, err := timed("rows "+string(scope), append(plain, some...))
		if err != nil {
			return nil, err
		}
		out = append(out, TimeMeasured{Name: "condition @" + string(scope) + " over the kept cache", Seconds: Number(max(0, x-base) / float64(len(some))), Times: Number(len(list))})
	}
	return out, nil
}

// spread measures the standard deviation of the primary change over prompts, where the heads are known and a few seconds are enough
// for five prompts or more.
func (s *Study) spread(ctx context.Context, stages []dryStage, e *Estimate, start time.Time) error {
	var primary *condition
	for i := range stages {
		for j := range stages[i].conds {
			if c := &stages[i].conds[j]; !stages[i].guessed && c.name == s.Plan.Primary.condition() {
				primary = c
			}
		}
	}
	if primary == nil {
		return nil
	}
	var changes []float64
	for _, p := range s.prompts {
		if time.Since(start).Seconds() > calibrationSeconds {
			break
		}
		trials, err := s.askDry(ctx, p, []condition{{name: baseline}, *primary})
		if err != nil {
			return err
		}
		change := float64(trials[1].Sum - trials[0].Sum)
		if s.Plan.Primary.Metric == metricMargin {
			change = float64(trials[1].Margin - trials[0].Margin)
		}
		changes = append(changes, change)
	}
	if sd := stats.SD(changes); len(changes) >= 5 && !math.IsNaN(sd) {
		e.Power.SD, e.Power.SDOf, e.Power.MinDrop = Number(sd), len(changes), e.Power.MinDropSD*Number(sd)
	}
	return nil
}

func (e *Estimate) writeTime(tw io.Writer) {
	if e.Time == nil {
		fmt.Fprintf(tw, "time\tnot measured (--dry-run without =plan calibrates)\n")
		return
	}
	fmt.Fprintf(tw, "time\tabout %s, and %s to compile; by a calibration of %s on one prompt of middle length:\n",
		seconds(e.Time.Seconds), seconds(e.Time.Compile), seconds(e.Time.Calibration))
	for _, p := range e.Time.Parts {
		fmt.Fprintf(tw, "\t%s: %.3g s x %.0f\n", p.Name, float64(p.Seconds), float64(p.Times))
	}
}

// seconds shows a duration to two digits or to the second.
func seconds(n Number) string {
	d := time.Duration(float64(n) * float64(time.Second))
	if d < 10*time.Second {
		return fmt.Sprintf("%.2g s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
