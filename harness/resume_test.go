package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// manyTrials writes a file of n trials in units of 80, as a knock-out of 40 prompts under many conditions leaves it, and some detect
// units whose trials carry the attention of 270 heads.
func manyTrials(t testing.TB, n int) (path string, size int64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.trials.jsonl")
	f, err := openTrials(path, header("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	one := Trial{
		Prompt: "test-0012-literal", Condition: "kvcontrol17@question", Outcome: Other, LogProb: []Number{-1.2345678901234, -0.5, -3.25, -0.125}, Sum: -5.1095678901234,
		Decoy: []Number{-2.5, -1.75, -9.5, -4.25}, Margin: 12.8904321098766, Greedy: []int32{15, 2204, 311, 988, 2}, Text: "The code is XK72Q.", MinGap: 0.4375,
		Scores: &TextScores{Substring: true, Rouge1: 1},
	}
	for from := 0; from < n; from += 80 {
		unit := make([]Trial, min(80, n-from))
		for i := range unit {
			unit[i] = one
			unit[i].Stage, unit[i].Unit = StageKnockout, from/80
			if from < 10*80 {
				unit[i].Stage = StageDetect
				heads := floats{}
				for h := range 270 {
					heads = append(heads, float32(h)/271)
				}
				unit[i].Attention = &TrialAttention{Argmax: [][]int32{make([]int32, 270), make([]int32, 270)}, Gap: []floats{heads, heads}, Mass: []floats{heads, heads}, Write: heads}
			}
		}
		if err := f.add(unit); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, st.Size()
}

// TestResumeStarts: ten thousand trials delay the next run by less than a second: they are found, not decoded.
func TestResumeStarts(t *testing.T) {
	path, size := manyTrials(t, 10000)
	start := time.Now()
	f, err := openTrials(path, header("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	if len(f.have) != 125 {
		t.Errorf("%d units, want 125", len(f.have))
	}
	trials, err := f.whole(unitID{StageKnockout, 124}, 80)
	if err != nil || len(trials) != 80 || trials[79].Margin != 12.8904321098766 {
		t.Errorf("the last unit: %d trials, %v", len(trials), err)
	}
	t.Logf("%d MiB of trials, opened in %s", size>>20, took)
	if took > time.Second {
		t.Errorf("opening took %s, want less than a second", took)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedTrials: a file that is broken elsewhere than at its end is refused and left as it is; a broken end is cut off.
func TestDamagedTrials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.trials.jsonl")
	f, err := openTrials(path, header("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for u := range 4 {
		unit := make([]Trial, 2)
		for i := range unit {
			unit[i] = Trial{Stage: StageDetect, Unit: u, Prompt: fmt.Sprint("p", 2*u+i), Condition: baseline, Outcome: Hit}
		}
		if err := f.add(unit); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	whole := readFile(t, path)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	with := func(i int, line string) []byte {
		l := append([][]byte{}, lines...)
		l[i] = []byte(line)
		return bytes.Join(l, nil)
	}
	zeros := strings.Repeat("\x00", len(lines[6])-1) + "\n"
	for name, c := range map[string]struct {
		data []byte
		says string // else the number of units that are whole
		left int
	}{
		"whole":                 {whole, "", 4},
		"torn":                  {whole[:len(whole)-7], "", 3},
		"newline missing":       {whole[:len(whole)-1], "", 3},
		"unit short":            {bytes.Join(lines[:9], nil), "", 3},
		"zeros in the last":     {with(8, zeros), "", 3}, // blocks of one write reach the disk in any order
		"last line no trial":    {with(9, "{}\n"), "", 3},
		"last line broken":      {with(9, `{"stage":"detect","unit":3,"prompt":`+"\n"), "", 3},
		"zeros in the middle":   {with(4, zeros), "line 5 is no trial", 0},
		"line broken":           {with(4, `{"stage":"detect","unit":1,"prompt":`+"\n"), "unit 1 of stage detect", 0},
		"line lost":             {bytes.Join(append(append([][]byte{}, lines[:4]...), lines[5:]...), nil), "unit 1 of stage detect: 1 trials, want 2", 0},
		"unit twice":            {append(append([]byte{}, whole...), lines[2]...), "unit 0 of stage detect is there twice, again from line 11", 0},
		"line of prompts lost":  {with(1, "\n"), "line 2 does not hold the prompts", 0},
		"header changed":        {with(0, strings.Replace(string(lines[0]), `"plan":null`, `"plan": null`, 1)), "line 1 is not the header", 0},
		"trials of another run": {with(0, strings.Replace(string(lines[0]), `"key":"k"`, `"key":"l"`, 1)), "trials of another run", 0},
	} {
		if err := os.WriteFile(path, c.data, 0o644); err != nil {
			t.Fatal(err)
		}
		left := 0
		f, err := openTrials(path, header("k"), nil)
		if err == nil {
			for u := 0; u < 4 && err == nil; u++ {
				var trials []Trial
				if trials, err = f.whole(unitID{StageDetect, u}, 2); trials != nil {
					left++
				}
			}
			if errClose := f.close(); errClose != nil {
				t.Fatal(errClose)
			}
		}
		if c.says == "" {
			if err != nil || left != c.left {
				t.Errorf("%s: got %d units, %v, want %d", name, left, err, c.left)
			}
			continue
		}
		var hint interface{ Hint() string }
		if err == nil || !strings.Contains(err.Error(), c.says) || !errors.As(err, &hint) {
			t.Errorf("%s: got %v, want %q and a hint", name, err, c.says)
		}
		if !bytes.Equal(readFile(t, path), c.data) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}
