package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

func editVerb() *verb {
	return &verb{
		name: "edit", operands: "explain MODEL", summary: "what edits would do to a model: heads, rows, planes, siblings, cost; reads config.json alone",
		details: "Each --edit is a condition of its own, as in knockout, and so is each list of a file. Without --tokens rows are told by T, the prompt's length,\n" +
			"and Q, the first row of its question.",
		flags: func(fs *pflag.FlagSet) action {
			var e explainFlags
			e.editFlags.add(fs, "each is a condition of its own")
			fs.IntVar(&e.tokens, "tokens", 0, "tokens of the prompt")
			fs.IntVar(&e.question, "question", 0, "first row of its question, from 0; with --tokens")
			e.formatFlags.add(fs)
			return e.run
		},
	}
}

type explainFlags struct {
	editFlags
	formatFlags
	tokens, question int
}

// explained is what the verb prints.
type explained struct {
	Model      string               `json:"model"`
	Tokens     int                  `json:"tokens"`   // of the prompt; 0 = not given
	Question   int                  `json:"question"` // first row; 0 = not given
	Conditions []explainedCondition `json:"conditions"`

	spec *loader.Spec
}

type explainedCondition struct {
	Name  string          `json:"name"`
	Edits []explainedEdit `json:"edits"`
	Run   explainedRun    `json:"run"`
}

type explainedEdit struct {
	Edit       string            `json:"edit"` // canonical
	Parsed     decoder.Edit      `json:"parsed"`
	Heads      heads.Set         `json:"heads"` // that it acts on
	Layers     []int             `json:"layers"`
	Skipped    heads.Set         `json:"skipped"` // their layers do not rotate
	Site       decoder.Site      `json:"site"`
	Rows       string            `json:"rows"`
	PromptRows *int              `json:"prompt_rows"` // rows of the prompt among them; null without --tokens
	KV         []decoder.KVGroup `json:"kv_groups"`
	Siblings   heads.Set         `json:"siblings"` // other heads that see the changed keys
	Planes     []explainedPlanes `json:"planes"`
	Identity   bool              `json:"identity"` // changes nothing by what it asks for
}

type explainedPlanes struct {
	Layers      []int            `json:"layers"`
	Planes      []int            `json:"planes"`
	Wavelengths []harness.Number `json:"wavelengths"` // tokens a turn, null where a plane does not turn; none in layers without rotation
	Becomes     []harness.Number `json:"becomes"`     // under freeze and swap
}

type explainedRun struct {
	Whole      bool                   `json:"whole"` // sequences; else rows over the unmodified run's kept cache
	FromRow    string                 `json:"from_row"`
	FirstLayer int                    `json:"first_layer"`
	Layers     int                    `json:"layers"` // from it on
	Of         int                    `json:"of"`
	Share      *float64               `json:"share"` // rows times layers of its own over those of an unmodified pass; null where T decides
	Programs   []decoder.LayerProgram `json:"programs"`
	Donor      bool                   `json:"donor"`
	Means      bool                   `json:"means"`
}

func (e *explainFlags) run(_ context.Context, a *app, operands []string) error {
	if len(operands) == 0 || operands[0] != "explain" {
		return &usageError{errors.New("edit: want explain MODEL"), "for example `headscope edit explain DIR --edit zero:L18H6@question`"}
	}
	if err := operandsOf("edit", operands[1:], "MODEL"); err != nil {
		return err
	}
	if err := e.check(); err != nil {
		return err
	}
	list, err := e.conditions()
	if err != nil {
		return err
	}
	spec, err := loader.ReadSpec(operands[1])
	if err != nil {
		return err
	}
	if e.tokens > spec.MaxPositions {
		return &usageError{fmt.Errorf("--tokens %d: the model's window is %d", e.tokens, spec.MaxPositions), "give a shorter prompt"}
	}
	out := &explained{Model: operands[1], Tokens: e.tokens, Question: e.question, spec: spec}
	for _, n := range list {
		if err := out.add(n); err != nil {
			return err
		}
	}
	if e.format == "json" {
		return a.json(out)
	}
	return out.write(a.out)
}

func (e *explainFlags) check() error {
	if err := e.formatFlags.check(); err != nil {
		return err
	}
	switch {
	case e.format == "markdown":
		return &usageError{errors.New("--format markdown"), "want table or json"}
	case len(e.edits)+len(e.files) == 0:
		return &usageError{errors.New("no edits"), "give --edit zero:L18H6@question, or --edits FILE.json"}
	case e.tokens < 0:
		return &usageError{fmt.Errorf("--tokens %d", e.tokens), "give the number of tokens of a prompt"}
	case e.question < 0 || e.question > 0 && e.question >= e.tokens:
		return &usageError{fmt.Errorf("--question %d of --tokens %d", e.question, e.tokens), "give a row of the prompt, 1 or later, and its length with --tokens"}
	}
	return nil
}

// prompt is its length and the first row of its question; where they are not known, numbers that no scope in rows can have.
func (x *explained) prompt() (t, q0 int) {
	if x.Tokens == 0 {
		return decoder.Forever - 1, decoder.Forever / 2
	}
	return x.Tokens, x.Question
}

// add explains one condition.
func (x *explained) add(n harness.NamedEdits) error {
	if err := harness.CheckEdits(x.spec, n.Edits); err != nil {
		return err
	}
	t, q0 := x.prompt()
	d, err := decoder.Explain(x.spec, n.Edits, t, q0, max(x.Tokens, 1))
	if err != nil {
		hint := "edits of one head that meet at its output, at its query or at its table need one scope"
		if x.Tokens > 0 && x.Question == 0 {
			hint = "--question says where the prompt's question begins; " + hint
		}
		return &usageError{fmt.Errorf("edits %s: %w", n.Name, err), hint}
	}
	of := x.spec.Layers
	if len(n.Edits) == 1 && n.Name == n.Edits[0].String() {
		n.Name = d.Edits[0].Edit.String()
	}
	c := explainedCondition{Name: n.Name, Run: explainedRun{
		Whole: d.FirstRow == 0, FromRow: x.row(d.FirstRow), FirstLayer: d.First, Layers: of - d.First, Of: of, Programs: d.Programs, Donor: d.Donor, Means: d.Means,
	}}
	if share := float64(of-d.First) / float64(of); d.FirstRow == 0 || x.Tokens > 0 {
		if d.FirstRow > 0 {
			share *= float64(t-d.FirstRow) / float64(t)
		}
		c.Run.Share = &share
	}
	for _, e := range d.Edits {
		c.Edits = append(c.Edits, x.edit(e))
	}
	x.Conditions = append(x.Conditions, c)
	return nil
}

func (x *explained) edit(e decoder.ExplainedEdit) explainedEdit {
	acts := heads.NewSet(e.Heads...)
	out := explainedEdit{
		Edit: e.Edit.String(), Parsed: e.Edit, Heads: acts, Layers: acts.Layers(), Skipped: heads.NewSet(e.Skipped...), Site: e.Site, Rows: x.rows(e.Rows),
		KV: append([]decoder.KVGroup{}, e.KV...), Siblings: heads.NewSet(e.Siblings...), Planes: []explainedPlanes{}, Identity: e.Edit.Identity(),
	}
	if x.Tokens > 0 {
		n := max(0, min(e.Rows.Hi, x.Tokens)-e.Rows.Lo)
		out.PromptRows = &n
	}
	for _, p := range e.Planes {
		out.Planes = append(out.Planes, explainedPlanes{p.Layers, p.Planes, harness.Numbers(p.Wavelengths), harness.Numbers(p.Becomes)})
	}
	return out
}

// row names a row: by T and Q where these are not known.
func (x *explained) row(n int) string {
	if t, q0 := x.prompt(); x.Tokens == 0 {
		switch n {
		case t - 1:
			return "T-1"
		case q0:
			return "Q"
		case q0 - 1:
			return "Q-1"
		}
	}
	return fmt.Sprint(n)
}

func (x *explained) rows(r decoder.Rows) string {
	switch {
	case r.Hi <= r.Lo:
		return "none: the prompt ends before them"
	case r.Lo == 0 && r.Hi == decoder.Forever:
		return "all, generated ones too"
	case r.Hi == decoder.Forever:
		return x.row(r.Lo) + " and all after it, generated ones too"
	case r.Hi == r.Lo+1:
		return x.row(r.Lo) + " alone"
	}
	return x.row(r.Lo) + " to " + x.row(r.Hi-1)
}
