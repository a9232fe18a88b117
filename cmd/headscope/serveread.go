package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxLine is the longest request, in bytes.
const maxLine = 64 << 20

// serveOps lists the operations.
func serveOps() []string {
	return []string{"info", "tokenize", "logits", "generate", "score", "attention", "cancel", "shutdown"}
}

// read queues the requests of stdin and carries out cancels, until stdin ends or a shutdown is read.
func (s *server) read(ctx context.Context) {
	in := bufio.NewReaderSize(s.a.in, 1<<16)
	for {
		line, err := readLine(in, maxLine)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if s.take(ctx, line) {
				s.end(nil)
				return
			}
		}
		var long *longLineError
		if errors.As(err, &long) {
			s.write(s.refusal(ctx, nil, err))
			continue
		}
		if err != nil {
			s.end(err)
			return
		}
	}
}

// longLineError says that a line was left out.
type longLineError struct{}

func (*longLineError) Error() string { return fmt.Sprintf("the line is longer than %d bytes", maxLine) }
func (*longLineError) Hint() string  { return "put less into one request" }

// readLine reads a line, the last one also without a line feed. Of one that is too long it reads everything and returns nothing.
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > most {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			if err != nil {
				return nil, err
			}
			return nil, &longLineError{}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// envelope is what every request has.
type envelope struct {
	ID json.RawMessage `json:"id"`
	Op string          `json:"op"`
}

// take answers what is wrong with a request, carries out a cancel, or queues it. It tells whether it was a shutdown.
func (s *server) take(ctx context.Context, line []byte) (last bool) {
	var e envelope
	err := checkJSON(line)
	if err == nil {
		if err = json.Unmarshal(line, &e); err != nil {
			err = badRequest(err)
		}
	}
	if !validID(e.ID) {
		e.ID = nil
	}
	if err == nil && e.ID == nil {
		err = &usageError{errors.New(`"id" is missing or neither a string nor a number`), `give each request an id of its own: {"id": 1, "op": "info"}`}
	}
	if err == nil && !slices.Contains(serveOps(), e.Op) {
		err = unknownOp(e.Op)
	}
	if err == nil && e.Op == "shutdown" {
		err = decodeRequest(line, &envelope{}) // here: nothing is read after it
	}
	if err == nil && e.Op == "cancel" {
		err = s.cancelRequest(e.ID, line)
	} else if err == nil {
		err = s.enqueue(ctx, &e, line)
	}
	if err != nil {
		s.write(s.refusal(ctx, e.ID, err))
	}
	return err == nil && e.Op == "shutdown"
}

func badRequest(err error) error {
	return &usageError{fmt.Errorf("not a request: %w", err), `a request is one JSON object on one line: {"id": 1, "op": "logits", "text": "..."}`}
}

func unknownOp(op string) error {
	hint := "the operations are " + strings.Join(serveOps(), ", ")
	for _, o := range serveOps() {
		if editDistance(op, o) < 3 {
			hint = fmt.Sprintf("did you mean %q? %s", o, hint)
			break
		}
	}
	return &usageError{fmt.Errorf("unknown op %q", op), hint}
}

// checkJSON is checkObject for a request.
func checkJSON(line []byte) error {
	if err := checkObject(line); err != nil {
		return badRequest(err)
	}
	return nil
}

// checkObject refuses what Go's decoder would read in its own way: bytes that are no UTF-8, which it replaces, a key given twice, of
// which it takes the last, and keys in capitals, which it takes for ours.
func checkObject(line []byte) error {
	if !utf8.Valid(line) {
		return errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if tok, err := dec.Token(); err != nil {
		return unexpectedEnd(err)
	} else if tok != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return unexpectedEnd(err)
		}
		key, _ := tok.(string) // a key is nothing else
		if seen[key] {
			return fmt.Errorf("key %q is there twice", key)
		}
		if key != strings.ToLower(key) {
			return fmt.Errorf("unknown field %q", key)
		}
		seen[key] = true
		var skipped json.RawMessage
		if err := dec.Decode(&skipped); err != nil {
			return unexpectedEnd(err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return unexpectedEnd(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func validID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// enqueue puts a request behind the others.
func (s *server) enqueue(ctx context.Context, e *envelope, line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) >= maxQueued {
		return &codeError{exitFailed, fmt.Errorf("%d requests are waiting", maxQueued), "read some replies before asking more"}
	}
	for _, q := range s.queue {
		if bytes.Equal(q.id, e.ID) {
			return &usageError{fmt.Errorf("the id %s is in use by a request that is not answered yet", e.ID), "give each request an id of its own"}
		}
	}
	q := &queued{id: e.ID, op: e.Op, line: slices.Clone(line)}
	q.ctx, q.cancel = context.WithCancel(ctx)
	s.queue = append(s.queue, q)
	s.arrived.Signal()
	return nil
}

// cancelRequest stops the request that is meant. A waiting one is answered when its turn comes, without being run.
func (s *server) cancelRequest(id json.RawMessage, line []byte) error {
	var r struct {
		envelope
		Target json.RawMessage `json:"target"`
	}
	if err := decodeRequest(line, &r); err != nil {
		return err
	}
	if !validID(r.Target) {
		return &usageError{errors.New(`"target" is missing or no id`), `name the request to stop: {"id": 2, "op": "cancel", "target": 1}`}
	}
	state := "unknown" // answered already, or never asked
	s.mu.Lock()
	for i, q := range s.queue {
		if bytes.Equal(q.id, r.Target) {
			q.cancel()
			if state = "waiting"; i == 0 {
				state = "running"
			}
		}
	}
	s.mu.Unlock()
	s.write(reply{ID: id, OK: true, Result: map[string]string{"state": state}})
	return nil
}

// decodeRequest reads a request of one operation; fields that it does not know are an error.
func decodeRequest(line []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return &usageError{errors.New(strings.TrimPrefix(err.Error(), "json: ")), "docs/serve.md lists the fields of each operation"}
	}
	return nil
}

// encodeLine is a value as one line of JSON.
func encodeLine(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}
