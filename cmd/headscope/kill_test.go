package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killed is a folder with a tiny model and prompts, and a study of three work units a stage in it.
type killed struct {
	dir  string
	args []string
}

func newKilled(t *testing.T, prompts int) *killed {
	t.Helper()
	k := &killed{dir: t.TempDir(), args: []string{"study", "tiny", "--prompts", "prompts.jsonl", "--device", "go", "--out", "r", "--top", "2", "--controls", "0", "--edit", "scale=0.5:L1H1",
		"--scope", "question", "--pool", "layer", "--cuts=false", "--max-new", "1", "--quiet"}}
	if err := writeTiny(filepath.Join(k.dir, "tiny")); err != nil {
		t.Fatal(err)
	}
	if err := writePrompts(filepath.Join(k.dir, "prompts.jsonl"), prompts); err != nil {
		t.Fatal(err)
	}
	return k
}

// command is the study as a process of its own.
func (k *killed) command(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	path, err := exec.LookPath("headscope")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append(append([]string{}, k.args...), args...)...)
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), "HOME="+k.dir, "XDG_CACHE_HOME="+filepath.Join(k.dir, "cache"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	return cmd, &stderr
}

func (k *killed) run(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	cmd, stderr := k.command(t)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	return time.Since(start)
}

// files returns the trials and the result, which is nil while there is none.
func (k *killed) files(t *testing.T) (trials, result []byte) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(k.dir, "r", "tiny", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, ".trials.jsonl") {
			trials = data
		} else {
			result = data
		}
	}
	return trials, result
}

// sameResult compares two results but for what a second run may write otherwise.
func sameResult(t *testing.T, got, want []byte) {
	t.Helper()
	var a, b map[string]json.RawMessage
	for to, data := range map[*map[string]json.RawMessage][]byte{&a: got, &b: want} {
		if err := json.Unmarshal(data, to); err != nil {
			t.Fatal(err)
		}
		delete(*to, "seconds")
		delete(*to, "environment")
	}
	if len(a) != len(b) {
		t.Errorf("%d keys, want %d", len(a), len(b))
	}
	for k := range b {
		if !bytes.Equal(a[k], b[k]) {
			t.Errorf("the result differs from that of an unbroken run: %s: got %s, want %s", k, a[k], b[k])
		}
	}
}

// TestKilled: a run that is killed twenty times, anywhere, ends with the bytes of an unbroken one. What is on disk after a kill is a
// beginning of them, and at most the last line is torn.
func TestKilled(t *testing.T) {
	kills := 4
	if os.Getenv("HEADSCOPE_SLOW") == "1" {
		kills = 20
	}
	if testing.Short() {
		kills = 3
	}
	k := newKilled(t, 17)
	took := k.run(t)
	want, result := k.files(t)
	rng := rand.New(rand.NewPCG(4, 20))
	torn, resumed := 0, 0
	for i := 0; i < kills; {
		if err := os.RemoveAll(filepath.Join(k.dir, "r")); err != nil {
			t.Fatal(err)
		}
		for i < kills {
			before, _ := k.files(t)
			cmd, _ := k.command(t)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rng.Float64() * float64(took)))
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			err := cmd.Wait()
			got, whole := k.files(t)
			if !bytes.HasPrefix(want, got) {
				t.Fatalf("after kill %d: what is on disk is no beginning of the unbroken run's trials", i)
			}
			if err == nil { // it was faster
				if whole == nil {
					t.Fatal("done, and no result")
				}
				break
			}
			i++
			if len(got) > 0 && got[len(got)-1] != '\n' {
				torn++
			}
			if len(before) > 0 {
				resumed++
			}
		}
	}
	k.run(t)
	got, again := k.files(t)
	if !bytes.Equal(got, want) {
		t.Error("the trials differ from those of an unbroken run")
	}
	sameResult(t, again, result)
	t.Logf("%d kills, %d of runs that went on from an earlier one, %d torn lines; an unbroken run takes %s", kills, resumed, torn, took.Round(time.Millisecond))
}

// TestTwoProcesses: while one runs, another on the same folder is refused, and the first loses nothing.
func TestTwoProcesses(t *testing.T) {
	k := newKilled(t, 17)
	first, stderr := k.command(t)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if trials, _ := k.files(t); bytes.Count(trials, []byte("\n")) > 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no trials: " + stderr.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	before, _ := k.files(t)
	second, says := k.command(t)
	err := second.Run()
	after, _ := k.files(t)
	if errCont := first.Process.Signal(syscall.SIGCONT); errCont != nil {
		t.Fatal(errCont)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(says.String(), "another run is writing it") || !strings.Contains(says.String(), "hint: wait for that run") {
		t.Errorf("a second process: got %v: %s", err, says)
	}
	if !bytes.Equal(before, after) {
		t.Error("the second process changed the file")
	}
	if err := first.Wait(); err != nil {
		t.Errorf("the first process: %v: %s", err, stderr)
	}
	if _, result := k.files(t); result == nil {
		t.Error("the first process wrote no result")
	}
}

// TestDiskFull: a run that fills the disk says so, and the same command goes on when there is space: no trial is lost or torn.
func TestDiskFull(t *testing.T) {
	k := newKilled(t, 17)
	k.run(t)
	want, result := k.files(t)
	if err := os.RemoveAll(filepath.Join(k.dir, "r")); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(k.dir, "r")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", len(want)/2/4096*4096)); err != nil {
		t.Skipf("SKIPPED: no small disk can be mounted here: %v", err)
	}
	mounted := true
	defer func() {
		if mounted {
			if err := syscall.Unmount(disk, 0); err != nil {
				t.Error(err)
			}
		}
	}()
	cmd, stderr := k.command(t)
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(stderr.String(), "no space left on device") || !strings.Contains(stderr.String(), "hint: free some space") {
		t.Fatalf("got %v: %s", err, stderr)
	}
	got, none := k.files(t)
	if none != nil || !bytes.HasPrefix(want, got) || bytes.Count(got, []byte("\n")) < 3 {
		t.Errorf("on the full disk: %d bytes of trials, result %t", len(got), none != nil)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	k.run(t)
	got, again := k.files(t)
	if !bytes.Equal(got, want) {
		t.Error("with space again the trials differ from those of an unbroken run")
	}
	sameResult(t, again, result)
	mounted = false
	if err := syscall.Unmount(disk, 0); err != nil {
		t.Error(err)
	}
}

// TestMemoryFlat: ten times the prompts take no more memory than their trials are large.
func TestMemoryFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: 500 prompts")
	}
	peak := func(n int) (kib int64, bytes int) {
		k := newKilled(t, n)
		cmd, stderr := k.command(t, "--stages", "detect")
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		trials, _ := k.files(t)
		return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, len(trials)
	}
	n := 120
	if os.Getenv("HEADSCOPE_SLOW") == "1" {
		n = 500
	}
	few, small := peak(50)
	many, large := peak(n)
	t.Logf("50 prompts: %d MiB, %d prompts: %d MiB; trials of %d and %d KiB", few>>10, n, many>>10, small>>10, large>>10)
	if extra := many - few; extra > 8<<10+24<<10*int64(n-50)/450+4*int64(large-small)>>10 {
		t.Errorf("%d prompts more take %d MiB more", n-50, extra>>10)
	}
}
