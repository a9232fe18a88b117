package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// shownJSON is what show --json prints.
type shownJSON struct {
	Tokens []struct {
		ID int32 `json:"id"`
	}
	Spans []struct {
		Name string
		Rows [2]int
	}
	Rows []shownRow
}

type shownRow struct {
	Head    [2]int
	Row     int
	Weights []float64
	Top     []struct {
		Row    int
		Weight float64
	}
	Mass []struct {
		Name   string
		Weight float64
	}
}

// TestShowGolden: the weights, and those printed, are transformers' attention.
func TestShowGolden(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden) {
		s := g.Shape
		var heads []string
		for l := range s.Layers {
			for h := range s.Heads {
				heads = append(heads, fmt.Sprintf("L%dH%d", l, h))
			}
		}
		for i, seq := range g.Sequences {
			n := len(seq.IDs)
			want := g.array(t, "seq%d.attn_last", i) // [layers, heads, T]
			args := []string{"show", g.dir, "--device", "go", "--ids", idList(seq.IDs), "--head", strings.Join(heads, ","), "--top-k", strconv.Itoa(n)}
			out, _ := command(t, exitDone, append(args, "--json")...)
			var got shownJSON
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			var weights []float64
			for _, r := range got.Rows {
				weights = append(weights, r.Weights...)
			}
			near(t, "weights", weights, want, tolAttention)
			out, _ = command(t, exitDone, args...)
			printed := 0
			for h, part := range strings.Split(out, "what it looks at")[1:] {
				for line := range strings.Lines(part) {
					f := strings.Fields(line)
					if len(f) < 4 || f[2] != "-" {
						continue
					}
					w, err := strconv.ParseFloat(f[0], 64)
					row, err2 := strconv.Atoi(f[1])
					if err != nil || err2 != nil {
						continue
					}
					printed++
					if d := math.Abs(w - float64(want[h*n+row])); d > 0.00005+tolAttention {
						t.Errorf("sequence %d, %s: key %d has weight %v, want %v", i, heads[h], row, w, want[h*n+row])
					}
				}
			}
			if printed != len(want) {
				t.Errorf("sequence %d: %d weights are printed, want %d", i, printed, len(want))
			}
		}
	})
}

// TestShowPrompt: the spans of a prompt are marked, their mass is that of their weights, and the page says the same.
func TestShowPrompt(t *testing.T) {
	dir := t.TempDir()
	model, prompts, page := filepath.Join(dir, "tiny"), filepath.Join(dir, "p.jsonl"), filepath.Join(dir, "page.html")
	if err := writeTiny(model); err != nil {
		t.Fatal(err)
	}
	if err := writePrompts(prompts, 3); err != nil {
		t.Fatal(err)
	}
	args := []string{"show", model, "--device", "go", "--head", "L1H2", "--prompts", prompts, "--id", "p1", "--with-answer", "--rows", "last,answer", "--html", page}
	out, notes := command(t, exitDone, append(args, "--json")...)
	if !strings.Contains(notes, page) {
		t.Errorf("notes %q do not name the page", notes)
	}
	var got shownJSON
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	mass := 0
	for _, r := range got.Rows {
		for _, m := range r.Mass {
			for _, s := range got.Spans {
				if s.Name != m.Name {
					continue
				}
				mass++
				sum := 0.0
				for k := s.Rows[0]; k < min(s.Rows[1], len(r.Weights)); k++ {
					sum += r.Weights[k]
				}
				if math.Abs(sum-m.Weight) > 1e-6 {
					t.Errorf("row %d: mass %v on the %s, its weights sum to %v", r.Row, m.Weight, m.Name, sum)
				}
			}
		}
		if want := fmt.Sprintf(": weight %.4f", r.Top[0].Weight); !strings.Contains(string(html), want) {
			t.Errorf("the page does not say%s", want)
		}
	}
	if rows := len(got.Rows); rows < 2 || mass != rows*len(got.Spans) || len(got.Spans) != 4 { // needle, code, question, answer
		t.Errorf("%d rows, %d masses, spans %v", rows, mass, got.Spans)
	}
	for _, class := range []string{" needle code\"", " answer", "class=\"t after"} {
		if !strings.Contains(string(html), class) {
			t.Errorf("the page has no token of class %s", class)
		}
	}
	text, _ := command(t, exitDone, args...)
	if strings.Contains(text, "\x1b") || !strings.Contains(text, "= code") || !strings.Contains(text, "- needle") {
		t.Errorf("got %s", text)
	}
}
