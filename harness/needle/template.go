package needle

import (
	"slices"
	"strings"
)

// wording is one way to say and ask for a code. {s} is the subject, {c} the code, which always has a space before it.
type wording struct {
	needle   string
	question string
	prefix   string // how the answer begins; the code comes next
}

// Kind says what in the question leads to the needle.
type Kind string

// The kinds. In all but KindLiteral a second sentence, the decoy, says the same of another subject with another code.
const (
	KindLiteral    Kind = "literal"     // question and answer prefix repeat the needle up to the code, and no other sentence is like it
	KindDecoy      Kind = "decoy"       // the same beside a decoy: the subject tells them apart
	KindNonLiteral Kind = "non_literal" // a paraphrase: no two content words in a row are the needle's; the subject's own name leads to it
	KindNoOverlap  Kind = "no_overlap"  // no content word at all is the needle's: the subject has another name in the question
)

// Kinds returns all kinds, in the order in which the prompts of [Agreement] go through them.
func Kinds() []Kind { return []Kind{KindLiteral, KindDecoy, KindNonLiteral, KindNoOverlap} }

// template is one kind of fact, with wordings and subjects of each split.
type template struct {
	name                   string
	kind                   Kind // of its prompts with a decoy: never KindLiteral
	detect, test, agree    []wording
	forDet, forTes, forAgr string // subjects, one word each; of KindNoOverlap the word of the needle, "=", and that of the question
}

func (t *template) wordings(s Split) []wording {
	return map[Split][]wording{Detect: t.detect, Test: t.test, Agreement: t.agree}[s]
}

func (t *template) subjects(s Split) []string {
	return strings.Fields(map[Split]string{Detect: t.forDet, Test: t.forTes, Agreement: t.forAgr}[s])
}

// kinds are those that the template has prompts of.
func (t *template) kinds() []Kind {
	if t.kind == KindDecoy {
		return []Kind{KindLiteral, KindDecoy}
	}
	return []Kind{t.kind}
}

// sentence is the needle about a subject; question and answer prefix ask for that subject's code.
func (w wording) sentence(subject, code string) string {
	name, _, _ := strings.Cut(subject, "=")
	return strings.NewReplacer("{s}", name, "{c}", code).Replace(w.needle)
}

func (w wording) ask(subject string) (question, prefix string) {
	name, other, ok := strings.Cut(subject, "=")
	if ok {
		name = other
	}
	r := strings.NewReplacer("{s}", name)
	return r.Replace(w.question), r.Replace(w.prefix)
}

// TemplateNames returns the names of all templates, in the order of use.
func TemplateNames() []string {
	out := make([]string, len(templates))
	for i := range templates {
		out[i] = templates[i].name
	}
	return out
}

// TemplatesOf returns the names of the templates of a kind.
func TemplatesOf(k Kind) (out []string) {
	for i := range templates {
		if slices.Contains(templates[i].kinds(), k) {
			out = append(out, templates[i].name)
		}
	}
	return out
}

// Literal says whether a template's question and answer prefix repeat the needle's words before the code, so that matching
// the last tokens is enough to find it. ok is false for an unknown name.
func Literal(name string) (literal, ok bool) {
	t := templateByName(name)
	if t == nil {
		return false, false
	}
	return t.kind == KindDecoy, true
}

// defaultNames are the templates that a split has where none are named: of detect and test those whose question names the needle's
// subject, as the published protocols do.
func defaultNames(s Split) (out []string) {
	for i := range templates {
		if s == Agreement || templates[i].kind != KindNoOverlap {
			out = append(out, templates[i].name)
		}
	}
	return out
}

func templateByName(name string) *template {
	for i := range templates {
		if templates[i].name == name {
			return &templates[i]
		}
	}
	return nil
}

// literal makes a wording whose prefix is all that the needle says before the code.
func literal(before, question string) wording {
	return wording{before + " {c}.", question, before}
}
