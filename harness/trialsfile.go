package harness

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
)

// trialsHeader is the first line of a trials file: what has to be the same for more trials to be added.
type trialsHeader struct {
	Schema int     `json:"schema"`
	Key    string  `json:"key"`
	Shard  string  `json:"shard,omitempty"` // "2/5": the second of five parts
	Run    PlanRun `json:"run"`
	Shape  Shape   `json:"shape"`
	Plan   *Plan   `json:"plan"`

	Part *shardInfo `json:"part,omitempty"` // of a shard
}

// trialsPrompts is the second line: what the aggregates have to know of the prompts.
type trialsPrompts struct {
	Prompts []PromptRecord `json:"prompts"`
}

// trialsFile is an append-only file of trials. Whole units are written at once and synced, so that a run that stops anywhere can be
// taken up again.
type trialsFile struct {
	path string
	f    *os.File
	have map[unitID]unitSpan // in the file when it was opened, and not decoded yet
	end  int64               // where the last of them ends
}

type unitID struct {
	stage string
	unit  int
}

// HeaderMismatchError says that a trials file belongs to another plan.
type HeaderMismatchError struct{ Path, Got, Want string }

func (e *HeaderMismatchError) Error() string {
	return fmt.Sprintf("%s: trials of another run: got %s, want %s", e.Path, e.Got, e.Want)
}

// Hint says what the user can do about it.
func (e *HeaderMismatchError) Hint() string {
	return "move the file away, or write to another folder with --out"
}

// openTrials opens or creates the file and reads what it holds. A torn last line is cut off.
func openTrials(path string, head trialsHeader, prompts []PromptRecord) (*trialsFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, folderError(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, folderError(err)
	}
	t := &trialsFile{path: path, f: f, have: map[unitID]unitSpan{}}
	if err := t.start(head, prompts); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

func (t *trialsFile) start(head trialsHeader, prompts []PromptRecord) error {
	if err := lockFile(t.f); err != nil {
		return lockedError(t.path, err)
	}
	st, err := t.f.Stat()
	if err != nil {
		return err
	}
	br := bufio.NewReader(io.LimitReader(t.f, st.Size()))
	first, err := wholeLine(br)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	second, err := wholeLine(br)
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	if !bytes.HasSuffix(second, []byte("\n")) {
		return t.startAnew(append(first, second...), head, prompts)
	}
	if err := t.checkHeader(first, head); err != nil {
		return err
	}
	if err := t.checkLines(first, second, head, prompts); err != nil {
		return err
	}
	s, err := scanUnits(t.path, br, int64(len(first)+len(second)), 3)
	if err != nil {
		return err
	}
	for _, u := range s.units {
		t.have[u.id], t.end = u, u.end
	}
	return t.cut(s.end, st.Size())
}

// startAnew writes the two first lines. What the file holds may be a torn beginning of them, and nothing else.
func (t *trialsFile) startAnew(have []byte, head trialsHeader, prompts []PromptRecord) error {
	lines := []any{head, trialsPrompts{prompts}}
	want, err := t.encode(lines)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(want, have) {
		return &HeaderMismatchError{t.path, "something else", "the trials of key " + head.Key}
	}
	if err := t.cut(0, int64(len(have))); err != nil {
		return err
	}
	return t.append(lines)
}

// wholeLine reads up to and with the next newline, or to the end.
func wholeLine(br *bufio.Reader) ([]byte, error) {
	line, err := br.ReadBytes('\n')
	if err == io.EOF {
		err = nil
	}
	return line, err
}

func (t *trialsFile) cut(end, size int64) error {
	if end < size {
		if err := t.f.Truncate(end); err != nil {
			return fmt.Errorf("%s: %w", t.path, err)
		}
	}
	if _, err := t.f.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	return nil
}

// checkLines refuses a header of the right key that is not the one that was written. A part's says where it was begun, which may be
// elsewhere.
func (t *trialsFile) checkLines(first, second []byte, head trialsHeader, prompts []PromptRecord) error {
	wantFirst, err := t.encode([]any{head})
	if err != nil {
		return err
	}
	wantSecond, err := t.encode([]any{trialsPrompts{prompts}})
	if err != nil {
		return err
	}
	switch {
	case head.Part == nil && !bytes.Equal(first, wantFirst):
		return &DamagedError{t.path, "line 1 is not the header of key " + head.Key}
	case !bytes.Equal(second, wantSecond):
		return &DamagedError{t.path, "line 2 does not hold the prompts of key " + head.Key}
	}
	return nil
}

func (t *trialsFile) checkHeader(line []byte, want trialsHeader) error {
	var got trialsHeader
	if err := json.Unmarshal(line, &got); err != nil {
		return &HeaderMismatchError{t.path, "no header", "key " + want.Key}
	}
	if got.Key != want.Key || got.Schema != want.Schema {
		return &HeaderMismatchError{t.path, fmt.Sprintf("schema %d, key %s", got.Schema, got.Key), fmt.Sprintf("schema %d, key %s", want.Schema, want.Key)}
	}
	if got.Shard != want.Shard {
		return &HeaderMismatchError{t.path, "shard " + got.Shard, "shard " + want.Shard}
	}
	if !reflect.DeepEqual(got.Run, want.Run) {
		return &HeaderMismatchError{t.path, got.Run.String(), want.Run.String()}
	}
	return nil
}

// String is the run's shape in one line.
func (r PlanRun) String() string {
	return fmt.Sprintf("engine %d, %s on %s (%s), batch %d, decode batch %d, unit %d", r.Engine, r.DType, r.Device, r.Backend, r.Batch, r.DecodeBatch, r.Unit)
}

// whole returns the trials of a unit if all of them are there. The last unit of the file may have been cut short: it is cut off.
func (t *trialsFile) whole(id unitID, want int) ([]Trial, error) {
	u, ok := t.have[id]
	if !ok {
		return nil, nil
	}
	delete(t.have, id)
	data := make([]byte, u.end-u.start)
	if _, err := t.f.ReadAt(data, u.start); err != nil {
		return nil, fmt.Errorf("%s: %w", t.path, err)
	}
	trials, err := decodeTrials(t.path, u, data)
	if err == nil && len(trials) == want {
		return trials, nil
	}
	if u.end != t.end {
		if err == nil {
			err = &DamagedError{t.path, fmt.Sprintf("%s: %d trials, want %d", id, len(trials), want)}
		}
		return nil, err
	}
	if err := t.f.Truncate(u.start); err != nil {
		return nil, writeError(t.path, err)
	}
	if _, err := t.f.Seek(0, io.SeekEnd); err != nil {
		return nil, writeError(t.path, err)
	}
	return nil, nil
}

// add writes a whole unit, one line a trial.
func (t *trialsFile) add(trials []Trial) error {
	lines := make([]any, len(trials))
	for i := range trials {
		lines[i] = &trials[i]
	}
	return t.append(lines)
}

func (t *trialsFile) encode(lines []any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return nil, fmt.Errorf("%s: %w", t.path, err)
		}
	}
	return buf.Bytes(), nil
}

func (t *trialsFile) append(lines []any) error {
	data, err := t.encode(lines)
	if err != nil {
		return err
	}
	if _, err := t.f.Write(data); err != nil {
		return writeError(t.path, err)
	}
	if err := t.f.Sync(); err != nil {
		return writeError(t.path, err)
	}
	return nil
}

// sum is the sha256 of the file.
func (t *trialsFile) sum() (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(t.f, 0, math.MaxInt64)); err != nil {
		return "", fmt.Errorf("%s: %w", t.path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (t *trialsFile) close() error { return t.f.Close() }

func lockedError(path string, err error) error {
	return &hintError{fmt.Errorf("%s: another run is writing it: %w", path, err), "wait for that run, or write to another folder with --out"}
}

func folderError(err error) error {
	return &hintError{fmt.Errorf("results: %w", err), "choose a folder that can be written with --out"}
}

// writeError says what became of what was written before.
func writeError(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &hintError{fmt.Errorf("%s: cannot write: %w", path, err),
		"free some space, or write elsewhere with --out; the same command goes on from the last whole unit"}
}

// WriteFile writes a file whole or not at all.
func WriteFile(path string, data []byte) error {
	err := writeWhole(path, data)
	var h *hintError
	if errors.As(err, &h) {
		return &hintError{h.err, "choose a file that can be written, on a disk with room"}
	}
	return err
}

// writeWhole writes a file under another name and renames it when all of it is on disk.
func writeWhole(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return writeError(path, err)
	}
	defer func() {
		if err != nil {
			err = writeError(path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	if _, err = f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Chmod(0o644); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
