package pretrain

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
)

// promptDepths are those of generated prompts in harness/needle; a prompt set runs through them.
var promptDepths = []float64{0.1, 0.25, 0.5, 0.75, 0.9}

// promptStream numbers the random stream of a prompt set.
var promptStreams = map[CodeSplit]uint64{Detect: 2, Test: 3}

// WritePrompts writes a prompt file of n prompts of Detect or Test, of at most so many tokens each.
func (t *Task) WritePrompts(w io.Writer, split CodeSplit, n, tokens int) error {
	stream, ok := promptStreams[split]
	if !ok {
		return fmt.Errorf("split %q: want %s or %s", split, Detect, Test)
	}
	rng := rand.New(rand.NewPCG(0, stream))
	enc := json.NewEncoder(w)
	for i := range n {
		p := t.Prompt(rng, split, promptDepths[i%len(promptDepths)], tokens)
		p.ID = fmt.Sprintf("%s-%02d", split, i)
		if err := enc.Encode(&p); err != nil {
			return err
		}
	}
	return nil
}
