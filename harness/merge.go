package harness

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/headscope/headscope/heads"
)

// MergeOptions says where parts are put together.
type MergeOptions struct {
	Out     string // folder of the results: the merged files lie in a folder below it, named as that of the first part; empty: beside the first part
	Command []string
}

const partAdvice = "give every part of one run, each once: VERB_KEY.shard1of5.trials.jsonl to VERB_KEY.shard5of5.trials.jsonl"

// partError says which part cannot be merged, and why.
func partError(path, format string, args ...any) error {
	return &hintError{fmt.Errorf("%s: "+format, append([]any{path}, args...)...), partAdvice}
}

// Merge puts the parts of one run together: it checks that they are parts of one plan, run alike, and that every work unit is there
// once; then it writes the trials file of the unbroken run, byte for byte, and the result that follows from it. The parts are kept.
func Merge(paths []string, o MergeOptions) (*Result, error) {
	start := time.Now()
	parts := make([]*storedTrials, len(paths))
	var err error
	for i, path := range paths {
		if parts[i], err = readTrials(path); err != nil {
			return nil, err
		}
	}
	if len(parts) == 0 {
		return nil, usagef(partAdvice, "no parts")
	}
	if err := sameRun(parts); err != nil {
		return nil, err
	}
	whole, err := joinParts(parts)
	if err != nil {
		return nil, err
	}
	e, err := whole.evidence()
	if err != nil {
		return nil, err
	}
	p, part := whole.head.Plan, parts[0].head.Part
	res := &Result{
		Schema: schemaVersion, Tool: CurrentTool(), Verb: p.Verb, Command: append([]string{}, o.Command...), Plan: p, Key: whole.head.Key,
		TrialsSHA256: sumOf(string(whole.data)), Model: part.Model, Prompts: part.Prompts, Refused: part.Refused, Environment: part.Environment,
		Heads: heads.Ranking{}, Failures: []PromptFailure{}, Conditions: []ConditionResult{},
	}
	if err := e.fill(res); err != nil {
		return nil, err
	}
	aggregate := filepath.Join(filepath.Dir(whole.path), p.Verb+"_"+res.Key+".json")
	if o.Out != "" {
		aggregate = filepath.Join(o.Out, filepath.Base(filepath.Dir(absolute(whole.path))), filepath.Base(aggregate))
		if err := os.MkdirAll(filepath.Dir(aggregate), 0o755); err != nil {
			return nil, folderError(err)
		}
	}
	if err := whole.writeNew(TrialsOf(aggregate)); err != nil {
		return nil, err
	}
	return res, res.write(aggregate, time.Since(start))
}

// sameRun refuses parts that are not of one run, or not all of it. It sorts them by their number.
func sameRun(parts []*storedTrials) error {
	first := parts[0]
	of := 0
	byIndex := map[int]*storedTrials{}
	number := func(t *storedTrials) int { s, _ := ParseShard(t.head.Shard); return s.Index }
	for _, t := range parts {
		s, err := ParseShard(t.head.Shard)
		if err != nil || t.head.Part == nil {
			return partError(t.path, "no part of a run: its header names no shard")
		}
		if of == 0 {
			of = s.Of
		}
		key, err := t.head.Plan.Key()
		switch {
		case err != nil:
			return err
		case key != t.head.Key:
			return &DamagedError{t.path, fmt.Sprintf("its header states key %s, its plan has %s", t.head.Key, key)}
		case t.head.Key != first.head.Key:
			return partError(t.path, "part of another run: key %s, that of %s is %s", t.head.Key, first.path, first.head.Key)
		case t.head.Run != first.head.Run || t.head.Run != t.head.Plan.Run:
			return partError(t.path, "run otherwise: %s, %s was run as %s", t.head.Run, first.path, first.head.Run)
		case t.head.Shape != first.head.Shape:
			return partError(t.path, "of another model: shape %v, %s has %v", t.head.Shape, first.path, first.head.Shape)
		case !reflect.DeepEqual(plain(t.records), plain(first.records)):
			return partError(t.path, "other prompts than in %s, or in other tokens", first.path)
		case s.Of != of:
			return partError(t.path, "one of %d parts, %s is one of %d", s.Of, first.path, of)
		case byIndex[s.Index] != nil:
			return partError(t.path, "part %s is there twice, also as %s", s, byIndex[s.Index].path)
		case t.torn > 0:
			return &hintError{fmt.Errorf("%s: torn: %d bytes behind the last whole trial", t.path, t.torn), "that part is not finished: give its command again"}
		}
		byIndex[s.Index] = t
	}
	var missing []string
	for i := 1; i <= of; i++ {
		if byIndex[i] == nil {
			missing = append(missing, Shard{i, of}.String())
		}
	}
	if len(missing) > 0 {
		return &hintError{fmt.Errorf("parts %s of key %s are missing", strings.Join(missing, ", "), first.head.Key), partAdvice}
	}
	slices.SortFunc(parts, func(a, b *storedTrials) int { return cmp.Compare(number(a), number(b)) })
	return nil
}

// plain is the records in a form in which unknown depths are equal: NaN is not.
func plain(records []PromptRecord) []PromptRecord {
	out := slices.Clone(records)
	for i := range out {
		if math.IsNaN(float64(out[i].Depth)) {
			out[i].Depth = -1
		}
	}
	return out
}

// joinParts puts the units of the parts in the order of the plan.
func joinParts(parts []*storedTrials) (*storedTrials, error) {
	first := parts[0]
	head := first.head
	head.Shard, head.Part = "", nil
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for _, line := range []any{head, trialsPrompts{first.records}} {
		if err := enc.Encode(line); err != nil {
			return nil, fmt.Errorf("%s: %w", first.path, err)
		}
	}
	whole := &storedTrials{path: first.path, head: head, records: first.records, headSize: int64(buf.Len())}
	have := map[unitID]unitSpan{}
	for _, t := range parts {
		s, err := ParseShard(t.head.Shard)
		if err != nil {
			return nil, err
		}
		for _, u := range t.units {
			if !s.has(u.id.unit) {
				return nil, partError(t.path, "%s is not of part %s", u.id, s)
			}
			have[u.id] = u
		}
	}
	e := newEvidence(head.Plan, head.Shape, first.records)
	err := e.eachUnit(func(p plannedUnit) error {
		t := parts[p.id.unit%len(parts)]
		u, ok := have[p.id]
		switch {
		case !ok:
			return &hintError{fmt.Errorf("%s: %s is missing", t.path, p.id), "that part is not finished: give its command again"}
		case u.lines != p.trials:
			return &hintError{fmt.Errorf("%s: %s: %d trials, want %d", t.path, p.id, u.lines, p.trials), "that part is not finished: give its command again"}
		}
		delete(have, p.id)
		at := int64(buf.Len())
		buf.Write(t.bytes(u))
		whole.units = append(whole.units, unitSpan{u.id, at, int64(buf.Len()), u.lines})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for id := range have {
		return nil, partError(parts[id.unit%len(parts)].path, "%s is not of this plan", id)
	}
	whole.data = buf.Bytes()
	return whole, nil
}

// writeNew writes the whole file, where nothing is lost by it: a file that is there already may hold a beginning of it, no more.
func (t *storedTrials) writeNew(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return writeWhole(path, t.data)
	}
	if err != nil {
		return err
	}
	defer f.Close() // read alone, and the lock goes with it
	if err := lockFile(f); err != nil {
		return lockedError(path, err)
	}
	old, err := io.ReadAll(f)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case bytes.Equal(old, t.data):
		return nil
	case !bytes.HasPrefix(t.data, old):
		return &hintError{fmt.Errorf("%s: there already, with other trials than the parts make", path), "move it away, or merge into another folder with --out"}
	}
	return writeWhole(path, t.data)
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
