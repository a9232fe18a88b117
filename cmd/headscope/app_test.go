package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/gguf"
	"github.com/headscope/headscope/loader/rope"
	"github.com/headscope/headscope/loader/tokenizer"
)

// TestPanic: a panic anywhere in a verb is one error line that asks for a report, and code 1.
func TestPanic(t *testing.T) {
	var out, stderr bytes.Buffer
	a := &app{in: &out, out: &out, err: &stderr} // no getenv: doctor runs into it
	if code := a.run(context.Background(), []string{"doctor"}); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if s := stderr.String(); !strings.HasPrefix(s, "error: internal: ") || strings.Count(s, "\n") != 2 || !strings.Contains(s, "report") {
		t.Errorf("got %q", s)
	}
}

func TestExitCodes(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for _, test := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{nil, errors.New("x"), exitFailed},
		{nil, &usageError{errors.New("x"), ""}, exitUsage},
		{nil, &harness.UsageError{Err: errors.New("x")}, exitUsage},
		{nil, fmt.Errorf("a: %w", heads.ErrNoSuchHead), exitUsage},
		{nil, fmt.Errorf("a: %w", &loader.UnsupportedError{}), exitUnsupported},
		{nil, fmt.Errorf("a: %w", &decoder.NotSupportedError{}), exitUnsupported},
		{nil, &rope.UnsupportedError{}, exitUnsupported},
		{nil, &gguf.UnsupportedError{}, exitUnsupported},
		{nil, fmt.Errorf("a: %w", tokenizer.ErrUnsupported), exitUnsupported},
		{nil, &decoder.OutOfMemoryError{Err: errors.New("x")}, exitFailed},
		{nil, &codeError{exitSomeFailed, errors.New("x"), ""}, exitSomeFailed},
		{nil, errors.Join(&codeError{exitDifferent, errors.New("x"), ""}, nil), exitDifferent},
		{done, fmt.Errorf("a: %w", context.Canceled), exitInterrupted},
		{done, &resumable{context.Canceled, "f"}, exitInterrupted},
		{done, errors.New("x"), exitFailed},
		{nil, context.Canceled, exitFailed},
	} {
		if test.ctx == nil {
			test.ctx = context.Background()
		}
		if got := exitCode(test.ctx, test.err); got != test.want {
			t.Errorf("%T %v: got %d, want %d", test.err, test.err, got, test.want)
		}
	}
}

// TestOneLine: whatever a room below says stays on one line.
func TestOneLine(t *testing.T) {
	var stderr bytes.Buffer
	a := &app{err: &stderr}
	a.fail(context.Background(), errors.Join(errors.New("one\ntwo"), errors.New("three")))
	if got := stderr.String(); got != "error: one; two; three\nhint: `headscope help VERB` says what is wanted; --log-level debug may say more\n" {
		t.Errorf("got %q", got)
	}
}

func TestControlCharacters(t *testing.T) {
	if got, want := oneLine("a\x1b[31m\tb"), "a\ufffd[31m\ufffdb"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAdvise(t *testing.T) {
	plain := errors.New("x")
	for _, test := range []struct {
		err  error
		want string
	}{
		{plain, "other"},
		{&usageError{plain, "its own"}, "its own"},
		{&usageError{plain, ""}, "other"},
		{fmt.Errorf("a: %w", heads.ErrNoSuchHead), hintOf(heads.ErrNoSuchHead)},
		{&loader.UnsupportedError{}, hintOf(&gguf.UnsupportedError{})},
	} {
		if got := hintOf(advise(test.err, "other")); got != test.want || got == "" {
			t.Errorf("%T %v: got %q, want %q", test.err, test.err, got, test.want)
		}
	}
	if advise(nil, "other") != nil {
		t.Error("nil became an error")
	}
}

func TestEditDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"study", "study", 0}, {"studdy", "study", 1}, {"stdy", "study", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}} {
		if got := editDistance(test.a, test.b); got != test.want {
			t.Errorf("%q %q: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
