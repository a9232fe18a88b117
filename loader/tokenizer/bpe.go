package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// bpe is the byte-pair-encoding model. Merges are applied by rank, the leftmost first among equals.
type bpe struct {
	vocab        map[string]int32
	merges       map[uint64]uint64 // left id << 32 | right id -> rank << 32 | merged id
	bytes        [256]int32        // byte-level: id of the byte's character; byteFallback: id of <0xXX>; -1 where there is none
	unk          int32             // -1: characters out of the vocabulary are dropped
	byteLevel    bool              // words are bytes, the vocabulary is in the byte alphabet
	byteFallback bool
	fuseUnk      bool
	ignoreMerges bool // a word that is in the vocabulary is one token
}

// token is part of a word: its id and how many bytes of the word it takes.
type token struct{ id, width int32 }

// symbol is a node of the linked list that merging works on; a width of 0 marks one that has been merged away.
type symbol struct{ id, width, prev, next int32 }

const (
	cachedWordBytes = 64
	cachedWords     = 1 << 15
)

// scratch is the working memory of one Encode.
type scratch struct {
	symbols  []symbol
	heap     []uint64 // rank << 32 | left symbol: a binary min-heap
	tokens   []token
	buf      []byte
	captures []capture
	cuts     []capture
	pieces   [2][]piece
	cache    map[string][]token
}

func newScratch() *scratch { return &scratch{cache: make(map[string][]token)} }

// release lets go of the text that was encoded.
func (sc *scratch) release() {
	for _, p := range sc.pieces {
		clear(p[:cap(p)])
	}
}

// word returns the tokens of a word, valid until the next call, and the piece whose bytes their widths count.
func (m *bpe) word(p piece, sc *scratch) ([]token, piece) {
	cacheable := len(p.text) <= cachedWordBytes
	if cacheable {
		if t, ok := sc.cache[p.text]; ok {
			return t, p
		}
	}
	if m.byteLevel && m.lacksByte(p.text) {
		// The reference counts widths in the byte alphabet and leaves dropped characters out of the count; only the
		// rewritten word reproduces the offsets that follow from it.
		p = alphabetPiece(p)
		return m.tokenize(p.text, false, sc), p
	}
	t := m.tokenize(p.text, m.byteLevel, sc)
	if cacheable && len(sc.cache) < cachedWords {
		sc.cache[strings.Clone(p.text)] = append([]token(nil), t...)
	}
	return t, p
}

func (m *bpe) lacksByte(s string) bool {
	for i := range len(s) {
		if m.bytes[s[i]] < 0 {
			return true
		}
	}
	return false
}

// tokenize encodes one word; raw says that its bytes still have to be read through the byte alphabet.
func (m *bpe) tokenize(s string, raw bool, sc *scratch) []token {
	sc.tokens = sc.tokens[:0]
	if m.ignoreMerges {
		key := append(sc.buf[:0], s...)
		if raw {
			key = appendAlphabet(sc.buf[:0], s)
		}
		sc.buf = key
		if id, ok := m.vocab[string(key)]; ok {
			sc.tokens = append(sc.tokens, token{id, int32(len(s))})
			return sc.tokens
		}
	}
	sc.symbols = sc.symbols[:0]
	if raw {
		for i := range len(s) {
			sc.add(m.bytes[s[i]], 1)
		}
	} else {
		m.addCharacters(s, sc)
	}
	if n := len(sc.symbols); n > 0 {
		sc.symbols[n-1].next = -1
	}
	m.merge(sc)
	for _, y := range sc.symbols {
		if y.width > 0 {
			sc.tokens = append(sc.tokens, token{y.id, y.width})
		}
	}
	return sc.tokens
}

func (sc *scratch) add(id, width int32) {
	i := int32(len(sc.symbols))
	sc.symbols = append(sc.symbols, symbol{id, width, i - 1, i + 1})
}

// addCharacters makes a symbol of each character, with the model's remedies for those out of the vocabulary.
func (m *bpe) addCharacters(s string, sc *scratch) {
	unk := int32(0) // width of the pending unknown token
	flush := func() {
		if unk > 0 {
			sc.add(m.unk, unk)
			unk = 0
		}
	}
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		id, ok := m.vocab[s[i:i+n]]
		switch {
		case ok:
			flush()
			sc.add(id, int32(n))
		case m.byteFallback && !m.lacksByte(s[i:i+n]):
			// An unknown token that is still pending comes after these bytes, as in the reference.
			for k := range n {
				sc.add(m.bytes[s[i+k]], 1)
			}
		case m.unk >= 0:
			if !m.fuseUnk {
				flush()
			}
			unk += int32(n)
		}
		i += n
	}
	flush()
}

// merge joins neighbouring symbols until no merge applies, in O(n log n).
func (m *bpe) merge(sc *scratch) {
	sy := sc.symbols
	sc.heap = sc.heap[:0]
	for i := range sy {
		if v, ok := m.candidate(sy, int32(i)); ok {
			sc.push(v&^0xffffffff | uint64(i))
		}
	}
	for len(sc.heap) > 0 {
		top := sc.pop()
		a := int32(uint32(top))
		if sy[a].width == 0 {
			continue
		}
		v, ok := m.candidate(sy, a)
		if !ok || v>>32 != top>>32 {
			continue // the pair has changed since it was queued
		}
		b := sy[a].next
		sy[a].id = int32(uint32(v))
		sy[a].width += sy[b].width
		sy[a].next = sy[b].next
		sy[b].width = 0
		if c := sy[a].next; c >= 0 {
			sy[c].prev = a
		}
		for _, k := range [2]int32{sy[a].prev, a} {
			if k < 0 {
				continue
			}
			if v, ok := m.candidate(sy, k); ok {
				sc.push(v&^0xffffffff | uint64(k))
			}
		}
	}
}

// candidate looks up the merge of symbol a with the one after it.
func (m *bpe) candidate(sy []symbol, a int32) (uint64, bool) {
	b := sy[a].next
	if b < 0 {
		return 0, false
	}
	v, ok := m.merges[pair(sy[a].id, sy[b].id)]
	return v, ok
}

func pair(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

func (sc *scratch) push(v uint64) {
	h := append(sc.heap, v)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up] <= v {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = v
	sc.heap = h
}

func (sc *scratch) pop() uint64 {
	h := sc.heap
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	sc.heap = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if h[c] >= last {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = last
	return top
}
