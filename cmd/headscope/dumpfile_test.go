package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/safetensors"
)

// TestDumpFormats: the two formats hold the same arrays and the same description, and name them by it.
func TestDumpFormats(t *testing.T) {
	model, prompts := tinyFolder(t)
	dir := t.TempDir()
	for _, name := range []string{"a.npz", "a.safetensors"} {
		command(t, exitDone, "dump", model, "--prompts", prompts, "--id", "p2", "--device", "go", "--what", "all", "--out", filepath.Join(dir, name),
			"--rows", "needle,-1", "--edit", "zero:L1H2@question")
	}
	s, err := safetensors.Open(filepath.Join(dir, "a.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	z, err := zip.OpenReader(filepath.Join(dir, "a.npz"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	entries := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if entries[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	var meta struct {
		Format   string
		Version  int
		Prompt   int  `json:"prompt_tokens"`
		Question *int `json:"question_row"`
		Labels   []string
		Edits    []struct{ Op, Scope string }
		Spans    []struct {
			Name string
			Rows [2]int
		}
		Arrays []struct {
			Name, DType string
			Axes        []string
			Shape       []int
		}
	}
	if err := json.Unmarshal(entries["meta.json"], &meta); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "a.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if quoted, _ := json.Marshal(string(entries["meta.json"])); !bytes.Contains(raw, bytes.ReplaceAll(quoted, []byte(`\u003c`), []byte("<"))) {
		t.Error("the safetensors file describes something else")
	}
	if len(meta.Arrays) != len(entries)-1 || len(meta.Arrays) != len(s.Names()) {
		t.Errorf("%d arrays described, %d in the archive, %d in the safetensors file", len(meta.Arrays), len(entries)-1, len(s.Names()))
	}
	for _, a := range meta.Arrays {
		info, ok := s.Info(a.Name)
		want, err := s.Bytes(a.Name)
		if !ok || err != nil {
			t.Fatalf("%s: %v", a.Name, err)
		}
		got := entries[a.Name+".npy"]
		if len(got) < 10 {
			t.Fatalf("%s: not in the archive", a.Name)
		}
		n := 10 + int(got[8]) + int(got[9])<<8
		if !bytes.Equal(got[n:], want) || len(info.Shape) != len(a.Axes) || jsonOf(t, info.Shape) != jsonOf(t, a.Shape) {
			t.Errorf("%s: the two files differ", a.Name)
		}
	}
	// What is said of the text is true of it.
	for _, span := range meta.Spans {
		text := strings.Join(meta.Labels[span.Rows[0]:span.Rows[1]], "")
		if want := map[string]string{"needle": "The code is K2Q.", "code": " K2Q", "question": " What is the code?"}[span.Name]; text != want {
			t.Errorf("the %s is %q, want %q", span.Name, text, want)
		}
		if span.Name == "question" && (meta.Question == nil || *meta.Question != span.Rows[0]) {
			t.Errorf("question row %v, its span is %v", meta.Question, span.Rows)
		}
	}
	if meta.Format != "headscope-dump" || meta.Version != 1 || meta.Prompt != len(meta.Labels) || len(meta.Spans) != 3 || len(meta.Edits) != 1 {
		t.Errorf("got %+v", meta)
	}
}

// TestDumpNumPy reads a dump as docs/dump.md does, and recomputes its attention from its queries and keys.
func TestDumpNumPy(t *testing.T) {
	python := os.Getenv("HEADSCOPE_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import numpy").Run(); err != nil {
		t.Skipf("NOT RUN: no NumPy for %s (HEADSCOPE_PYTHON names another python)", python)
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "dump.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```python\n")
	snippet, _, _ := strings.Cut(rest, "```")
	model, _ := tinyFolder(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "z.npz")
	command(t, exitDone, "dump", model, "The code is K1Q.", "--device", "go", "--what", "all", "--heads", "L1H1,L1H3", "--rows", "2,-1", "--out", path)
	snippet = strings.NewReplacer("layer20", "layer01", "[3, -1]", "[1, -1]").Replace(snippet)
	script := snippet + `
l, group = "layer01/", meta["model"]["heads"] // meta["model"]["kv_heads"]
assert f["tokens"].dtype == np.int32 and len(f["tokens"]) == len(meta["labels"]) == f[l + "attention"].shape[2]
assert "".join(meta["labels"]) == "The code is K1Q."
for i, head in enumerate(f[l + "heads"]):
    kv = list(f[l + "kv_heads"]).index(head // group)
    for r, row in enumerate(f["rows"]):
        s = f[l + "k_rot"][: row + 1, kv].astype(np.float64) @ f[l + "q_rot"][r, i] / np.sqrt(16)
        p = np.exp(s - s.max())
        p /= p.sum()
        np.testing.assert_allclose(f[l + "attention"][i, r, : row + 1], p, atol=1e-5)
        assert not f[l + "attention"][i, r, row + 1 :].any()
        np.testing.assert_allclose(f[l + "z"][r, i], p @ f[l + "v"][: row + 1, kv], atol=1e-4)
        a = row * np.array(meta["rope"][0]["inv_freq"])
        q, half = f[l + "q"][r, i], 8
        np.testing.assert_allclose(f[l + "q_rot"][r, i][:half], q[:half] * np.cos(a) - q[half:] * np.sin(a), atol=1e-4)
print("ok")
`
	cmd := exec.Command(python, "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); err != nil || lines[len(lines)-1] != "ok" || len(lines) != 6 {
		t.Errorf("%v: %s", err, out)
	}
}
