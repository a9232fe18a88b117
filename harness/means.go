package harness

import (
	"context"
	"fmt"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// TrialMeans are the mean outputs of heads that mode mean puts in.
type TrialMeans struct {
	Of      int                `json:"of"` // prompts
	Classes []decoder.RowClass `json:"classes"`
	Heads   heads.Set          `json:"heads"`
	Vectors []floats           `json:"vectors"` // by head, [classes, head_dim]
}

// MeansInfo says what the means of mode mean are over.
type MeansInfo struct {
	Of      int      `json:"of"`              // prompts
	Parts   int      `json:"parts,omitempty"` // tested prompts are among them: in so many parts, each with means over prompts that have none of its answers
	Classes []string `json:"classes"`         // of rows
	Heads   int      `json:"heads"`
}

// meansInfo describes the trials of stage means.
func meansInfo(trials []Trial, of int) *MeansInfo {
	t := trials[0].Means
	m := &MeansInfo{Of: of, Heads: len(t.Heads)}
	if len(trials) > 1 {
		m.Parts = len(trials)
	}
	for _, c := range t.Classes {
		m.Classes = append(m.Classes, c.String())
	}
	return m
}

// meanParts is how many parts of the tested prompts at most have means of their own where tested prompts are all that there is: with as few
// distinct answers each is left out by itself.
const meanParts = 8

// meanPools says over which prompts means are taken. A mean over a prompt's own rows, or over those of another prompt with the same answer,
// hands the head its answer back. Where no prompt of the pool has a tested answer, one pool does for all. Else the tested prompts are in
// parts by their answers, and each part has the pool's prompts with other answers. part is the pool of each tested prompt; answers are those
// of the prompts that are tested, and of those that means can be over.
func meanPools(tested, from []string) (pools [][]int, part []int, err error) {
	number := map[string]int{}
	for _, a := range tested {
		if _, ok := number[a]; !ok {
			number[a] = len(number)
		}
	}
	parts := 1
	if slices.ContainsFunc(from, func(a string) bool { _, ok := number[a]; return ok }) {
		parts = min(len(number), meanParts)
	}
	for _, a := range tested {
		part = append(part, number[a]%parts)
	}
	pools = make([][]int, parts)
	for k := range pools {
		for i, a := range from {
			if n, ok := number[a]; !ok || n%parts != k {
				pools[k] = append(pools[k], i)
			}
		}
		if len(pools[k]) == 0 {
			return nil, nil, usagef("give prompts for the means with --detect-prompts, or leave mean out", "means of heads: no prompt has another answer than the tested ones, whose means would give it away")
		}
	}
	return pools, part, nil
}

// meanPools are those of the run's prompts.
func (s *Study) meanPools() ([][]int, []int, error) {
	return meanPools(answersOf(s.prompts), answersOf(s.detects))
}

func answersOf(prompts []*Prompt) []string {
	var out []string
	for _, p := range prompts {
		out = append(out, p.Spec.Answer)
	}
	return out
}

// meanPools are the same from the records of a trials file.
func (e *evidence) meanPools() ([][]int, []int, error) {
	answers := func(records []PromptRecord) []string {
		var out []string
		for i := range records {
			out = append(out, records[i].Text)
		}
		return out
	}
	return meanPools(answers(e.tests), answers(e.detects))
}

func (t *TrialMeans) means() *decoder.Means {
	m := &decoder.Means{Classes: t.Classes, Heads: map[decoder.Head][]float32{}}
	for i, h := range t.Heads {
		m.Heads[h] = t.Vectors[i]
	}
	return m
}

// meanHeads lists the heads whose means an experiment's conditions put in.
func meanHeads(conds []condition) heads.Set {
	var hs []decoder.Head
	for _, c := range conds {
		for _, e := range c.edits {
			if e.Op == decoder.OpMean {
				hs = append(hs, e.Heads...)
			}
		}
	}
	return heads.NewSet(hs...)
}

// means computes the means that the conditions need, or takes them from the trials file, and gives them to the prompts.
func (r *runner) means(ctx context.Context, detects, tests []*Prompt, conds []condition) ([]Trial, error) {
	hs := meanHeads(conds)
	if len(hs) == 0 {
		return nil, nil
	}
	pools, part, err := meanPools(answersOf(tests), answersOf(detects))
	if err != nil {
		return nil, err
	}
	id := unitID{StageMeans, 0}
	trials, err := r.storedAlone(id, len(pools))
	if err != nil {
		return nil, err
	}
	for _, t := range trials {
		if t.Means == nil || !slices.Equal(t.Means.Heads, hs) || len(t.Means.Vectors) != len(hs) {
			return nil, &DamagedError{r.file.path, "the means are not those of the plan's heads"}
		}
	}
	if trials == nil {
		if trials, err = r.takeMeans(ctx, detects, hs, pools); err != nil {
			return nil, err
		}
		if err := r.keep(trials); err != nil {
			return nil, err
		}
	}
	means := make([]*decoder.Means, len(trials))
	for k := range trials {
		means[k] = trials[k].Means.means()
	}
	for i, p := range tests {
		p.means = means[part[i]]
	}
	return trials, nil
}

// takeMeans computes them, a trial a pool.
func (r *runner) takeMeans(ctx context.Context, detects []*Prompt, hs heads.Set, pools [][]int) ([]Trial, error) {
	var asked []*decoder.Prompt
	for _, p := range detects {
		asked = append(asked, p.ask())
	}
	all, err := r.headMeans(ctx, asked, hs, pools)
	if err != nil {
		return nil, fmt.Errorf("means of heads: %w", err)
	}
	var trials []Trial
	for k, m := range all {
		t := Trial{Stage: StageMeans, Prompt: StageMeans, Condition: baseline, Outcome: Observed, Sum: nan, Margin: nan, MinGap: nan}
		if len(all) > 1 {
			t.Prompt = fmt.Sprint(StageMeans, k)
		}
		t.Means = &TrialMeans{Of: len(pools[k]), Classes: m.Classes, Heads: hs}
		for _, h := range hs {
			t.Means.Vectors = append(t.Means.Vectors, m.Heads[h])
		}
		trials = append(trials, t)
	}
	return trials, nil
}
