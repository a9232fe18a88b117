package needle

import (
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
)

// Split says what a prompt is for. The splits share no code, sentence, subject or wording.
type Split string

// Heads, cuts and means are chosen on Detect; effects are measured on Test; detectors are judged on Agreement.
const (
	Detect    Split = "detect"
	Test      Split = "test"
	Agreement Split = "agreement"
)

// Splits returns all splits.
func Splits() []Split { return []Split{Detect, Test, Agreement} }

func (s Split) valid() bool { return slices.Contains(Splits(), s) }

// holds says whether a code or sentence belongs to the split: one bit of its hash decides. Codes and generated sentences of Agreement
// have forms of their own.
func (s Split) holds(text string) bool {
	if s == Agreement {
		return true
	}
	h := fnv.New64a()
	h.Write([]byte(text))
	return (h.Sum64()>>32)&1 == 1 == (s == Test)
}

// Options say which specs to make. Only Split and N have to be given.
type Options struct {
	Seed      uint64    `json:"seed"`
	Split     Split     `json:"split"`
	N         int       `json:"n"`                   // samples 0..N-1; a larger N leaves the first ones as they are
	Templates []string  `json:"templates,omitempty"` // names in the order of use; nil = all, but of Detect and Test none of KindNoOverlap
	Depths    []float64 `json:"depths,omitempty"`    // nil = .1, .25, .5, .75, .9
	Haystack  *Haystack `json:"haystack,omitempty"`  // nil = generated sentences
}

// DefaultDepths returns the five depths of Options.Depths' nil, those of the published profiles. Not 0: at the head of the text the
// needle stands where many heads let their attention rest, and argmax_last calls them all retrieval heads (SmolLM2-135M: 40 heads of
// layers 3 to 10, on the needle in every prompt of depth 0 and in no other).
func DefaultDepths() []float64 { return []float64{0.1, 0.25, 0.5, 0.75, 0.9} }

// Spec is a prompt before any tokenizer has seen it.
type Spec struct {
	ID           string   `json:"id"`
	Seed         uint64   `json:"seed"`
	Split        Split    `json:"split"`
	Sample       int      `json:"sample"`
	Template     string   `json:"template"`
	Kind         Kind     `json:"kind,omitempty"` // of Agreement's
	Wording      int      `json:"wording"`        // index into the template's wordings of this split
	Subject      string   `json:"subject"`        // what the question asks about
	DecoySubject string   `json:"decoy_subject"`  // what the decoy sentence is about
	Depth        float64  `json:"depth"`          // share of the haystack before the needle
	DecoyDepth   float64  `json:"decoy_depth"`    // at least 0.2 from Depth
	FillerDepth  float64  `json:"filler_depth"`   // where the short sentences stand that make up the length
	Codes        []string `json:"codes"`          // candidates in order; no string stands in two of the three lists
	Decoys       []string `json:"decoys"`
	Donors       []string `json:"donors"`

	haystack *Haystack
}

// Specs makes the samples 0..N-1 of a split. Samples run through templates and depths together, so that few of them already
// have several of both, and every len(Templates)*len(Depths) are a full cross. Those of Agreement go through the kinds, and through the
// templates of each.
func Specs(o Options) ([]Spec, error) {
	if !o.Split.valid() {
		return nil, fmt.Errorf("needle: split %q: want one of %v", o.Split, Splits())
	}
	if o.N <= 0 {
		return nil, fmt.Errorf("needle: %d prompts: want at least 1", o.N)
	}
	names := o.Templates
	if len(names) == 0 {
		names = defaultNames(o.Split)
	}
	var used []*template
	for _, name := range names {
		t := templateByName(name)
		if t == nil {
			return nil, fmt.Errorf("needle: template %q: unknown; known are %s", name, strings.Join(TemplateNames(), ", "))
		}
		used = append(used, t)
	}
	depths := o.Depths
	if len(depths) == 0 {
		depths = DefaultDepths()
	}
	for _, d := range depths {
		if !(d >= 0 && d <= 1) {
			return nil, fmt.Errorf("needle: depth %g: want 0 (first) to 1 (last)", d)
		}
	}
	if h := o.Haystack; h != nil && len(h.split[o.Split]) < fewestSentences {
		return nil, fmt.Errorf("haystack: %s: %d sentences for %s, want at least %d: too little text", h.Source, len(h.split[o.Split]), o.Split, fewestSentences)
	}
	facts := factsOf(used, o.Split)
	out := make([]Spec, o.N)
	for i := range out {
		out[i] = newSpec(&o, i, facts[i%len(facts)], depths[(i%len(facts)+i/len(facts))%len(depths)])
	}
	return out, nil
}

// fact is what a sample is about.
type fact struct {
	*template
	kind Kind // of Agreement's
}

// factsOf are the templates in the order of use; of Agreement one of each kind in turn, a template of few as often as those of many.
func factsOf(used []*template, s Split) (out []fact) {
	if s != Agreement {
		for _, t := range used {
			out = append(out, fact{t, ""})
		}
		return out
	}
	byKind, most := map[Kind][]*template{}, 0
	for _, t := range used {
		for _, k := range t.kinds() {
			byKind[k] = append(byKind[k], t)
			most = max(most, len(byKind[k]))
		}
	}
	for i := range most {
		for _, k := range Kinds() {
			if list := byKind[k]; len(list) > 0 {
				out = append(out, fact{list[i%len(list)], k})
			}
		}
	}
	return out
}

func newSpec(o *Options, sample int, t fact, depth float64) Spec {
	s := Spec{
		ID: fmt.Sprintf("%s-%04d", o.Split, sample), Seed: o.Seed, Split: o.Split, Sample: sample,
		Template: t.name, Kind: t.kind, Depth: depth, haystack: o.Haystack,
	}
	rng := s.stream("layout")
	s.Wording = rng.IntN(len(t.wordings(s.Split)))
	subjects := t.subjects(s.Split)
	two := rng.Perm(len(subjects))[:2]
	s.Subject, s.DecoySubject = subjects[two[0]], subjects[two[1]]
	s.DecoyDepth = decoyDepth(rng, depth)
	s.FillerDepth = float64(rng.IntN(1001)) / 1000
	codes := newCodes(s.stream("codes"), s.Split)
	s.Codes, s.Decoys, s.Donors = codes.list(), codes.list(), codes.list()
	return s
}

// decoyDepth draws until the decoy is well apart from the needle.
func decoyDepth(rng *rand.Rand, depth float64) float64 {
	const apart = 200
	for {
		d := rng.IntN(1001)
		if at := int(depth*1000 + 0.5); d-at >= apart || at-d >= apart {
			return float64(d) / 1000
		}
	}
}

// stream returns the generator of one purpose of one sample. Purposes have streams of their own, so that how much of one is
// used, which depends on the tokenizer, never moves another.
func (s *Spec) stream(purpose string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "needle/%s/%d/%s", s.Split, s.Sample, purpose)
	return rand.New(rand.NewPCG(s.Seed, h.Sum64()))
}

// Sentences yields the haystack in the spec's order, without end for generated sentences, without a repeat in any case.
func (s *Spec) Sentences() iter.Seq[string] {
	if s.haystack != nil {
		return s.haystack.sentences(s.stream("haystack"), s.Split)
	}
	return generated(s.stream("haystack"), s.Split)
}

// Haystack returns the file haystack that the spec was made with, nil for generated sentences.
func (s *Spec) Haystack() *Haystack { return s.haystack }

// codes draws distinct codes of one split.
type codes struct {
	rng   *rand.Rand
	split Split
	seen  map[string]bool
}

func newCodes(rng *rand.Rand, split Split) *codes {
	return &codes{rng, split, map[string]bool{}}
}

// codeForms are the lengths of the candidates in the order in which they are tried, and how many there are of each.
var codeForms = []struct{ length, n int }{{5, 64}, {6, 32}, {7, 32}, {8, 32}, {4, 32}}

func (c *codes) list() []string {
	var out []string
	for _, f := range codeForms {
		for range f.n {
			out = append(out, c.draw(f.length))
		}
	}
	return out
}

// draw returns a code that has not been drawn: a capital letter, then capitals and digits, at least one digit. A code that began with a digit
// would in many tokenizers begin with a token for the space alone, which all such codes share; one without a digit may be a word. Agreement's
// codes have small letters behind the first, at least one, so that they are in no other split.
func (c *codes) draw(length int) string {
	const letters, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	all, small := letters+digits, c.split == Agreement
	if small {
		all = strings.ToLower(all)
	}
	b := make([]byte, length)
	for {
		b[0] = letters[c.rng.IntN(len(letters))]
		for i := 1; i < length; i++ {
			b[i] = all[c.rng.IntN(len(all))]
		}
		code := string(b)
		if !slices.ContainsFunc(b, isDigit) || small && code == strings.ToUpper(code) || !c.split.holds(code) || c.seen[code] {
			continue
		}
		c.seen[code] = true
		return code
	}
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
