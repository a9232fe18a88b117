package tracing

import (
	"encoding/json"
	"errors"

	"github.com/headscope/headscope/harness"
)

// line is one line of a trials file: the header first, then prompts as they are done.
type line struct {
	Header *harness.Header `json:"header,omitempty"`
	Asked  *Asked          `json:"asked,omitempty"`
	Heads  *PromptTrace    `json:"heads,omitempty"`
	Pairs  *PairTrace      `json:"pairs,omitempty"`
}

// trials is a file that grows by a line a step. What was there of the same key is not computed again.
type trials struct {
	*harness.Lines
	heads map[string]*PromptTrace
	pairs map[string]*PairTrace
}

func newTrials() *trials {
	return &trials{heads: map[string]*PromptTrace{}, pairs: map[string]*PairTrace{}}
}

func openTrials(path string, h *harness.Header, a *Asked) (*trials, error) {
	t := newTrials()
	o := t.lines(h.Key)
	o.First = &line{Header: h, Asked: a}
	var err error
	t.Lines, err = harness.OpenLines(path, o)
	return t, err
}

// lines is how the file of a trace of this key is read.
func (t *trials) lines(key string) harness.LinesOptions {
	return harness.LinesOptions{
		Same: func(b []byte) bool {
			var x line
			return json.Unmarshal(b, &x) == nil && x.Header != nil && x.Header.Key == key
		},
		Each: t.take,
	}
}

// take takes in a line that is there.
func (t *trials) take(b []byte) error {
	var x line
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	switch {
	case x.Heads != nil:
		t.heads[x.Heads.Prompt] = x.Heads
	case x.Pairs != nil:
		t.pairs[x.Pairs.Prompt] = x.Pairs
	default:
		return errors.New("neither heads nor pairs")
	}
	return nil
}
