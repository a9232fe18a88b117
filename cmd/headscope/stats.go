package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// mostStatsInput is the longest input, in bytes.
const mostStatsInput = 64 << 20

// statistic is one entry of the table of `headscope stats`.
type statistic struct {
	name    string
	summary string
	input   any // the input with its defaults: a struct of statsInput fields
	run     func(raw []byte) (any, error)
}

// stat makes an entry. Fields of the input have the tag is, which says what they are; those that may be left out have opt, and then
// the value in defaults; min and max bound a number.
func stat[In any](name, summary string, defaults In, run func(In) any) statistic {
	return statistic{name, summary, defaults, func(raw []byte) (out any, err error) {
		in := defaults
		if err := decodeStats(raw, &in, name); err != nil {
			return nil, err
		}
		defer func() {
			if r := recover(); r != nil {
				text, ok := r.(string)
				if !ok || !strings.HasPrefix(text, "stats: ") {
					panic(r)
				}
				err = statsUsage(name, errors.New(strings.TrimPrefix(text, "stats: ")))
			}
		}()
		return run(in), nil
	}}
}

func statsVerb() *verb {
	return &verb{
		name: "stats", operands: "[NAME]", summary: "one statistic of package stats, JSON in on stdin, JSON out; without NAME the list",
		details: "The input is one JSON object with the fields that the list names; null in a list of numbers is a missing value. In the output what is\n" +
			"undefined is null, with its reason under \"undefined\". Sampled results name their generator and seed.",
		flags: func(fs *pflag.FlagSet) action {
			list := fs.Bool("list", false, "print the names with their input fields")
			schema := fs.Bool("schema", false, "print the JSON Schema of NAME's input")
			return func(_ context.Context, a *app, operands []string) error {
				if *list || len(operands) == 0 {
					if *schema {
						return &usageError{errors.New("--schema needs a NAME"), "`headscope stats` lists the names"}
					}
					if err := operandsOf("stats", operands); err != nil {
						return err
					}
					return listStats(a.out)
				}
				if err := operandsOf("stats", operands, "NAME"); err != nil {
					return err
				}
				s, err := findStat(operands[0])
				if err != nil {
					return err
				}
				if *schema {
					return a.json(s.schema())
				}
				raw, err := io.ReadAll(io.LimitReader(a.in, mostStatsInput+1))
				if err != nil {
					return err
				}
				if len(raw) > mostStatsInput {
					return statsUsage(s.name, fmt.Errorf("the input is longer than %d bytes", mostStatsInput))
				}
				result, err := s.run(raw)
				if err != nil {
					return err
				}
				return a.json(encodeStats(reflect.ValueOf(result)))
			}
		},
	}
}

func statsUsage(name string, err error) error {
	return &usageError{fmt.Errorf("stats %s: %w", name, err), fmt.Sprintf("`headscope stats %s --schema` says what the input holds", name)}
}

func findStat(name string) (*statistic, error) {
	var names []string
	for _, s := range statistics() {
		if s.name == name {
			return &s, nil
		}
		names = append(names, s.name)
	}
	hint := "`headscope stats` lists the names"
	if best := nearest(name, names, 4); best != "" {
		hint = fmt.Sprintf("did you mean %q? %s", best, hint)
	}
	return nil, &usageError{fmt.Errorf("unknown statistic %q", name), hint}
}

func listStats(out io.Writer) error {
	var b strings.Builder
	for _, s := range statistics() {
		fmt.Fprintf(&b, "%-20s %s\n%20s", s.name, s.summary, "")
		for _, f := range statsFields(s.input) {
			text := f.name
			if f.optional {
				text = fmt.Sprintf("[%s=%s]", f.name, f.initial)
			}
			fmt.Fprintf(&b, " %s", text)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// statsField is one field of an input.
type statsField struct {
	name, is string
	kind     reflect.Type
	optional bool
	initial  string // as JSON
	min, max *float64
	index    []int // see reflect.Value.FieldByIndex
}

// statsFields returns the fields of an input, those of embedded structs among them.
func statsFields(input any) []statsField {
	v := reflect.ValueOf(input)
	var out []statsField
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous {
			continue
		}
		field := statsField{name: f.Tag.Get("json"), is: f.Tag.Get("is"), kind: f.Type, index: f.Index}
		_, field.optional = f.Tag.Lookup("opt")
		if b, err := json.Marshal(v.FieldByIndex(f.Index).Interface()); err == nil {
			field.initial = string(b)
		}
		for tag, to := range map[string]**float64{"min": &field.min, "max": &field.max} {
			if x, err := strconv.ParseFloat(f.Tag.Get(tag), 64); err == nil {
				*to = &x
			}
		}
		out = append(out, field)
	}
	return out
}

// numbers is a list in which null is NaN.
type numbers []float64

func (n *numbers) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return errors.New("null in place of a list")
	}
	var list []*float64
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*n = make(numbers, len(list))
	for i, p := range list {
		(*n)[i] = math.NaN()
		if p != nil {
			(*n)[i] = *p
		}
	}
	return nil
}

// flags is a list of booleans, of which 0 and 1 are two.
type flags []bool

func (f *flags) UnmarshalJSON(b []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*f = make(flags, len(list))
	for i, v := range list {
		switch string(v) {
		case "true", "1":
			(*f)[i] = true
		case "false", "0":
		default:
			return fmt.Errorf("got %s, want true, false, 1 or 0", v)
		}
	}
	return nil
}

// decodeStats reads an input strictly: no unknown, repeated or missing field, no number out of its bounds.
func decodeStats(raw []byte, to any, name string) error {
	if err := checkObject(raw); err != nil {
		if errors.Is(err, io.EOF) || len(bytes.TrimSpace(raw)) == 0 {
			err = errors.New("no input on stdin")
		}
		if bytes.Contains(raw, []byte("NaN")) || bytes.Contains(raw, []byte("Infinity")) {
			return &usageError{fmt.Errorf("stats %s: %w", name, err), "JSON has no NaN and no infinity: write null for a missing value"}
		}
		return statsUsage(name, err)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return statsUsage(name, err)
	}
	v := reflect.ValueOf(to).Elem()
	known := map[string]bool{}
	for _, f := range statsFields(v.Interface()) {
		known[f.name] = true
		text, ok := given[f.name]
		if !ok && f.optional {
			continue
		}
		if !ok {
			return statsUsage(name, fmt.Errorf("field %q is missing: want %s", f.name, f.is))
		}
		if err := f.decode(text, v.FieldByIndex(f.index)); err != nil {
			return statsUsage(name, fmt.Errorf("field %q: %w", f.name, err))
		}
	}
	for key := range given {
		if !known[key] {
			return statsUsage(name, fmt.Errorf("unknown field %q", key))
		}
	}
	return nil
}

func (f *statsField) decode(text json.RawMessage, to reflect.Value) error {
	if bytes.Equal(text, []byte("null")) {
		return fmt.Errorf("got null, want %s", f.is)
	}
	if err := json.Unmarshal(text, to.Addr().Interface()); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return fmt.Errorf("got %s, want %s", kind.Value, f.is)
		}
		return err
	}
	x := 0.0
	switch {
	case to.CanInt():
		x = float64(to.Int())
	case to.CanUint():
		x = float64(to.Uint())
	case to.CanFloat():
		x = to.Float()
	default:
		return nil
	}
	if f.min != nil && x < *f.min || f.max != nil && x > *f.max {
		return fmt.Errorf("got %s, want %s", text, f.bounds())
	}
	return nil
}

func (f *statsField) bounds() string {
	switch {
	case f.min == nil:
		return fmt.Sprintf("at most %v", *f.max)
	case f.max == nil:
		return fmt.Sprintf("at least %v", *f.min)
	}
	return fmt.Sprintf("%v to %v", *f.min, strconv.FormatFloat(*f.max, 'f', -1, 64))
}

// schema is the JSON Schema of the input (draft 2020-12).
func (s *statistic) schema() object {
	properties, required := object{}, []string{}
	for _, f := range statsFields(s.input) {
		p := append(typeSchema(f.kind), member{"description", f.is})
		if f.min != nil {
			p = append(p, member{"minimum", *f.min})
		}
		if f.max != nil {
			p = append(p, member{"maximum", *f.max})
		}
		if f.optional {
			p = append(p, member{"default", json.RawMessage(f.initial)})
		} else {
			required = append(required, f.name)
		}
		properties = append(properties, member{f.name, p})
	}
	return object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", s.name}, {"description", s.summary}, {"type", "object"},
		{"properties", properties}, {"required", required}, {"additionalProperties", false},
	}
}

func typeSchema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[numbers]():
		return object{{"type", "array"}, {"items", object{{"type", []string{"number", "null"}}}}}
	case t == reflect.TypeFor[flags]():
		return object{{"type", "array"}, {"items", object{{"enum", []any{true, false, 1, 0}}}}}
	case t.Kind() == reflect.Slice:
		return object{{"type", "array"}, {"items", typeSchema(t.Elem())}}
	case t.Kind() == reflect.Bool:
		return object{{"type", "boolean"}}
	case t.Kind() == reflect.String:
		return object{{"type", "string"}}
	case t.Kind() == reflect.Float64:
		return object{{"type", "number"}}
	case t.Kind() == reflect.Uint64:
		return object{{"type", "integer"}, {"minimum", 0}}
	}
	return object{{"type", "integer"}}
}
