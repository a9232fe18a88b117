package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/rope"
)

const tableFileForm = `a table file is {"name": "mine", "planes": [1, 0.5], "layout": "rotate_half"}, a frequency a plane`

// tableFlags choose a rotary table to look at.
type tableFlags struct {
	table string
	dims  int
	out   string
}

func (t *tableFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&t.table, "table", "", "a rotary table in place of the checkpoint: a name as below, or a FILE.json; without MODEL a name needs --dims")
	fs.IntVar(&t.dims, "dims", 0, "rotated dimensions of a head, two a plane, where no MODEL gives them")
	fs.StringVar(&t.out, "out", "", "write the table to FILE.json")
}

func tableDetails() string {
	var b strings.Builder
	b.WriteString("Names of tables, for --table and for edits such as swap=moebius2048:L1H2; N is in tokens, R are the rotated dimensions of a head:\n")
	for _, line := range rope.Rules() {
		fmt.Fprintf(&b, "  %-16s %s\n", line[0], line[1])
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// mostDims is beyond any head.
const mostDims = 1 << 16

func (t *tableFlags) check(families bool) error {
	switch {
	case t.table != "" && families:
		return &usageError{errors.New("--table with --families"), "leave one of them out"}
	case t.table == "" && (t.dims != 0 || t.out != ""):
		return &usageError{errors.New("--dims and --out are about a --table"), "name a table, such as --table moebius2048; `headscope help inspect` lists them"}
	case t.dims < 0 || t.dims%2 != 0 || t.dims > mostDims:
		return &usageError{fmt.Errorf("--dims %d", t.dims), fmt.Sprintf("want an even number of dimensions up to %d: a plane has two", mostDims)}
	case t.out != "" && !rope.IsTableFile(t.out):
		return &usageError{fmt.Errorf("--out %s", t.out), "the name of a table file ends in .json"}
	}
	return nil
}

// inspect prints what there is to say about a table, once for each rotary table of the model that it stands for.
func (t *tableFlags) inspect(a *app, operands []string, length int, format string) error {
	subjects, err := t.subjects(operands, length)
	if err != nil {
		return err
	}
	if t.out != "" && len(subjects) > 1 {
		return &usageError{fmt.Errorf("--out: the model has %d rotary tables", len(subjects)), "a file holds one: give --dims in place of MODEL"}
	}
	var list []*rope.Examination
	for _, s := range subjects {
		e, err := rope.Examine(s)
		if err != nil {
			return &usageError{err, "--length takes a number of tokens"}
		}
		list = append(list, e)
	}
	if t.out != "" {
		f := rope.File{Name: subjects[0].Name, Planes: subjects[0].Table.InvFreq, Layout: subjects[0].Layout}
		if scale := subjects[0].Table.Scale; scale != 1 {
			a.note("note: the file holds frequencies; the factor %g on cosine and sine is not in it", scale)
		}
		text, err := f.Encode()
		if err == nil {
			err = harness.WriteFile(t.out, text)
		}
		if err != nil {
			return err
		}
	}
	if format == "json" {
		return a.json(list)
	}
	columns, tty := terminal(a.out)
	if !tty {
		columns = 80
	}
	for i, e := range list {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := printTable(a.out, e, min(columns, 120)); err != nil {
			return err
		}
	}
	return nil
}

// subjects are the tables that --table names.
func (t *tableFlags) subjects(operands []string, length int) ([]rope.Subject, error) {
	s := rope.Subject{Name: t.table, Layout: rope.RotateHalf, Length: length}
	if rope.IsTableFile(t.table) {
		f, err := rope.ReadFile(t.table)
		if err != nil {
			return nil, advise(err, tableFileForm)
		}
		s.Name, s.Table, s.Layout = f.Name, f.Table(), f.Layout
	} else {
		r, err := rope.ParseRule(t.table)
		if err != nil {
			return nil, &usageError{err, "`headscope help inspect` says what each name stands for"}
		}
		s.Rule = &r
	}
	if len(operands) > 0 {
		if t.dims != 0 {
			return nil, &usageError{errors.New("--dims beside MODEL"), "the model says how many dimensions rotate"}
		}
		return ofModel(s, operands)
	}
	if s.Table != nil {
		if t.dims != 0 && t.dims != s.Table.RotaryDim {
			return nil, &usageError{fmt.Errorf("%s: got %d planes, want %d for --dims %d", t.table, s.Table.Planes(), t.dims/2, t.dims), "leave --dims out: the file says it"}
		}
		return []rope.Subject{s}, nil
	}
	switch {
	case s.Rule.Alters():
		return nil, &usageError{fmt.Errorf("table %s changes a model's own table: MODEL is missing", s.Rule), "a config.json alone will do for a MODEL"}
	case t.dims == 0:
		return nil, &usageError{errors.New("--dims is missing"), "say how many dimensions of a head rotate, such as --dims 64, or name a MODEL"}
	}
	var err error
	s.Table, err = s.Rule.Apply(rope.NoPE(t.dims / 2))
	return []rope.Subject{s}, err
}

// ofModel puts a table in the place of each of a model's own.
func ofModel(s rope.Subject, operands []string) ([]rope.Subject, error) {
	if err := operandsOf("inspect", operands, "MODEL"); err != nil {
		return nil, err
	}
	in, err := loader.Inspect(operands[0], 0)
	if in == nil {
		return nil, err
	}
	pass := cmp.Or(s.Length, in.Spec.MaxPositions)
	if s.Rule == nil || s.Rule.Length() == 0 {
		s.Length = pass
	}
	s.Layout = rope.RotateHalf
	if in.Spec.Pairs == "interleaved" {
		s.Layout = rope.Interleaved
	}
	var out []rope.Subject
	for _, t := range in.Spec.Tables {
		own, err := rope.New(t.Config, in.Spec.HeadDim, pass)
		if err != nil {
			return nil, err
		}
		one := s
		if s.Rule == nil {
			if s.Table.Planes() != own.Planes() {
				return nil, &usageError{fmt.Errorf("table %s: got %d planes, want %d: the model rotates %d dimensions", s.Name, s.Table.Planes(), own.Planes(), own.RotaryDim),
					"`headscope inspect MODEL` prints the planes of its tables"}
			}
		} else if one.Table, err = s.Rule.Apply(own); err != nil {
			return nil, &usageError{err, "`headscope help inspect` says what each name stands for"}
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, &usageError{fmt.Errorf("%s: no layer rotates", operands[0]), "give --dims in place of MODEL"}
	}
	return out, nil
}

func printTable(out io.Writer, e *rope.Examination, columns int) error {
	r := rows{tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)}
	r.row("table", "%s: %s", e.Name, e.Formula)
	r.row("planes", "%d in %d dims, %s, factor on cos and sin %.6g", len(e.Planes), e.RotaryDim, e.Layout, e.Scale)
	r.row("", "radians a token, by plane:")
	r.planes(e.Planes)
	r.row("", "tokens a turn, by plane:")
	r.planes(e.WavelengthList())
	if e.HalfWidth != nil {
		r.row("half-width", "%.6g tokens: there the kernel is 0 for the first time", *e.HalfWidth)
	} else {
		r.row("half-width", "none: the kernel stays above 0 up to %d tokens", e.Length)
	}
	for _, h := range e.Holonomy {
		r.row("rotation", "over %g tokens: %s, cosines from %.4f to %.4f", h.N, h.Rotation, h.MinCos, h.MaxCos)
	}
	for _, b := range e.Bands {
		note := ""
		if !b.Tests {
			note = ": cannot test rotation"
		}
		r.row(b.Band, "turns by up to %.3g rad over %d tokens%s", b.Angle, e.Length, note)
	}
	if e.MaxDifference != nil {
		r.row("kernel", "closed form and mean of cosines differ by up to %.1e over all %d distances", *e.MaxDifference, e.Length+1)
	}
	if err := r.w.Flush(); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ndistance\tkernel c\tclosed form\tmisordered\t")
	for _, k := range e.Kernel {
		closed := ""
		if k.Closed != nil {
			closed = sixDigits(*k.Closed)
		}
		fmt.Fprintf(w, "%g\t%s\t%s\t%.4f\t\n", k.N, sixDigits(k.Direct), closed, k.TokenInversion)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nkernel by distance:\n%s", e.Plot(columns-5, 17))
	return err
}

// sixDigits prints a zero without a sign.
func sixDigits(x float64) string {
	if s := fmt.Sprintf("%.6f", x); s != "-0.000000" {
		return s
	}
	return "0.000000"
}
