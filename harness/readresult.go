package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

const notAResult = "give the .json that study, detect, knockout, bands, swap or keep wrote"

// ReadResult reads a result that a run wrote and holds it against itself: the shapes of its scores, the heads that it names. Its Path is
// path. A file that is damaged, that is no result, or that a newer headscope wrote is an error with a hint.
func ReadResult(path string) (*Result, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := decodeResult(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.Path = path
	return r, nil
}

func decodeResult(data []byte) (*Result, error) {
	var head struct {
		Schema *int            `json:"schema"`
		Key    string          `json:"key"`
		Plan   json.RawMessage `json:"plan"`
		Model  json.RawMessage `json:"model"`
	}
	if err := decodeWhole(data, &head); err != nil {
		return nil, err
	}
	switch {
	case head.Schema == nil || head.Key == "" || absent(head.Plan) || absent(head.Model):
		return nil, &hintError{errors.New("not a result: it lacks schema, key, plan or model"), notAResult}
	case *head.Schema > schemaVersion:
		return nil, &hintError{fmt.Errorf("schema %d, want at most %d", *head.Schema, schemaVersion), "a newer headscope wrote it: read it with that one"}
	case *head.Schema < 1:
		return nil, &hintError{fmt.Errorf("schema %d, want 1 to %d", *head.Schema, schemaVersion), notAResult}
	}
	r := new(Result)
	if err := decodeWhole(data, r); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, &hintError{fmt.Errorf("damaged: %s", err), "write it again: the command that made it goes on from its trials file"}
	}
	return r, nil
}

func absent(m json.RawMessage) bool { return len(m) == 0 || string(m) == "null" }

// decodeWhole reads one JSON value and nothing after it.
func decodeWhole(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	var kind *json.UnmarshalTypeError
	switch err := dec.Decode(v); {
	case errors.Is(err, io.EOF):
		return &hintError{errors.New("the file is empty"), notAResult}
	case errors.As(err, &kind):
		return &hintError{fmt.Errorf("not a result: %w", err), notAResult}
	case err != nil:
		return &hintError{fmt.Errorf("not JSON, or cut short: %w", err), notAResult}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &hintError{errors.New("not a result: more follows the first JSON value"), notAResult}
	}
	return nil
}

// check holds what a result says about heads against the shape of its model.
func (r *Result) check() error {
	m := r.Model
	if m.Layers < 0 || m.Heads < 0 || m.KVHeads < 0 {
		return fmt.Errorf("model: %d layers, %d heads, %d key/value heads", m.Layers, m.Heads, m.KVHeads)
	}
	named := []heads.Set{r.Heads.Set()}
	scores := []heads.Scores{}
	if r.Scores != nil {
		scores = append(scores, *r.Scores)
	}
	if d := r.Detection; d != nil {
		scores = append(scores, d.Scores...)
		named = append(named, d.Heads.Set(), d.Borderline, d.Ties)
		var more []decoder.Head
		for _, c := range d.Cuts {
			more = append(more, c.Head)
		}
		for _, h := range d.Hits {
			more = append(more, h.Head)
		}
		named = append(named, heads.NewSet(more...))
	}
	for i := range r.Conditions {
		named = append(named, r.Conditions[i].Heads)
	}
	for _, c := range r.Controls {
		named = append(named, c.Sets...)
	}
	for _, s := range scores {
		if s.Layers != m.Layers || s.Heads != m.Heads {
			return fmt.Errorf("scores %s: shape [%d, %d], want [%d, %d]", s.Detector, s.Layers, s.Heads, m.Layers, m.Heads)
		}
	}
	for _, s := range named {
		if err := s.Validate(m.Layers, m.Heads); err != nil {
			return err
		}
	}
	return r.checkExample()
}

func (r *Result) checkExample() error {
	ex := r.Example
	if ex == nil {
		return nil
	}
	n := len(ex.Tokens)
	for _, s := range []heads.Span{ex.Needle, ex.Code} {
		if s[0] < 0 || s[0] > s[1] || s[1] > n {
			return fmt.Errorf("example: span %v of %d tokens", s, n)
		}
	}
	for _, h := range ex.Heads {
		if len(h.Weights) != n {
			return fmt.Errorf("example: head %s: %d weights, want %d", h.Head, len(h.Weights), n)
		}
	}
	return nil
}
