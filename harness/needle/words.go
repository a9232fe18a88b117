package needle

import (
	"slices"
	"strings"
	"unicode"
)

// stopWords are the words that carry no content in needles and questions.
var stopWords = wordSet(`a an the this that these those and or but nor so as if than then of for to in into on onto off out at by
	from with up down before after when while once twice only not no nothing all is are was were be been being am do does did has
	have had will would can could must should may might it its he she they them her his their one others somebody what which who
	whom whose how where why there here except across above near inside away back till until hours`)

func wordSet(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

// contentWords returns the words of a text that are no stop words, in lower case and in order.
func contentWords(text string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' }) {
		if !stopWords[w] {
			out = append(out, w)
		}
	}
	return out
}

// contentBigrams returns the pairs of content words that follow each other, stop words between them left out.
func contentBigrams(text string) [][2]string {
	w := contentWords(text)
	var out [][2]string
	for i := 1; i < len(w); i++ {
		out = append(out, [2]string{w[i-1], w[i]})
	}
	return out
}

// reservedBigrams are those of all needles and questions, apart from the ones that only a subject or a code makes.
var reservedBigrams = func() map[[2]string]bool {
	m := map[[2]string]bool{}
	for i := range templates {
		t := &templates[i]
		for _, w := range slices.Concat(t.detect, t.test, t.agree) {
			for _, text := range []string{w.needle, w.question, w.prefix} {
				for _, b := range contentBigrams(text) {
					if b[0] != "s" && b[1] != "s" && b[0] != "c" && b[1] != "c" {
						m[b] = true
					}
				}
			}
		}
	}
	return m
}()
