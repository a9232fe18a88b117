package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/headscope/headscope/harness"
)

// figure is a line of the table. Ours and Other are in Unit; Ratio is larger for better.
type figure struct {
	Section string    `json:"section"`
	What    string    `json:"what"`
	Ours    float64   `json:"ours,omitempty"`
	Other   float64   `json:"other,omitempty"`
	Unit    string    `json:"unit,omitempty"`
	Spread  float64   `json:"spread,omitempty"` // of ours: (max - min) / median
	Ratio   *interval `json:"ratio,omitempty"`
	Target  float64   `json:"target,omitempty"` // smallest ratio that passes; 0 = none
	Rounds  int       `json:"rounds,omitempty"`
	Note    string    `json:"note,omitempty"`
	NotRun  string    `json:"not_run,omitempty"` // why
	Failed  string    `json:"failed,omitempty"`  // the measurement broke
}

func (f *figure) verdict() string {
	switch {
	case f.Failed != "":
		return "BROKEN"
	case f.NotRun != "":
		return "not run"
	case f.Target == 0 || f.Ratio == nil:
		return "-"
	case f.Ratio.Median >= f.Target:
		return "pass"
	}
	return "FAIL"
}

// report collects figures.
type report struct {
	Model       string              `json:"model"`
	Prompts     string              `json:"prompts"`
	Quick       bool                `json:"quick"`
	Plugin      string              `json:"plugin"`
	CPU         string              `json:"cpu"`
	Environment harness.Environment `json:"environment"`
	Tool        harness.Tool        `json:"tool"`
	Figures     []figure            `json:"figures"`
	Verdicts    []string            `json:"verdicts"` // of the figures, in order
}

func (r *report) add(f figure) {
	r.Figures = append(r.Figures, f)
	r.Verdicts = append(r.Verdicts, f.verdict())
	fmt.Fprintf(os.Stderr, "bench: %s %s: %s %s\n", f.Section, f.What, ratioText(f.Ratio), f.verdict())
}

func (r *report) broken() bool {
	for i := range r.Figures {
		if r.Figures[i].Failed != "" {
			return true
		}
	}
	return false
}

func ratioText(v *interval) string {
	if v == nil {
		return ""
	}
	if v.Median > 1e6 {
		return "no difference"
	}
	if v.Min == v.Max {
		return fmt.Sprintf("%.2f", v.Median)
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", v.Median, v.Min, v.Max)
}

func number(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// print writes the table.
func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s; %s; %d CPUs; %s\nprompts %s; ratios are medians over rounds (smallest-largest), larger is better\n\n",
		r.Model, r.CPU, r.Environment.CPUs, r.Plugin, r.Prompts)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\twhat\tours\tother\tunit\tspread\tratio\ttarget\tverdict\tnote")
	for i := range r.Figures {
		f := &r.Figures[i]
		spread, target, note := "", "", f.Note
		if f.Spread > 0 {
			spread = fmt.Sprintf("%.0f%%", 100*f.Spread)
		}
		if f.Target > 0 {
			target = fmt.Sprintf(">= %g", f.Target)
		}
		switch {
		case f.NotRun != "":
			note = "not run: " + f.NotRun
		case f.Failed != "":
			note = f.Failed
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			f.Section, f.What, number(f.Ours), number(f.Other), f.Unit, spread, ratioText(f.Ratio), target, f.verdict(), note)
	}
	return t.Flush()
}

// write stores the report as JSON.
func (r *report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o666)
}
