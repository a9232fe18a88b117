package tokenizer

// byteLevelPattern is how a ByteLevel node with use_regex cuts words (GPT-2).
const byteLevelPattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// byteToRune is GPT-2's byte alphabet: printable Latin-1 characters stand for themselves, the other bytes, in order, for
// the characters from U+0100 on.
func byteToRune(b byte) rune {
	switch {
	case b >= '!' && b <= '~', b >= 0xA1 && b <= 0xAC, b >= 0xAE:
		return rune(b)
	case b <= ' ':
		return 0x100 + rune(b)
	case b <= 0xA0:
		return 0x100 + 0x21 + rune(b) - 0x7F
	}
	return 0x143 // 0xAD, the soft hyphen
}

// runeToByte is the inverse of byteToRune.
func runeToByte(r rune) (byte, bool) {
	switch {
	case r >= '!' && r <= '~', r >= 0xA1 && r <= 0xAC, r >= 0xAE && r <= 0xFF:
		return byte(r), true
	case r >= 0x100 && r <= 0x120:
		return byte(r - 0x100), true
	case r >= 0x121 && r <= 0x142:
		return byte(r - 0x121 + 0x7F), true
	case r == 0x143:
		return 0xAD, true
	}
	return 0, false
}

// appendAlphabet appends s, written in the byte alphabet, to dst.
func appendAlphabet(dst []byte, s string) []byte {
	for i := range len(s) {
		if r := byteToRune(s[i]); r < 0x80 {
			dst = append(dst, byte(r))
		} else {
			dst = append(dst, 0xC0|byte(r>>6), 0x80|byte(r&0x3F))
		}
	}
	return dst
}

// alphabetPiece rewrites a word in the byte alphabet; each character stands for the original character of its byte.
func alphabetPiece(p piece) piece {
	w := rewrite(p, len(p.text))
	for i := range len(p.text) {
		w.put(string(byteToRune(p.text[i])), p.at(i))
	}
	return w.piece()
}

// appendBytes appends the bytes that a token of a byte-level vocabulary stands for. A token with a character outside the
// alphabet (an added token) stands for itself.
func appendBytes(dst []byte, token string) []byte {
	n := len(dst)
	for _, r := range token {
		b, ok := runeToByte(r)
		if !ok {
			return append(dst[:n], token...)
		}
		dst = append(dst, b)
	}
	return dst
}
