package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/headscope/headscope/harness"
)

//go:embed page.html
var pageText string

//go:embed style.css
var styleText string

// Options says how a page is made. The zero value is what a reader wants.
type Options struct {
	Title string // of the page; empty: the model's name and what was done
}

// HTML writes the result as one self-contained page. Nothing is written where the page cannot be made; what is returned after that is
// the writer's error.
func HTML(w io.Writer, r *harness.Result, o Options) error {
	if r.Plan == nil {
		return fmt.Errorf("report: the result has no plan")
	}
	t, err := template.New("page").Funcs(template.FuncMap{"style": func() template.CSS { return template.CSS(styleText) }}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	var buf bytes.Buffer
	if err := t.Execute(&buf, newPage(r, o)); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = w.Write(buf.Bytes())
	return err
}

// WriteFile writes the page into a file, whole or not at all.
func WriteFile(path string, r *harness.Result) error {
	var buf bytes.Buffer
	if err := HTML(&buf, r, Options{}); err != nil {
		return err
	}
	return harness.WriteFile(path, buf.Bytes())
}
