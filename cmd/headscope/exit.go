package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"strings"
	"syscall"
	"unicode"

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
	hint := hintOf(err)
	if hint == "" {
		hint = "`headscope help VERB` says what is wanted; --log-level debug may say more"
	}
	fmt.Fprintf(a.err, "hint: %s\n", oneLine(hint))
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
	var config *loader.ConfigError
	var request *decoder.NotSupportedError
	var table *rope.UnsupportedError
	var file *gguf.UnsupportedError
	switch {
	case errors.As(err, &code):
		return code.code
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())):
		return exitInterrupted
	case errors.As(err, &spec), errors.As(err, &config), errors.As(err, &request), errors.As(err, &table), errors.As(err, &file), errors.Is(err, tokenizer.ErrUnsupported):
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
	return "nothing was kept: run it again"
}

// resumable marks an error of a run whose trials file stays.
type resumable struct {
	err    error
	trials string
}

func (e *resumable) Error() string { return e.err.Error() }
func (e *resumable) Unwrap() error { return e.err }

// adviseError adds a hint to an error that has none.
type adviseError struct {
	err  error
	hint string
}

func (e *adviseError) Error() string { return e.err.Error() }
func (e *adviseError) Unwrap() error { return e.err }
func (e *adviseError) Hint() string  { return e.hint }

// advise adds the hint if nothing better is known of err; nil stays nil.
func advise(err error, hint string) error {
	if err == nil || hintOf(err) != "" {
		return err
	}
	return &adviseError{err, hint}
}

// hintOf is what an error says the user can do, else what its kind says; empty where neither does.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) && h.Hint() != "" {
		return h.Hint()
	}
	if hint := formatHint(err); hint != "" {
		return hint
	}
	return fileHint(err)
}

// formatHint is about what a file says.
func formatHint(err error) string {
	var header *safetensors.HeaderError
	var index *safetensors.IndexError
	var folder *safetensors.OpenError
	var request *decoder.NotSupportedError
	switch {
	case errors.As(err, &request):
		return "choose one of those that it names"
	case exitCode(context.Background(), err) == exitUnsupported:
		return "README.md lists what is supported; what is not is refused rather than guessed"
	case errors.As(err, &folder):
		return folder.Hint
	case errors.As(err, &header), errors.As(err, &index):
		return "the file is damaged, incomplete or of another checkpoint: fetch or convert it again"
	case errors.Is(err, heads.ErrNoSuchHead):
		return "`headscope inspect MODEL` prints the layers and heads; both count from 0"
	case errors.Is(err, tokenizer.ErrPrefixChanged):
		return "end the prompt so that the answer begins a word of its own"
	case errors.Is(err, tokenizer.ErrInvalidUTF8):
		return "texts are UTF-8: convert it, for example with iconv"
	}
	return ""
}

// fileHint is about reading and writing one.
func fileHint(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "check the path; a relative one counts from the current folder"
	case errors.Is(err, fs.ErrPermission):
		return "check the permissions of the file and its folders"
	case errors.Is(err, fs.ErrExist):
		return "name a new folder; import --overwrite replaces what an earlier import wrote, and nothing else"
	case errors.Is(err, syscall.EISDIR):
		return "name a file, not a folder"
	case errors.Is(err, syscall.ENOTDIR):
		return "a part of the path is a file: name a folder"
	case errors.Is(err, syscall.ENOSPC):
		return "free some space, or write elsewhere"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &syntax), errors.As(err, &kind):
		return "the file is damaged, cut short or of another kind: fetch or write it again"
	}
	return ""
}

// oneLine keeps an error on its line.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar // a file's names do not steer the terminal
		}
		return r
	}, s)
}
