package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

func showVerb() *verb {
	return &verb{
		name: "show", operands: "MODEL [TEXT]", summary: "what a head looks at: its attention over a text, in the terminal or as a page",
		details: `The text is the operand TEXT, --text or --file, or token --ids, or one prompt of a prompt file (--prompts FILE --id ID), whose needle
and code are marked. A TEXT of - is stdin. Without colours (no terminal, or NO_COLOR set) the shades stand below the text.`,
		flags: func(fs *pflag.FlagSet) action {
			var s showFlags
			s.add(fs)
			return s.run
		},
	}
}

type showFlags struct {
	passageFlags
	head, rows, html string
	topK             int
	full, json       bool
}

func (s *showFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&s.head, "head", "", "the head, such as L18H6; several are separated by commas")
	fs.StringVar(&s.rows, "rows", "-1", "rows that look, such as 12,20-22,-1; last; or a span of the prompt: needle, code, question, decoy, answer")
	fs.StringVar(&s.rows, "row", "-1", "the same as --rows")
	fs.IntVar(&s.topK, "top-k", 10, "how many keys are listed")
	fs.BoolVar(&s.full, "full", false, "show all lines of the text, also those on which no weight falls")
	fs.StringVar(&s.html, "html", "", "write a page to FILE; it needs no network and no script")
	fs.BoolVar(&s.json, "json", false, "print JSON, with every weight")
	s.passageFlags.add(fs)
}

func (s *showFlags) run(ctx context.Context, a *app, operands []string) error {
	if s.head == "" {
		return &usageError{fmt.Errorf("--head is missing"), "name a head, such as --head L18H6"}
	}
	list, err := heads.ParseRanking(s.head)
	if err != nil {
		return &usageError{fmt.Errorf("--head: %w", err), "the form is L18H6, or L18H6,L20H3"}
	}
	return s.with(a, "show", operands, func(m *opened, p *harness.Passage, edits []decoder.Edit) error {
		rows, err := p.Rows(s.rows)
		if err != nil {
			return err
		}
		shown, err := harness.Attend(ctx, &harness.AttendRequest{
			Checkpoint: m.checkpoint, Model: m.model, Passage: p, Edits: edits, Heads: list, Rows: rows, TopK: s.topK,
		})
		if err != nil {
			return err
		}
		if s.html != "" {
			if err := writePage(s.html, shown); err != nil {
				return err
			}
			a.note("%s", s.html)
		}
		if s.json {
			return a.json(shown)
		}
		columns, tty := terminal(a.out)
		out := bufio.NewWriter(a.out)
		if err := shown.WriteText(out, harness.ShowView{Width: columns, Color: tty && a.getenv("NO_COLOR") == "", Full: s.full}); err != nil {
			return err
		}
		return out.Flush()
	})
}

// writePage writes the page whole or not at all.
func writePage(path string, shown *harness.Attended) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return &usageError{fmt.Errorf("--html: %s is a folder", path), "name a file"}
	}
	var page bytes.Buffer
	if err := shown.WriteHTML(&page); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return harness.WriteFile(path, page.Bytes())
}
