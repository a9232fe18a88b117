package needle

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/headscope/headscope/loader/tokenizer"
)

// layout is the haystack's sentences in order and what is put between them.
type layout struct {
	body              []string
	counts            []int // estimated tokens of each
	needleAt, decoyAt int   // index of the sentence that follows
	needle, decoy     string
}

// page is a laid-out text with its encoding. Spans are bytes.
type page struct {
	layout
	enc                             *tokenizer.Encoding
	haystack, question, needle, dec [2]int
}

// compose writes the text of a layout and encodes it whole.
func (r *realiser) compose(d *draft, l layout) (*page, error) {
	p := &page{layout: l}
	var b strings.Builder
	b.WriteString(r.frame.head)
	start := b.Len()
	put := func(s string) [2]int {
		if s == "" {
			return [2]int{}
		}
		if b.Len() > start {
			b.WriteByte(' ')
		}
		at := b.Len()
		b.WriteString(s)
		return [2]int{at, b.Len()}
	}
	for i := range len(l.body) + 1 {
		first := i == l.decoyAt && d.DecoyDepth < d.Depth
		if first {
			p.dec = put(l.decoy)
		}
		if i == l.needleAt {
			p.needle = put(l.needle)
		}
		if i == l.decoyAt && !first {
			p.dec = put(l.decoy)
		}
		if i < len(l.body) {
			put(l.body[i])
		}
	}
	p.haystack = [2]int{start, b.Len()}
	b.WriteString(r.frame.mid)
	p.question[0] = p.haystack[1] + strings.Count(r.frame.mid, "\n")
	b.WriteString(d.question)
	p.question[1] = b.Len()
	b.WriteString(r.frame.tail)
	b.WriteString(d.prefix)
	var err error
	p.enc, err = r.encode(b.String())
	return p, err
}

// tokens is the measured length of a page.
func (p *page) tokens() int { return len(p.enc.IDs) }

// fit finds the haystack that makes the base prompt as long as wanted: whole sentences, then short ones, then corrections by what
// whole encodings say. A reason is returned where that fails.
func (r *realiser) fit(d *draft) (*page, string, error) {
	bare := layout{needle: d.w.sentence(d.Subject, d.code), decoy: d.w.sentence(d.DecoySubject, d.decoy)}
	fixed, err := r.compose(d, bare)
	if err != nil {
		return nil, "", err
	}
	room := r.o.Tokens - fixed.tokens()
	if room < 0 {
		return nil, fmt.Sprintf("needle, decoy, question and format take %d tokens, more than the %d asked for", fixed.tokens(), r.o.Tokens), nil
	}
	body, counts, err := r.pull(d.Spec, room)
	if err != nil {
		return nil, "", err
	}
	have := 0
	for _, c := range counts {
		have += c
	}
	if have+r.o.Tolerance < room {
		return nil, fmt.Sprintf("the haystack has %d tokens, want %d", have, room), nil
	}
	f, err := r.fillersOf(d.Spec)
	if err != nil {
		return nil, "", err
	}
	rng := d.stream("fillers")
	return r.approach(func(off int) (*page, error) {
		n, short := f.complete(body, counts, room-off, r.o.Tolerance, rng)
		l := bare
		at := int(math.Round(d.FillerDepth * float64(n)))
		l.body = slices.Concat(body[:at], short.text, body[at:n])
		l.counts = slices.Concat(counts[:at], short.counts, counts[at:n])
		l.needleAt, l.decoyAt = l.place(d.Depth), l.place(d.DecoyDepth)
		return r.compose(d, l)
	})
}

// approach calls try with corrections until the page has the wanted length, and else returns the longest page that is short of it by
// no more than the tolerance. off is how many tokens the estimate is to be lowered by.
func (r *realiser) approach(try func(off int) (*page, error)) (*page, string, error) {
	const rounds = 8
	var best *page
	off, closest := 0, 0
	for range rounds {
		p, err := try(off)
		if err != nil {
			return nil, "", err
		}
		over := p.tokens() - r.o.Tokens
		if over == 0 {
			return p, "", nil
		}
		if over < 0 && -over <= r.o.Tolerance && (best == nil || p.tokens() > best.tokens()) {
			best = p
		}
		if closest == 0 || abs(over) < abs(closest) {
			closest = over
		}
		off += over
	}
	if best == nil {
		return nil, fmt.Sprintf("the closest length is %d tokens, not %d less at most %d", r.o.Tokens+closest, r.o.Tokens, r.o.Tolerance), nil
	}
	return best, "", nil
}

func abs(n int) int { return max(n, -n) }

// place returns the boundary between sentences that is nearest to a depth, in estimated tokens.
func (l *layout) place(depth float64) int {
	total := 0
	for _, c := range l.counts {
		total += c
	}
	want, sum := depth*float64(total), 0
	best, at := math.Inf(1), 0
	for i := range len(l.counts) + 1 {
		if dist := math.Abs(float64(sum) - want); dist < best {
			best, at = dist, i
		}
		if i < len(l.counts) {
			sum += l.counts[i]
		}
	}
	return at
}

// pull takes sentences until they have at least the wanted number of tokens, or the haystack ends, and counts the tokens of each.
func (r *realiser) pull(s *Spec, tokens int) (body []string, counts []int, err error) {
	next, stop := iter.Pull(s.Sentences())
	defer stop()
	perByte, have := 0.2, 0 // tokens
	for have < tokens {
		from, size := len(body), 0
		for float64(size)*perByte < 1.05*float64(tokens-have)+20 {
			sentence, ok := next()
			if !ok {
				break
			}
			body = append(body, sentence)
			size += len(sentence) + 1
		}
		if len(body) == from {
			break
		}
		more, err := r.countEach(body[from:])
		if err != nil {
			return nil, nil, err
		}
		counts = append(counts, more...)
		sum := 0
		for _, c := range more {
			sum += c
		}
		have += sum
		perByte = max(0.05, float64(sum)/float64(size))
	}
	return body, counts, nil
}

// countEach encodes sentences as one text and returns the tokens that begin in each, the space before it included.
func (r *realiser) countEach(sentences []string) ([]int, error) {
	const lead = "Ah." // so that the first sentence, too, follows one
	text := lead + " " + strings.Join(sentences, " ")
	enc, err := r.tok.Encode(text, tokenizer.Options{})
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(sentences))
	i, end := -1, int32(len(lead))
	for _, start := range enc.Start {
		for start >= end && i+1 < len(sentences) {
			i++
			end += int32(len(sentences[i]) + 1)
		}
		if i >= 0 {
			counts[i]++
		}
	}
	return counts, nil
}
