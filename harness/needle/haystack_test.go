package needle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// prose writes n sentences with paragraphs, headings, markup and code-like words between them.
func prose(n int) string {
	var b strings.Builder
	s := Spec{Seed: 99, Split: Detect}
	t := Spec{Seed: 99, Split: Test}
	other := first(t, n)
	for i, text := range first(s, n) {
		fmt.Fprintf(&b, "%s %s", text, other[i])
		switch i % 10 {
		case 3:
			b.WriteString("\n\nA heading without an end\n\n")
		case 5:
			b.WriteString(" Part X7K9Q was lost on the way.\n")
		case 7:
			b.WriteString(" Mr. Brown wrote <b>twice</b> about it.\r\n\r\n")
		case 9:
			b.WriteString(" The secret access code of the mill is lost!\n")
		default:
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHaystackFromFile(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "book.txt"), prose(300))
	h, err := LoadHaystack(path)
	if err != nil {
		t.Fatal(err)
	}
	if h.Source != "book.txt" || len(h.SHA256) != 64 || h.Files != 1 || h.Sentences < 590 || h.Dropped < 100 {
		t.Errorf("%+v", h)
	}
	tok := tiny(t, "llama3", nil)
	texts := map[Split]map[string]bool{}
	for _, split := range []Split{Detect, Test} {
		texts[split] = map[string]bool{}
		s := specs(t, Options{Seed: 1, Split: split, N: 20, Haystack: h})
		set := realised(t, tok, s, RealiseOptions{Tokens: 900, CodeTokens: tinyCodeTokens, Variants: Variants()})
		if len(set.Refusals) > 2 || set.Report.Haystack != h || len(set.Prompts) < 90 {
			t.Errorf("%d refusals, such as %v", len(set.Refusals), set.Refusals[:1])
		}
		for i := range set.Prompts {
			p := &set.Prompts[i]
			newLaw(t, tok, p, tinyCodeTokens).length(900, 9)
			for _, text := range sentences(p) {
				texts[split][text] = true
			}
			for _, bad := range []string{"X7K9Q", "<b>", "heading", "of the mill is lost"} {
				if strings.Contains(p.Text, bad) {
					t.Errorf("%s: %q is in the haystack", p.ID, bad)
				}
			}
		}
	}
	for s := range texts[Detect] {
		if texts[Test][s] {
			t.Errorf("%q stands in both splits", s)
		}
	}
}

// The hash and the sentences are those of the bytes, whatever the folder is called and in whatever order it is read.
func TestHaystackFolder(t *testing.T) {
	a, b := prose(120), strings.ToUpper(prose(1)[:1])+prose(60)[1:]
	root := t.TempDir()
	for _, dir := range []string{"one", "two"} {
		writeFile(t, filepath.Join(root, dir, "b", "b.txt"), b)
		writeFile(t, filepath.Join(root, dir, "a.md"), a)
		writeFile(t, filepath.Join(root, dir, "c.json"), "Not read at all, this one.")
	}
	one, err := LoadHaystack(filepath.Join(root, "one"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := LoadHaystack(filepath.Join(root, "two"))
	if err != nil {
		t.Fatal(err)
	}
	if one.SHA256 != two.SHA256 || one.Files != 2 || !slices.Equal(one.split[Test], two.split[Test]) {
		t.Errorf("%+v and %+v", one, two)
	}
	writeFile(t, filepath.Join(root, "two", "a.md"), a+" One more sentence here.")
	if two, err = LoadHaystack(filepath.Join(root, "two")); err != nil || one.SHA256 == two.SHA256 {
		t.Errorf("another text, the same hash (%v)", err)
	}
}

func TestHaystackErrors(t *testing.T) {
	dir := t.TempDir()
	for want, path := range map[string]string{
		"too little text":      writeFile(t, filepath.Join(dir, "short.txt"), "One sentence here. Another one there."),
		"not UTF-8":            writeFile(t, filepath.Join(dir, "latin.txt"), "Caf\xe9."),
		"no .txt or .md files": filepath.Dir(writeFile(t, filepath.Join(dir, "empty", "x.csv"), "1,2")),
		"no such file":         filepath.Join(dir, "none.txt"),
	} {
		if _, err := LoadHaystack(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
	// Enough for a haystack, not for this length: refused with the reason.
	h, err := LoadHaystack(writeFile(t, filepath.Join(dir, "some.txt"), prose(90)))
	if err != nil {
		t.Fatal(err)
	}
	set := realised(t, tiny(t, "llama3", nil), specs(t, Options{Split: Test, N: 3, Haystack: h}), RealiseOptions{Tokens: 20_000, CodeTokens: tinyCodeTokens})
	if len(set.Refusals) != 3 || !strings.Contains(set.Refusals[0].Reason, "haystack") {
		t.Errorf("%d prompts, refusals %v", len(set.Prompts), set.Refusals)
	}
}

func TestSplitSentences(t *testing.T) {
	text := "Dr. Ames met J. Doe.  \"Was it late?\" he asked. It was!\nThey left\nearly.\n\nA title\n\nLast one."
	want := []string{"Dr. Ames met J. Doe.", "\"Was it late?\" he asked.", "It was!", "They left early.", "A title", "Last one."}
	if got := splitSentences(text); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
