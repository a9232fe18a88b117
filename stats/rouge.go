package stats

import "strings"

// Rouge is the overlap of the words of two texts, each number between 0 and 1.
type Rouge struct {
	Recall    float64 `json:"recall"`    // of the reference's words
	Precision float64 `json:"precision"` // of the prediction's words
	F1        float64 `json:"f1"`
}

// Rouge1 scores a prediction by the single words that it shares with a reference, each as often as both have it (Lin 2004). Words are
// runs of a-z and 0-9 after lower-casing, as in the package rouge-score: accented letters split words, and texts in other scripts
// have none. stem reduces words of more than three letters by Porter's stemmer, as that package does. A text without words scores 0.
func Rouge1(reference, prediction string, stem bool) Rouge {
	ref, pred := rougeWords(reference, stem), rougeWords(prediction, stem)
	have := map[string]int{}
	for _, w := range pred {
		have[w]++
	}
	n := 0
	for _, w := range ref {
		if have[w] > 0 {
			have[w]--
			n++
		}
	}
	if n == 0 {
		return Rouge{}
	}
	r := Rouge{Recall: float64(n) / float64(len(ref)), Precision: float64(n) / float64(len(pred))}
	r.F1 = 2 * r.Precision * r.Recall / (r.Precision + r.Recall)
	return r
}

func rougeWords(text string, stem bool) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') })
	if stem {
		for i, w := range words {
			if len(w) > 3 {
				words[i] = porter(w)
			}
		}
	}
	return words
}

// porter is Porter's stemmer (1980) with the extensions of NLTK, for words of a-z and 0-9.
func porter(w string) string {
	for stem, forms := range map[string]string{
		"sky": " sky skies ", "die": " dying ", "lie": " lying ", "tie": " tying ", "news": " news ", "inning": " innings inning ",
		"outing": " outings outing ", "canning": " cannings canning ", "howe": " howe ", "proceed": " proceed ", "exceed": " exceed ",
		"succeed": " succeed ",
	} {
		if strings.Contains(forms, " "+w+" ") {
			return stem
		}
	}
	if len(w) <= 2 {
		return w
	}
	w = porterPast(porterPlural(w))
	if s, ok := strings.CutSuffix(w, "y"); ok && len(s) > 1 && consonant(s, len(s)-1) {
		w = s + "i"
	}
	w = porterSuffix(w)
	w = porterRules(w, 0, "icate:ic", "ative:", "alize:al", "iciti:ic", "ical:ic", "ful:", "ness:")
	w = porterRules(w, 1, "al:", "ance:", "ence:", "er:", "ic:", "able:", "ible:", "ant:", "ement:", "ment:", "ent:", "sion:s", "tion:t", "ion!", "ou:",
		"ism:", "ate:", "iti:", "ous:", "ive:", "ize:")
	if s, ok := strings.CutSuffix(w, "e"); ok && (measure(s) > 1 || measure(s) == 1 && !closed(s)) {
		w = s
	}
	if strings.HasSuffix(w, "ll") && measure(w[:len(w)-1]) > 1 {
		w = w[:len(w)-1]
	}
	return w
}

// consonant tells whether the letter at i is one; y is one at the start and after a vowel.
func consonant(w string, i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !consonant(w, i-1)
	}
	return true
}

// measure counts the changes from vowel to consonant.
func measure(w string) int {
	n := 0
	for i := 1; i < len(w); i++ {
		if consonant(w, i) && !consonant(w, i-1) {
			n++
		}
	}
	return n
}

func hasVowel(w string) bool {
	for i := range len(w) {
		if !consonant(w, i) {
			return true
		}
	}
	return false
}

// closed tells whether the word ends consonant, vowel, consonant other than w, x and y.
func closed(w string) bool {
	n := len(w)
	if n == 2 {
		return !consonant(w, 0) && consonant(w, 1)
	}
	return n > 2 && consonant(w, n-3) && !consonant(w, n-2) && consonant(w, n-1) && !strings.ContainsRune("wxy", rune(w[n-1]))
}

func porterPlural(w string) string {
	switch {
	case strings.HasSuffix(w, "ies") && len(w) == 4:
		return w[:len(w)-1]
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ies"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss"):
		return w[:len(w)-1]
	}
	return w
}

func porterPast(w string) string {
	if strings.HasSuffix(w, "ied") {
		if len(w) == 4 {
			return w[:len(w)-1]
		}
		return w[:len(w)-2]
	}
	if s, ok := strings.CutSuffix(w, "eed"); ok {
		if measure(s) > 0 {
			return s + "ee"
		}
		return w
	}
	s, ok := strings.CutSuffix(w, "ed")
	if !ok || !hasVowel(s) {
		if s, ok = strings.CutSuffix(w, "ing"); !ok || !hasVowel(s) {
			return w
		}
	}
	n := len(s)
	switch {
	case strings.HasSuffix(s, "at"), strings.HasSuffix(s, "bl"), strings.HasSuffix(s, "iz"):
		return s + "e"
	case n > 1 && s[n-1] == s[n-2] && consonant(s, n-1):
		if strings.ContainsRune("lsz", rune(s[n-1])) {
			return s
		}
		return s[:n-1]
	case measure(s) == 1 && closed(s):
		return s + "e"
	}
	return s
}

func porterSuffix(w string) string {
	if s, ok := strings.CutSuffix(w, "alli"); ok && measure(s) > 0 {
		return porterSuffix(s + "al")
	}
	if strings.HasSuffix(w, "logi") {
		if measure(w[:len(w)-3]) > 0 {
			return w[:len(w)-1]
		}
		return w
	}
	return porterRules(w, 0, "ational:ate", "tional:tion", "enci:ence", "anci:ance", "izer:ize", "bli:ble", "alli:al", "entli:ent", "eli:e",
		"ousli:ous", "ization:ize", "ation:ate", "ator:ate", "alism:al", "iveness:ive", "fulness:ful", "ousness:ous", "aliti:al", "iviti:ive",
		"biliti:ble", "fulli:ful")
}

// porterRules applies the first rule "suffix:replacement" whose suffix the word has, if the stem measures more than least. In the
// rules of -ion the letter before it belongs to the stem, and "ion!" ends the search.
func porterRules(w string, least int, rules ...string) string {
	for _, rule := range rules {
		suffix, with, ok := strings.Cut(rule, ":")
		suffix = strings.TrimSuffix(suffix, "!")
		s, found := strings.CutSuffix(w, suffix)
		if !found {
			continue
		}
		stem := s
		if suffix == "sion" || suffix == "tion" {
			stem = s + with
		}
		if ok && measure(stem) > least {
			return s + with
		}
		return w
	}
	return w
}
