package tokenizer

import "unicode/utf8"

// span is a half-open byte range of the text given to Encode.
type span struct{ start, end int32 }

// piece is a stretch of text between two stages of the pipeline, with the way back to the original text.
type piece struct {
	text string
	base int32  // offset of text in the original; used while aln is nil
	aln  []span // per byte of text, the original characters it stands for; nil while text is a verbatim slice of the original
}

// at returns the original range of the character that byte i of the piece belongs to.
func (p piece) at(i int) span {
	if p.aln != nil {
		return p.aln[i]
	}
	return p.span(i, i+1)
}

// span returns the original range of the bytes [s, e) of the piece, s < e, widened to whole characters.
func (p piece) span(s, e int) span {
	if p.aln != nil {
		return span{p.aln[s].start, p.aln[e-1].end}
	}
	for s > 0 && !utf8.RuneStart(p.text[s]) {
		s--
	}
	for e < len(p.text) && !utf8.RuneStart(p.text[e]) {
		e++
	}
	return span{p.base + int32(s), p.base + int32(e)}
}

// origin returns where in the original text the piece begins.
func (p piece) origin() int32 {
	if len(p.aln) > 0 {
		return p.aln[0].start
	}
	return p.base
}

// slice returns the bytes [s, e) of the piece, cut at character boundaries.
func (p piece) slice(s, e int) piece {
	q := piece{text: p.text[s:e], base: p.base + int32(s)}
	if p.aln != nil {
		q.aln = p.aln[s:e]
	}
	return q
}

// rewriter builds the rewritten form of a piece from left to right.
type rewriter struct {
	from piece
	text []byte
	aln  []span
}

func rewrite(p piece, extra int) *rewriter {
	n := len(p.text) + extra
	return &rewriter{from: p, text: make([]byte, 0, n), aln: make([]span, 0, n)}
}

// keep takes over the bytes [s, e) of the source.
func (w *rewriter) keep(s, e int) {
	w.text = append(w.text, w.from.text[s:e]...)
	if w.from.aln != nil {
		w.aln = append(w.aln, w.from.aln[s:e]...)
		return
	}
	for i := s; i < e; {
		_, n := utf8.DecodeRuneInString(w.from.text[i:e])
		start := w.from.base + int32(i)
		for range n {
			w.aln = append(w.aln, span{start, start + int32(n)})
		}
		i += n
	}
}

// put adds new text that stands for the given original characters.
func (w *rewriter) put(text string, at span) {
	w.text = append(w.text, text...)
	for range len(text) {
		w.aln = append(w.aln, at)
	}
}

func (w *rewriter) piece() piece {
	return piece{text: string(w.text), base: w.from.base, aln: w.aln}
}
