package pretrain

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/tokenizer"
)

// TestPrompt holds what the task says of a prompt to what the tokenizer makes of its text.
func TestPrompt(t *testing.T) {
	task := NewTask()
	file, err := task.tokenizerJSON()
	if err != nil {
		t.Fatal(err)
	}
	config, err := tokenizerConfig(160)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(file, config)
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.VocabSize(); got != task.Vocab() {
		t.Errorf("vocabulary: got %d tokens, want %d", got, task.Vocab())
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, split := range []CodeSplit{Training, Detect, Test} {
		for i := range 100 {
			depth := float64(i%11) / 10
			p := task.Prompt(rng, split, depth, 128)
			enc, err := tok.Encode(p.Text, tokenizer.Options{AddSpecial: true})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(enc.IDs, p.ids) {
				t.Fatalf("%q: got ids %v, want %v", p.Text, enc.IDs, p.ids)
			}
			if n := len(p.ids); n > 128 || n < 115 {
				t.Errorf("%q: %d tokens, want 115 to 128", p.Text, n)
			}
			answer, err := tok.AnswerIDs(p.Text, p.Answer, tokenizer.Options{AddSpecial: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(answer) != codeTokens || tok.Decode(answer, false) != " "+p.Answer {
				t.Errorf("answer %q: got ids %v", p.Answer, answer)
			}
			if splitOf(p.Answer) != split || splitOf(p.Decoys[0].Answer) != split {
				t.Errorf("code %q is not of split %s", p.Answer, split)
			}
			for _, c := range []struct {
				what, want string
				span       [2]int
			}{
				{"answer", p.Answer, p.AnswerSpan}, {"decoy", p.Decoys[0].Answer, p.Decoys[0].Span},
			} {
				if got := p.Text[c.span[0]:c.span[1]]; got != c.want || strings.Count(p.Text, c.want) != 1 {
					t.Errorf("%q: span of the %s: got %q, want %q, once in the text", p.Text, c.what, got, c.want)
				}
			}
			needle, question := p.Text[p.Needle[0]:p.Needle[1]], p.Text[p.Question[0]:p.Question[1]]
			if before, _, _ := strings.Cut(needle, " "+p.Answer); !strings.HasSuffix(p.Text, question+" "+before) {
				t.Errorf("%q: does not end in the question %q and %q", p.Text, question, before)
			}
		}
	}
}
