package gguf

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// object is a JSON object whose members keep their order, which encoding/json's maps do not.
type object []member

type member struct {
	key   string
	value any
}

// writeJSON writes v as Python's json.dump writes it, non-ASCII characters as they are: on one line with ", " and ": " between
// the parts or, with indent > 0, one part a line. v is made of nil, bool, int, float64, string, []string, []any and object.
//
// Python's form is kept so that a folder equals, byte for byte, one that Python code has written from the same file.
func writeJSON(w io.Writer, v any, indent int) error {
	p := &jsonPrinter{w: bufio.NewWriterSize(w, 64<<10), indent: indent}
	if err := p.value(v, 0); err != nil {
		return err
	}
	return p.w.Flush() // reports the first failed write
}

type jsonPrinter struct {
	w      *bufio.Writer
	indent int
}

func (p *jsonPrinter) value(v any, depth int) error {
	switch v := v.(type) {
	case nil:
		p.w.WriteString("null")
	case bool:
		p.w.WriteString(strconv.FormatBool(v))
	case int:
		p.w.WriteString(strconv.Itoa(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%v has no JSON form", v)
		}
		p.w.WriteString(pythonFloat(v))
	case string:
		p.text(v)
	case []string:
		return p.list('[', ']', len(v), depth, func(i int) error { p.text(v[i]); return nil })
	case []any:
		return p.list('[', ']', len(v), depth, func(i int) error { return p.value(v[i], depth+1) })
	case object:
		return p.list('{', '}', len(v), depth, func(i int) error {
			p.text(v[i].key)
			p.w.WriteString(": ")
			return p.value(v[i].value, depth+1)
		})
	default:
		return fmt.Errorf("no JSON form for a %T", v)
	}
	return nil
}

func (p *jsonPrinter) list(open, closing byte, n, depth int, item func(i int) error) error {
	p.w.WriteByte(open)
	for i := range n {
		if i > 0 {
			p.w.WriteByte(',')
		}
		if p.indent > 0 {
			p.line(depth + 1)
		} else if i > 0 {
			p.w.WriteByte(' ')
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 && p.indent > 0 {
		p.line(depth)
	}
	return p.w.WriteByte(closing)
}

func (p *jsonPrinter) line(depth int) {
	p.w.WriteByte('\n')
	p.w.WriteString(strings.Repeat(" ", depth*p.indent))
}

// text writes a string of valid UTF-8.
func (p *jsonPrinter) text(s string) {
	p.w.WriteByte('"')
	plain := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		p.w.WriteString(s[plain:i])
		plain = i + 1
		switch c {
		case '"', '\\':
			p.w.WriteByte('\\')
			p.w.WriteByte(c)
		case '\n':
			p.w.WriteString(`\n`)
		case '\r':
			p.w.WriteString(`\r`)
		case '\t':
			p.w.WriteString(`\t`)
		case '\b':
			p.w.WriteString(`\b`)
		case '\f':
			p.w.WriteString(`\f`)
		default:
			fmt.Fprintf(p.w, `\u%04x`, c)
		}
	}
	p.w.WriteString(s[plain:])
	p.w.WriteByte('"')
}

// pythonFloat formats a finite float as Python's repr: shortest digits, exponents below 1e-4 and from 1e16 on.
func pythonFloat(x float64) string {
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
