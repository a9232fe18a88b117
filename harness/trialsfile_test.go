package harness

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sameNumber lets NaN equal NaN.
var sameNumber = cmp.Comparer(func(a, b Number) bool { return a == b || (a != a && b != b) })

func header(key string) trialsHeader {
	return trialsHeader{Schema: 1, Key: key, Run: PlanRun{DType: "float32", Device: "go", Batch: 1, DecodeBatch: 8, Unit: 4}}
}

func TestTrialsRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "x.trials.jsonl")
	f, err := openTrials(path, header("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Trial{
		{Stage: "detect", Prompt: "p<&>", Condition: "unmodified", Outcome: Hit, LogProb: []Number{-1.25, Number(math.NaN())}, Sum: Number(math.NaN()), Margin: 2, Decoy: []Number{-3.25},
			Greedy: []int32{1, 2}, Text: "a\nb", MinGap: Number(math.Inf(1)), Verified: true,
			Attention: &TrialAttention{Argmax: [][]int32{{1, 2}}, Gap: []floats{{0.1, float32(math.NaN())}}, Mass: []floats{{1e-9, 1}}, Write: floats{2}}},
		{Stage: "detect", Prompt: "q", Condition: "unmodified", Outcome: Failed, Error: "out of memory", Sum: nan, Margin: nan, MinGap: nan},
	}
	if err := f.add(want); err != nil {
		t.Fatal(err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if f, err = openTrials(path, header("k"), nil); err != nil {
		t.Fatal(err)
	}
	got, err := f.whole(unitID{"detect", 0}, 2)
	if err != nil {
		t.Fatal(err)
	}
	want[0].MinGap = Number(math.NaN()) // JSON has no infinity: null
	if d := cmp.Diff(want, got, cmpopts.EquateNaNs(), sameNumber); d != "" {
		t.Error(d)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
}

func TestTrialsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.trials.jsonl")
	f, err := openTrials(path, header("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openTrials(path, header("k"), nil); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("a second run on the same file: got %v, want EWOULDBLOCK", err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	other := header("k")
	other.Run.Device = "cuda"
	for name, h := range map[string]trialsHeader{"key": header("l"), "device": other} {
		_, err := openTrials(path, h, nil)
		var mismatch *HeaderMismatchError
		if !errors.As(err, &mismatch) || mismatch.Got == mismatch.Want {
			t.Errorf("%s: got %v, want a mismatch", name, err)
		}
	}
	for _, text := range []string{"not a header\n{}\n", "one line\n", "no line"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := openTrials(path, header("k"), nil); err == nil {
			t.Errorf("%q was taken for trials", text)
		}
		if got := readFile(t, path); string(got) != text {
			t.Errorf("%q was overwritten: %q", text, got)
		}
	}
}

func TestNoSpace(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("SKIPPED: no /dev/full here")
	}
	path := filepath.Join(t.TempDir(), "x.trials.jsonl")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	_, err := openTrials(path, header("k"), nil)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want ENOSPC that names the file", err)
	}
	var h interface{ Hint() string }
	if !errors.As(err, &h) {
		t.Error("no hint")
	}
}

func TestWriteWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	if err := writeWhole(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d", "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeWhole(filepath.Join(dir, "d"), []byte("two")); err == nil {
		t.Error("replaced a folder")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if string(readFile(t, path)) != "one" {
		t.Error("the file's content changed")
	}
}
