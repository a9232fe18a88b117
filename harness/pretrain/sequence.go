package pretrain

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
)

// Mix says what training sequences are made of.
type Mix struct {
	Repeat   float64 `json:"repeat"`   // share of sequences that are random tokens said twice
	Kinds    int     `json:"kinds"`    // how many words those are of: code words, then places
	Language float64 `json:"language"` // weight of a token that is neither of a code nor of the second copy
	Facts    int     `json:"facts"`    // most needles of a text; at least two
	Asked    float64 `json:"asked"`    // share of texts that ask before they answer
}

// Sequence is one row of a training batch.
type Sequence struct {
	IDs     []int32   // [T]
	Rows    []int32   // [P], the positions that are scored
	Targets []int32   // [P], the tokens after them
	Weights []float32 // [P], of their losses
}

// Sequence draws a sequence of length n.
func (t *Task) Sequence(rng *rand.Rand, mix Mix, n int) Sequence {
	if rng.Float64() < mix.Repeat {
		return t.repeated(rng, mix, n)
	}
	return t.questions(rng, mix, n)
}

const (
	leastRepeated = 32 // tokens of the shortest sequence of repeated runs
	longestRun    = 12 // words
)

// repeated is a run of 4 to 12 random code words and places, again and again, with other words between: all but its first copy can be
// foretold by looking back, and the distance varies, so that only the words themselves tell where.
func (t *Task) repeated(rng *rand.Rand, mix Mix, n int) Sequence {
	run := make([]int32, 4+rng.IntN(longestRun-3))
	for i, w := range rng.Perm(mix.Kinds)[:len(run)] {
		if w < len(codeWords) {
			run[i] = t.ids[" "+codeWords[w]]
		} else {
			run[i] = t.ids[" "+places[w-len(codeWords)]]
		}
	}
	ids, weights := []int32{begin}, []float32(nil)
	for first := true; len(ids) <= n; first = false {
		for range rng.IntN(n / 5) {
			ids = append(ids, firstWord+int32(rng.IntN(len(t.words))))
		}
		for len(weights) < len(ids) { // up to the run's first word, which nothing foretells
			weights = append(weights, float32(mix.Language))
		}
		ids = append(ids, run...)
		for range run[1:] {
			w := float32(1)
			if first {
				w = float32(mix.Language)
			}
			weights = append(weights, w)
		}
	}
	return cut(ids[:n+1], weights[:n], n)
}

// leastLength is the shortest sequence that holds so many facts and a question about one.
func leastLength(facts int) int {
	return 1 + facts*(tokensOf(needleSentence)+codeTokens-1) + tokensOf(questionSentence) + tokensOf(answerPrefix) + codeTokens + 1
}

// questions is a text with needles, and questions about them.
func (t *Task) questions(rng *rand.Rand, mix Mix, n int) Sequence {
	known := facts(rng, Training, 2+rng.IntN(mix.Facts-1))
	full := rng.Float64() < mix.Asked
	each := tokensOf(answerPrefix) + codeTokens + 1
	if full {
		each += tokensOf(questionSentence)
	}
	room := n - 1 - len(known)*(tokensOf(needleSentence)+codeTokens-1)
	asked := min(1+rng.IntN(len(known)), room/each)
	x := t.newText()
	for _, s := range scattered(rng, known, rng.IntN(room-asked*each+1)) {
		x.add(s)
	}
	weights := make([]float32, len(x.ids), n)
	for i := range weights {
		weights[i] = float32(mix.Language)
	}
	for _, i := range rng.Perm(len(known))[:asked] {
		if full {
			x.add(known[i].fill(questionSentence))
		}
		x.add(known[i].fill(answerPrefix))
		for len(weights) < len(x.ids)-1 {
			weights = append(weights, float32(mix.Language))
		}
		x.add(known[i].code)
		x.ids = append(x.ids, end)
		for range codeTokens + 1 {
			weights = append(weights, 1)
		}
	}
	return cut(x.ids, append(weights, 0), n)
}

// scattered is the needles among haystack of at most `tokens` tokens, in random places.
func scattered(rng *rand.Rand, known []fact, tokens int) []string {
	var out []string
	for {
		s := haystack(rng)
		if tokens -= tokensOf(s); tokens < 0 {
			break
		}
		out = append(out, s)
	}
	for _, f := range known {
		out = append(out, f.fill(needleSentence))
	}
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// scoredRows is how many positions of a sequence are scored.
const scoredRows = 32

// cut makes a sequence of exactly n tokens and picks the rows to be scored: the heaviest, the later ones among equals.
func cut(ids []int32, weights []float32, n int) Sequence {
	s := Sequence{IDs: make([]int32, n)}
	for i := range n {
		s.IDs[i] = end
	}
	copy(s.IDs, ids)
	rows := make([]int32, min(n, len(ids))-1)
	for i := range rows {
		rows[i] = int32(i)
	}
	slices.SortStableFunc(rows, func(a, b int32) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(b, a))
	})
	for i := range scoredRows {
		if i >= len(rows) {
			s.Rows, s.Targets, s.Weights = append(s.Rows, 0), append(s.Targets, 0), append(s.Weights, 0)
			continue
		}
		r := rows[i]
		s.Rows, s.Targets, s.Weights = append(s.Rows, r), append(s.Targets, ids[r+1]), append(s.Weights, weights[r])
	}
	return s
}

// Prompt is a test prompt; spans are byte offsets [start, end) into Text.
type Prompt struct {
	ID         string  `json:"id"`
	Text       string  `json:"text"`
	Needle     [2]int  `json:"needle"`
	Question   [2]int  `json:"question"`
	Answer     string  `json:"answer"`
	AnswerSpan [2]int  `json:"answer_span"`
	Decoys     []Decoy `json:"decoys"`
	Template   string  `json:"template"`
	Depth      float64 `json:"depth"` // share of the haystack before the needle
	Donor      *Donor  `json:"donor,omitempty"`

	ids []int32
}

// Decoy is another code in the text, of a needle about another place.
type Decoy struct {
	Answer string `json:"answer"`
	Span   [2]int `json:"span"`
}

// Donor is the prompt with another code, which stands nowhere in it.
type Donor struct {
	Answer string `json:"answer"`
	Text   string `json:"text"`
}

// Prompt draws a prompt of at most n tokens with a needle at the given depth and a decoy a fifth of the haystack or more away from it.
func (t *Task) Prompt(rng *rand.Rand, split CodeSplit, depth float64, n int) Prompt {
	f := facts(rng, split, 2)
	room := n - 1 - 2*(tokensOf(needleSentence)+codeTokens-1) - tokensOf(questionSentence) - tokensOf(answerPrefix)
	var hay []string
	for {
		s := haystack(rng)
		if room -= tokensOf(s); room < 0 {
			break
		}
		hay = append(hay, s)
	}
	other := rng.Float64()
	for other-depth < 0.2 && depth-other < 0.2 {
		other = rng.Float64()
	}
	at, decoyAt := int(depth*float64(len(hay))+.5), int(other*float64(len(hay))+.5)
	p := Prompt{Answer: f[0].code, Template: strings.ToLower(f[0].kind), Depth: depth, Decoys: []Decoy{{Answer: f[1].code}}}
	x := t.newText()
	for i := 0; i <= len(hay); i++ {
		if i == at {
			p.Needle = x.add(f[0].fill(needleSentence))
		}
		if i == decoyAt {
			span := x.add(f[1].fill(needleSentence))
			p.Decoys[0].Span = [2]int{span[1] - 1 - len(f[1].code), span[1] - 1}
		}
		if i < len(hay) {
			x.add(hay[i])
		}
	}
	p.AnswerSpan = [2]int{p.Needle[1] - 1 - len(p.Answer), p.Needle[1] - 1}
	p.Question = x.add(f[0].fill(questionSentence))
	x.add(f[0].fill(answerPrefix))
	p.Text, p.ids = x.bytes.String(), x.ids
	return p
}

// Fed is the prompt with its answer as a sequence whose weights mark the answer's tokens.
func (t *Task) Fed(p Prompt, n int) Sequence {
	ids := append([]int32{}, p.ids...)
	for _, w := range strings.Fields(p.Answer) {
		ids = append(ids, t.ids[" "+w])
	}
	ids = append(ids, end)
	weights := make([]float32, len(ids))
	for i := len(p.ids) - 1; i < len(ids)-1; i++ {
		weights[i] = 1
	}
	return cut(ids, weights, n)
}
