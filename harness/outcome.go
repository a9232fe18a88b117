package harness

import (
	"math"
	"slices"
	"strings"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

// Outcome is what became of a trial. A failure is never a miss.
type Outcome string

const (
	Hit    Outcome = "hit"    // the answer stands in the greedy text
	Decoy  Outcome = "decoy"  // a decoy does, and the answer does not
	Other  Outcome = "other"  // neither
	Broken Outcome = "broken" // neither, and the text is empty or goes round in circles, or a log-probability is not a number
	Failed Outcome = "failed" // the trial could not be carried out
)

// judge decides the outcome of a reply and returns the text it was read from: the greedy answer up to the end token.
func judge(p *Prompt, r *decoder.Reply, eos []int32, tok *tokenizer.Tokenizer) (Outcome, string) {
	ids := r.Greedy
	ended := false
	for i, id := range ids {
		if slices.Contains(eos, id) {
			ids, ended = ids[:i], true
			break
		}
	}
	text := tok.Decode(ids, false)
	switch {
	case slices.ContainsFunc(r.LogProb, func(x float64) bool { return math.IsNaN(x) }):
		return Broken, text
	case strings.Contains(text, p.Spec.Answer):
		return Hit, text
	}
	for _, d := range p.Spec.Decoys {
		if strings.Contains(text, d.Answer) {
			return Decoy, text
		}
	}
	if strings.TrimSpace(text) == "" || (!ended && circles(ids)) {
		return Broken, text
	}
	return Other, text
}

// circles tells whether the last twelve tokens repeat with a period of at most four.
func circles(ids []int32) bool {
	const last, longest = 12, 4
	if len(ids) < last {
		return false
	}
	ids = ids[len(ids)-last:]
	for period := 1; period <= longest; period++ {
		if slices.Equal(ids[period:], ids[:last-period]) {
			return true
		}
	}
	return false
}
