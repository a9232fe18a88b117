package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/loadertest"
	"github.com/headscope/headscope/loader/safetensors"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"headscope": main})
}

// TestScripts runs testdata/script/*.txtar. Each has a model of 3 layers and 4 heads in $WORK/tiny and n short prompts in
// $WORK/prompts_n.jsonl; nothing of the user's caches is seen.
func TestScripts(t *testing.T) {
	plugin, _ := decoder.FindPlugin(decoder.KindCPU, "") // xla.txtar says what it misses
	testscript.Run(t, testscript.Params{
		Dir:             filepath.Join("testdata", "script"),
		ContinueOnError: true,
		Condition: func(cond string) (bool, error) {
			if cond == "xla" {
				return plugin != "", nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("GOLDEN", goldenDir())
			e.Setenv("ROOT", absolute("..", ".."))
			e.Setenv("PROFILES", absolute("..", "..", "stats", "testdata", "published-profiles"))
			e.Setenv("FORMATS", absolute("..", "..", "heads", "testdata", "formats"))
			e.Setenv("XLA_PLUGIN", plugin)
			if err := copyFile(filepath.Join("testdata", "tiny", "drop.tokenizer.json"), filepath.Join(e.WorkDir, "drop.tokenizer.json")); err != nil {
				return err
			}
			for _, n := range []int{3, 9, 600} {
				if err := writePrompts(filepath.Join(e.WorkDir, fmt.Sprintf("prompts_%d.jsonl", n)), n); err != nil {
					return err
				}
			}
			return writeTiny(filepath.Join(e.WorkDir, "tiny"))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "setjson": setJSON, "cut": cut, "retype": retype, "interrupt": interrupt, "rmglob": rmGlob, "onlyfull": onlyFull,
		},
	})
}

func goldenDir() string { return absolute("..", "..", "loader", "testdata", "parity") }

func absolute(parts ...string) string {
	dir, err := filepath.Abs(filepath.Join(parts...))
	if err != nil {
		panic(err)
	}
	return dir
}

// TestDocuments: the scripts run every command of these pages.
func TestDocuments(t *testing.T) {
	for _, page := range []struct {
		name, script string
		least        int // commands
	}{{"head-lists", "headlists", 14}, {"detectors", "detectors", 5}} {
		doc, err := os.ReadFile(filepath.Join("..", "..", "docs", page.name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		script, err := os.ReadFile(filepath.Join("testdata", "script", page.script+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(strings.NewReplacer("DIR", "tiny", "RESULT.json", "found.json").Replace(string(doc))) {
			command, ok := strings.CutPrefix(strings.TrimSpace(line), "bin/")
			if !ok {
				continue
			}
			n++
			command, _, _ = strings.Cut(command, " #")
			if !strings.Contains(string(script), "exits 0 "+strings.TrimSpace(command)) {
				t.Errorf("%s: %s is not run", page.name, command)
			}
		}
		if n < page.least {
			t.Errorf("%s: got %d commands", page.name, n)
		}
	}
}

// TestTraceDocuments: the script runs every command of docs/frequencies.md and docs/trace.md, on heads that the model in the binary has.
func TestTraceDocuments(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("testdata", "script", "trace.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range []string{"frequencies.md", "trace.md"} {
		doc, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("DIR", "builtin:needle", "L18H6", "L1H6", "L20H3", "L0H3", "L15H3", "L0H3", "slow16", "slow8").Replace(string(doc))
		for line := range strings.Lines(text) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "bin/"); ok {
				n++
				if !strings.Contains(string(script), "exits 0 "+command) {
					t.Errorf("%s: %s is not run", page, command)
				}
			}
		}
	}
	if n < 8 {
		t.Errorf("got %d commands", n)
	}
}

// TestDocumentedCommands: the scripts run every command of these pages: all of its words are in one line of the script.
func TestDocumentedCommands(t *testing.T) {
	for page, name := range map[string]string{"perplexity.md": "perplexity.txtar", "swap.md": "swap.txtar", "bands.md": "bands.txtar"} {
		doc, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		script, err := os.ReadFile(filepath.Join("testdata", "script", name))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(strings.ReplaceAll(string(doc), "DIR", "tiny")) {
			command, ok := strings.CutPrefix(strings.TrimSpace(line), "bin/")
			if !ok {
				continue
			}
			n++
			if !slices.ContainsFunc(strings.Split(string(script), "\n"), func(run string) bool {
				words := strings.Fields(run)
				return strings.HasPrefix(run, "exits 0 headscope") && !slices.ContainsFunc(strings.Fields(command), func(w string) bool { return !slices.Contains(words, w) })
			}) {
				t.Errorf("%s: %s is not run", page, command)
			}
		}
		if n < 3 {
			t.Errorf("%s: %d commands", page, n)
		}
	}
}

func writeTiny(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := loadertest.Write(dir, loadertest.Options{Layers: 3, KVHeads: 2, Vocab: 960, MaxPositions: 512, Seed: 7}); err != nil {
		return err
	}
	tok, err := os.ReadFile(filepath.Join("testdata", "tiny", "tokenizer.json"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "tokenizer.json"), tok, 0o644)
}

func writePrompts(path string, n int) error {
	var b strings.Builder
	for i := range n {
		answer := fmt.Sprintf("K%dQ", i)
		needle := "The code is " + answer + "."
		text := needle + " The sea is far. What is the code?"
		line, err := json.Marshal(map[string]any{
			"id": fmt.Sprint("p", i), "text": text + " The code is", "needle": [2]int{0, len(needle)},
			"question": [2]int{len(text) - len("What is the code?"), len(text)}, "answer": answer,
		})
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// exits CODE COMMAND ARGS...: the command ends with that code; what is not 0 prints "error:" on one line of stderr, and a hint.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	stderr := ts.ReadFile("stderr")
	if got != want {
		ts.Fatalf("exit code %d, want %d: %s", got, want, stderr)
	}
	errorLines, hintLines := 0, 0
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "error: ") {
			errorLines++
		}
		if strings.HasPrefix(line, "hint: ") {
			hintLines++
		}
	}
	if want != 0 && (errorLines != 1 || hintLines != 1) {
		ts.Fatalf("%v: want one error: and one hint:, got %s", args, stderr)
	}
	if strings.Contains(stderr, "goroutine ") {
		ts.Fatalf("a stack trace: %s", stderr)
	}
}

// setjson FILE KEY VALUE sets a key of a JSON object.
func setJSON(ts *testscript.TestScript, _ bool, args []string) {
	var object map[string]json.RawMessage
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	ts.Check(json.Unmarshal(data, &object))
	object[args[1]] = json.RawMessage(args[2])
	data, err = json.Marshal(object)
	ts.Check(err)
	ts.Check(os.WriteFile(path, data, 0o644))
}

// cut FILE N takes N bytes off the end.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	st, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), st.Size()-n))
}

// retype FILE TENSOR writes that tensor as int32 zeros.
func retype(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	f, err := safetensors.OpenFile(path)
	ts.Check(err)
	var entries []safetensors.Entry
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		data, err := f.Bytes(name)
		ts.Check(err)
		e := safetensors.Entry{Name: name, DType: info.DType, Shape: info.Shape, Write: safetensors.Bytes(append([]byte(nil), data...))}
		if name == args[1] {
			e.DType = safetensors.I32
		}
		entries = append(entries, e)
	}
	ts.Check(f.Close())
	ts.Check(safetensors.WriteFile(path, entries, nil))
}

// rmglob PATTERN removes what matches, at least one file.
func rmGlob(ts *testscript.TestScript, _ bool, args []string) {
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) == 0 {
		ts.Fatalf("nothing matches %s", args[0])
	}
	for _, f := range found {
		ts.Check(os.Remove(f))
	}
}

// onlyfull GLOB replaces the one file that matches by a link to /dev/full, which has no space.
func onlyFull(ts *testscript.TestScript, _ bool, args []string) {
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%s matches %v", args[0], found)
	}
	ts.Check(os.Remove(found[0]))
	ts.Check(os.Symlink("/dev/full", found[0]))
}

// interrupt SIGNAL GLOB COMMAND ARGS...: sends the signal when the file that matches has got more trials; the command ends with 130.
func interrupt(ts *testscript.TestScript, _ bool, args []string) {
	signal := map[string]os.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM}[args[0]]
	path, err := exec.LookPath(args[2])
	if err != nil {
		path = args[2]
		for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
			if _, err := os.Stat(filepath.Join(dir, args[2])); err == nil {
				path = filepath.Join(dir, args[2])
				break
			}
		}
	}
	cmd := exec.Command(path, args[3:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "PATH=" + ts.Getenv("PATH"), "XDG_CACHE_HOME=" + ts.Getenv("XDG_CACHE_HOME")}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	before := trialsIn(ts, args[1])
	ts.Check(cmd.Start())
	deadline := time.Now().Add(2 * time.Minute)
	for trialsIn(ts, args[1]) <= max(before, 2) {
		if time.Now().After(deadline) {
			ts.Check(cmd.Process.Kill())
			ts.Fatalf("no trials: %s", stderr.String())
		}
		time.Sleep(2 * time.Millisecond)
	}
	ts.Check(cmd.Process.Signal(signal))
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 {
		ts.Fatalf("got %v, want exit code 130: %s", err, stderr.String())
	}
	if s := stderr.String(); !strings.Contains(s, "error: interrupted\nhint: nothing is lost: the same command goes on from ") {
		ts.Fatalf("got %s", s)
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// trialsIn counts the lines of the one file that matches, 0 without it.
func trialsIn(ts *testscript.TestScript, glob string) int {
	found, err := filepath.Glob(ts.MkAbs(glob))
	ts.Check(err)
	if len(found) != 1 {
		return 0
	}
	data, err := os.ReadFile(found[0])
	ts.Check(err)
	return strings.Count(string(data), "\n")
}
