package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/headscope/headscope/loader/decoder"
)

// perplexityHead is the first line of a measurement's trials file: what the lines behind it are of.
type perplexityHead struct {
	Kind       string       `json:"kind"`
	Schema     int          `json:"schema"`
	Key        string       `json:"key"`
	Texts      PlanTexts    `json:"texts"`
	Run        TextRun      `json:"run"`
	Conditions []NamedEdits `json:"conditions"` // beside the unmodified model
}

// perplexityLine is what one window showed: the unmodified model first, then each condition.
type perplexityLine struct {
	Window   int          `json:"window"` // counted through all documents
	Document string       `json:"document"`
	Totals   []TextTotals `json:"totals"`
}

// scoredTogether is about how many windows, each under each condition, walk through the layers together. What is between two lines of the
// trials file is lost in an interruption; weights that do not stay on the device are uploaded once for it.
const scoredTogether = 16

// score returns the totals by condition and document: those of windows that the trials file holds, and what is missing computed and added
// to it. A window's numbers do not depend on which others are computed with it.
func (o *PerplexityOptions) score(ctx context.Context, r *Perplexity, docs []textWindows, edits [][]decoder.Edit) (totals [][]TextTotals, err error) {
	windows := allWindows(docs)
	done := make([][]TextTotals, len(windows))
	ev := Event{Stage: StageTexts, Total: len(windows) * (1 + len(edits))}
	var file *Lines
	if r.Path != "" {
		if file, err = o.openLines(r, windows, done); err != nil {
			return nil, err
		}
		defer func() {
			if err = errors.Join(err, file.Close()); err != nil && ctx.Err() != nil {
				err = &Interrupted{file.Path(), err}
			}
		}()
	}
	var missing []int
	for i := range windows {
		if done[i] == nil {
			missing = append(missing, i)
		} else {
			ev.Resumed += 1 + len(edits)
		}
	}
	ev.Done = ev.Resumed
	o.event(ev)
	for some := range slices.Chunk(missing, max(1, scoredTogether/(1+len(edits)))) {
		var asked []docWindow
		for _, i := range some {
			asked = append(asked, windows[i])
		}
		err := scoreWindows(ctx, o.Model, asked, edits, func(w int, t []TextTotals) error {
			done[some[w]] = t
			ev.Done += len(t)
			o.event(ev)
			if file == nil {
				return nil
			}
			return file.Add(perplexityLine{some[w], asked[w].of, t})
		})
		if err != nil {
			return nil, err
		}
	}
	totals = make([][]TextTotals, 1+len(edits))
	for k := range totals {
		totals[k] = make([]TextTotals, len(docs))
		for i, w := range windows {
			totals[k][w.doc].plus(&done[i][k])
		}
	}
	return totals, nil
}

func (o *PerplexityOptions) event(e Event) {
	if o.Events != nil {
		o.Events(e)
	}
}

// openLines opens the trials file and takes in the windows that it holds.
func (o *PerplexityOptions) openLines(r *Perplexity, windows []docWindow, done [][]TextTotals) (*Lines, error) {
	head := perplexityHead{r.Kind, r.Schema, r.Key, r.Texts, r.Run, append([]NamedEdits{}, o.Conditions...)}
	return OpenLines(TrialsOf(r.Path), LinesOptions{
		First: head,
		Same: func(b []byte) bool {
			var x perplexityHead
			return json.Unmarshal(b, &x) == nil && x.Kind == head.Kind && x.Key == head.Key
		},
		Each: func(b []byte) error {
			var x perplexityLine
			if err := json.Unmarshal(b, &x); err != nil {
				return err
			}
			if x.Window < 0 || x.Window >= len(windows) || x.Document != windows[x.Window].of || len(x.Totals) != 1+len(o.Conditions) {
				return fmt.Errorf("window %d of %s is not one of this request", x.Window, x.Document)
			}
			done[x.Window] = x.Totals
			return nil
		},
	})
}
