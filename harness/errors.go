package harness

import "fmt"

// hintError adds what the user can do to an error. Commands ask for it through interface{ Hint() string }.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }
func (e *hintError) Hint() string  { return e.hint }

// Advise adds what the user can do to an error.
func Advise(err error, hint string) error { return &hintError{err, hint} }

// UsageError says that a request makes no sense as asked; the command exits with 2.
type UsageError struct {
	Err    error
	Advice string
}

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Hint says what to ask for instead.
func (e *UsageError) Hint() string { return e.Advice }

func usagef(advice, format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...), Advice: advice}
}
