package harness

import (
	"context"
	"math"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
)

// ScoreRequest asks how likely an answer is after a passage.
type ScoreRequest struct {
	Checkpoint *loader.Checkpoint
	Model      *decoder.Model
	Passage    *Passage // its Answer is what is scored
	Edits      []decoder.Edit
}

// Score is how likely a fed answer is.
type Score struct {
	Prompt  int           `json:"prompt_tokens"`
	LogProb Number        `json:"logprob"` // natural logarithm, sum over the answer's tokens
	Greedy  bool          `json:"greedy"`  // every token of the answer is the most likely one
	Tokens  []ScoredToken `json:"tokens"`
}

// ScoredToken is one token of a fed answer.
type ScoredToken struct {
	ID      int32  `json:"id"`
	Text    string `json:"text"`
	LogProb Number `json:"logprob"`
	Argmax  int32  `json:"argmax"` // the most likely token there
	Gap     Number `json:"gap"`    // between the two largest logits
}

// AnswerTokens are the ids that an answer adds after a text, one space between them unless the text ends in white space.
func AnswerTokens(c *loader.Checkpoint, text, answer string, noSpecial bool) ([]int32, error) {
	if c.Tokenizer == nil {
		return nil, errNoTokenizer()
	}
	ids, err := c.Tokenizer.AnswerIDs(text, answer, tokenizer.Options{AddSpecial: !noSpecial})
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, usagef("give an answer", "answer %q has no tokens", answer)
	}
	return ids, nil
}

// Feed makes ids the answer that is fed after the passage.
func (p *Passage) Feed(c *loader.Checkpoint, ids []int32) error {
	for _, id := range ids {
		if id < 0 || int(id) >= c.Spec.Vocab {
			return usagef("`headscope tokenize MODEL TEXT` prints ids", "answer: token id %d: the vocabulary has ids 0-%d", id, c.Spec.Vocab-1)
		}
	}
	p.Tokens = p.Tokens[:len(p.IDs):len(p.IDs)]
	for _, id := range ids {
		p.Tokens = append(p.Tokens, decoded(c.Tokenizer, id))
	}
	p.Answer = ids
	return (&Prompt{IDs: p.IDs, Answer: ids}).fits(&c.Spec, 0)
}

// ScoreAnswer feeds the passage's answer and returns how likely each of its tokens was.
func ScoreAnswer(ctx context.Context, r *ScoreRequest) (*Score, error) {
	p := r.Passage
	if len(p.Answer) == 0 {
		return nil, usagef("give an answer", "there is no answer to score")
	}
	if err := p.CheckEdits(&r.Checkpoint.Spec, r.Edits); err != nil {
		return nil, err
	}
	out := &Score{Prompt: len(p.IDs), Greedy: true}
	sum := 0.0
	err := r.Model.Ask(ctx, []*decoder.Prompt{p.ask()}, []decoder.Condition{{Edits: r.Edits}}, decoder.AskOptions{}, func(_, _ int, reply *decoder.Reply) error {
		for i, id := range p.Answer {
			sum += reply.LogProb[i]
			out.Greedy = out.Greedy && reply.Argmax[i] == id
			out.Tokens = append(out.Tokens, ScoredToken{id, p.Tokens[len(p.IDs)+i].Text, Number(reply.LogProb[i]), reply.Argmax[i], Number(reply.Gap[i])})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, errNotFinite("the log-probabilities are")
	}
	out.LogProb = Number(sum)
	return out, nil
}
