package loader

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/headscope/headscope/loader/rope"
)

// ConfigError says that a config has a value that no model can have, or none where one is needed. The command exits with 3, as it does
// for what is not supported.
type ConfigError struct {
	File string // e.g. "config.json"
	Key  string // path of the key in it, e.g. "rope_scaling.factor"
	Got  string // value, as JSON, or "nothing"
	Want string // what would be accepted
	Err  error  // of a room below, which then is the text after File
}

func (e *ConfigError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s: %s: got %s, want %s", e.File, e.Key, e.Got, e.Want)
}

func (e *ConfigError) Unwrap() error { return e.Err }

// UnsupportedError says that a checkpoint asks for something this module does not compute. It is about the checkpoint, not about a
// defect of it: transformers may well run it. The command exits with 3.
type UnsupportedError struct {
	File string // file that asks for it, e.g. "config.json"
	Key  string // key or tensor in it
	Got  string // value, as JSON
	Want string // what is supported
	Err  error  // of a room below, which then is the whole text
	hint string
}

func (e *UnsupportedError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s: %s: got %s, which is not supported, want %s", e.File, e.Key, e.Got, e.Want)
}

func (e *UnsupportedError) Unwrap() error { return e.Err }

// Hint says what the user can do about it, or is empty.
func (e *UnsupportedError) Hint() string { return e.hint }

// hintError adds what to do to an error. Commands ask for it through interface{ Hint() string }.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }
func (e *hintError) Hint() string  { return e.hint }

// withHint adds the hint, unless err is of the kinds that say more of themselves: what is not supported, has a hint, or is about a path.
func withHint(err error, hint string) error {
	var unsupported *UnsupportedError
	var table *rope.UnsupportedError
	var hinted *hintError
	var path *fs.PathError
	if err == nil || errors.As(err, &unsupported) || errors.As(err, &table) || errors.As(err, &hinted) || errors.As(err, &path) {
		return err
	}
	return &hintError{err, hint}
}

// shown prints a JSON value on one line for an error message, cut where it would fill the screen.
func shown(raw json.RawMessage) string {
	const longest = 60
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil {
		line.Reset()
		line.WriteString(strconv.Quote(string(raw)))
	}
	s := []rune(line.String())
	if len(s) <= longest {
		return string(s)
	}
	return string(s[:longest]) + "..."
}
