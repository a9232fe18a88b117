package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strings"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/gguf"
	"github.com/headscope/headscope/loader/rope"
	"github.com/headscope/headscope/loader/safetensors"
	"github.com/headscope/headscope/loader/tokenizer"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnsupported = 3
	exitSomeFailed  = 4
	exitDifferent   = 5
	exitInterrupted = 130
)

// usageError says that the command line makes no sense.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) Hint() string  { return e.hint }

// codeError ends the command with a code after its result was printed.
type codeError struct {
	code int
	err  error
	hint string
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Hint() string  { return e.hint }

// internalError is a panic.
type internalError struct {
	value any
	stack []byte
}

func panicked(r any) error { return &internalError{r, debug.Stack()} }

func (e *internalError) Error() string { return fmt.Sprintf("internal: %v", e.value) }
func (e *internalError) Hint() string {
	return "this is a defect of headscope: please report it with the command and the output of --log-level debug"
}

// done turns what a verb returned into an exit code.
func (a *app) done(ctx context.Context, err error) int {
	if err == nil {
		return exitDone
	}
	return a.fail(ctx, err)
}

// fail prints an error and its hint, each on one line, and returns the exit code.
func (a *app) fail(ctx context.Context, err error) int {
	code := exitCode(ctx, err)
	if code == exitInterrupted {
		err = &codeError{code, errors.New("interrupted"), interruptedHint(err)}
	}
	fmt.Fprintf(a.err, "error: %s\n", oneLine(err.Error()))
	var h interface{ Hint() string }
	if errors.As(err, &h) && h.Hint() != "" {
		fmt.Fprintf(a.err, "hint: %s\n", oneLine(h.Hint()))
	} else if hint := plainHint(err); hint != "" {
		fmt.Fprintf(a.err, "hint: %s\n", hint)
	}
	var internal *internalError
	if errors.As(err, &internal) {
		a.log.Debug("stack", "of", string(internal.stack))
	}
	return code
}

func exitCode(ctx context.Context, err error) int {
	var usage *usageError
	var asked *harness.UsageError
	var code *codeError
	var spec *loader.UnsupportedError
	var request *decoder.NotSupportedError
	var table *rope.UnsupportedError
	var file *gguf.UnsupportedError
	switch {
	case errors.As(err, &code):
		return code.code
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())):
		return exitInterrupted
	case errors.As(err, &spec), errors.As(err, &request), errors.As(err, &table), errors.As(err, &file), errors.Is(err, tokenizer.ErrUnsupported):
		return exitUnsupported
	case errors.As(err, &usage), errors.As(err, &asked), errors.Is(err, heads.ErrNoSuchHead):
		return exitUsage
	}
	return exitFailed
}

func interruptedHint(err error) string {
	var r *resumable
	if errors.As(err, &r) {
		return "nothing is lost: the same command goes on from " + r.trials
	}
	return ""
}

// resumable marks an error of a run whose trials file stays.
type resumable struct {
	err    error
	trials string
}

func (e *resumable) Error() string { return e.err.Error() }
func (e *resumable) Unwrap() error { return e.err }

// plainHint is the way out of errors that carry none.
func plainHint(err error) string {
	var header *safetensors.HeaderError
	var index *safetensors.IndexError
	var folder *safetensors.OpenError
	var request *decoder.NotSupportedError
	switch {
	case errors.As(err, &request):
		return "choose one of those that it names"
	case errors.As(err, &folder):
		return folder.Hint
	case errors.As(err, &header), errors.As(err, &index):
		return "the file is damaged, incomplete or of another checkpoint: fetch or convert it again"
	case errors.Is(err, heads.ErrNoSuchHead):
		return "`headscope inspect MODEL` prints the layers and heads; both count from 0"
	case errors.Is(err, fs.ErrNotExist):
		return "check the path; a relative one counts from the current folder"
	case errors.Is(err, fs.ErrPermission):
		return "check the permissions of the file and its folders"
	case errors.Is(err, tokenizer.ErrPrefixChanged):
		return "end the prompt so that the answer begins a word of its own"
	}
	return ""
}

// oneLine keeps an error on its line.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
