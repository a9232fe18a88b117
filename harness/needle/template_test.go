package needle

import (
	"slices"
	"strings"
	"testing"
)

// wordingsOf returns the wordings of all splits, subjectsOf the subjects.
func wordingsOf(t *template) []wording { return slices.Concat(t.detect, t.test, t.agree) }

func subjectsOf(t *template) (out []string) {
	for _, s := range Splits() {
		out = append(out, t.subjects(s)...)
	}
	return out
}

func TestTemplateCounts(t *testing.T) {
	count := map[Kind]int{}
	for i := range templates {
		for _, k := range templates[i].kinds() {
			count[k]++
		}
	}
	if count[KindLiteral] != 4 || count[KindDecoy] != 4 || count[KindNonLiteral] != 4 || count[KindNoOverlap] != 2 || len(count) != len(Kinds()) {
		t.Errorf("templates by kind: %v", count)
	}
}

// Every wording has one code after a space, which no needle begins with, and asks about the subject.
func TestWordings(t *testing.T) {
	for i := range templates {
		tm := &templates[i]
		for _, split := range Splits() {
			if len(tm.wordings(split)) < 2 || len(tm.subjects(split)) < 10 {
				t.Errorf("%s: %s: %d wordings and %d subjects", tm.name, split, len(tm.wordings(split)), len(tm.subjects(split)))
			}
		}
		for _, w := range wordingsOf(tm) {
			if strings.Count(w.needle, " {c}") != 1 || strings.Count(w.needle, "{c}") != 1 || strings.Contains(w.question+w.prefix, "{c}") {
				t.Errorf("%s: %q: want one code, after a space, in the needle alone", tm.name, w.needle)
			}
			if strings.Count(w.needle, "{s}") != 1 || strings.Count(w.question, "{s}") != 1 || strings.Count(w.prefix, "{s}") > 1 {
				t.Errorf("%s: %q, %q: want the subject once", tm.name, w.needle, w.question)
			}
			if !strings.HasSuffix(w.needle, ".") || !strings.HasSuffix(w.question, "?") || strings.TrimSpace(w.prefix) != w.prefix || w.prefix == "" {
				t.Errorf("%s: %q %q %q: want a sentence, a question and a prefix without white space around it", tm.name, w.needle, w.question, w.prefix)
			}
		}
	}
}

// A literal template's prefix is what the needle says before the code, and its question has all of those words; the others share
// no content bigram between needle and question or prefix, whatever the subject, and those without overlap no word in any form.
func TestLiteralAndParaphrase(t *testing.T) {
	for i := range templates {
		tm := &templates[i]
		for _, w := range wordingsOf(tm) {
			before, _, _ := strings.Cut(w.needle, " {c}")
			if tm.kind == KindDecoy {
				if w.prefix != before {
					t.Errorf("%s: prefix %q, want %q", tm.name, w.prefix, before)
				}
				asked := contentWords(w.question)
				for _, word := range contentWords(before) {
					if !slices.ContainsFunc(asked, func(a string) bool { return strings.HasPrefix(word, a) }) {
						t.Errorf("%s: question %q lacks %q of the needle", tm.name, w.question, word)
					}
				}
				continue
			}
			for _, s := range subjectsOf(tm) {
				question, prefix := w.ask(s)
				needle := contentBigrams(w.sentence(s, "Q4XXZ"))
				for _, b := range slices.Concat(contentBigrams(question), contentBigrams(prefix)) {
					if slices.Contains(needle, b) {
						t.Errorf("%s: %q and %q share the bigram %v", tm.name, w.needle, w.question, b)
					}
				}
				if tm.kind == KindNoOverlap {
					said := stems(w.sentence(s, "Q4XXZ"))
					for _, word := range stems(question + " " + prefix) {
						if slices.Contains(said, word) {
							t.Errorf("%s: %q and %q share %q", tm.name, w.sentence(s, "Q4XXZ"), question, word)
						}
					}
				}
			}
		}
	}
}

// Subjects are single words without a determiner's trouble, and no word is a subject twice, in any template or split.
func TestSubjects(t *testing.T) {
	seen := map[string]string{}
	for i := range templates {
		for _, split := range Splits() {
			for _, s := range strings.FieldsFunc(strings.Join(templates[i].subjects(split), " "), func(r rune) bool { return r == ' ' || r == '=' }) {
				if at := seen[s]; at != "" {
					t.Errorf("subject %s stands in %s and in %s/%s", s, at, templates[i].name, split)
				}
				seen[s] = templates[i].name + "/" + string(split)
				if len(contentWords(s)) != 1 {
					t.Errorf("subject %q is not one content word", s)
				}
			}
		}
	}
}

// The splits' wordings differ in needle, question and prefix.
func TestWordingsOfSplitsDiffer(t *testing.T) {
	seen := map[string]Split{}
	for i := range templates {
		for _, split := range Splits() {
			for _, w := range templates[i].wordings(split) {
				for _, text := range []string{w.needle, w.question} {
					if other, ok := seen[text]; ok && other != split {
						t.Errorf("%q stands in two splits", text)
					}
					seen[text] = split
				}
			}
		}
	}
}

// templateWords are the content words of all needles, questions, prefixes and subjects, with the labels of plain prompts.
func templateWords() map[string]bool {
	m := map[string]bool{"question": true, "answer": true}
	for i := range templates {
		tm := &templates[i]
		for _, w := range wordingsOf(tm) {
			for _, word := range contentWords(w.needle + " " + w.question + " " + w.prefix) {
				m[word] = word != "s" && word != "c"
			}
		}
		for _, s := range subjectsOf(tm) {
			for name := range strings.SplitSeq(strings.ToLower(s), "=") {
				m[name] = true
			}
		}
	}
	return m
}

// stems are the content words without their ends.
func stems(text string) []string {
	out := contentWords(text)
	for i := range out {
		out[i] = stem(out[i])
	}
	return out
}

// stem takes the ends off that English puts on, so that "codes" counts as "code".
func stem(w string) string {
	w = strings.TrimSuffix(w, "'s")
	for _, end := range []string{"ing", "ed", "es", "s", "er"} {
		if len(w) > len(end)+3 && strings.HasSuffix(w, end) {
			return strings.TrimSuffix(strings.TrimSuffix(w, end), "e")
		}
	}
	return strings.TrimSuffix(w, "e")
}

// No word of the haystack's grammar is a content word of a template, in any form.
func TestHaystackHasNoTemplateWords(t *testing.T) {
	reserved := map[string]string{}
	for w, ok := range templateWords() {
		if ok {
			reserved[stem(w)] = w
		}
	}
	for _, g := range []*grammar{haystackGrammar, fillerGrammar, agreementGrammar, agreementFillers} {
		for _, p := range g.patterns {
			for _, s := range p {
				for _, text := range append(s.choices[:len(s.choices):len(s.choices)], s.text) {
					for _, w := range contentWords(text) {
						if r, ok := reserved[stem(w)]; ok {
							t.Errorf("the haystack's %q stands in a template as %q", w, r)
						}
					}
				}
			}
		}
	}
}
