package tracing

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/headscope/headscope/harness"
)

// line is one line of a trials file: the header first, then prompts as they are done.
type line struct {
	Header *harness.Header `json:"header,omitempty"`
	Asked  *Asked          `json:"asked,omitempty"`
	Heads  *PromptTrace    `json:"heads,omitempty"`
	Pairs  *PairTrace      `json:"pairs,omitempty"`
}

// trials is a file that grows by a line a step. What was there of the same key is not computed again.
type trials struct {
	path  string
	f     *os.File
	heads map[string]*PromptTrace
	pairs map[string]*PairTrace
}

// openTrials opens or starts the file. A last line that is cut short is taken off.
func openTrials(path string, h *harness.Header, a *Asked) (*trials, error) {
	t := &trials{path: path, heads: map[string]*PromptTrace{}, pairs: map[string]*PairTrace{}}
	whole, err := t.read(h.Key)
	if err != nil {
		return nil, err
	}
	if t.f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if err = t.f.Truncate(whole); err == nil {
		_, err = t.f.Seek(whole, io.SeekStart)
	}
	if err == nil && whole == 0 {
		err = t.write(&line{Header: h, Asked: a})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("trace: %w", err), t.f.Close())
	}
	return t, nil
}

// read takes in the lines that are there and returns how many bytes are whole lines.
func (t *trials) read(key string) (int64, error) {
	data, err := os.ReadFile(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("trace: %w", err)
	}
	whole := int64(bytes.LastIndexByte(data, '\n') + 1)
	lines := bufio.NewReader(bytes.NewReader(data[:whole]))
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return whole, nil
		}
		var x line
		if err := json.Unmarshal(text, &x); err != nil {
			return 0, fmt.Errorf("%s: line %d: %w", t.path, n, err)
		}
		switch {
		case (n == 1) != (x.Header != nil), n == 1 && x.Header.Key != key:
			return 0, &harness.UsageError{Err: fmt.Errorf("%s: line %d: not a trace of key %s", t.path, n, key), Advice: "name another folder with --out, or take that file away"}
		case x.Heads != nil:
			t.heads[x.Heads.Prompt] = x.Heads
		case x.Pairs != nil:
			t.pairs[x.Pairs.Prompt] = x.Pairs
		}
	}
}

// write adds a line and sees it to the disk.
func (t *trials) write(x *line) error {
	b, err := json.Marshal(x)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	if _, err := t.f.Write(append(b, '\n')); err != nil {
		return err
	}
	return t.f.Sync()
}
