package harness

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed hand_show.html
var showPage string

// htmlPage is what the page's template is given.
type htmlPage struct {
	Title   string
	About   []string
	Legend  []htmlToken
	Spans   []string
	Rows    []htmlRow
	Version string
}

type htmlRow struct {
	Title string
	Keys  string
	Mass  []SpanMass
	Top   []KeyWeight
	Text  []htmlToken
}

// htmlToken is one token of the text.
type htmlToken struct {
	Class, Title, Text string
	Break              bool // a line ends behind it
}

// WriteHTML writes a page that stands alone: no script, nothing loaded, light or dark as the reader's system is. Each token's title
// says its row and weight.
func (a *Attended) WriteHTML(w io.Writer) error {
	t, err := template.New("show").Funcs(template.FuncMap{
		"weight": func(n Number) string { return fmt.Sprintf("%.4f", float64(n)) },
		"in":     func(names []string) string { return strings.Join(names, ", ") },
		"clean":  clean,
	}).Parse(showPage)
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	page := htmlPage{
		Title:   a.title(),
		About:   []string{lastPart(a.Model), a.DType, a.Device, fmt.Sprintf("%d tokens", len(a.Tokens))},
		Version: Version,
	}
	if e := a.edited(); e != "" {
		page.About = append(page.About, strings.TrimSpace(e))
	}
	for _, from := range []float64{0.01, 0.05, 0.2, 0.5, 1} {
		page.Legend = append(page.Legend, htmlToken{Class: fmt.Sprintf("w%d", tint(from)), Text: fmt.Sprintf("%g", from)})
	}
	for _, s := range a.Spans {
		if c := spanClass(s.Name); c != "" {
			page.Spans = append(page.Spans, s.Name)
		}
	}
	for i := range a.Rows {
		page.Rows = append(page.Rows, a.htmlRow(&a.Rows[i]))
	}
	return t.Execute(w, page)
}

func (a *Attended) title() string {
	var names []string
	for _, r := range a.Rows {
		if n := r.Head.String(); len(names) == 0 || names[len(names)-1] != n {
			names = append(names, n)
		}
	}
	title := "attention of " + strings.Join(names, ", ")
	if a.Source.Prompt != "" {
		title += " over prompt " + a.Source.Prompt + " of " + a.Source.Prompts
	}
	return title
}

func (a *Attended) htmlRow(r *AttendedRow) htmlRow {
	out := htmlRow{
		Title: fmt.Sprintf("%s at row %d, %s", r.Head, r.Row, clean(a.Tokens[r.Row].Label())),
		Keys:  fmt.Sprintf("%d keys, effectively %.1f", len(r.Weights), float64(r.Keys)),
		Mass:  r.Mass, Top: r.Top,
	}
	for i := range a.Tokens {
		t := htmlToken{Text: displayed(a.Tokens, i), Title: fmt.Sprintf("row %d, %s", i, clean(a.Tokens[i].Label()))}
		classes := []string{"t"}
		switch {
		case i > r.Row:
			classes = append(classes, "after")
			t.Title += ": after the row"
		default:
			t.Title += fmt.Sprintf(": weight %.4f", r.Weights[i])
			classes = append(classes, fmt.Sprintf("w%d", tint(float64(r.Weights[i]))))
		}
		for _, s := range a.Spans {
			if c := spanClass(s.Name); c != "" && s.Rows.Contains(i) {
				classes = append(classes, c)
				t.Title += ", " + s.Name
			}
		}
		if i == r.Row {
			classes = append(classes, "self")
		}
		t.Class, t.Break = strings.Join(classes, " "), strings.HasSuffix(a.Tokens[i].Text, "\n")
		out.Text = append(out.Text, t)
	}
	return out
}

// tint is the step of the background, 0 to 10: the square root of the weight, so that small weights are seen.
func tint(w float64) int {
	if w < 0.0025 {
		return 0
	}
	return max(1, min(10, int(math.Round(10*math.Sqrt(w)))))
}

// spanClass is the class of a span's tokens, empty for spans that are not marked.
func spanClass(name string) string {
	if strings.HasPrefix(name, "decoy") {
		return "decoy"
	}
	if mark(name) != 0 {
		return name
	}
	return ""
}
