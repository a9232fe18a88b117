package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEditDocument: what docs/edits.md shows of `edit explain` is what the command prints.
func TestEditDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "edits.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "\n    bin/headscope ")
	command, rest, more := strings.Cut(rest, "\n\n")
	if !ok || !more {
		t.Fatal("no command with its output")
	}
	var out, stderr bytes.Buffer
	a := &app{out: &out, err: &stderr, getenv: os.Getenv}
	if code := a.run(context.Background(), strings.Fields(command)); code != exitDone {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var want strings.Builder
	for line := range strings.Lines(out.String()) {
		want.WriteString("    " + line)
	}
	if !strings.HasPrefix(rest, want.String()+"\n") {
		t.Errorf("the page shows another output than\n%s", want.String())
	}
}
