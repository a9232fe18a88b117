package tokenizer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// plainJinja rewrites a template so that no white space is left to trim: text becomes string expressions, signs at the tags and comments
// go. It applies Jinja's own rules with trim_blocks and lstrip_blocks, as transformers sets them; the library that runs the template
// reaches past neighbouring tags when it trims.
func plainJinja(source string) (string, error) {
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	source = strings.TrimSuffix(source, "\n")
	var out strings.Builder
	lineStart := true // the tag before took the line break
	for pos := 0; ; {
		tag, ok := nextTag(source, pos)
		if !ok {
			writeText(&out, source[pos:])
			return out.String(), nil
		}
		if tag.end < 0 {
			return "", fmt.Errorf("line %d: %s is never closed", 1+strings.Count(source[:tag.start], "\n"), source[tag.start:tag.start+2])
		}
		writeText(&out, tag.trimBefore(source[pos:tag.start], lineStart))
		// Line breaks that were trimmed go into the tag, so that errors name the template's own lines.
		pad := strings.Repeat("\n", strings.Count(source[:tag.start], "\n")-strings.Count(out.String(), "\n"))
		switch tag.kind {
		case '{':
			out.WriteString("{{ " + pad + tag.body + " }}")
		case '%':
			if word, _, _ := strings.Cut(strings.TrimSpace(tag.body), " "); word == "raw" || word == "include" || word == "import" || word == "extends" {
				return "", fmt.Errorf("line %d: statement %q: %w", 1+strings.Count(source[:tag.start], "\n"), word, ErrUnsupported)
			}
			out.WriteString("{% " + pad + tag.body + " %}")
		}
		pos = tag.end
		switch {
		case tag.closing == '-':
			rest := strings.TrimLeftFunc(source[pos:], unicode.IsSpace)
			pos = len(source) - len(rest)
		case tag.closing == 0 && tag.kind != '{' && strings.HasPrefix(source[pos:], "\n"):
			pos++
		}
		lineStart = source[pos-1] == '\n'
	}
}

// jinjaTag is {{ }}, {% %} or {# #}. Its signs are '-', '+' or 0.
type jinjaTag struct {
	kind             byte // '{', '%' or '#'
	start, end       int  // end is negative for a tag that is never closed
	body             string
	opening, closing byte
}

// nextTag finds the first tag from pos on. Strings in a tag may hold what would close it.
func nextTag(s string, pos int) (tag jinjaTag, ok bool) {
	for ; ; pos++ {
		i := strings.IndexByte(s[pos:], '{')
		if i < 0 || pos+i+1 >= len(s) {
			return tag, false
		}
		pos += i
		if k := s[pos+1]; k == '{' || k == '%' || k == '#' {
			tag = jinjaTag{kind: k, start: pos, end: -1}
			break
		}
	}
	from := pos + 2
	if from < len(s) && (s[from] == '-' || s[from] == '+') {
		tag.opening = s[from]
		from++
	}
	closer := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[tag.kind]
	quote := byte(0)
	for i := from; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case tag.kind != '#' && (c == '\'' || c == '"'):
			quote = c
		case strings.HasPrefix(s[i:], closer):
			to := i
			if last := s[i-1]; i > from && (last == '-' || last == '+') {
				tag.closing = last
				to--
			}
			tag.body, tag.end = plainExpression(s[from:to]), i+2
			return tag, true
		}
	}
	return tag, true
}

var (
	stringEscape = regexp.MustCompile(`(?s)\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|.)`)
	mapByName    = regexp.MustCompile(`\|\s*map\s*\(\s*(['"])`)
)

// plainExpression writes out the escapes that the library would leave as they are, and turns map with the name of a filter, which it would
// run as if it did nothing, into a filter that it refuses.
func plainExpression(body string) string {
	body = stringEscape.ReplaceAllStringFunc(body, func(escape string) string {
		if escape == `\r` {
			return "\r"
		}
		code, err := strconv.ParseUint(escape[2:], 16, 32)
		switch {
		case err != nil:
			return escape
		case code == '\n': // a line more would shift the lines that errors name
			return `\n`
		case code == '\\', code == '\'', code == '"':
			return `\` + string(rune(code))
		}
		return string(rune(code))
	})
	return mapByName.ReplaceAllString(body, "| map_by_filter($1")
}

// trimBefore trims the text that stands before the tag.
func (tag *jinjaTag) trimBefore(text string, lineStart bool) string {
	if tag.opening == '-' {
		return strings.TrimRightFunc(text, unicode.IsSpace)
	}
	if tag.opening == '+' || tag.kind == '{' {
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if (line > 0 || lineStart) && strings.TrimSpace(text[line:]) == "" {
		return text[:line]
	}
	return text
}

func writeText(out *strings.Builder, text string) {
	if text != "" {
		out.WriteString(`{{ "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `" }}`)
	}
}
