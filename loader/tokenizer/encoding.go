package tokenizer

import "unicode/utf8"

// Encoding is an encoded text. Token i has the id IDs[i] and covers the bytes [Start[i], End[i]) of Text, widened to whole
// characters; the pieces of one character all cover that character. A token often covers the space before its word. A
// prefix that the pipeline puts before the text ("▁") covers the first character.
type Encoding struct {
	IDs        []int32
	Start, End []int32 // byte offsets in Text; 0, 0 for added special tokens
	Special    []bool  // added by the post-processor (HF's special_tokens_mask); false for special tokens written in the text
	Text       string
}

func (e *Encoding) grow(n int) {
	e.IDs, e.Special = make([]int32, 0, n), make([]bool, 0, n)
	e.Start, e.End = make([]int32, 0, n), make([]int32, 0, n)
}

func (e *Encoding) add(id int32, at span, special bool) {
	e.IDs = append(e.IDs, id)
	e.Start, e.End = append(e.Start, at.start), append(e.End, at.end)
	e.Special = append(e.Special, special)
}

// TokenSpan returns the range [lo, hi) of the tokens whose text overlaps the bytes [byteStart, byteEnd) of Text. ok is false
// when there is none, or when a token in between lies outside.
func (e *Encoding) TokenSpan(byteStart, byteEnd int) (lo, hi int, ok bool) {
	count := 0
	for i := range e.IDs {
		if e.Special[i] || int(e.Start[i]) >= byteEnd || int(e.End[i]) <= byteStart {
			continue
		}
		if count == 0 {
			lo = i
		}
		hi = i + 1
		count++
	}
	if byteStart >= byteEnd || count == 0 || count != hi-lo {
		return 0, 0, false
	}
	return lo, hi, true
}

// RuneOffsets returns the span of each token in code points of Text, which is what HF calls offsets.
func (e *Encoding) RuneOffsets() [][2]int {
	before := make([]int32, len(e.Text)+1) // characters that begin before each byte
	n := int32(0)
	for i := 0; i < len(e.Text); {
		_, w := utf8.DecodeRuneInString(e.Text[i:])
		before[i] = n
		n++
		for k := 1; k < w; k++ {
			before[i+k] = n
		}
		i += w
	}
	before[len(e.Text)] = n
	out := make([][2]int, len(e.IDs))
	for i := range out {
		out[i] = [2]int{int(before[e.Start[i]]), int(before[e.End[i]])}
	}
	return out
}
