package needle

import (
	"hash/maphash"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
)

// The grammar's count is an upper bound where two fillings read the same, so a million distinct sentences are also drawn.
func TestHaystackPossibilities(t *testing.T) {
	if n := haystackGrammar.count(); n < 1e8 {
		t.Errorf("%g ways to fill the patterns, want 1e8", n)
	}
	for i, p := range haystackGrammar.patterns {
		if ways(p) < 10_000 {
			t.Errorf("pattern %d has %g fillings: repeats would be common", i, ways(p))
		}
	}
	seed := maphash.MakeSeed()
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[uint64]bool{}
	for range 2_000_000 {
		seen[maphash.String(seed, haystackGrammar.draw(rng))] = true
		if len(seen) >= 1_000_000 {
			return
		}
	}
	t.Errorf("%d distinct sentences in 2,000,000 draws, want 1,000,000", len(seen))
}

func TestGeneratedNeverRepeats(t *testing.T) {
	s := Spec{Seed: 3, Split: Test, Sample: 9}
	seen := map[string]bool{}
	for text := range s.Sentences() {
		if seen[text] {
			t.Fatalf("%q comes twice", text)
		}
		seen[text] = true
		if len(seen) == 100_000 {
			break
		}
	}
}

// Sentences are plain: a capital, a full stop, single spaces, no digits, nothing in capitals, no word twice in a row.
func TestSentencesArePlain(t *testing.T) {
	shape := regexp.MustCompile(`^[A-Z][a-z]*(?:[ ,'-]+(?:[a-z']+|Tuesday|Sunday|Thursday|Monday|August|June|March|May|October|Lent|Latin))*\.$`)
	check := func(s string) {
		if !shape.MatchString(s) || codeLike(s) {
			t.Errorf("not a plain sentence: %q", s)
		}
		if w := wordsOf(s); len(w) < 2 || len(w) > 32 {
			t.Errorf("%d words: %q", len(w), s)
		}
		for i, w := range wordsOf(s)[1:] {
			if w == wordsOf(s)[i] {
				t.Errorf("a word twice in a row: %q", s)
			}
		}
	}
	rng := rand.New(rand.NewPCG(2, 2))
	for range 5_000 {
		check(haystackGrammar.draw(rng))
	}
	var fillers []string
	for s := range fillerGrammar.all() {
		check(s)
		fillers = append(fillers, s)
	}
	slices.Sort(fillers)
	if n := len(slices.Compact(fillers)); n < 1000 || float64(n) != fillerGrammar.count() {
		t.Errorf("%d distinct short sentences of %g", n, fillerGrammar.count())
	}
}

var word = regexp.MustCompile(`[A-Za-z']+`)

func wordsOf(s string) []string { return word.FindAllString(s, -1) }

// A full sentence is never also a short one: a prompt could otherwise hold it twice.
func TestGrammarsAreDisjoint(t *testing.T) {
	short := map[string]bool{}
	for s := range fillerGrammar.all() {
		short[s] = true
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for range 100_000 {
		if s := haystackGrammar.draw(rng); short[s] {
			t.Fatalf("%q is both", s)
		}
	}
}
