package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Lines is a file that grows by a line a step, for measurements that are no trials of a plan: a first line that says what they are of, then
// a line for each step that is done. One process has it at a time; what stops anywhere is taken up again.
type Lines struct {
	path string
	f    *os.File
}

// LinesOptions say how a file of lines is opened.
type LinesOptions struct {
	First any                     // written as the first line of a new file
	Same  func(line []byte) bool  // tells whether a first line that is there is of the same work
	Each  func(line []byte) error // takes every whole line behind it
}

// Interrupted says where a run's lines are, for the same command to go on from.
type Interrupted struct {
	Trials string
	Err    error
}

func (e *Interrupted) Error() string { return e.Err.Error() }
func (e *Interrupted) Unwrap() error { return e.Err }

// OpenLines opens or starts the file, for this process alone. A last line that is cut short is taken off.
func OpenLines(path string, o LinesOptions) (*Lines, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, folderError(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, folderError(err)
	}
	l := &Lines{path, f}
	if err := l.start(&o); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

func (l *Lines) start(o *LinesOptions) error {
	if err := lockFile(l.f); err != nil {
		return lockedError(l.path, err)
	}
	data, err := io.ReadAll(l.f)
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	whole, err := o.take(l.path, data)
	if err != nil {
		return err
	}
	if err := l.f.Truncate(int64(whole)); err != nil {
		return writeError(l.path, err)
	}
	if _, err := l.f.Seek(int64(whole), io.SeekStart); err != nil {
		return writeError(l.path, err)
	}
	if whole == 0 {
		return l.Add(o.First)
	}
	return nil
}

// ReadLines reads a file that OpenLines made and leaves it as it is.
func ReadLines(path string, o LinesOptions) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = o.take(path, data)
	return err
}

// take hands on the whole lines and returns how many bytes they are.
func (o *LinesOptions) take(path string, data []byte) (int, error) {
	whole := bytes.LastIndexByte(data, '\n') + 1
	lines := bufio.NewReader(bytes.NewReader(data[:whole]))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return whole, nil
		}
		switch {
		case n == 1 && !o.Same(line):
			return 0, &HeaderMismatchError{path, "another first line", "that of the same request"}
		case n > 1:
			if err := o.Each(line); err != nil {
				return 0, &DamagedError{path, fmt.Sprintf("line %d: %v", n, err)}
			}
		}
	}
}

// Path is where the file lies.
func (l *Lines) Path() string { return l.path }

// Add adds a line and sees it to the disk.
func (l *Lines) Add(x any) error {
	b, err := json.Marshal(x)
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	if _, err := l.f.Write(append(b, '\n')); err != nil {
		return writeError(l.path, err)
	}
	if err := l.f.Sync(); err != nil {
		return writeError(l.path, err)
	}
	return nil
}

// Close lets other processes have the file.
func (l *Lines) Close() error { return l.f.Close() }
