package pretrain

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
)

// promptDepths are those of generated prompts in harness/needle; a prompt set runs through them.
var promptDepths = []float64{0.1, 0.25, 0.5, 0.75, 0.9}

// promptStreams number the random streams of a prompt set; its donors have their own, donorStream further on, and change no prompt.
var promptStreams = map[CodeSplit]uint64{Detect: 2, Test: 3}

const donorStream = 10

// WritePrompts writes a prompt file of n prompts of Detect or Test, of at most so many tokens each, with their donors.
func (t *Task) WritePrompts(w io.Writer, split CodeSplit, n, tokens int) error {
	stream, ok := promptStreams[split]
	if !ok {
		return fmt.Errorf("split %q: want %s or %s", split, Detect, Test)
	}
	rng, donors := rand.New(rand.NewPCG(0, stream)), rand.New(rand.NewPCG(0, stream+donorStream))
	enc := json.NewEncoder(w)
	for i := range n {
		p := t.Prompt(rng, split, promptDepths[i%len(promptDepths)], tokens)
		p.ID, p.Donor = fmt.Sprintf("%s-%02d", split, i), p.donor(donors, split)
		if err := enc.Encode(&p); err != nil {
			return err
		}
	}
	return nil
}

// donor is the prompt with a third code in the place of the asked one.
func (p *Prompt) donor(rng *rand.Rand, split CodeSplit) *Donor {
	used := map[string]bool{}
	for _, w := range strings.Fields(p.Answer + " " + p.Decoys[0].Answer) {
		used[w] = true
	}
	code := drawCode(rng, split, used)
	return &Donor{code, p.Text[:p.AnswerSpan[0]] + code + p.Text[p.AnswerSpan[1]:]}
}
