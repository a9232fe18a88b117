package ledger

import (
	"math"

	"github.com/headscope/headscope/heads"
)

// PlaneEntry is one plane's line of the ledger: its part of the mean score of some keys minus that of the rest, in units of a score. Content
// is what the plane would give if neither query nor key turned, Rotation what turning changes: freezing the plane takes Rotation away,
// zeroing it both. Offset is the plane's mean over all visible keys, rotation included: it is common to all keys, the softmax does not see it,
// and it is no part of the difference.
type PlaneEntry struct {
	CodeContent    float64 `json:"code_content"`
	CodeRotation   float64 `json:"code_rotation"`
	NeedleContent  float64 `json:"needle_content"`
	NeedleRotation float64 `json:"needle_rotation"`
	Offset         float64 `json:"offset"`
}

// Balanced is a row's ledger. Keys are those that the row sees; the rest are those outside of the needle. Scores are before a soft cap.
type Balanced struct {
	Code   float64      `json:"code"`   // mean score of the answer's tokens in the needle minus the mean of the rest: the sum of the entries
	Needle float64      `json:"needle"` // of all of the needle's tokens
	Planes []PlaneEntry `json:"planes"` // [planes+1], by number; last, the dimensions that do not rotate
}

// Balance splits a row's scores by plane. It is zero where the row sees no key of the needle, or none beside it.
func (h *Head) Balance(row int, needle, code heads.Span) *Balanced {
	span := h.Visible(row)
	needle, code = clip(needle, span), clip(code, span)
	b := &Balanced{Planes: make([]PlaneEntry, h.turns.planes+1)}
	others := span.Len() - needle.Len()
	if needle.Len() == 0 || code.Len() == 0 || others == 0 {
		return b
	}
	for p := range b.Planes {
		e := &b.Planes[p]
		for key := span[0]; key < span[1]; key++ {
			turned, content := 0.0, 0.0
			if p < h.turns.planes {
				turned, content = h.term(p, row, key)
			} else {
				turned = h.rest(row, key)
				content = turned
			}
			e.Offset += turned / float64(span.Len())
			inNeedle := -1 / float64(others)
			if key >= needle[0] && key < needle[1] {
				inNeedle = 1 / float64(needle.Len())
			}
			inCode := min(inNeedle, 0)
			if key >= code[0] && key < code[1] {
				inCode = 1 / float64(code.Len())
			}
			e.CodeContent += inCode * content
			e.CodeRotation += inCode * (turned - content)
			e.NeedleContent += inNeedle * content
			e.NeedleRotation += inNeedle * (turned - content)
		}
		b.Code += e.CodeContent + e.CodeRotation
		b.Needle += e.NeedleContent + e.NeedleRotation
	}
	return b
}

// Sums adds the entries up. A sum that differs from the stated one by rounding alone is the stated one.
func (b *Balanced) Sums() (code, needle float64) {
	var size float64
	for _, e := range b.Planes {
		code += e.CodeContent + e.CodeRotation
		needle += e.NeedleContent + e.NeedleRotation
		size += math.Abs(e.CodeContent) + math.Abs(e.CodeRotation) + math.Abs(e.NeedleContent) + math.Abs(e.NeedleRotation)
	}
	if math.Abs(code-b.Code) <= 1e-12*size {
		code = b.Code
	}
	if math.Abs(needle-b.Needle) <= 1e-12*size {
		needle = b.Needle
	}
	return code, needle
}

// clip is the part of a span that another has.
func clip(s, in heads.Span) heads.Span {
	lo, hi := max(s[0], in[0]), min(s[1], in[1])
	return heads.Span{lo, max(lo, hi)}
}

// OverRest is the mean of a row's values, of the keys in span, over those in `of` minus that over those outside of needle.
func OverRest(values []float64, span, of, needle heads.Span) float64 {
	var in, out, nIn, nOut float64
	for i, v := range values {
		key := span[0] + i
		if key >= of[0] && key < of[1] {
			in, nIn = in+v, nIn+1
		}
		if key < needle[0] || key >= needle[1] {
			out, nOut = out+v, nOut+1
		}
	}
	if nIn == 0 || nOut == 0 {
		return 0
	}
	return in/nIn - out/nOut
}

// MassOn is the sum of a row's weights on the keys of a span.
func MassOn(weights []float64, visible, of heads.Span) float64 {
	sum := 0.0
	for key := max(of[0], visible[0]); key < min(of[1], visible[1]); key++ {
		sum += weights[key-visible[0]]
	}
	return sum
}

// Add adds another row's ledger, times a weight.
func (b *Balanced) Add(o *Balanced, w float64) {
	if len(b.Planes) == 0 {
		b.Planes = make([]PlaneEntry, len(o.Planes))
	}
	b.Code += w * o.Code
	b.Needle += w * o.Needle
	for i := range b.Planes {
		to, from := &b.Planes[i], &o.Planes[i]
		to.CodeContent += w * from.CodeContent
		to.CodeRotation += w * from.CodeRotation
		to.NeedleContent += w * from.NeedleContent
		to.NeedleRotation += w * from.NeedleRotation
		to.Offset += w * from.Offset
	}
}
