package harness

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// Agreement says how well each detector finds the heads that the model needs, on prompts that neither detection nor test has seen.
type Agreement struct {
	AgreementMap
	Sizes []int           `json:"sizes"`
	Kinds []KindAgreement `json:"kinds,omitempty"` // the same with the map of each kind's prompts alone, where prompts state their kind
}

// KindAgreement is the agreement on needles of one kind.
type KindAgreement struct {
	Kind string `json:"kind"`
	AgreementMap
}

// AgreementMap holds every detector against the causal map of some prompts.
type AgreementMap struct {
	Prompts  int    `json:"prompts"`
	Relevant int    `json:"relevant"`     // the causal map's strongest twentieth of all heads, what AUPRC is of
	LogProb  Number `json:"mean_logprob"` // of the fed answer by the unmodified model, nats

	Causal      heads.Scores `json:"causal"`      // mean drop of the answer's log-probability without the head, nats
	Significant heads.Set    `json:"significant"` // drop above 0: one-sided t tests over prompts, Benjamini-Hochberg over all heads at 0.05
	SplitHalf   Number       `json:"split_half_spearman"`

	Detectors []DetectorAgreement `json:"detectors"` // by AUPRC, best first
	Random    RandomCurves        `json:"random"`
}

// DetectorAgreement is one detector against a causal map.
type DetectorAgreement struct {
	Name             string   `json:"name"`
	AUPRC            Number   `json:"auprc"`             // of finding the relevant heads
	AUPRCLow         Number   `json:"auprc_low"`         // 0.95, prompts of the map resampled
	AUPRCHigh        Number   `json:"auprc_high"`        //
	AUPRCSignificant Number   `json:"auprc_significant"` // of finding the significant ones; null without any
	Spearman         Number   `json:"spearman"`          // with the map, over all heads
	SplitHalf        Number   `json:"split_half_spearman"`
	Scored           int      `json:"scored"` // heads with a score above 0; no others are switched off
	Curve            []Number `json:"curve"`  // mean drop without the best heads, by size, nats
	Area             Number   `json:"area"`   // mean of the curve over the doublings of size
}

// RandomCurves are what random rankings do.
type RandomCurves struct {
	Curve    []Number `json:"curve"`        // mean over rankings
	Area     Number   `json:"area"`         // mean
	Largest  Number   `json:"largest_area"` // of one ranking
	Rankings int      `json:"rankings"`
	Base     Number   `json:"auprc_by_chance"` // the share of relevant heads
}

// agreement computes the result's part.
func (e *evidence) agreement() (*Agreement, error) {
	trials := e.trials[StageAgreement]
	of, err := e.agreementOf(trials)
	if err == nil && of == nil {
		err = fmt.Errorf("all %d prompts failed", len(trials))
	}
	if err != nil {
		return nil, fmt.Errorf("agreement: %w", err)
	}
	a := &Agreement{AgreementMap: *of, Sizes: e.plan.Agreement.Sizes}
	byKind := map[string][]Trial{}
	var kinds []string
	for i := range trials {
		kind := e.agrees[i].Kind
		if kind == "" {
			continue
		}
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], trials[i])
	}
	for _, kind := range kinds {
		of, err := e.agreementOf(byKind[kind])
		if err != nil {
			return nil, fmt.Errorf("agreement: kind %s: %w", kind, err)
		}
		if of != nil { // else the failures are listed
			a.Kinds = append(a.Kinds, KindAgreement{kind, *of})
		}
	}
	return a, nil
}

// agreementOf holds the detectors against the map of some trials; nil where all of them failed.
func (e *evidence) agreementOf(trials []Trial) (*AgreementMap, error) {
	m := &heads.PerPrompt{Detector: "causal", Layers: e.shape.Layers, Heads: e.shape.Heads}
	sum := 0.0
	for i := range trials {
		f, ok := trials[i].HeadScores["causal"]
		if !ok {
			continue
		}
		if len(f) != m.Layers*m.Heads {
			return nil, fmt.Errorf("trial of prompt %s: %d drops, want %d", trials[i].Prompt, len(f), m.Layers*m.Heads)
		}
		v := make([]float64, len(f))
		for k, x := range f {
			v[k] = float64(x)
		}
		m.Add(v)
		sum += float64(trials[i].Sum)
	}
	if len(m.Values) == 0 {
		return nil, nil
	}
	a := &AgreementMap{Prompts: len(m.Values), LogProb: Number(sum / float64(len(m.Values))), Causal: m.Mean(), Significant: heads.Set{}, SplitHalf: nan, Detectors: []DetectorAgreement{}}
	src := stats.Source{Seed: e.plan.Statistics.Seed, Stream: e.plan.Agreement.Stream}
	if len(m.Values) > 1 {
		a.SplitHalf = numberOf(m.SplitHalf(stats.Sampling{B: reliabilitySplits, Source: src}).Spearman)
	}
	for i, reject := range stats.BenjaminiHochberg(m.PositiveP()).Reject(falseDiscovery) {
		if reject {
			a.Significant = append(a.Significant, decoder.Head{Layer: i / e.shape.Heads, Index: i % e.shape.Heads})
		}
	}
	if err := a.addDetectors(e, trials, m); err != nil {
		return nil, err
	}
	return a, nil
}

// addDetectors holds each detector against the map, and takes the curves from the trials.
func (a *AgreementMap) addDetectors(e *evidence, trials []Trial, m *heads.PerPrompt) error {
	rankings, err := e.agreementRankings()
	if err != nil {
		return err
	}
	relevant := a.relevant(e.shape)
	src := stats.Source{Seed: e.plan.Statistics.Seed, Stream: e.plan.Agreement.Stream}
	for i := range e.found.Scores {
		s := &e.found.Scores[i]
		if s.Detector == "write_norm" {
			continue
		}
		x := DetectorAgreement{Name: s.Detector, SplitHalf: nan, AUPRCLow: nan, AUPRCHigh: nan}
		x.AUPRC = numberOf(stats.AUPRC(s.Data, relevant).Value)
		x.AUPRCSignificant = numberOf(stats.AUPRC(s.Data, labels(e.shape, a.Significant)).Value)
		x.Spearman = numberOf(stats.Spearman(s.Data, a.Causal.Data).R)
		x.AUPRCLow, x.AUPRCHigh = e.resampleMap(s, m, src)
		x.Scored = len(scored(*s))
		x.Curve, x.Area = curve(trials, s.Detector, len(e.plan.Agreement.Sizes))
		if pp := e.found.perPrompt[s.Detector]; pp != nil && len(pp.Values) > 1 {
			x.SplitHalf = numberOf(pp.SplitHalf(stats.Sampling{B: reliabilitySplits, Source: src}).Spearman)
		}
		a.Detectors = append(a.Detectors, x)
	}
	slices.SortStableFunc(a.Detectors, func(x, y DetectorAgreement) int { return cmp.Compare(y.AUPRC, x.AUPRC) })
	a.random(trials, rankings, len(e.plan.Agreement.Sizes))
	return nil
}

// relevant marks the strongest twentieth by the map.
func (a *AgreementMap) relevant(s Shape) []bool {
	set, _ := a.Causal.Top(topCount(s))
	a.Relevant = len(set)
	return labels(s, set)
}

func labels(s Shape, set heads.Set) []bool {
	out := make([]bool, s.Layers*s.Heads)
	for _, h := range set {
		out[h.Layer*s.Heads+h.Index] = true
	}
	return out
}

// resampleMap is the percentile interval of a detector's AUPRC over resamples of the map's prompts.
func (e *evidence) resampleMap(s *heads.Scores, m *heads.PerPrompt, src stats.Source) (lo, hi Number) {
	if len(m.Values) < 2 {
		return nan, nan
	}
	rng, values := src.Rand(), make([]float64, 0, mapResamples)
	for range mapResamples {
		again := heads.PerPrompt{Detector: m.Detector, Layers: m.Layers, Heads: m.Heads}
		for range m.Values {
			again.Values = append(again.Values, m.Values[rng.IntN(len(m.Values))])
		}
		set, _ := again.Mean().Top(topCount(e.shape))
		values = append(values, stats.AUPRC(s.Data, labels(e.shape, set)).Value.Or(math.NaN()))
	}
	q := stats.Quantiles(values, 0.025, 0.975)
	return Number(q[0]), Number(q[1])
}

const mapResamples = 200

// curve is the mean drop by size over prompts, and the mean of that over the sizes, which double.
func curve(trials []Trial, name string, sizes int) ([]Number, Number) {
	sum, n := make([]float64, sizes), 0
	for i := range trials {
		if c := trials[i].Curves[name]; len(c) == sizes {
			n++
			for k, v := range c {
				sum[k] += float64(v)
			}
		}
	}
	out, area := make([]Number, sizes), 0.0
	for k := range sum {
		out[k] = Number(sum[k] / float64(n))
		area += sum[k] / float64(n) / float64(sizes)
	}
	return out, Number(area)
}

func (a *AgreementMap) random(trials []Trial, rankings []namedRanking, sizes int) {
	a.Random = RandomCurves{Curve: make([]Number, sizes), Largest: Number(math.Inf(-1)), Base: Number(float64(a.Relevant) / float64(len(a.Causal.Data)))}
	for _, r := range rankings[len(a.Detectors):] {
		c, area := curve(trials, r.name, sizes)
		a.Random.Rankings++
		a.Random.Area += area
		a.Random.Largest = max(a.Random.Largest, area)
		for k, v := range c {
			a.Random.Curve[k] += v
		}
	}
	n := Number(a.Random.Rankings)
	a.Random.Area /= n
	for k := range a.Random.Curve {
		a.Random.Curve[k] /= n
	}
}
