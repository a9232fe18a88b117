package harness

import (
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// Numbers of random draws behind a detector's statistics.
const (
	reliabilitySplits = 100
	scoreResamples    = 1000
)

// DetectorResult is one detector over the detection prompts.
type DetectorResult struct {
	Name     string `json:"name"`
	About    string `json:"about"` // what it measures, and over what it is averaged
	Source   string `json:"source"`
	Stage    string `json:"stage"`
	Prompts  int    `json:"prompts"`            // scored
	Unscored int    `json:"unscored,omitempty"` // prompts without a score
	Reason   string `json:"reason,omitempty"`   // of the first of them

	Top  []ScoredHead `json:"top"`  // the strongest twentieth of all heads
	Ties heads.Set    `json:"ties"` // that only their place told apart at the cut

	Gini   Number `json:"gini"`      // of all scores, 0 = all heads alike
	Centre Number `json:"layer_com"` // mean depth of the top heads, 0 = first layer, 1 = last

	// Correlation over heads of the scores of two halves of the prompts, mean over random halves; and stepped up to all prompts.
	SplitHalf     Number `json:"split_half_spearman"`
	SpearmanBrown Number `json:"spearman_brown"`

	KV *heads.Scores `json:"kv_max,omitempty"` // of each key/value head, the largest of its query heads; absent without groups
}

// ScoredHead is a head's score with a bootstrap interval over prompts; none where the score does not come from prompts.
type ScoredHead struct {
	Head  decoder.Head `json:"head"`
	Score Number       `json:"score"`
	Low   Number       `json:"low"`
	High  Number       `json:"high"`
}

// DetectorPair compares two detectors.
type DetectorPair struct {
	A        string `json:"a"`
	B        string `json:"b"`
	Spearman Number `json:"spearman"` // over all heads
	Jaccard  Number `json:"jaccard"`  // of their top heads
	Shared   int    `json:"shared"`   // top heads in both
}

// further adds the detectors that were asked for beyond the basic ones, and what is said of all of them then.
func (d *Detection) further(e *evidence, obs *heads.Observations, copying *heads.Observations) error {
	if len(e.plan.Detect.Detectors) == 0 && e.plan.Agreement == nil {
		return nil
	}
	all := obs.PerPrompt()[:3]
	if copying != nil {
		all = append(all, copying.PerPrompt()[3])
	}
	more, unscored, err := e.headScores(e.plan.Detect.Detectors, StageObserve, StageCausal)
	if err != nil {
		return err
	}
	byName := map[string]*heads.PerPrompt{}
	for _, p := range append(all, more...) {
		byName[p.Detector] = p
	}
	for _, p := range more {
		if len(p.Values) > 0 {
			d.Scores = append(d.Scores, p.Mean())
		}
	}
	d.perPrompt = byName
	for _, info := range Detectors() {
		s, ok := d.Score(info.Name)
		if !ok && unscored[info.Name].n == 0 {
			continue
		}
		if info.Name == "logit_attr" {
			info.About = "what the head adds to " + aboutContrast(e.allDecoys())
		}
		r := DetectorResult{Name: info.Name, About: info.About, Source: info.Source, Stage: info.Stage, Unscored: unscored[info.Name].n, Reason: unscored[info.Name].reason, Top: []ScoredHead{}, Ties: heads.Set{}}
		if ok {
			r.fill(e, s, byName[info.Name])
		} else {
			r.Gini, r.Centre, r.SplitHalf, r.SpearmanBrown = nan, nan, nan, nan
		}
		d.Detectors = append(d.Detectors, r)
	}
	d.pair()
	return nil
}

// unscored counts the prompts that a detector left out.
type unscored struct {
	n      int
	reason string
}

// headScores sorts the stages' trials by detector, in the order of names.
func (e *evidence) headScores(names []string, stages ...string) ([]*heads.PerPrompt, map[string]unscored, error) {
	n := e.shape.Layers * e.shape.Heads
	out, left := make([]*heads.PerPrompt, len(names)), map[string]unscored{}
	for i, name := range names {
		out[i] = &heads.PerPrompt{Detector: name, Layers: e.shape.Layers, Heads: e.shape.Heads}
		for _, stage := range stages {
			for _, t := range e.trials[stage] {
				if reason, ok := t.Unscored[name]; ok {
					u := left[name]
					if u.n++; u.reason == "" {
						u.reason = reason
					}
					left[name] = u
				}
				f, ok := t.HeadScores[name]
				if !ok {
					continue
				}
				if len(f) != n || slices.ContainsFunc(f, func(x float32) bool { return x != x }) {
					return nil, nil, fmt.Errorf("stage %s: prompt %s: %s: got %d scores, want %d that are numbers", stage, t.Prompt, name, len(f), n)
				}
				v := make([]float64, n)
				for k, x := range f {
					v[k] = float64(x)
				}
				out[i].Add(v)
			}
		}
	}
	return out, left, nil
}

// allDecoys tells whether every detection prompt has a decoy to compare with.
func (e *evidence) allDecoys() bool {
	return !slices.ContainsFunc(e.detects, func(r PromptRecord) bool { return r.Decoy == nil })
}

// topCount is how many heads a model's strongest twentieth has.
func topCount(s Shape) int {
	return max(1, int(math.Ceil(float64(s.Layers*s.Heads)*strongest-1e-9)))
}

func (r *DetectorResult) fill(e *evidence, s heads.Scores, p *heads.PerPrompt) {
	set, ties := s.Top(topCount(e.shape))
	r.Prompts, r.Ties = s.N, ties
	src := stats.Source{Seed: e.plan.Statistics.Seed, Stream: streamDetectors}
	for _, h := range s.Ranking().Only(set) {
		at := ScoredHead{h, Number(s.At(h)), nan, nan}
		if p != nil && len(p.Values) > 1 {
			iv := p.Interval(h, stats.Resampling{N: scoreResamples, Level: level}, src)
			at.Low, at.High = Number(iv.Lo), Number(iv.Hi)
		}
		r.Top = append(r.Top, at)
	}
	r.Gini = numberOf(s.Concentration(e.plan.Detect.Threshold).Gini)
	r.Centre = numberOf(set.LayerProfile(e.shape.Layers, nil).Centre)
	r.SplitHalf, r.SpearmanBrown = nan, nan
	if p != nil {
		r.Prompts = len(p.Values)
		if len(p.Values) > 1 {
			half := p.SplitHalf(stats.Sampling{B: reliabilitySplits, Source: src})
			r.SplitHalf, r.SpearmanBrown = numberOf(half.Spearman), numberOf(half.SpearmanBrown)
		}
	}
	if group := e.shape.Heads / e.shape.KVHeads; group > 1 {
		kv := s.KVMax(group)
		r.KV = &kv
	}
}

// numberOf is NaN where v is undefined.
func numberOf(v stats.Value) Number { return Number(v.Or(float64(nan))) }

// heads are the detector's top heads.
func (r *DetectorResult) heads() heads.Set {
	var out []decoder.Head
	for _, t := range r.Top {
		out = append(out, t.Head)
	}
	return heads.NewSet(out...)
}

// pair compares every two detectors.
func (d *Detection) pair() {
	for i := range d.Detectors {
		for j := range i {
			a, b := &d.Detectors[j], &d.Detectors[i]
			x, okx := d.Score(a.Name)
			y, oky := d.Score(b.Name)
			if !okx || !oky {
				continue
			}
			o := stats.Overlap(a.heads(), b.heads())
			d.Pairs = append(d.Pairs, DetectorPair{a.Name, b.Name, numberOf(stats.Spearman(x.Data, y.Data).R), Number(o.Jaccard), o.Intersection})
		}
	}
}
