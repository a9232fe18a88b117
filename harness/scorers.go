package harness

import (
	"strings"
	"unicode"

	"github.com/headscope/headscope/loader/decoder"
)

// TextScores judge one greedy answer in the ways that are in use, side by side: they disagree, and a recall means little without
// its scorer's name. Outcome, and with it recall, goes by Substring.
type TextScores struct {
	FirstToken bool   `json:"first_token"` // the first greedy token is the answer's first
	Substring  bool   `json:"substring"`   // the answer stands in the text
	Exact      bool   `json:"exact"`       // the text is the answer, save white space and final punctuation around it
	Rouge1     Number `json:"rouge1"`      // ROUGE-1 recall: the share of the answer's words (letters and digits, lower case) that the text has
}

func textScores(p *Prompt, r *decoder.Reply, text string) *TextScores {
	s := &TextScores{Substring: strings.Contains(text, p.Spec.Answer), Rouge1: Number(rouge1(p.Spec.Answer, text))}
	s.FirstToken = len(r.Greedy) > 0 && r.Greedy[0] == p.Answer[0]
	trimmed := strings.TrimFunc(text, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune(".,;:!?\"'`", c) })
	s.Exact = trimmed == strings.TrimSpace(p.Spec.Answer)
	return s
}

// rouge1 is ROUGE-1 recall without stemming (Lin 2004): matched words of the reference, each as often as both have it, over its words.
func rouge1(reference, text string) float64 {
	have := map[string]int{}
	for _, w := range words(text) {
		have[w]++
	}
	ref := words(reference)
	if len(ref) == 0 {
		return 0
	}
	n := 0
	for _, w := range ref {
		if have[w] > 0 {
			have[w]--
			n++
		}
	}
	return float64(n) / float64(len(ref))
}

func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}
