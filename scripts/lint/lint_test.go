package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestImports(t *testing.T) {
	for _, c := range []struct {
		room, path string
		test       bool
		want       string // part of the finding; "" for none
	}{
		{"stats", "math", false, ""},
		{"stats", "gonum.org/v1/gonum/stat/distuv", false, ""},
		{"heads", "gonum.org/v1/gonum/floats", false, "only for stats"},
		{"loader/decoder", "github.com/gomlx/gomlx/core/graph", false, ""},
		{"harness", "github.com/gomlx/gomlx/core/graph", false, "only for loader/decoder"},
		{"loader/decoder", "github.com/gomlx/gomlx/backends/default", false, "downloads"},
		{"loader/decoder", "github.com/gomlx/go-xla/compute/xla", false, ""},
		{"loader/decoder", "github.com/gomlx/go-xla/compute/xla/autoinstall", false, "downloads"},
		{"cmd/headscope", "github.com/spf13/pflag", false, ""},
		{"harness", "github.com/spf13/pflag", false, "only for cmd"},
		{"loader", "github.com/dlclark/regexp2", false, "only for loader/tokenizer"},
		{"loader/gguf", "github.com/edsrzf/mmap-go", false, ""},
		{"heads", "github.com/google/go-cmp/cmp", true, ""},
		{"heads", "github.com/google/go-cmp/cmp", false, "tests only"},
		{"heads", "example.com/unheard/of", false, "not a listed dependency"},
		{"harness", module + "/patch", false, ""},
		{"patch", module + "/harness", false, "down only"},
		{"patch", module + "/heads", false, ""},
		{"heads", module + "/patch", false, "down only"},
		{"loader/rope", module + "/stats", false, "none of ours"},
		{"loader/gguf", module + "/loader/safetensors", false, ""},
		{"loader/gguf", module + "/loader", false, "down only"},
		{"loader", module + "/loader/loadertest", false, "tests only"},
		{"loader", module + "/loader/loadertest", true, ""},
		{"harness", module + "/loader/loadertest", false, "tests only"},
		{"loader/decoder", module + "/loader/decoder/blocks", false, ""},
		{"loader/decoder/blocks", module + "/loader/decoder", false, ""},
		{"attic", module + "/stats", false, "not on the map"},
		{"harness", module + "/attic", false, "not on the map"},
	} {
		got := checkImport(c.room, c.path, c.test)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s imports %s (test %v): got %q, want %q", c.room, c.path, c.test, got, c.want)
		}
	}
}

func TestSourceRules(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("\tx++\n", n) }
	for _, c := range []struct {
		name, text string
		want       []string // parts of the findings, in order
	}{
		{"heads/a.go", "package heads\n\n// F is fine.\nfunc F(a, b, c, d, e int) {}\n", nil},
		{"heads/a.go", "package heads\n\nfunc F() {}\n", []string{"a.go:3: F: exported without a comment"}},
		{"heads/a.go", "package heads\n\ntype t int\n\nfunc (t) F() {}\n", nil},
		{"heads/a.go", "package heads\n\n// T is.\ntype T int\n\nfunc (T) String() string { return \"\" }\n", nil},
		{"heads/a.go", "package heads\n\n// T is.\ntype T int\n\nfunc (T) F() {}\n", []string{"F: exported without a comment"}},
		{"heads/a.go", "package heads\n\ntype T int\n", []string{"T: exported without a comment"}},
		{"heads/a.go", "package heads\n\nfunc f(a, b, c int, d, e, g string) {}\n", []string{"f: 6 parameters"}},
		{"heads/a.go", "package heads\n\nfunc f(x int) {\n" + lines(maxFuncLines-2) + "}\n", nil},
		{"heads/a.go", "package heads\n\nfunc f(x int) {\n" + lines(maxFuncLines-1) + "}\n", []string{"f: 81 lines"}},
		{"heads/a_test.go", "package heads\n\nfunc f(x int) {\n" + lines(maxFuncLines) + "}\n", nil},
		{"heads/a.go", "package heads\n" + strings.Repeat("\n", maxFileLines-1), nil},
		{"heads/a.go", "package heads\n" + strings.Repeat("\n", maxFileLines), []string{"501 lines"}},
		{"heads/a.go", "package heads\n\nfunc init() {}\n", []string{"init function"}},
		{"loader/decoder/a.go", "package decoder\n\nfunc init() {}\n", nil},
		{"heads/a.go", "package heads\n\nimport \"os\"\n\nfunc f() string { return os.Getenv(\"HOME\") }\n", []string{"a.go:5: os.Getenv"}},
		{"cmd/headscope/a.go", "package main\n\nimport \"os\"\n\nfunc f() string { return os.Getenv(\"HOME\") }\n", nil},
		{"heads/a.go", "package heads\n\nimport _ \"github.com/spf13/pflag\"\n", []string{"a.go:3: imports github.com/spf13/pflag"}},
	} {
		f, err := parseSource(c.name, []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		got := f.check()
		if len(got) != len(c.want) {
			t.Errorf("%.60q: got %q, want %q", c.text, got, c.want)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], c.want[i]) {
				t.Errorf("%.60q: got %q, want %q", c.text, got[i], c.want[i])
			}
		}
	}
}

func TestDocs(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("Makefile", "X := 1\ndemo: build ## run\n\ntest:\n")
	write("scripts/fetch.sh", "")
	write("docs/map.md", "[up](../README.md)\n[lost](lost.md)\n")
	write("CHANGELOG.md", "[site](https://example.com/x) [part](#part)\n")
	write("README.md", "```sh\n# comment\nmake demo\nmake tset\nbin/headscope version\nscripts/fetch.sh\nscripts/gone.sh\ncurl x\n```\n```\nmake tset\n```\n")
	got, err := checkDocs(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"README.md:4: no make target tset",
		"README.md:7: no file scripts/gone.sh",
		"README.md:8: sh block runs curl, want make, bin/headscope or scripts/",
		"docs/map.md:2: dead link lost.md",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTree holds this tree to the rules, so that plain go test finds what make lint would.
func TestTree(t *testing.T) {
	var out bytes.Buffer
	n, err := run(&out, filepath.Join("..", ".."), false)
	if err != nil {
		t.Fatal(err)
	}
	if n > 0 {
		t.Errorf("%d findings:\n%s", n, out.String())
	}
}
