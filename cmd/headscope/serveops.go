package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/decoder"
)

// textFields are those of the operations that read a text. Exactly one of Text, IDs and Prompts is given.
type textFields struct {
	Text      *string `json:"text"`
	IDs       []int32 `json:"ids"`
	Prompts   string  `json:"prompts"`
	Prompt    string  `json:"prompt"`
	Question  []int   `json:"question"` // [start, end), bytes of Text
	NoSpecial bool    `json:"no_special"`
}

// editFields are edits as on the command line, or as in an --edits file.
type editFields struct {
	Edits []json.RawMessage `json:"edits"`
}

func (f *editFields) edits() ([]decoder.Edit, error) {
	var out []decoder.Edit
	for _, raw := range f.Edits {
		var text string
		var e decoder.Edit
		var err error
		if json.Unmarshal(raw, &text) == nil {
			e, err = parseEdit(text)
		} else if err = json.Unmarshal(raw, &e); err != nil {
			err = &usageError{err, `an edit is a string such as "zero:L18H6@question", or {"op": "zero", "heads": [[18, 6]], "scope": "all"}`}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (f *textFields) passage(m *opened, withAnswer bool) (*harness.Passage, error) {
	given := 0
	for _, g := range []bool{f.Text != nil, f.IDs != nil, f.Prompts != ""} {
		if g {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, &usageError{fmt.Errorf("%d texts", given), `give one of "text", "ids" and "prompts" (with "prompt", its id)`}
	case f.Prompts == "" && f.Prompt != "":
		return nil, &usageError{errors.New(`"prompt" without "prompts"`), `"prompts" is the file, "prompt" an id there`}
	case f.Text == nil && (f.Question != nil || f.NoSpecial):
		return nil, &usageError{errors.New(`"question" and "no_special" go with "text"`), "ids are taken as they are; a prompt of a file has its own"}
	}
	r := &harness.PassageRequest{IDs: f.IDs, Prompts: f.Prompts, Prompt: f.Prompt, NoSpecial: f.NoSpecial, WithAnswer: withAnswer}
	if f.Text != nil {
		r.Text = *f.Text
	}
	if f.Question != nil {
		if len(f.Question) != 2 {
			return nil, &usageError{fmt.Errorf(`"question": %v`, f.Question), "give the bytes [start, end) of the text"}
		}
		r.Question = &[2]int{f.Question[0], f.Question[1]}
	}
	return harness.NewPassage(m.checkpoint, r)
}

// textRequest is the passage as the verbs logits and generate ask it.
func (s *server) textRequest(f *textFields, e *editFields) (*harness.TextRequest, error) {
	edits, err := e.edits()
	if err != nil {
		return nil, err
	}
	p, err := f.passage(s.model, false)
	if err != nil {
		return nil, err
	}
	return &harness.TextRequest{Checkpoint: s.model.checkpoint, Model: s.model.model, Passage: p, Edits: edits}, nil
}

// do carries a request out; what it returns is what the command prints with --json.
func (s *server) do(q *queued) (any, error) {
	if err := q.ctx.Err(); err != nil {
		return nil, err
	}
	switch q.op {
	case "info":
		return s.info(q)
	case "tokenize":
		return s.tokenize(q)
	case "logits":
		return s.logits(q)
	case "generate":
		return s.generate(q)
	case "score":
		return s.score(q)
	case "attention":
		return s.attention(q)
	case "shutdown":
		return struct{}{}, nil
	}
	return nil, unknownOp(q.op)
}

// serveInfo says what is loaded.
type serveInfo struct {
	Protocol     int                 `json:"protocol"`
	Tool         harness.Tool        `json:"tool"`
	Model        string              `json:"model"`
	Revision     string              `json:"revision,omitempty"`
	Architecture string              `json:"architecture"`
	Layers       int                 `json:"layers"`
	Heads        int                 `json:"heads"`
	KVHeads      int                 `json:"kv_heads"`
	HeadDim      int                 `json:"head_dim"`
	Hidden       int                 `json:"hidden"`
	Vocab        int                 `json:"vocab"`
	MaxPositions int                 `json:"max_positions"`
	DType        string              `json:"dtype"`
	Environment  harness.Environment `json:"environment"`
	Ops          []string            `json:"ops"`
}

func (s *server) info(q *queued) (any, error) {
	var r envelope
	if err := decodeRequest(q.line, &r); err != nil {
		return nil, err
	}
	c, m := s.model.checkpoint, s.model.model
	return &serveInfo{
		Protocol: serveProtocol, Tool: harness.CurrentTool(), Model: c.Ref, Revision: c.Revision, Architecture: c.Spec.Architecture,
		Layers: c.Spec.Layers, Heads: c.Spec.Heads, KVHeads: c.Spec.KVHeads, HeadDim: c.Spec.HeadDim, Hidden: c.Spec.Hidden,
		Vocab: c.Spec.Vocab, MaxPositions: c.Spec.MaxPositions, DType: m.DType(), Environment: harness.CurrentEnvironment(m.Backend()), Ops: serveOps(),
	}, nil
}

func (s *server) tokenize(q *queued) (any, error) {
	var r struct {
		envelope
		Text      *string `json:"text"`
		NoSpecial bool    `json:"no_special"`
	}
	if err := decodeRequest(q.line, &r); err != nil {
		return nil, err
	}
	if r.Text == nil {
		return nil, &usageError{errors.New(`"text" is missing`), `{"id": 1, "op": "tokenize", "text": "..."}`}
	}
	return harness.Tokenize(s.model.checkpoint.Tokenizer, *r.Text, !r.NoSpecial)
}

func (s *server) logits(q *queued) (any, error) {
	r := struct {
		envelope
		textFields
		editFields
		TopK int `json:"top_k"`
	}{TopK: 10}
	if err := decodeRequest(q.line, &r); err != nil {
		return nil, err
	}
	if r.TopK < 1 {
		return nil, &usageError{fmt.Errorf("top_k %d", r.TopK), "give at least 1"}
	}
	t, err := s.textRequest(&r.textFields, &r.editFields)
	if err != nil {
		return nil, err
	}
	return harness.NextTokens(q.ctx, t, r.TopK)
}

func (s *server) generate(q *queued) (any, error) {
	r := struct {
		envelope
		textFields
		editFields
		MaxNew int `json:"max_new"`
	}{MaxNew: 32}
	if err := decodeRequest(q.line, &r); err != nil {
		return nil, err
	}
	t, err := s.textRequest(&r.textFields, &r.editFields)
	if err != nil {
		return nil, err
	}
	return harness.Generate(q.ctx, t, r.MaxNew)
}

// score feeds "answer", "answer_ids", or the answer of a prompt of a file.
func (s *server) score(q *queued) (any, error) {
	var r struct {
		envelope
		textFields
		editFields
		Answer    string  `json:"answer"`
		AnswerIDs []int32 `json:"answer_ids"`
	}
	if err := decodeRequest(q.line, &r); err != nil {
		return nil, err
	}
	if (r.Answer != "" && r.AnswerIDs != nil) || (r.Prompts == "" && r.Answer == "" && r.AnswerIDs == nil) || (r.Answer != "" && r.Text == nil) {
		return nil, &usageError{errors.New("which answer?"), `give "answer" beside "text", or "answer_ids"; a prompt of a file brings its own`}
	}
	edits, err := r.edits()
	if err != nil {
		return nil, err
	}
	p, err := r.passage(s.model, r.AnswerIDs == nil)
	if err != nil {
		return nil, err
	}
	ids := r.AnswerIDs
	if r.Answer != "" {
		if ids, err = harness.AnswerTokens(s.model.checkpoint, *r.Text, r.Answer, r.NoSpecial); err != nil {
			return nil, err
		}
	}
	if ids != nil {
		if err := p.Feed(s.model.checkpoint, ids); err != nil {
			return nil, err
		}
	}
	return harness.ScoreAnswer(q.ctx, &harness.ScoreRequest{Checkpoint: s.model.checkpoint, Model: s.model.model, Passage: p, Edits: edits})
}

func (s *server) attention(q *queued) (any, error) {
	r := struct {
		envelope
		textFields
		editFields
		Heads      []decoder.Head  `json:"heads"`
		Rows       json.RawMessage `json:"rows"`
		TopK       int             `json:"top_k"`
		WithAnswer bool            `json:"with_answer"`
	}{TopK: 10}
	if err := decodeRequest(q.line, &r); err != nil {
		return nil, err
	}
	if r.WithAnswer && r.Prompts == "" {
		return nil, &usageError{errors.New(`"with_answer" goes with "prompts"`), "only a prompt of a file has an answer"}
	}
	if len(r.Heads) == 0 {
		return nil, &usageError{errors.New(`"heads" is missing`), `name heads, such as "heads": ["L18H6"]`}
	}
	edits, err := r.edits()
	if err != nil {
		return nil, err
	}
	p, err := r.passage(s.model, r.WithAnswer)
	if err != nil {
		return nil, err
	}
	list, err := rowList(r.Rows)
	if err != nil {
		return nil, err
	}
	rows, err := p.Rows(list)
	if err != nil {
		return nil, err
	}
	return harness.Attend(q.ctx, &harness.AttendRequest{
		Checkpoint: s.model.checkpoint, Model: s.model.model, Passage: p, Edits: edits, Heads: r.Heads, Rows: rows, TopK: r.TopK,
	})
}

// rowList is "rows" as the flag has it: a list such as "12,20-22,-1", or an array of numbers; without it the last row.
func rowList(raw json.RawMessage) (string, error) {
	if raw == nil {
		return "-1", nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var numbers []int
	if json.Unmarshal(raw, &numbers) != nil || len(numbers) == 0 {
		return "", &usageError{fmt.Errorf(`"rows": %.60s`, raw), `give a list such as [12, -1], or a string as of show --rows: "12,20-22,-1"`}
	}
	return string(bytes.Trim(bytes.ReplaceAll(raw, []byte(" "), nil), "[]")), nil
}
