package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// shown is a made-up row of attention over tokens; weights are given by token.
func shown(tokens []Token, row int, weights map[int]float32) *Attended {
	p := &Passage{IDs: idsOf(tokens), Tokens: tokens}
	w := make([]float32, row+1)
	for i, x := range weights {
		w[i] = x
	}
	r, err := p.attended(w, 3)
	if err != nil {
		panic(err)
	}
	r.Head, r.Row = decoder.Head{Layer: 2, Index: 1}, row
	return &Attended{Model: "m", DType: "float32", Device: "go", Tokens: tokens, Rows: []AttendedRow{*r}}
}

func tokensOf(texts ...string) []Token {
	var out []Token
	at := 0
	for i, s := range texts {
		out = append(out, Token{ID: int32(i), Text: s, Start: at, End: at + len(s)})
		at += len(s)
	}
	return out
}

func text(t *testing.T, a *Attended, v ShowView) string {
	t.Helper()
	var b bytes.Buffer
	if err := a.WriteText(&b, v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestShowText is the whole picture of a small text.
func TestShowText(t *testing.T) {
	a := shown(tokensOf("The", " code", " is", " K7", "\n", "So", " 日本", "\x1b[31m", " end"), 8, map[int]float32{0: 0.3, 3: 0.6, 6: 0.08, 8: 0.02})
	a.Spans = []NamedSpan{{"needle", heads.Span{0, 4}}, {"code", heads.Span{3, 4}}}
	a.Rows[0].Mass = []SpanMass{{"needle", 0.9}}
	a.Edits = []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{{}}, Scope: decoder.ScopeAll}}
	want := `m  float32  go  9 tokens  with zero:L0H0@all

L2H1 at row 8, " end": what it looks at, of 9 keys effectively 2.6
mass: needle 0.9000

weight  row  in  token
0.6000  3    -   " K7"
0.3000  0    -   "The"
0.0800  6    -   " 日本"

The code is K7⏎
▓▓▓--------███
So 日本�[31m end
  ▒▒▒▒▒     ░░░░
weights from ░ 0.01 ▒ 0.05 ▓ 0.2 █ 0.5  - needle
`
	want = strings.ReplaceAll(want, "�[31m", "\ufffd[31m")
	if got := text(t, a, ShowView{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestShowColor: colours carry weight and spans, and taking them away leaves the text.
func TestShowColor(t *testing.T) {
	a := shown(tokensOf("The", " code", " is", " K7", " end"), 4, map[int]float32{0: 0.3, 3: 0.6})
	a.Spans = []NamedSpan{{"code", heads.Span{3, 4}}}
	got := text(t, a, ShowView{Color: true})
	for _, want := range []string{"\x1b[38;5;16;48;5;214mThe\x1b[0m code", "\x1b[38;5;16;48;5;208;1;4m K7\x1b[0m", "\x1b[7m end\x1b[0m"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if s := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(got, ""); strings.Contains(s, "\x1b") || !strings.Contains(s, "The code is K7 end\n") {
		t.Errorf("got %q", s)
	}
	if strings.Contains(text(t, a, ShowView{}), "\x1b") {
		t.Error("colours where none are wanted")
	}
}

// TestShowWidth: no line is wider than asked, whatever the tokens are.
func TestShowWidth(t *testing.T) {
	var texts []string
	for i := range 300 {
		texts = append(texts, []string{" word", "日本語", " e\u0301", strings.Repeat("x", 90), "\n", "\t\t", "😀"}[i%7])
	}
	a := shown(tokensOf(texts...), 299, map[int]float32{7: 0.5, 200: 0.4, 299: 0.1})
	for _, width := range []int{20, 37, 80} {
		for _, full := range []bool{false, true} {
			s := text(t, a, ShowView{Width: width, Full: full})
			picture := s[strings.Index(s, "token\n"):]
			for line := range strings.Lines(picture[strings.Index(picture, "\n\n"):]) {
				if n := columnsOf(strings.TrimSuffix(line, "\n")); n > width && !strings.HasPrefix(line, "weights from") && !strings.HasPrefix(line, "  ... ") {
					t.Errorf("width %d: a line of %d columns: %q", width, n, line)
				}
			}
			if strings.Contains(s, "  ... ") == full {
				t.Errorf("width %d, full %t: lines were left out: %t", width, full, !full)
			}
		}
	}
}

// TestShowSkips: what is left out is counted with its weight, so that nothing is lost.
func TestShowSkips(t *testing.T) {
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = fmt.Sprintf("line %d\n", i)
	}
	weights := map[int]float32{0: 0.5, 99: 0.307}
	for i := 1; i < 99; i++ {
		weights[i] = 0.193 / 98
	}
	a := shown(tokensOf(texts...), 99, weights)
	if s := text(t, a, ShowView{}); !strings.Contains(s, "  ... 98 lines, 98 tokens, together 0.1930 ...\n") {
		t.Errorf("got %s", s)
	}
}

// TestSharedCharacter: of tokens that share a character the first shows it.
func TestSharedCharacter(t *testing.T) {
	tokens := []Token{{Text: "a", Start: 0, End: 1}, {Text: "😀", Start: 1, End: 5}, {Text: "😀", Start: 1, End: 5}, {Token: "<s>", Added: true}, {ID: 12}}
	for i, want := range []string{"a", "😀", "·", "[<s>]", "[#12]"} {
		if got := displayed(tokens, i); got != want {
			t.Errorf("token %d: got %q, want %q", i, got, want)
		}
	}
}

// TestShowHTML: the page escapes what tokens hold, names every weight, and loads nothing.
func TestShowHTML(t *testing.T) {
	a := shown(tokensOf("The", `<script>alert("x")</script>`, " is", " K7", "\n", " later"), 4, map[int]float32{0: 0.3, 3: 0.7})
	a.Spans = []NamedSpan{{"needle", heads.Span{2, 4}}, {"code", heads.Span{3, 4}}, {"question", heads.Span{4, 5}}}
	var b bytes.Buffer
	if err := a.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	s := b.String()
	for _, want := range []string{
		`<span class="t w8 needle code" title="row 3, &#34; K7&#34;: weight 0.7000, needle, code"> K7</span>`,
		`<span class="t w5" title="row 0, &#34;The&#34;: weight 0.3000">The</span>`,
		`<span class="t after" title="row 5, &#34; later&#34;: after the row"> later</span>`,
		`<span class="t w0 self" title="row 4, &#34;\n&#34;: weight 0.0000">⏎</span><br>`,
		"&lt;script&gt;", "prefers-color-scheme: dark", "<title>attention of L2H1</title>",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("not there: %s", want)
		}
	}
	for _, bad := range []string{"<script", "http:", "https:", "src=", "@import", "url(", "ZgotmplZ"} {
		if strings.Contains(s, bad) {
			t.Errorf("the page holds %s", bad)
		}
	}
	var again bytes.Buffer
	if err := a.WriteHTML(&again); err != nil || again.String() != s {
		t.Error("the same rows make another page")
	}
}

func TestAttendedSums(t *testing.T) {
	p := &Passage{IDs: make([]int32, 5), Tokens: tokensOf("a", "b", "c", "d", "e"), Spans: []NamedSpan{{"needle", heads.Span{1, 3}}, {"code", heads.Span{2, 5}}}}
	r, err := p.attended([]float32{0.25, 0.25, 0.25, 0.25}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(float64(r.Keys)-4) > 1e-9 {
		t.Errorf("effective keys %v, want 4", r.Keys)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"head":[0,0],"row":0,"weights":[0.25,0.25,0.25,0.25],"top":[{"row":0,"weight":0.25,"label":"\"a\""},{"row":1,"weight":0.25,"label":"\"b\"","in":["needle"]}],` +
		`"mass":[{"name":"first token","weight":0.25},{"name":"needle","weight":0.5},{"name":"code","weight":0.5},{"name":"own token","weight":0.25}],"keys":`
	if !strings.HasPrefix(string(b), want) {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	if _, err := p.attended([]float32{float32(math.NaN())}, 1); err == nil {
		t.Error("NaN: no error")
	}
}
