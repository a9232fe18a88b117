package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// PlanAgreement is how detectors are held against the causal map.
type PlanAgreement struct {
	Prompts PlanPrompts   `json:"prompts"`
	Scope   decoder.Scope `json:"scope"`
	Sizes   []int         `json:"sizes"`  // of the sets of best heads that are switched off
	Random  int           `json:"random"` // rankings drawn to compare with
	Stream  uint64        `json:"stream"`
}

const (
	setAgreement    = "agreement"
	randomRankings  = 10
	streamAgreement = 8
	falseDiscovery  = 0.05 // among the heads that the causal map calls significant
)

// planAgreement fixes the sizes: 1, 2, 4, ... up to a fifth of the heads.
func planAgreement(f *PromptFile, s Shape) *PlanAgreement {
	p := &PlanAgreement{Prompts: planPrompts(f), Scope: decoder.ScopeAnswer, Random: randomRankings, Stream: streamAgreement}
	for k := 1; k <= max(1, s.Layers*s.Heads/5); k *= 2 {
		p.Sizes = append(p.Sizes, k)
	}
	return p
}

// namedRanking is a ranking whose best heads are switched off.
type namedRanking struct {
	name    string
	ranking heads.Ranking
}

// agreementRankings are the detectors' and the random ones, in order.
func (e *evidence) agreementRankings() ([]namedRanking, error) {
	d, err := e.detection()
	if err != nil {
		return nil, err
	}
	var out []namedRanking
	for _, s := range d.Scores {
		if s.Detector == "write_norm" {
			continue // a size, no detector
		}
		out = append(out, namedRanking{s.Detector, scored(s)})
	}
	p := e.plan.Agreement
	all := heads.NewScores("random", e.shape.Layers, e.shape.Heads).Ranking()
	for i := range p.Random {
		r := slices.Clone(all)
		rng := rand.New(rand.NewPCG(e.plan.Statistics.Seed, p.Stream+uint64(i)<<32))
		rng.Shuffle(len(r), func(a, b int) { r[a], r[b] = r[b], r[a] })
		out = append(out, namedRanking{fmt.Sprintf("random%d", i), r})
	}
	return out, nil
}

// scored ranks the heads with a score above 0, or the best one alone: heads that a detector says nothing of would come in the order of
// their layers, and the first ones carry much.
func scored(s heads.Scores) heads.Ranking {
	r := s.Ranking()
	n := 1
	for n < len(r) && s.At(r[n]) > 0 {
		n++
	}
	return r[:n]
}

// knockouts are the conditions of the agreement stage: none off, every head alone, and the best so many of each ranking. Sets that are one
// are one condition.
type knockouts struct {
	conds  []decoder.Condition
	curves map[string][]int // by ranking: of each size, the condition less 1
}

func (e *evidence) knockouts() (*knockouts, error) {
	rankings, err := e.agreementRankings()
	if err != nil {
		return nil, err
	}
	p := e.plan.Agreement
	k := &knockouts{causalConditions(e.shape, p.Scope), map[string][]int{}}
	at := map[string]int{}
	for i, c := range k.conds[1:] {
		at[heads.NewSet(c.Edits[0].Heads...).String()] = i
	}
	for _, r := range rankings {
		for _, size := range p.Sizes {
			set := heads.NewSet(r.ranking.Top(size)...)
			i, ok := at[set.String()]
			if !ok {
				i = len(k.conds) - 1
				at[set.String()] = i
				k.conds = append(k.conds, decoder.Condition{Edits: patch.ZeroHeads(set, p.Scope), ScoreOnly: true})
			}
			k.curves[r.name] = append(k.curves[r.name], i)
		}
	}
	return k, nil
}

// agree computes causal map and curves on the agreement prompts.
func (r *runner) agree(ctx context.Context, e *evidence, prompts []*Prompt) ([]Trial, error) {
	k, err := e.knockouts()
	if err != nil {
		return nil, err
	}
	return r.alone(ctx, StageAgreement, prompts, func(ctx context.Context, prompt *Prompt, t *Trial) error {
		drop, err := r.drops(ctx, prompt, t, k.conds)
		if err != nil {
			return err
		}
		t.HeadScores, t.Curves = map[string]floats{"causal": drop[:e.shape.Layers*e.shape.Heads]}, map[string]floats{}
		for name, at := range k.curves {
			for _, i := range at {
				t.Curves[name] = append(t.Curves[name], drop[i])
			}
		}
		return nil
	})
}
