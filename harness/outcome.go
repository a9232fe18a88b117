package harness

import (
	"slices"
	"strings"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

// Outcome is what became of a trial. A failure is never a miss.
type Outcome string

const (
	Hit      Outcome = "hit"      // the answer stands in the greedy text
	Decoy    Outcome = "decoy"    // a decoy does, and the answer does not
	Refusal  Outcome = "refusal"  // neither, and the text says that it does not know or will not answer
	Other    Outcome = "other"    // neither
	Broken   Outcome = "broken"   // neither, and the text is empty or goes round in circles
	Scored   Outcome = "scored"   // answer and decoy were scored, and no greedy answer was decoded
	Observed Outcome = "observed" // nothing was answered: attention was looked at
	Failed   Outcome = "failed"   // the trial could not be carried out
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
	if strings.Contains(text, p.Spec.Answer) {
		return Hit, text
	}
	for _, d := range p.Spec.Decoys {
		if strings.Contains(text, d.Answer) {
			return Decoy, text
		}
	}
	if refuses(text) {
		return Refusal, text
	}
	if strings.TrimSpace(text) == "" || (!ended && circles(ids)) {
		return Broken, text
	}
	return Other, text
}

// refusals are openings, in English, of answers that give none. Matched in lower case anywhere in the text.
var refusals = [...]string{
	"i'm sorry", "i am sorry", "sorry,", "i cannot", "i can't", "i'm unable", "i am unable", "unable to", "i don't know", "i do not know",
	"not mentioned", "not provided", "not specified", "not given", "no information", "does not mention", "doesn't mention", "not stated",
}

func refuses(text string) bool {
	text = strings.ReplaceAll(strings.ToLower(text), "\u2019", "'")
	return slices.ContainsFunc(refusals[:], func(r string) bool { return strings.Contains(text, r) })
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
