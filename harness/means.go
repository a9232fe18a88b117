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
	Of      int      `json:"of"`      // prompts
	Classes []string `json:"classes"` // of rows
	Heads   int      `json:"heads"`
}

func (t *TrialMeans) info() *MeansInfo {
	m := &MeansInfo{Of: t.Of, Heads: len(t.Heads)}
	for _, c := range t.Classes {
		m.Classes = append(m.Classes, c.String())
	}
	return m
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
	id := unitID{StageMeans, 0}
	trials, err := r.storedAlone(id, 1)
	if err != nil {
		return nil, err
	}
	if trials != nil && (trials[0].Means == nil || !slices.Equal(trials[0].Means.Heads, hs) || len(trials[0].Means.Vectors) != len(hs)) {
		return nil, &DamagedError{r.file.path, "the means are not those of the plan's heads"}
	}
	if trials == nil {
		var asked []*decoder.Prompt
		for _, p := range detects {
			asked = append(asked, p.ask())
		}
		m, err := r.headMeans(ctx, asked, hs)
		if err != nil {
			return nil, fmt.Errorf("means of heads: %w", err)
		}
		t := Trial{Stage: StageMeans, Prompt: StageMeans, Condition: baseline, Outcome: Observed, Sum: nan, Margin: nan, MinGap: nan}
		t.Means = &TrialMeans{Of: len(detects), Classes: m.Classes, Heads: hs}
		for _, h := range hs {
			t.Means.Vectors = append(t.Means.Vectors, m.Heads[h])
		}
		trials = []Trial{t}
		if err := r.keep(trials); err != nil {
			return nil, err
		}
	}
	m := trials[0].Means.means()
	for _, p := range tests {
		p.means = m
	}
	return trials, nil
}
