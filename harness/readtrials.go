package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// unitSpan is where a work unit lies in a trials file.
type unitSpan struct {
	id         unitID
	start, end int64 // bytes
	lines      int   // whole ones
}

func (u unitID) String() string { return fmt.Sprintf("unit %d of stage %s", u.unit, u.stage) }

// DamagedError says that a trials file is broken in a place that an interrupted run does not leave: before its end.
type DamagedError struct{ Path, What string }

func (e *DamagedError) Error() string { return fmt.Sprintf("%s: damaged: %s", e.Path, e.What) }

// Hint says what the user can do about it.
func (e *DamagedError) Hint() string {
	return "an interrupted run leaves a torn end only: bring the file back from a copy, or move it away and run again"
}

// lineScanner finds the units of a trials file. Of each line it decodes stage and unit alone.
type lineScanner struct {
	path  string
	units []unitSpan
	seen  map[unitID]bool
	end   int64 // behind the last whole line

	badAt   int64 // of the first line that is no trial; -1 = none
	badLine int
	after   int // units that begin behind it
}

// scanUnits reads the lines from the byte offset at on; line is the number of the first. A torn end is left out. A line that is no
// trial, with nothing but the rest of its unit behind it, is such an end too: blocks of one write may reach the disk in any order.
func scanUnits(path string, r io.Reader, at int64, line int) (*lineScanner, error) {
	s := &lineScanner{path: path, seen: map[unitID]bool{}, end: at, badAt: -1}
	br := bufio.NewReaderSize(r, 1<<16)
	for ; ; line++ {
		start, length, whole, err := scanLine(br)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !whole {
			break
		}
		if err := s.add(start, at, at+length, line); err != nil {
			return nil, err
		}
		at += length
	}
	if s.badAt >= 0 {
		if s.after > 1 {
			return nil, &DamagedError{path, fmt.Sprintf("line %d is no trial, and %d units follow it", s.badLine, s.after)}
		}
		s.cutAt(s.badAt)
	}
	return s, nil
}

// scanLine reads one line and returns its start, at most 256 bytes, and its length with the newline.
func scanLine(br *bufio.Reader) (start []byte, length int64, whole bool, err error) {
	for {
		piece, err := br.ReadSlice('\n')
		if len(start) < 256 {
			start = append(start, piece[:min(len(piece), 256-len(start))]...)
		}
		length += int64(len(piece))
		switch err {
		case nil:
			return start, length, true, nil
		case bufio.ErrBufferFull:
		case io.EOF:
			return nil, 0, false, nil
		default:
			return nil, 0, false, err
		}
	}
}

func (s *lineScanner) add(start []byte, from, to int64, line int) error {
	id, ok := lineUnit(start)
	if !ok {
		if s.badAt < 0 {
			s.badAt, s.badLine = from, line
		}
		return nil
	}
	s.end = to
	if n := len(s.units); n > 0 && s.units[n-1].id == id {
		u := &s.units[n-1]
		u.end, u.lines = to, u.lines+1
		return nil
	}
	if s.seen[id] {
		return &DamagedError{s.path, fmt.Sprintf("%s is there twice, again from line %d on", id, line)}
	}
	s.seen[id] = true
	s.units = append(s.units, unitSpan{id, from, to, 1})
	if s.badAt >= 0 {
		s.after++
	}
	return nil
}

// cutAt forgets what lies at or behind the offset.
func (s *lineScanner) cutAt(at int64) {
	s.end = at
	for n := len(s.units) - 1; n >= 0 && s.units[n].end > at; n-- {
		if s.units[n].start >= at {
			s.units = s.units[:n]
			continue
		}
		s.units[n].end, s.units[n].lines = at, -1 // short: it is redone
	}
}

// lineUnit reads stage and unit off the start of a line, in the one form in which trials are written.
func lineUnit(line []byte) (id unitID, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"stage":"`))
	if !ok {
		return id, false
	}
	stage, rest, ok := bytes.Cut(rest, []byte(`","unit":`))
	if !ok || len(stage) == 0 || bytes.ContainsAny(stage, `"\`) {
		return id, false
	}
	digits, _, ok := bytes.Cut(rest, []byte(","))
	unit, err := strconv.Atoi(string(digits))
	return unitID{string(stage), unit}, ok && err == nil && unit >= 0
}

func decodeTrials(path string, u unitSpan, data []byte) ([]Trial, error) {
	trials := make([]Trial, 0, max(u.lines, 0))
	for line := range bytes.Lines(data) {
		var t Trial
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, &DamagedError{path, fmt.Sprintf("trial %d of %s: %v", len(trials), u.id, err)}
		}
		trials = append(trials, t)
	}
	return trials, nil
}

// TrialsOf is where the trials of a result lie: beside it.
func TrialsOf(result string) string { return strings.TrimSuffix(result, ".json") + ".trials.jsonl" }

// storedTrials is a trials file that is read only.
type storedTrials struct {
	path     string
	data     []byte
	head     trialsHeader
	headSize int64 // bytes of the two first lines
	records  []PromptRecord
	units    []unitSpan // in the order of the file
	torn     int64      // bytes behind the last whole line
}

// readTrials reads a trials file. It locks nothing: a run may go on writing behind what was read.
func readTrials(path string) (*storedTrials, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := &storedTrials{path: path, data: data}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	second, rest, whole := bytes.Cut(rest, []byte("\n"))
	var prompts trialsPrompts
	err = json.Unmarshal(first, &t.head)
	if err == nil && whole {
		err = json.Unmarshal(second, &prompts)
	}
	if err == nil && (!whole || t.head.Plan == nil || t.head.Key == "") {
		err = errors.New("want a header, a line of prompts, then trials")
	}
	if err != nil {
		return nil, &hintError{fmt.Errorf("%s: no trials file: %w", path, err), "give a file that study, detect or knockout has written: VERB_KEY.trials.jsonl"}
	}
	if t.head.Schema > schemaVersion {
		return nil, &hintError{fmt.Errorf("%s: schema %d, want at most %d", path, t.head.Schema, schemaVersion), "a newer headscope wrote it: use that one"}
	}
	t.records, t.headSize = prompts.Prompts, int64(len(first)+len(second)+2)
	s, err := scanUnits(path, bytes.NewReader(rest), t.headSize, 3)
	if err != nil {
		return nil, err
	}
	t.units, t.torn = s.units, int64(len(data))-s.end
	return t, nil
}

func (t *storedTrials) bytes(u unitSpan) []byte { return t.data[u.start:u.end] }

func (t *storedTrials) trials(u unitSpan) ([]Trial, error) {
	return decodeTrials(t.path, u, t.bytes(u))
}

// evidence takes every unit of a run, in the order of the plan. What is missing, short or of another run is an error.
func (t *storedTrials) evidence() (*evidence, error) {
	e := newEvidence(t.head.Plan, t.head.Shape, t.records)
	have := map[unitID]unitSpan{}
	for _, u := range t.units {
		have[u.id] = u
	}
	take := func(p plannedUnit) error {
		u, ok := have[p.id]
		if !ok {
			return &hintError{fmt.Errorf("%s: %s is missing", t.path, p.id), "the run is not finished: give the same command again"}
		}
		trials, err := t.trials(u)
		if err == nil && len(trials) != p.trials {
			err = &DamagedError{t.path, fmt.Sprintf("%s: %d trials, want %d", p.id, len(trials), p.trials)}
		}
		delete(have, p.id)
		e.trials[p.id.stage] = append(e.trials[p.id.stage], trials...)
		return err
	}
	if err := e.eachUnit(take); err != nil {
		return nil, err
	}
	if _, ok := have[unitID{StageExample, 0}]; ok {
		if err := take(plannedUnit{unitID{StageExample, 0}, 1}); err != nil {
			return nil, err
		}
	}
	for id := range have {
		return nil, &DamagedError{t.path, fmt.Sprintf("%s is not of this plan", id)}
	}
	if err := e.check(); err != nil {
		return nil, &DamagedError{t.path, err.Error()}
	}
	return e, nil
}

// plannedUnit is a work unit as the plan has it.
type plannedUnit struct {
	id     unitID
	trials int
}

// eachUnit hands on the work units of a run in the order in which it writes them. What experiments ask rests on the detect
// stage's trials: f has to have put them into e.trials by then. An example, which a run may end with, is not among them.
func (e *evidence) eachUnit(f func(plannedUnit) error) error {
	stage := func(name string, prompts, conds int) error {
		size := e.plan.Run.Unit
		for from := 0; from < prompts; from += size {
			if err := f(plannedUnit{unitID{name, from / size}, min(size, prompts-from) * conds}); err != nil {
				return err
			}
		}
		return nil
	}
	if e.plan.Run.Unit < 1 {
		return fmt.Errorf("plan: a work unit of %d prompts", e.plan.Run.Unit)
	}
	if d := e.plan.Detect; d != nil {
		if d.Repeat != nil {
			if err := f(plannedUnit{unitID{StageRepeat, 0}, d.Repeat.Sequences}); err != nil {
				return err
			}
		}
		for _, name := range append([]string{StageDetect}, d.furtherStages()...) {
			if err := stage(name, len(e.detects), 1); err != nil {
				return err
			}
		}
	}
	if e.plan.Agreement != nil {
		if err := stage(StageAgreement, len(e.agrees), 1); err != nil {
			return err
		}
	}
	for _, x := range e.plan.experiments() {
		if name, err := e.observes(x); err != nil {
			return err
		} else if name != "" {
			if err := f(plannedUnit{unitID{name, 0}, 1}); err != nil {
				return err
			}
		}
		conds, err := e.conditions(x)
		if err != nil {
			return err
		}
		if len(predicted(x, conds)) > 0 {
			if err := stage(ledgerStage(x), len(e.tests), 1); err != nil {
				return err
			}
		}
		if len(meanHeads(conds)) > 0 {
			pools, _, err := e.meanPools()
			if err != nil {
				return err
			}
			if err := f(plannedUnit{unitID{StageMeans, 0}, len(pools)}); err != nil {
				return err
			}
		}
		if len(conds) > 0 {
			if err := stage(x.stage(), len(e.tests), len(conds)); err != nil {
				return err
			}
		}
	}
	conds, err := e.textConditions()
	if err != nil {
		return err
	}
	if e.plan.Texts != nil {
		for i := range e.plan.Texts.Texts {
			if err := f(plannedUnit{unitID{StageTexts, i}, len(conds)}); err != nil {
				return err
			}
		}
	}
	return stage(StageVariants, len(e.variants), 1)
}
