package tracing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/headscope/headscope/harness"
)

// Recheck computes a stored trace again from the lines beside it: its key, and every mean over prompts.
func Recheck(path string, data []byte) (*harness.Check, error) {
	t := new(Trace)
	if err := json.Unmarshal(data, t); err != nil {
		return nil, harness.Damaged(path, err)
	}
	file, lines := newTrials(), harness.TrialsOf(path)
	if err := harness.ReadLines(lines, file.lines(t.Key)); errors.Is(err, fs.ErrNotExist) {
		return nil, missing(path, fmt.Errorf("its lines are missing: %w", err))
	} else if err != nil {
		return nil, err
	}
	again := &Trace{Header: t.Header, Asked: t.Asked}
	for _, id := range t.Header.Prompts.IDs {
		p := file.heads[id]
		if p == nil || t.Asked.Pairs > 0 && file.pairs[id] == nil {
			return nil, missing(path, fmt.Errorf("%s has no line of prompt %s: %w", lines, id, fs.ErrNotExist))
		}
		if err := t.Asked.shaped(p); err != nil {
			return nil, harness.Damaged(lines, fmt.Errorf("prompt %s: %w", id, err))
		}
		again.Prompts, again.Seconds = append(again.Prompts, *p), again.Seconds+p.Seconds
	}
	again.addGroups()
	if t.Asked.Pairs > 0 {
		if len(again.Groups) == 0 {
			return nil, harness.Damaged(path, errors.New("pairs, and no group of rows"))
		}
		g, order, top := again.strongest()
		for id, p := range file.pairs {
			if want := len(pairsOf(len(top))); len(p.Both) != want {
				return nil, harness.Damaged(lines, fmt.Errorf("prompt %s: %d pairs, want %d", id, len(p.Both), want))
			}
		}
		again.addPairs(g, order, top, file)
	}
	c := &harness.Check{Path: path, Trials: lines}
	key, err := t.KeyOf(&t.Asked)
	if err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name        string
		file, again any
	}{
		{"key", t.Key, key}, {"groups", t.Groups, again.Groups}, {"pairs", t.Pairs, again.Pairs}, {"prompts_traced", t.Prompts, again.Prompts},
		{"seconds", t.Seconds, again.Seconds},
	} {
		if err := c.Compare(s.name, s.file, s.again); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// shaped holds a line against what was asked.
func (a *Asked) shaped(p *PromptTrace) error {
	for _, g := range a.Groups {
		if len(p.Total[g]) != len(a.Heads) || len(p.First[g]) != len(a.Heads) || len(p.Paths[g]) != len(a.Paths) {
			return fmt.Errorf("rows %s: %d heads and %d paths, want %d and %d", g, len(p.Total[g]), len(p.Paths[g]), len(a.Heads), len(a.Paths))
		}
		if g != Needle && len(p.Direct) != len(a.Heads) {
			return fmt.Errorf("%d direct effects, want %d", len(p.Direct), len(a.Heads))
		}
	}
	return nil
}

func missing(path string, err error) error {
	return harness.Advise(fmt.Errorf("%s: %w", path, err),
		"keep trace_KEY.trials.jsonl beside trace_KEY.json: every number is computed from it; the same command writes what is not there")
}
