package needle

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
)

// grammar writes sentences by filling the slots of patterns.
type grammar struct {
	patterns [][]slot
}

// slot is a fixed text, or a list of which one is taken.
type slot struct {
	text    string
	choices []string
}

// newGrammar reads patterns, one a line, with slots in braces; lists are the choices of a slot, separated by semicolons.
func newGrammar(patterns string, lists map[string]string) *grammar {
	choices := map[string][]string{}
	for name, text := range lists {
		choices[name] = trimmed(strings.SplitSeq(text, ";"))
	}
	g := &grammar{}
	for _, p := range trimmed(strings.Lines(patterns)) {
		var slots []slot
		for p != "" {
			text, rest, ok := strings.Cut(p, "{")
			if text != "" {
				slots = append(slots, slot{text: text})
			}
			if !ok {
				break
			}
			name, after, _ := strings.Cut(rest, "}")
			if len(choices[name]) == 0 {
				panic(fmt.Sprintf("needle: grammar has no slot %q", name))
			}
			slots = append(slots, slot{choices: choices[name]})
			p = after
		}
		g.patterns = append(g.patterns, slots)
	}
	return g
}

func trimmed(list iter.Seq[string]) []string {
	var out []string
	for s := range list {
		if s = strings.Join(strings.Fields(s), " "); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// count returns how many ways there are to fill the patterns.
func (g *grammar) count() float64 {
	var sum float64
	for _, p := range g.patterns {
		sum += ways(p)
	}
	return sum
}

func ways(p []slot) float64 {
	n := 1.0
	for _, s := range p {
		if s.choices != nil {
			n *= float64(len(s.choices))
		}
	}
	return n
}

// draw takes each pattern equally often and each choice equally often.
func (g *grammar) draw(rng *rand.Rand) string {
	return fill(g.patterns[rng.IntN(len(g.patterns))], func(n int) int { return rng.IntN(n) })
}

func fill(p []slot, pick func(n int) int) string {
	var b strings.Builder
	for _, s := range p {
		if s.choices == nil {
			b.WriteString(s.text)
		} else {
			b.WriteString(s.choices[pick(len(s.choices))])
		}
	}
	out := b.String()
	return strings.ToUpper(out[:1]) + out[1:]
}

// all yields every sentence, pattern by pattern.
func (g *grammar) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range g.patterns {
			for i := range int(ways(p)) {
				s := fill(p, func(n int) int {
					c := i % n
					i /= n
					return c
				})
				if !yield(s) {
					return
				}
			}
		}
	}
}

// generated yields sentences of one split without end and without a repeat.
func generated(rng *rand.Rand, split Split) iter.Seq[string] {
	g := haystackGrammar
	if split == Agreement {
		g = agreementGrammar
	}
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		for {
			s := g.draw(rng)
			if !split.holds(s) || seen[s] {
				continue
			}
			seen[s] = true
			if !yield(s) {
				return
			}
		}
	}
}

// generatedFillers are the short sentences of one split.
func generatedFillers(split Split) []string {
	var out []string
	g := fillerGrammar
	if split == Agreement {
		g = agreementFillers
	}
	for s := range g.all() {
		if split.holds(s) {
			out = append(out, s)
		}
	}
	return out
}
