package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// AddedToken is a token that is looked for in the text itself, before and apart from the model.
type AddedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no word character touches it
	LStrip     bool   `json:"lstrip"`      // takes the white space before it
	RStrip     bool   `json:"rstrip"`      // takes the white space after it
	Normalized bool   `json:"normalized"`  // looked for after the normalizer, itself normalized
	Special    bool   `json:"special"`     // left out by Decode's skipSpecial, literal text under Options.LiteralSpecial
}

// matcher finds added tokens, leftmost first, the longest at each place.
type matcher struct {
	tokens []AddedToken
	nodes  []trieNode // nodes[0] is the root
	first  [256]bool  // bytes that begin some token
}

type trieNode struct {
	next  map[byte]int32
	token int32 // index in tokens, -1
}

func newMatcher() *matcher { return &matcher{nodes: []trieNode{{token: -1}}} }

// add makes the matcher look for pattern as a form of tok.
func (m *matcher) add(pattern string, tok AddedToken) {
	if pattern == "" {
		return
	}
	m.first[pattern[0]] = true
	at := int32(0)
	for i := range len(pattern) {
		child, ok := m.nodes[at].next[pattern[i]]
		if !ok {
			child = int32(len(m.nodes))
			m.nodes = append(m.nodes, trieNode{token: -1})
			if m.nodes[at].next == nil {
				m.nodes[at].next = map[byte]int32{}
			}
			m.nodes[at].next[pattern[i]] = child
		}
		at = child
	}
	m.nodes[at].token = int32(len(m.tokens))
	m.tokens = append(m.tokens, tok)
}

// longest returns the longest token that s begins with, and its length; -1 if there is none.
func (m *matcher) longest(s string) (token int32, length int) {
	token = -1
	at := int32(0)
	for i := range len(s) {
		child, ok := m.nodes[at].next[s[i]]
		if !ok {
			break
		}
		at = child
		if t := m.nodes[at].token; t >= 0 {
			token, length = t, i+1
		}
	}
	return token, length
}

// split cuts s: text(start, end) for what holds no added token, token(id, start, end) for each one found.
func (m *matcher) split(s string, literalSpecial bool, text func(s, e int), token func(id int32, s, e int)) {
	done := 0
	for i := 0; i < len(s); {
		if !m.first[s[i]] {
			i++
			continue
		}
		k, n := m.longest(s[i:])
		if k < 0 {
			i++
			continue
		}
		start, end := i, i+n
		i = end
		tok := &m.tokens[k]
		if literalSpecial && tok.Special || tok.SingleWord && touchesWord(s, start, end) {
			continue
		}
		if tok.LStrip {
			for start > done {
				r, w := utf8.DecodeLastRuneInString(s[:start])
				if !unicode.IsSpace(r) {
					break
				}
				start -= w
			}
			start = max(start, done)
		}
		if tok.RStrip {
			for end < len(s) {
				r, w := utf8.DecodeRuneInString(s[end:])
				if !unicode.IsSpace(r) {
					break
				}
				end += w
			}
		}
		if start > done {
			text(done, start)
		}
		if start < end { // else an rstrip before it has taken all of it
			token(tok.ID, start, end)
		}
		done = end
	}
	if done < len(s) {
		text(done, len(s))
	}
}

func touchesWord(s string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:start])
	after, _ := utf8.DecodeRuneInString(s[end:])
	return start > 0 && isWord(before) || end < len(s) && isWord(after)
}

// isWord is \w of Unicode regular expressions (UTS 18, annex C).
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
