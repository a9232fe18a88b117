package safetensors

import (
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of values that are skipped unread; header values never nest beyond what the format has.
const maxDepth = 64

// scanner reads JSON (RFC 8259) token by token. encoding/json keeps the last of two equal keys and says nothing; here every key is seen.
// Strings without escapes are slices of the input, so that a header of many tensors costs little more than itself.
type scanner struct {
	s   string
	pos int
}

func (s *scanner) space() {
	for s.pos < len(s.s) {
		switch s.s[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos == len(s.s) {
		return 0
	}
	return s.s[s.pos]
}

// found describes what stands at the current position, for error texts.
func (s *scanner) found() string {
	if s.peek() == 0 && s.pos == len(s.s) {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(s.s[s.pos:])
	return "'" + string(r) + "'"
}

func (s *scanner) take(c byte) *HeaderError {
	if s.peek() != c {
		return broken(RuleJSON, "byte %d: got %s, want '%c'", s.pos, s.found(), c)
	}
	s.pos++
	return nil
}

// end checks that only white space is left.
func (s *scanner) end() *HeaderError {
	if s.space(); s.pos != len(s.s) {
		return broken(RuleJSON, "byte %d: got %s, want the end", s.pos, s.found())
	}
	return nil
}

// object walks {"key": value, ...}; member must consume the value.
func (s *scanner) object(member func(key string) *HeaderError) *HeaderError {
	if err := s.take('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		if s.peek() == '}' && first {
			s.pos++
			return nil
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		if err := s.take(':'); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		if s.peek() == '}' {
			s.pos++
			return nil
		}
		if err := s.take(','); err != nil {
			return err
		}
	}
}

// array walks [value, ...]; element must consume the value.
func (s *scanner) array(element func() *HeaderError) *HeaderError {
	if err := s.take('['); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.peek() == ']' {
			s.pos++
			return nil
		}
		if err := s.take(','); err != nil {
			return err
		}
	}
}

// str reads a string.
func (s *scanner) str() (string, *HeaderError) {
	if err := s.take('"'); err != nil {
		return "", err
	}
	start := s.pos
	for s.pos < len(s.s) {
		switch c := s.s[s.pos]; {
		case c == '"':
			s.pos++
			return s.s[start : s.pos-1], nil
		case c == '\\':
			return s.escaped(start)
		case c < 0x20:
			return "", broken(RuleJSON, "byte %d: control character in a string", s.pos)
		}
		s.pos++
	}
	return "", broken(RuleJSON, "byte %d: string without an end", start-1)
}

// escaped reads on from the first backslash of a string that began at start.
func (s *scanner) escaped(start int) (string, *HeaderError) {
	var b strings.Builder
	b.WriteString(s.s[start:s.pos])
	for s.pos < len(s.s) {
		c := s.s[s.pos]
		switch {
		case c == '"':
			s.pos++
			return b.String(), nil
		case c < 0x20:
			return "", broken(RuleJSON, "byte %d: control character in a string", s.pos)
		case c != '\\':
			b.WriteByte(c)
			s.pos++
			continue
		}
		r, err := s.escape()
		if err != nil {
			return "", err
		}
		b.WriteRune(r)
	}
	return "", broken(RuleJSON, "byte %d: string without an end", start-1)
}

// escape reads one escape sequence, a surrogate pair counting as one.
func (s *scanner) escape() (rune, *HeaderError) {
	at := s.pos
	if s.pos+1 >= len(s.s) {
		return 0, broken(RuleJSON, "byte %d: escape cut off", at)
	}
	c := s.s[s.pos+1]
	s.pos += 2
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return 0, broken(RuleJSON, "byte %d: unknown escape", at)
	}
	r, ok := s.hex4()
	if ok && utf16.IsSurrogate(r) {
		// A lone half has no UTF-8 form; replacing it would let two different names become one.
		ok = strings.HasPrefix(s.s[s.pos:], `\u`)
		if ok {
			s.pos += 2
			var low rune
			low, ok = s.hex4()
			r = utf16.DecodeRune(r, low)
			ok = ok && r != utf8.RuneError
		}
	}
	if !ok {
		return 0, broken(RuleJSON, "byte %d: bad \\u escape", at)
	}
	return r, nil
}

func (s *scanner) hex4() (rune, bool) {
	if s.pos+4 > len(s.s) {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s.s[s.pos : s.pos+4]) {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	s.pos += 4
	return r, true
}

// count reads a whole number from 0 to 2^63-1 written in plain digits; another value breaks the given rule.
func (s *scanner) count(rule Rule) (int64, *HeaderError) {
	s.space()
	start, n := s.pos, int64(0)
	for s.pos < len(s.s) && '0' <= s.s[s.pos] && s.s[s.pos] <= '9' {
		d := int64(s.s[s.pos] - '0')
		if n > (math.MaxInt64-d)/10 {
			return 0, broken(RuleOverflow, "byte %d: number does not fit 63 bits", start)
		}
		n = 10*n + d
		s.pos++
	}
	if s.pos == start {
		return 0, broken(rule, "byte %d: got %s, want a count", start, s.found())
	}
	if s.pos-start > 1 && s.s[start] == '0' {
		return 0, broken(RuleJSON, "byte %d: number with a leading zero", start)
	}
	if s.pos < len(s.s) && strings.IndexByte(".eE", s.s[s.pos]) >= 0 {
		return 0, broken(rule, "byte %d: got a fraction or exponent, want a count in digits", start)
	}
	return n, nil
}

// skip passes over any value, refusing what is not JSON, nests too deep or repeats a key; numbers are returned as written.
func (s *scanner) skip(depth int) (number string, err *HeaderError) {
	if depth > maxDepth {
		return "", broken(RuleJSON, "byte %d: nested deeper than %d", s.pos, maxDepth)
	}
	switch c := s.peek(); {
	case c == '{':
		seen := map[string]bool{}
		return "", s.object(func(key string) *HeaderError {
			if seen[key] {
				return broken(RuleDuplicateKey, "%.80q", key)
			}
			seen[key] = true
			_, err := s.skip(depth + 1)
			return err
		})
	case c == '[':
		return "", s.array(func() *HeaderError { _, err := s.skip(depth + 1); return err })
	case c == '"':
		_, err := s.str()
		return "", err
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(s.s[s.pos:], word) {
			s.pos += len(word)
			return "", nil
		}
	}
	return "", broken(RuleJSON, "byte %d: got %s, want a value", s.pos, s.found())
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.s) && '0' <= s.s[s.pos] && s.s[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

// number reads a number and returns its text.
func (s *scanner) number() (string, *HeaderError) {
	start := s.pos
	if s.s[s.pos] == '-' {
		s.pos++
	}
	whole := s.pos
	ok := s.digits() && (s.s[whole] != '0' || s.pos-whole == 1)
	if ok && s.pos < len(s.s) && s.s[s.pos] == '.' {
		s.pos++
		ok = s.digits()
	}
	if ok && s.pos < len(s.s) && s.s[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.s) && (s.s[s.pos] == '+' || s.s[s.pos] == '-') {
			s.pos++
		}
		ok = s.digits()
	}
	if !ok {
		return "", broken(RuleJSON, "byte %d: bad number", start)
	}
	return s.s[start:s.pos], nil
}
