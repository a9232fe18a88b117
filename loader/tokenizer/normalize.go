package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites a piece before it is cut into words.
type normalizer interface {
	normalize(p piece) piece
}

type normalizers []normalizer

func (ns normalizers) normalize(p piece) piece {
	for _, n := range ns {
		p = n.normalize(p)
	}
	return p
}

// prepend puts a prefix before a piece that is not empty; the prefix stands for the piece's first character.
type prepend struct{ prefix string }

func (n prepend) normalize(p piece) piece {
	if p.text == "" {
		return p
	}
	w := rewrite(p, len(n.prefix))
	w.put(n.prefix, p.at(0))
	w.keep(0, len(p.text))
	return w.piece()
}

// replace puts content for each occurrence of pattern; the content stands for the last character of what it replaces.
type replace struct{ pattern, content string }

func (n replace) normalize(p piece) piece {
	count := strings.Count(p.text, n.pattern)
	if count == 0 {
		return p
	}
	w := rewrite(p, count*max(0, len(n.content)-len(n.pattern)))
	pos := 0
	for range count {
		s := pos + strings.Index(p.text[pos:], n.pattern)
		w.keep(pos, s)
		pos = s + len(n.pattern)
		w.put(n.content, p.at(pos-1))
	}
	w.keep(pos, len(p.text))
	return w.piece()
}

// nfc is Unicode normalization form C. A composed character stands for its base only, as in the reference: the marks it
// took in belong to no token.
type nfc struct{}

// scalar is a character on its way through decomposition and composition. change says how it uses up the source: 0 takes
// the place of one source character, -n of n+1 of them, +1 of none.
type scalar struct {
	r      rune
	change int
}

func (nfc) normalize(p piece) piece {
	if norm.NFC.IsNormalString(p.text) {
		return p
	}
	w := rewrite(p, len(p.text)/2)
	used := 0 // bytes of the source used up
	for pos := 0; pos < len(p.text); {
		if n := norm.NFC.QuickSpanString(p.text[pos:]); n > 0 {
			w.keep(pos, pos+n)
			pos += n
			used = pos
			continue
		}
		n := norm.NFC.NextBoundaryInString(p.text[pos:], true)
		for _, c := range compose(decompose(p.text[pos : pos+n])) {
			at := span{p.origin(), p.origin()}
			if c.change > 0 && used > 0 {
				at = p.at(used - 1)
			}
			if c.change <= 0 {
				at = p.at(used)
			}
			for range 1 - c.change {
				_, width := utf8.DecodeRuneInString(p.text[used:])
				used += width
			}
			w.put(string(c.r), at)
		}
		pos += n
	}
	return w.piece()
}

// decompose returns the canonical decomposition of s in canonical order.
func decompose(s string) []scalar {
	var out []scalar
	for _, r := range s {
		for i, d := range []rune(norm.NFD.String(string(r))) {
			out = append(out, scalar{d, min(i, 1)})
		}
	}
	for i := 0; i < len(out); {
		j := i
		for j < len(out) && class(out[j].r) != 0 {
			j++
		}
		slices.SortStableFunc(out[i:j], func(a, b scalar) int { return int(class(a.r)) - int(class(b.r)) })
		i = j + 1
	}
	return out
}

// compose is the canonical composition algorithm of UAX 15.
func compose(in []scalar) []scalar {
	out := in[:0:0]
	starter, last := -1, uint8(0) // index in out; class of the last character since the starter, 0 when adjacent
	for _, c := range in {
		k := class(c.r)
		if starter >= 0 && (starter == len(out)-1 || last < k) {
			pair := norm.NFC.String(string(out[starter].r) + string(c.r))
			if r, n := utf8.DecodeRuneInString(pair); n == len(pair) {
				out[starter] = scalar{r, out[starter].change + c.change - 1}
				continue
			}
		}
		if k == 0 {
			starter = len(out)
		}
		last = k
		out = append(out, c)
	}
	return out
}

// class is the canonical combining class of r.
func class(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }
