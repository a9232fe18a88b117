package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
)

var update = flag.Bool("update", false, "write the golden files anew")

// plain is the page as it is.
func plain(t *testing.T, r *harness.Result) string {
	t.Helper()
	var b strings.Builder
	if err := HTML(&b, r, Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// render holds the page to what every page must be.
func render(t *testing.T, r *harness.Result) string {
	t.Helper()
	page := plain(t, r)
	wellFormed(t, page)
	selfContained(t, page)
	return page
}

// golden compares with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it anew):\n%s", name, diff)
	}
}

func TestGolden(t *testing.T) {
	golden(t, "study.html", []byte(render(t, study())))
}

// TestSameBytes: the same result gives the same page, also after it was stored and read back.
func TestSameBytes(t *testing.T) {
	first := render(t, study())
	if again := render(t, study()); again != first {
		t.Error("two renderings differ")
	}
	data, err := study().JSON()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "study.json")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	stored, err := harness.ReadResult(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(first, "\n"), strings.Split(render(t, stored), "\n")); diff != "" {
		t.Errorf("the stored result's page differs (-want +got):\n%s", diff)
	}
}

// void elements of HTML have no end tag.
var void = []string{"meta", "br"}

// wellFormed holds the page to XML's rules, void elements and entities of HTML allowed: every element is closed, in order.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	body := regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(page, "")
	for _, v := range void {
		body = regexp.MustCompile(`<`+v+`\b([^>]*[^/])?>`).ReplaceAllString(body, "<"+v+"$1/>")
	}
	body = regexp.MustCompile(`^<!DOCTYPE html>`).ReplaceAllString(strings.TrimSpace(body), "")
	dec := xml.NewDecoder(strings.NewReader(body))
	dec.Entity = xml.HTMLEntity
	ids := map[string]bool{}
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			at := dec.InputOffset()
			t.Fatalf("not well formed: %v near %q", err, body[max(0, at-200):min(int64(len(body)), at+50)])
		}
		start, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range start.Attr {
			if a.Name.Local == "id" {
				if ids[a.Value] {
					t.Errorf("id %q twice", a.Value)
				}
				ids[a.Value] = true
			}
		}
	}
}

// selfContained: no script, no handler, nothing that is fetched.
func selfContained(t *testing.T, page string) {
	t.Helper()
	for _, bad := range []string{"<script", "http://", "https://", "@import", "<link", "<img", "<iframe", "src=", "ZgotmplZ", "NaN", "%!", "Inf"} {
		if strings.Contains(page, bad) {
			i := strings.Index(page, bad)
			t.Errorf("the page holds %q: ...%s", bad, page[max(0, i-80):min(len(page), i+80)])
		}
	}
	for _, m := range regexp.MustCompile(`(?:href="|url\()([^")]*)`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "#") {
			t.Errorf("a link leads out of the page: %q", m[1])
		}
		if id := m[1][1:]; !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("no element has the id %q", id)
		}
	}
	if handler := regexp.MustCompile(`<[a-z]+[^>"]*(?:"[^"]*"[^>"]*)*\son[a-z]+=`).FindString(page); handler != "" {
		t.Errorf("a handler: %s", handler)
	}
}

func TestEscaping(t *testing.T) {
	page := render(t, study())
	for _, want := range []string{"&lt;script&gt;", "list &lt;b&gt;", "prompts &amp; more.jsonl"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	r := study()
	r.Model.Ref, r.Verb, r.Prompts.Source, r.Key = "org/"+nasty, nasty, nasty, nasty
	r.Command = []string{nasty, "it's"}
	page = render(t, r)
	if !strings.Contains(page, `it&#39;\&#39;&#39;s`) {
		t.Error("the command is not quoted for a shell")
	}
	r.Example.Tokens[61] = "a\x00\u202eb\u0007"
	if page = render(t, r); !strings.Contains(page, "a\ufffd\ufffdb\ufffd") || strings.ContainsAny(page, "\x00\u202e\u0007") {
		t.Error("a token's control characters stay")
	}
}

// TestNullNumbers: what is undefined is a dash that says why.
func TestNullNumbers(t *testing.T) {
	page := render(t, study())
	for _, want := range []string{
		`title="no trial has a decoy to compare with">-<`, `title="every trial failed"`, `title="no score">`, "is undefined: one of the drops is not a number", "L0H3: no score",
	} {
		if !strings.Contains(page, want) && want != `title="no score">` {
			t.Errorf("no %s", want)
		}
	}
	r := study()
	none := undefined("nothing is left")
	for i := range r.Conditions {
		m := &r.Conditions[i].Metrics
		m.Recall, m.Margin, m.SumLogProb = none, none, none
		if m.MarginChange != nil {
			m.MarginChange, m.Change = &none, &none
			m.McNemar.P = nan
		}
	}
	r.Metrics = &r.Conditions[0].Metrics
	if page = render(t, r); !strings.Contains(page, "undefined: nothing is left") {
		t.Error("an undefined change is not said in the summary")
	}
}

// TestThin renders results that lack most of what a study has.
func TestThin(t *testing.T) {
	for _, c := range []struct {
		name  string
		thin  func(r *harness.Result) *harness.Result
		want  []string
		lacks []string
	}{
		{"detect alone", func(r *harness.Result) *harness.Result {
			r.Verb, r.Plan.Knockout, r.InSample = "detect", nil, nil
			r.Conditions, r.Controls, r.Effects = r.Conditions[:1], nil, nil
			return r
		}, []string{"Nothing was switched off"}, []string{`class="forest"`, `id="controls"`, "in-sample and"}},
		{"knock-out without detection", func(r *harness.Result) *harness.Result {
			r.Verb, r.Plan.Detect, r.Detection, r.Scores = "knockout", nil, nil, nil
			return r
		}, []string{"which were given", "The given heads", `class="forest"`}, []string{`class="map`, "What was found"}},
		{"no heads found", func(r *harness.Result) *harness.Result {
			d := r.Detection
			r.Heads, d.Heads, d.Hits, d.Cuts, d.Ties = heads.Ranking{}, heads.Ranking{}, nil, nil, nil
			r.Conditions, r.Controls, r.Effects, r.Example = r.Conditions[:1], nil, nil, nil
			return r
		}, []string{"None of the 32 heads", "The highest is L2H5 with 0.88."}, []string{"Detected heads", `id="example"`}},
		{"one head", func(r *harness.Result) *harness.Result {
			one := base("study", 1, 1, 1)
			s := scores("argmax_last", 1, 1, func(int, int) float64 { return 1 })
			one.Scores, one.Heads = &s, heads.Ranking{head(0, 0)}
			one.Detection = &harness.Detection{Threshold: 0.1, Heads: one.Heads, Scores: []heads.Scores{s}}
			return one
		}, []string{"1 of 1 heads", "L0H0: 1.000"}, []string{`class="kv"`}},
		{"everything failed", func(r *harness.Result) *harness.Result {
			f := base("knockout", 4, 8, 4)
			f.Heads, f.N = heads.Ranking{head(1, 1)}, counts(0, 0, 0, 0, 0, 48, 0)
			none := undefined("every trial failed")
			for _, name := range []string{"unmodified", "without@all"} {
				c := harness.ConditionResult{Name: name, Stage: harness.StageKnockout, N: counts(0, 0, 0, 0, 0, 24, 0), Metrics: harness.Metrics{Recall: none, Margin: none, SumLogProb: none}}
				if name != "unmodified" {
					c.Scope, c.Heads, c.Metrics.MarginChange, c.Metrics.Change = "all", f.Heads.Set(), &none, &none
				}
				f.Conditions = append(f.Conditions, c)
			}
			f.Metrics = &f.Conditions[0].Metrics
			return f
		}, []string{"undefined: every trial failed", "48 of 48 trials failed", `class="o-failed"`}, []string{`<figure class="forest">`}},
		{"nothing at all", func(*harness.Result) *harness.Result {
			return &harness.Result{Plan: &harness.Plan{}}
		}, []string{"In plain words"}, []string{`class="map`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			page := render(t, c.thin(study()))
			_, body, _ := strings.Cut(page, "</style>")
			for _, w := range c.want {
				if !strings.Contains(body, w) {
					t.Errorf("no %q", w)
				}
			}
			for _, w := range c.lacks {
				if strings.Contains(body, w) {
					t.Errorf("has %q", w)
				}
			}
		})
	}
	if err := HTML(io.Discard, &harness.Result{}, Options{}); err == nil {
		t.Error("a result without a plan is rendered")
	}
}

// TestBig: the page of a large model stays a file that one can send.
func TestBig(t *testing.T) {
	for _, size := range []struct{ layers, heads, most int }{{32, 32, 1 << 20}, {80, 64, 2 << 20}} {
		t.Run(fmt.Sprintf("%dx%d", size.layers, size.heads), func(t *testing.T) {
			r := base("detect", size.layers, size.heads, 8)
			d := &harness.Detection{Threshold: 0.1}
			for k, name := range []string{"argmax_last", "mass_last", "argmax_code", "copy_tf", "write_norm", "induction", "duplicate", "prev_token"} {
				d.Scores = append(d.Scores, scores(name, size.layers, size.heads, func(l, i int) float64 {
					return math.Abs(math.Sin(float64(l*size.heads+i)*(1.7+float64(k)))) * 0.9
				}))
			}
			d.Heads = d.Scores[0].Ranking()[:size.layers*size.heads/10]
			r.Heads, r.Scores, r.Detection = d.Heads, &d.Scores[0], d
			page := plain(t, r)
			wellFormed(t, page)
			if len(page) > size.most {
				t.Errorf("%d bytes, want at most %d", len(page), size.most)
			}
			if n := strings.Count(page, `<figure class="map`); n != 8 {
				t.Errorf("%d maps, want 8", n)
			}
			if last := fmt.Sprintf("L%dH%d: ", size.layers-1, size.heads-1); !strings.Contains(page, last) {
				t.Errorf("no cell %s", last)
			}
		})
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.html")
	if err := WriteFile(path, study()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != render(t, study()) {
		t.Error("the file is not the page")
	}
	if err := WriteFile(filepath.Join(dir, "none", "r.html"), study()); err == nil {
		t.Error("no error for a folder that does not exist")
	}
	if err := WriteFile(filepath.Join(dir, "bad.html"), &harness.Result{}); err == nil {
		t.Error("no error for a result without a plan")
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("files left over: %v", left)
	}
}

func TestWriterError(t *testing.T) {
	want := errors.New("disk full")
	if err := HTML(failing{want}, study(), Options{}); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if err := Plot(failing{want}, study(), Heads, SVG); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestPlots(t *testing.T) {
	for _, kind := range Kinds() {
		var one, two bytes.Buffer
		for _, b := range []*bytes.Buffer{&one, &two} {
			if err := Plot(b, study(), kind, SVG); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Errorf("%s: two drawings differ", kind)
		}
		golden(t, string(kind)+".svg", one.Bytes())
		var png bytes.Buffer
		if err := Plot(&png, study(), kind, PNG); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(png.Bytes(), []byte("\x89PNG\r\n")) || png.Len() < 5000 {
			t.Errorf("%s: %d bytes are no picture", kind, png.Len())
		}
	}
	if err := Plot(io.Discard, &harness.Result{Plan: &harness.Plan{}}, Grid, PNG); err == nil {
		t.Error("a grid without cells is drawn")
	}
	if err := Plot(io.Discard, study(), Heads, "pdf"); err == nil {
		t.Error("an unknown format is drawn")
	}
	if Has("nonsense", study()) {
		t.Error("an unknown figure is there")
	}
}
