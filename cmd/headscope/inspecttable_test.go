package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/rope"
)

// docCommands are the lines of the sh blocks of a page that start with bin/headscope, as words, quotes taken off.
func docCommands(t *testing.T, page string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for i, block := range strings.Split(string(text), "```") {
		block, isShell := strings.CutPrefix(block, "sh\n")
		if i%2 == 0 || !isShell {
			continue
		}
		for line := range strings.Lines(block) {
			var words []string
			for j, part := range strings.Split(strings.TrimSpace(line), `"`) {
				if j%2 == 1 {
					words = append(words, part)
				} else {
					words = append(words, strings.Fields(part)...)
				}
			}
			if len(words) > 0 && words[0] == "bin/headscope" {
				out = append(out, words[1:])
			}
		}
	}
	return out
}

// headscope runs a command in this process and returns what it prints.
func headscope(t *testing.T, args ...string) string {
	t.Helper()
	var out, stderr bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &stderr, getenv: os.Getenv}
	if code := a.run(context.Background(), args); code != exitDone {
		t.Fatalf("%q: exit code %d: %s", args, code, stderr.String())
	}
	return out.String()
}

// TestRopePage runs the commands of docs/rope.md in their order, and holds its two tables against the grammars.
func TestRopePage(t *testing.T) {
	model, _ := tinyFolder(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "rope.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := docCommands(t, "rope.md")
	if len(commands) < 7 {
		t.Fatalf("found %d commands", len(commands))
	}
	t.Chdir(t.TempDir())
	for _, args := range commands {
		for i, word := range args {
			if strings.HasPrefix(word, "~/") {
				args[i] = model
			}
		}
		if args[0] == "logits" {
			args = append(args, "--device", "go")
		}
		if headscope(t, args...) == "" {
			t.Errorf("%q prints nothing", args)
		}
	}
	for _, rule := range rope.Rules() {
		form := strings.ReplaceAll(strings.ReplaceAll(rule[0], "[", ""), "]", "")
		if !bytes.Contains(page, []byte("`"+form+"`")) {
			t.Errorf("docs/rope.md lacks %s", form)
		}
	}
	for _, band := range []string{"slowK", "fastK", "midK", "windowA-B", "waveA-B", "randomK/SEED"} {
		if !bytes.Contains(page, []byte("`"+band+"`")) {
			t.Errorf("docs/rope.md lacks %s", band)
		}
	}
}

// TestTableOfModel: a table that a file puts in the place of the checkpoint's gives what a swap of every head gives.
func TestTableOfModel(t *testing.T) {
	model, _ := tinyFolder(t)
	table := filepath.Join(t.TempDir(), "t.json")
	headscope(t, "inspect", model, "--table", "times0.5", "--out", table)
	var everyHead []string
	for _, l := range []string{"L0", "L1", "L2"} {
		everyHead = append(everyHead, l+"H0", l+"H1", l+"H2", l+"H3")
	}
	type answer struct {
		Top []struct {
			ID    int     `json:"id"`
			Logit float64 `json:"logit"`
		} `json:"top"`
	}
	run := func(more ...string) (a answer) {
		t.Helper()
		text := headscope(t, append([]string{"logits", model, "The code is far. The sea", "--device", "go", "--json"}, more...)...)
		if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Top) == 0 || a.Top[0].Logit == 0 {
			t.Fatalf("%v: got %s", err, text)
		}
		return a
	}
	plain, replaced, swapped := run(), run("--inv-freq-from", table), run("--edit", "swap="+table+":"+strings.Join(everyHead, ","))
	if slices.Equal(plain.Top, replaced.Top) {
		t.Error("the table changed nothing")
	}
	for i, got := range replaced.Top {
		if want := swapped.Top[i]; got.ID != want.ID || math.Abs(got.Logit-want.Logit) > 1e-5 {
			t.Errorf("token %d: got %+v, want %+v", i, got, want)
		}
	}
}
