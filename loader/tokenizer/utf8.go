package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// subpart returns the length of the maximal subpart of an ill-formed sequence that b starts with: the bytes that one
// U+FFFD replaces (Unicode 15, section 3.9, the practice of Rust's from_utf8_lossy). b[0] does not begin a valid character.
func subpart(b string) int {
	lo, hi, need := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		if c == 0xE0 {
			lo = 0xA0
		}
		if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		if c == 0xF0 {
			lo = 0x90
		}
		if c == 0xF4 {
			hi = 0x8F
		}
	}
	n := 1
	for n <= need && n < len(b) && b[n] >= lo && b[n] <= hi {
		n++
		lo, hi = 0x80, 0xBF
	}
	return n
}

// firstInvalid returns the position of the first byte that is not part of a valid character, or -1.
func firstInvalid(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}

// lossy replaces each maximal ill-formed subpart of s by U+FFFD. back, when not nil, gets for each byte offset of the
// result (its length included) the offset in s.
func lossy(s string, back *[]int32) string {
	var w strings.Builder
	w.Grow(len(s) + 8)
	note := func(from, n, step int) {
		if back == nil {
			return
		}
		for i := range n {
			*back = append(*back, int32(from+i*step))
		}
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			w.WriteString("\uFFFD")
			note(i, 3, 0)
			i += subpart(s[i:])
			continue
		}
		w.WriteString(s[i : i+n])
		note(i, n, 1)
		i += n
	}
	note(len(s), 1, 0)
	return w.String()
}
