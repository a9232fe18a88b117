package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/pflag"
)

// serveProtocol is the number of the protocol that docs/serve.md describes.
const serveProtocol = 1

// maxQueued is how many requests may wait.
const maxQueued = 1000

func serveVerb() *verb {
	return &verb{
		name: "serve", operands: "MODEL", summary: "keep a model loaded and answer JSON lines on stdin with JSON lines on stdout",
		details: `A request is one line, {"id": 1, "op": "logits", "text": "..."}; its reply one line, {"id": 1, "ok": true, "result": ...} or
{"id": 1, "ok": false, "error": {"message", "hint", "code"}}, the code as this command's exit code. Operations: info, tokenize, logits,
generate, score, attention, cancel, shutdown. docs/serve.md describes them and has a client in Python. The end of stdin ends the
process when what is queued is answered.`,
		flags: func(fs *pflag.FlagSet) action {
			var m modelFlags
			m.add(fs)
			return func(ctx context.Context, a *app, operands []string) (err error) {
				if err := operandsOf("serve", operands, "MODEL"); err != nil {
					return err
				}
				o, err := m.open(a, operands[0])
				if err != nil {
					return err
				}
				defer func() { err = o.close(err) }()
				return newServer(a, o).run(ctx)
			}
		},
	}
}

// server answers requests one at a time, in the order in which they came; only cancel is answered at once.
type server struct {
	a     *app
	model *opened

	writing sync.Mutex
	failed  error // of writing a reply: nobody listens any more

	mu      sync.Mutex
	queue   []*queued // the first one may be running
	ended   bool      // nothing more will be queued
	arrived *sync.Cond
	broken  error // of reading
}

// queued is a request that waits or runs.
type queued struct {
	id     json.RawMessage
	op     string
	line   []byte
	ctx    context.Context
	cancel context.CancelFunc
}

func newServer(a *app, m *opened) *server {
	s := &server{a: a, model: m}
	s.arrived = sync.NewCond(&s.mu)
	return s
}

// reply is one line on stdout.
type reply struct {
	ID     json.RawMessage `json:"id"`
	OK     bool            `json:"ok"`
	Result any             `json:"result,omitempty"`
	Error  *replyError     `json:"error,omitempty"`
}

type replyError struct {
	Message string `json:"message"`
	Hint    string `json:"hint"`
	Code    int    `json:"code"`
}

// errCancelled is what a request that was cancelled is answered with.
var errCancelled = &codeError{exitInterrupted, errors.New("interrupted"), "a cancel request, or a signal, asked for it"}

// run reads requests until stdin ends or shutdown is asked for, and answers them.
func (s *server) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.write(struct {
		Ready    bool   `json:"ready"`
		Model    string `json:"model"`
		Protocol int    `json:"protocol"`
	}{true, s.model.checkpoint.Ref, serveProtocol})
	stop := context.AfterFunc(ctx, s.wake)
	defer stop()
	go s.read(ctx)
	for {
		q := s.next(ctx)
		if q == nil {
			break
		}
		answer := s.serve(q)
		s.finish(q) // first: whoever reads the reply may use its id again
		s.write(answer)
		if q.op == "shutdown" {
			return s.writeError()
		}
	}
	if err := s.writeError(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.broken
}

func (s *server) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived.Broadcast()
}

// next waits for a request; nil when there will be none. After an interruption those that wait are still handed out, to be refused.
func (s *server) next(ctx context.Context) *queued {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.writeError() != nil:
			return nil
		case len(s.queue) > 0:
			return s.queue[0]
		case s.ended || ctx.Err() != nil:
			return nil
		}
		s.arrived.Wait()
	}
}

func (s *server) finish(q *queued) {
	q.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = s.queue[1:]
}

// serve carries one request out and returns its reply.
func (s *server) serve(q *queued) reply {
	result, err := func() (result any, err error) {
		defer func() {
			if r := recover(); r != nil {
				err = panicked(r)
			}
		}()
		return s.do(q)
	}()
	if err != nil {
		return s.refusal(q.ctx, q.id, err)
	}
	return reply{ID: q.id, OK: true, Result: result}
}

// refusal is the reply that says what the command would end with: message, hint and code.
func (s *server) refusal(ctx context.Context, id json.RawMessage, err error) reply {
	code := exitCode(ctx, err)
	if code == exitInterrupted {
		err = errCancelled
	}
	var internal *internalError
	if errors.As(err, &internal) {
		s.a.log.Debug("stack", "of", string(internal.stack))
	}
	hint := hintOf(err)
	if hint == "" {
		hint = "docs/serve.md says what is wanted; --log-level debug may say more"
	}
	if id == nil {
		id = json.RawMessage("null")
	}
	return reply{ID: id, Error: &replyError{oneLine(err.Error()), oneLine(hint), code}}
}

// write puts one line on stdout, whole.
func (s *server) write(v any) {
	line, err := encodeLine(v)
	if err != nil { // not a finite number that no type caught, say
		if r, ok := v.(reply); ok && r.OK {
			s.write(s.refusal(context.Background(), r.ID, fmt.Errorf("reply: %w", err)))
			return
		}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.failed == nil && err == nil {
		_, err = s.a.out.Write(line)
	}
	if err != nil && s.failed == nil {
		s.failed = fmt.Errorf("reply: %w", err)
	}
}

func (s *server) writeError() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.failed
}

// end says that nothing more comes, and why if not for the end of stdin.
func (s *server) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if err != nil && !errors.Is(err, io.EOF) {
		s.broken = fmt.Errorf("requests: %w", err)
	}
	s.arrived.Broadcast()
}
