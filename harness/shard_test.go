package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

func TestParseShard(t *testing.T) {
	for _, s := range []string{"1/1", "2/5", "100/100"} {
		got, err := ParseShard(s)
		if err != nil || got.String() != s {
			t.Errorf("%s: got %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "2", "0/5", "6/5", "2/5/6", "-1/5", "a/b", "1/0", "1/999999", " 1/2"} {
		if got, err := ParseShard(s); err == nil {
			t.Errorf("%q: got %v", s, got)
		}
	}
	for of := 1; of < 6; of++ {
		n := 0
		for i := range of {
			n += Shard{i + 1, of}.size(17, 3)
		}
		if n != 17 {
			t.Errorf("%d parts have %d prompts, want 17", of, n)
		}
	}
}

// ofOneStage are the options of runs that can be computed in parts.
func ofOneStage(t *testing.T) map[string]Options {
	knockout := tinyOptions(t, 7) // units of two prompts: four
	knockout.Verb, knockout.Stages, knockout.Top = "knockout", []string{StageKnockout}, 0
	knockout.Heads = heads.Ranking{{Layer: 1, Index: 1}, {Layer: 0, Index: 2}}
	knockout.Exclude = knockout.Heads.Set()
	detect := tinyOptions(t, 7)
	detect.Verb, detect.Stages, detect.Detectors = "detect", []string{StageDetect}, []string{"qr_raw", "causal"}
	return map[string]Options{"knockout": knockout, "detect": detect}
}

func runParts(t *testing.T, o Options, of int) []string {
	t.Helper()
	var paths []string
	for i := range of {
		o.Shard = Shard{i + 1, of}
		s := inUnits(t, o)
		run, err := s.RunShard(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if run.Path != s.TrialsPath() || run.N.Planned != bytes.Count(readFile(t, run.Path), []byte("\n"))-2 {
			t.Errorf("part %s: got %+v", o.Shard, run)
		}
		paths = append(paths, run.Path)
	}
	if found, err := filepath.Glob(filepath.Join(filepath.Dir(paths[0]), "*.json")); err != nil || len(found) > 0 {
		t.Errorf("parts have written %v, %v", found, err)
	}
	return paths
}

// TestMerge: the parts make the files of an unbroken run, whatever their number and order.
func TestMerge(t *testing.T) {
	for name, o := range ofOneStage(t) {
		s, want := runStudy(t, o)
		trials := readFile(t, s.TrialsPath())
		for _, of := range []int{1, 3, 5} { // five parts of four units: one is empty
			parts := o
			parts.Out = t.TempDir()
			paths := runParts(t, parts, of)
			paths[0], paths[of-1] = paths[of-1], paths[0]
			out := ""
			if of == 3 {
				out = t.TempDir()
			}
			got, err := Merge(paths, MergeOptions{Out: out})
			if err != nil {
				t.Fatalf("%s in %d parts: %v", name, of, err)
			}
			if out != "" && filepath.Dir(got.Path) != filepath.Join(out, filepath.Base(tinyDir)) || filepath.Base(got.Path) != filepath.Base(want.Path) {
				t.Errorf("%s in %d parts: written to %s", name, of, got.Path)
			}
			if !bytes.Equal(readFile(t, TrialsOf(got.Path)), trials) {
				t.Errorf("%s in %d parts: the trials differ from those of an unbroken run", name, of)
			}
			a, b := *want, *got
			a.Seconds, b.Seconds, a.Command, b.Command = 0, 0, nil, nil
			if x, y := toJSON(t, &a), toJSON(t, &b); x != y {
				t.Errorf("%s in %d parts: got\n%s\nwant\n%s", name, of, y, x)
			}
			if c, err := Recheck(got.Path); err != nil || !c.OK {
				t.Errorf("%s in %d parts: verify: %+v, %v", name, of, c, err)
			}
			if again, err := Merge(paths, MergeOptions{Out: out}); err != nil || again.Key != got.Key {
				t.Errorf("merged again: %v", err)
			}
		}
	}
}

// TestMergeGoesOn: a run with an example takes the merged trials over and ends as it does unbroken.
func TestMergeGoesOn(t *testing.T) {
	o := ofOneStage(t)["detect"]
	o.Example, o.Threshold = true, 0.01
	s, want := runStudy(t, o)
	parts := o
	parts.Out = t.TempDir()
	if _, err := Merge(runParts(t, parts, 2), MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	again, got := runStudy(t, parts)
	if want.Example == nil || !bytes.Equal(readFile(t, again.TrialsPath()), readFile(t, s.TrialsPath())) {
		t.Error("the trials differ from those of an unbroken run")
	}
	a, b := *want, *got
	a.Seconds, b.Seconds = 0, 0
	if toJSON(t, &a) != toJSON(t, &b) {
		t.Error("the results differ")
	}
}

// TestMergeRefused: what is not every part of one run, once, is refused with the name of the part.
func TestMergeRefused(t *testing.T) {
	all := ofOneStage(t)
	o := all["knockout"]
	paths := runParts(t, o, 3)
	whole := func() [3][]byte {
		return [3][]byte{readFile(t, paths[0]), readFile(t, paths[1]), readFile(t, paths[2])}
	}()
	o.Seed++
	o.Out = t.TempDir()
	foreign := runParts(t, o, 3)
	o.Seed--
	o.Out = t.TempDir()
	quarters := runParts(t, o, 4)
	lines := func(i int) [][]byte { l := bytes.SplitAfter(whole[i], []byte("\n")); return l[:len(l)-1] }
	join := func(l ...[]byte) []byte { return bytes.Join(l, nil) }
	first := lines(0)
	unbroken, _ := runStudy(t, o)
	for name, c := range map[string]struct {
		give  []string
		part1 []byte
		says  string
	}{
		"missing part":    {paths[:2], nil, "3/3"},
		"twice":           {[]string{paths[0], paths[1], paths[2], paths[1]}, nil, "there twice"},
		"foreign":         {[]string{paths[0], foreign[1], paths[2]}, nil, "part of another run"},
		"other division":  {[]string{paths[0], quarters[1], paths[2]}, nil, "one of 4 parts"},
		"no part":         {[]string{unbroken.TrialsPath(), paths[1], paths[2]}, nil, "no part of a run"},
		"no trials":       {[]string{filepath.Join(tinyDir, "config.json")}, nil, "no trials file"},
		"torn":            {paths, whole[0][:len(whole[0])-5], "torn"},
		"short unit":      {paths, join(first[:len(first)-1]...), "unit 3 of stage knockout"},
		"gap":             {paths, join(append(append([][]byte{}, first[:2]...), first[len(first)-1])...), "unit 0 of stage knockout is missing"},
		"unit twice":      {paths, join(append(append([][]byte{}, first...), first[2])...), "there twice"},
		"unit of another": {paths, join(whole[0], lines(1)[2]), "unit 1 of stage knockout is not of part 1/3"},
		"changed plan":    {paths, bytes.Replace(whole[0], []byte(`"max_new":4`), []byte(`"max_new":5`), 1), "states key"},
		"other prompts":   {paths, bytes.Replace(whole[0], []byte(`"answer_ids":[`), []byte(`"answer_ids":[1,`), 1), "other prompts"},
		"garbage":         {paths, bytes.Replace(whole[0], []byte(`{"stage":"knockout","unit":0`), []byte(`?`), 1), ""},
		"not a trial":     {paths, bytes.Replace(whole[0], []byte(`"sum_logprob":`), []byte(`"sum_logprob":?`), 1), "damaged"},
	} {
		if c.part1 != nil {
			if err := os.WriteFile(paths[0], c.part1, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out := t.TempDir()
		_, err := Merge(c.give, MergeOptions{Out: out})
		var hint interface{ Hint() string }
		if err == nil || !strings.Contains(err.Error(), c.says) || !errors.As(err, &hint) {
			t.Errorf("%s: got %v, want %q and a hint", name, err, c.says)
		}
		if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
			t.Errorf("%s: wrote %v, %v", name, entries, err)
		}
		if err := os.WriteFile(paths[0], whole[0], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	target := filepath.Join(filepath.Dir(paths[0]), filepath.Base(unbroken.TrialsPath()))
	if err := os.WriteFile(target, []byte("something\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Merge(paths, MergeOptions{}); err == nil || string(readFile(t, target)) != "something\n" {
		t.Errorf("overwrote other trials: %v", err)
	}
}

// TestShardRefused: two stages cannot be computed in parts.
func TestShardRefused(t *testing.T) {
	o := tinyOptions(t, 3)
	o.Shard = Shard{1, 2}
	_, err := NewStudy(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "shard 1/2 of a study of 2 stages") {
		t.Errorf("got %v", err)
	}
	o = ofOneStage(t)["detect"]
	o.Shard, o.Out = Shard{1, 2}, ""
	if _, err := NewStudy(context.Background(), o); err == nil {
		t.Error("a part that nobody sees")
	}
}

// TestRecheck: a result follows from its trials, number by number, and a changed one is found.
func TestRecheck(t *testing.T) {
	o := tinyOptions(t, 4)
	o.Conditions = []NamedEdits{{"half", []decoder.Edit{{Op: decoder.OpScale, Value: 0.5, Heads: []decoder.Head{{Layer: 2, Index: 0}}, Scope: decoder.ScopeAll}}}}
	o.Example, o.Top, o.Threshold, o.Equivalence, o.Controls = true, 0, 0.01, 0.5, 2
	o.DetectPrompts = shifted(t, 3)
	s, res := runStudy(t, o)
	file, trials := readFile(t, res.Path), readFile(t, s.TrialsPath())
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	put := func(result, trials []byte) {
		for name, data := range map[string][]byte{path: result, TrialsOf(path): trials} {
			if err := os.WriteFile(name, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(file, trials)
	c, err := Recheck(path)
	if err != nil || !c.OK {
		t.Fatalf("got %+v, %v", c, err)
	}
	values := 0
	for _, s := range c.Sections {
		values += s.Values
	}
	if values < 1000 {
		t.Errorf("only %d values were compared", values)
	}
	changed, places := 0, numbersIn(t, file)
	for i := 0; i < len(places); i += 1 + len(places)/60 {
		p := places[i]
		put(append(append(append([]byte{}, file[:p[0]]...), []byte("123456")...), file[p[1]:]...), trials)
		c, err := Recheck(path)
		if err == nil && c.OK {
			t.Errorf("a changed number was not found: ...%s...", file[max(0, p[0]-60):p[1]])
		}
		changed++
	}
	if changed < 50 {
		t.Errorf("only %d numbers were changed", changed)
	}
	put(file, bytes.Replace(trials, []byte(`"greedy_text":"`), []byte(`"greedy_text":"x`), 1))
	if c, err = Recheck(path); err != nil || c.OK {
		t.Errorf("a changed text: got %+v, %v", c, err)
	}
	var b bytes.Buffer
	if err := c.Write(&b); err != nil || !strings.Contains(b.String(), "DIFFERS") || !strings.Contains(b.String(), "trials_sha256: file") {
		t.Errorf("got %s, %v", b.String(), err)
	}
	for name, cut := range map[string][]byte{
		"torn": trials[:len(trials)-3], "short": trials[:bytes.LastIndexByte(trials[:len(trials)-1], '\n')+1], "empty": nil,
	} {
		put(file, cut)
		if c, err := Recheck(path); err == nil && c.OK {
			t.Errorf("%s trials were taken for whole", name)
		}
	}
	if err := os.Remove(TrialsOf(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Recheck(path); err == nil || !strings.Contains(err.Error(), "its trials are missing") {
		t.Errorf("without trials: got %v", err)
	}
}

// numbersIn finds the numbers of a result that follow from its trials.
func numbersIn(t *testing.T, data []byte) [][2]int {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var out [][2]int
	depth, top, key := 0, "", true
	for {
		tok, err := dec.Token()
		if err != nil {
			return out
		}
		switch v := tok.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			if depth == 1 {
				key = true
			}
			continue
		case string:
			if depth == 1 && key {
				top, key = v, false
				continue
			}
		case json.Number:
			switch top {
			case "schema", "tool", "model", "environment", "seconds":
			default:
				end := int(dec.InputOffset())
				out = append(out, [2]int{end - len(v), end})
			}
		}
		if depth == 1 {
			key = true
		}
	}
}
