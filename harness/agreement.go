package harness

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
	"github.com/headscope/headscope/stats"
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

// Agreement says how well each detector finds the heads that the model needs, on prompts that neither detection nor test has seen.
type Agreement struct {
	Prompts  int `json:"prompts"`
	Relevant int `json:"relevant"` // the causal map's strongest twentieth of all heads, what AUPRC is of

	Causal      heads.Scores `json:"causal"`      // mean drop of the answer's log-probability without the head, nats
	Significant heads.Set    `json:"significant"` // drop above 0: one-sided t tests over prompts, Benjamini-Hochberg over all heads at 0.05
	SplitHalf   Number       `json:"split_half_spearman"`

	Sizes     []int               `json:"sizes"`
	Detectors []DetectorAgreement `json:"detectors"` // by AUPRC, best first
	Random    RandomCurves        `json:"random"`
}

// DetectorAgreement is one detector against the causal map.
type DetectorAgreement struct {
	Name             string          `json:"name"`
	AUPRC            Number          `json:"auprc"`             // of finding the relevant heads
	AUPRCLow         Number          `json:"auprc_low"`         // 0.95, prompts of the map resampled
	AUPRCHigh        Number          `json:"auprc_high"`        //
	AUPRCSignificant Number          `json:"auprc_significant"` // of finding the significant ones; null without any
	Spearman         Number          `json:"spearman"`          // with the map, over all heads
	SplitHalf        Number          `json:"split_half_spearman"`
	Scored           int             `json:"scored"` // heads with a score above 0; no others are switched off
	Curve            []Number        `json:"curve"`  // mean drop without the best heads, by size, nats
	Area             Number          `json:"area"`   // mean of the curve over the doublings of size
	Templates        []TemplateAUPRC `json:"templates,omitempty"`
}

// TemplateAUPRC is the same AUPRC against the map of one template's prompts.
type TemplateAUPRC struct {
	Template string `json:"template"`
	Prompts  int    `json:"prompts"`
	AUPRC    Number `json:"auprc"`
}

// RandomCurves are what random rankings do.
type RandomCurves struct {
	Curve    []Number `json:"curve"`        // mean over rankings
	Area     Number   `json:"area"`         // mean
	Largest  Number   `json:"largest_area"` // of one ranking
	Rankings int      `json:"rankings"`
	Base     Number   `json:"auprc_by_chance"` // the share of relevant heads
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

// agree computes causal map and curves on the agreement prompts.
func (r *runner) agree(ctx context.Context, e *evidence, prompts []*Prompt) ([]Trial, error) {
	rankings, err := e.agreementRankings()
	if err != nil {
		return nil, err
	}
	p := e.plan.Agreement
	conds := causalConditions(e.shape, p.Scope)
	for _, n := range rankings {
		for _, k := range p.Sizes {
			conds = append(conds, decoder.Condition{Edits: patch.ZeroHeads(n.ranking.Top(k), p.Scope), ScoreOnly: true})
		}
	}
	return r.alone(ctx, StageAgreement, prompts, func(ctx context.Context, prompt *Prompt, t *Trial) error {
		drop, err := r.drops(ctx, prompt, t, conds)
		if err != nil {
			return err
		}
		n := e.shape.Layers * e.shape.Heads
		t.HeadScores, t.Curves = map[string]floats{"causal": drop[:n]}, map[string]floats{}
		for i, x := range rankings {
			t.Curves[x.name] = drop[n+i*len(p.Sizes):][:len(p.Sizes)]
		}
		return nil
	})
}

// agreement computes the result's part.
func (e *evidence) agreement() (*Agreement, error) {
	trials, p := e.trials[StageAgreement], e.plan.Agreement
	maps, _, err := e.headScores([]string{"causal"}, StageAgreement)
	if err != nil {
		return nil, err
	}
	m := maps[0]
	if len(m.Values) == 0 {
		return nil, fmt.Errorf("agreement: all %d prompts failed", len(trials))
	}
	a := &Agreement{Prompts: len(m.Values), Causal: m.Mean(), Sizes: p.Sizes, Significant: heads.Set{}, SplitHalf: nan, Detectors: []DetectorAgreement{}}
	src := stats.Source{Seed: e.plan.Statistics.Seed, Stream: p.Stream}
	if len(m.Values) > 1 {
		a.SplitHalf = numberOf(m.SplitHalf(stats.Sampling{B: reliabilitySplits, Source: src}).Spearman)
	}
	relevant := a.relevant(e.shape, a.Causal)
	for i, reject := range stats.BenjaminiHochberg(m.PositiveP()).Reject(falseDiscovery) {
		if reject {
			a.Significant = append(a.Significant, decoder.Head{Layer: i / e.shape.Heads, Index: i % e.shape.Heads})
		}
	}
	rankings, err := e.agreementRankings()
	if err != nil {
		return nil, err
	}
	d := e.found
	for i := range d.Scores {
		s := &d.Scores[i]
		if s.Detector == "write_norm" {
			continue
		}
		x := DetectorAgreement{Name: s.Detector, SplitHalf: nan, AUPRCLow: nan, AUPRCHigh: nan}
		x.AUPRC = numberOf(stats.AUPRC(s.Data, relevant).Value)
		x.AUPRCSignificant = numberOf(stats.AUPRC(s.Data, labels(e.shape, a.Significant)).Value)
		x.Spearman = numberOf(stats.Spearman(s.Data, a.Causal.Data).R)
		x.AUPRCLow, x.AUPRCHigh = e.resampleMap(s, m, src)
		x.Scored = len(scored(*s))
		x.Curve, x.Area = curve(trials, s.Detector, len(p.Sizes))
		x.Templates = e.byTemplate(s)
		if pp := d.perPrompt[s.Detector]; pp != nil && len(pp.Values) > 1 {
			x.SplitHalf = numberOf(pp.SplitHalf(stats.Sampling{B: reliabilitySplits, Source: src}).Spearman)
		}
		a.Detectors = append(a.Detectors, x)
	}
	slices.SortStableFunc(a.Detectors, func(x, y DetectorAgreement) int { return compareNumbers(y.AUPRC, x.AUPRC) })
	a.random(trials, rankings)
	return a, nil
}

func compareNumbers(a, b Number) int {
	switch {
	case a < b || a != a && b == b:
		return -1
	case a > b || b != b && a == a:
		return 1
	}
	return 0
}

// relevant marks the strongest twentieth by the map.
func (a *Agreement) relevant(s Shape, causal heads.Scores) []bool {
	set, _ := causal.Top(topCount(s))
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

// byTemplate holds a detector against the maps of single templates, where there are several.
func (e *evidence) byTemplate(s *heads.Scores) (out []TemplateAUPRC) {
	byName := map[string]*heads.PerPrompt{}
	var names []string
	for i, t := range e.trials[StageAgreement] {
		name := e.agrees[i].Template
		f, ok := t.HeadScores["causal"]
		if !ok {
			continue
		}
		if byName[name] == nil {
			names, byName[name] = append(names, name), &heads.PerPrompt{Layers: s.Layers, Heads: s.Heads}
		}
		v := make([]float64, len(f))
		for k, x := range f {
			v[k] = float64(x)
		}
		byName[name].Add(v)
	}
	if len(names) < 2 {
		return nil
	}
	for _, name := range names {
		set, _ := byName[name].Mean().Top(topCount(e.shape))
		out = append(out, TemplateAUPRC{name, len(byName[name].Values), numberOf(stats.AUPRC(s.Data, labels(e.shape, set)).Value)})
	}
	return out
}

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

func (a *Agreement) random(trials []Trial, rankings []namedRanking) {
	a.Random = RandomCurves{Curve: make([]Number, len(a.Sizes)), Largest: Number(math.Inf(-1)), Base: Number(float64(a.Relevant) / float64(len(a.Causal.Data)))}
	for _, r := range rankings[len(a.Detectors):] {
		c, area := curve(trials, r.name, len(a.Sizes))
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

// writeAgreement is the table.
func (r *Result) writeAgreement(out *printer, v View) {
	a := r.Agreement
	if a == nil {
		return
	}
	out.line("Agreement with the causal map of %d other prompts: one head off at a time, from the last prompt row on; its %d strongest heads are to be found", a.Prompts, a.Relevant)
	rows := [][]string{{"detector", "AUPRC", "95 %", "significant", "Spearman", "split-half", "area"}}
	for _, k := range a.Sizes {
		rows[0] = append(rows[0], fmt.Sprintf("top %d", k))
	}
	add := func(row []string, curve []Number) {
		for _, x := range curve {
			row = append(row, fixed(float64(x), 2))
		}
		rows = append(rows, row)
	}
	for _, d := range a.Detectors {
		add([]string{
			d.Name, fixed(float64(d.AUPRC), 2), "[" + fixed(float64(d.AUPRCLow), 2) + ", " + fixed(float64(d.AUPRCHigh), 2) + "]",
			fixed(float64(d.AUPRCSignificant), 2), fixed(float64(d.Spearman), 2), fixed(float64(d.SplitHalf), 2), fixed(float64(d.Area), 2),
		}, d.Curve)
	}
	add([]string{fmt.Sprintf("random (%d)", a.Random.Rankings), fixed(float64(a.Random.Base), 2), "", "", "", "", fixed(float64(a.Random.Area), 2)}, a.Random.Curve)
	out.grid(rows, v.Markdown)
	out.line("AUPRC: area under the precision-recall curve, by chance %s; its interval resamples the map's prompts. significant: the same of the %d heads whose", fixed(float64(a.Random.Base), 2), len(a.Significant))
	out.line("drop is above 0 (t tests over prompts, Benjamini-Hochberg at %g). top k: drop of log p(answer) without the detector's k best heads, nats; area: its mean over sizes.", falseDiscovery)
	out.line("Heads without a score above 0 are left on: there the curve of a detector that finds fewer heads stays as it is.")
	out.line("The map's own split-half correlation is %s; the largest area of a random ranking %s.", fixed(float64(a.SplitHalf), 2), fixed(float64(a.Random.Largest), 2))
	out.line("")
}
