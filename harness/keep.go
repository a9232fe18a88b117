package harness

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
	"github.com/headscope/headscope/stats"
)

// StageKeep asks the tested prompts with a few heads that see everything, all others seeing only the first keys and the last ones.
const StageKeep = "keep"

// PoolRandom are control sets drawn from all units of the model alike. Those of PoolLayer have as many in every layer as the set.
const PoolRandom = "random"

// PlanKeep says which heads keep their full attention. A unit is a head, or with KVGroups all heads that share a key/value head.
type PlanKeep struct {
	Heads      heads.Ranking `json:"heads"`                 // best first; of a unit all its heads
	DetectedOn *PlanPrompts  `json:"detected_on,omitempty"` // what they were detected on; absent: not known
	KVGroups   bool          `json:"kv_groups"`
	Sizes      []int         `json:"sizes"` // units that are kept, ascending; 0 is always among them
	Sink       int           `json:"sink"`  // first keys that the others see
	Recent     int           `json:"recent"`
	Controls   int           `json:"controls"`         // sets of each pool and size
	Decoded    int           `json:"decoded_controls"` // of which so many have their answers decoded and their texts scored
}

// KeepOptions ask for it. Zero values mean what their comments say.
type KeepOptions struct {
	Heads      heads.Ranking
	DetectedOn *PlanPrompts
	KVGroups   bool
	Sizes      []int // nil: all of the list, half and a quarter of it
	Sink       int
	Recent     int
	Controls   int
}

// PlanKeeping turns a request into a plan, or says what is wrong with it.
func PlanKeeping(s *loader.Spec, o KeepOptions) (*PlanKeep, error) {
	p := &PlanKeep{
		Heads: o.Heads, DetectedOn: o.DetectedOn, KVGroups: o.KVGroups, Sink: o.Sink, Recent: o.Recent, Controls: o.Controls, Decoded: min(decodedControls, o.Controls),
	}
	if err := p.Heads.Set().Validate(s.Layers, s.Heads); err != nil {
		return nil, err
	}
	shape := Shape{s.Layers, s.Heads, s.KVHeads}
	n := len(p.units(shape))
	switch {
	case n == 0:
		return nil, usagef("give --heads LIST, a FILE of one, or a result of detect or study", "no heads to keep")
	case o.Sink < 0 || o.Recent < 1:
		return nil, usagef("4 and 64 are usual", "%d sink and %d recent keys: want at least 0 and 1", o.Sink, o.Recent)
	case o.Controls < 0 || o.Controls > maxControls:
		return nil, usagef(fmt.Sprintf("give 0 to %d", maxControls), "controls %d is out of range", o.Controls)
	}
	p.Sizes = slices.Clone(o.Sizes)
	if p.Sizes == nil {
		p.Sizes = []int{(n + 3) / 4, (n + 1) / 2, n}
	}
	for _, k := range p.Sizes {
		if k < 0 || k > n {
			return nil, usagef(fmt.Sprintf("give sizes from 0 to %d, the length of the list", n), "size %d: the list has %d %s", k, n, p.unit())
		}
	}
	p.Sizes = append(p.Sizes, 0)
	slices.Sort(p.Sizes)
	p.Sizes = slices.Compact(p.Sizes)
	return p, nil
}

func (k *PlanKeep) unit() string {
	if k.KVGroups {
		return "key/value groups"
	}
	return "heads"
}

// units lists the list's units best first, as heads or as key/value heads.
func (k *PlanKeep) units(s Shape) heads.Ranking {
	var out heads.Ranking
	for _, h := range k.Heads {
		if k.KVGroups {
			h.Index /= s.Heads / s.KVHeads
		}
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

// allUnits are those of the whole model.
func (k *PlanKeep) allUnits(s Shape) heads.Set {
	n := s.Heads
	if k.KVGroups {
		n = s.KVHeads
	}
	var out []decoder.Head
	for l := range s.Layers {
		for i := range n {
			out = append(out, decoder.Head{Layer: l, Index: i})
		}
	}
	return heads.NewSet(out...)
}

// expand turns units into query heads.
func (k *PlanKeep) expand(units heads.Set, s Shape) heads.Set {
	if !k.KVGroups {
		return units
	}
	var out []decoder.Head
	group := s.Heads / s.KVHeads
	for _, u := range units {
		for i := range group {
			out = append(out, decoder.Head{Layer: u.Layer, Index: u.Index*group + i})
		}
	}
	return heads.NewSet(out...)
}

// keeping is a condition in which the units see everything and all other heads stream.
func (k *PlanKeep) keeping(name string, units heads.Set, s Shape) condition {
	kept := k.expand(units, s)
	var others []decoder.Head
	for l := range s.Layers {
		for i := range s.Heads {
			if h := (decoder.Head{Layer: l, Index: i}); !kept.Contains(h) {
				others = append(others, h)
			}
		}
	}
	c := condition{name: name, heads: kept, texts: true, edits: []decoder.Edit{}}
	if len(others) > 0 {
		c.edits = []decoder.Edit{{Op: decoder.OpStreaming, Heads: others, Sink: k.Sink, Recent: k.Recent, Scope: decoder.ScopeAll}}
	}
	return c
}

func (k *PlanKeep) name(size int) string {
	return fmt.Sprintf("keep %d %s", size, k.unit())
}

// keepPools are the pools of control sets, in their order.
var keepPools = [...]string{PoolLayer, PoolRandom}

// draw draws the control sets of one size from one pool; why says why there are fewer than asked for. Each has a stream of its own.
func (k *PlanKeep) draw(p *Plan, s Shape, set heads.Set, pool string) (sets []heads.Set, why string) {
	all := k.allUnits(s)
	n := k.Controls
	if n == 0 || len(set) == 0 || len(set) == len(all) {
		return nil, ""
	}
	stream := p.Statistics.Controls + uint64(slices.Index(keepPools[:], pool))<<32 + uint64(len(set))<<8 + 0x6b
	rng := rand.New(rand.NewPCG(p.Statistics.Seed, stream))
	if pool == PoolRandom {
		return drawRandom(all, set, n, rng)
	}
	sets, report, err := patch.MatchedSets(all, set, n, rng)
	if errors.Is(err, patch.ErrTooFewSets) && report.Possible.Sign() > 0 {
		why = err.Error() + ": all of them are used"
		sets, _, err = patch.MatchedSets(all, set, int(report.Possible.Int64()), rand.New(rand.NewPCG(p.Statistics.Seed, stream)))
	}
	if err != nil {
		return nil, err.Error()
	}
	return sets, why
}

// drawRandom draws distinct sets of as many units, other than the set, which they may overlap.
func drawRandom(all, set heads.Set, n int, rng *rand.Rand) (sets []heads.Set, why string) {
	seen := map[string]bool{set.String(): true}
	units := slices.Clone(all)
	for tries := 0; len(sets) < n; tries++ {
		if tries > 100*n {
			return sets, fmt.Sprintf("only %d other sets of %d were found", len(sets), len(set))
		}
		rng.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
		drawn := heads.NewSet(units[:len(set)]...)
		if key := drawn.String(); !seen[key] {
			seen[key] = true
			sets = append(sets, drawn)
		}
	}
	return sets, ""
}

func (p *Plan) addKeep(o *Options) {
	p.Keep = o.Keep
	if p.declare("the heads alone keep more of the metric than random sets of as many do", &PlanControls{}, nil); len(p.experiments()) == 1 {
		p.Primary.Condition = o.Keep.name(slices.Max(o.Keep.Sizes))
	}
}

func (*PlanKeep) stage() string { return StageKeep }

func (k *PlanKeep) about() (*PlanTarget, *PlanControls) {
	return &PlanTarget{Heads: k.Heads, DetectedOn: k.DetectedOn}, &PlanControls{}
}

func (k *PlanKeep) conditions(e *evidence, _ *target) ([]condition, error) {
	var out []condition
	units := k.units(e.shape)
	for _, size := range k.Sizes {
		set := units.Top(size)
		main := k.keeping(k.name(size), set, e.shape)
		out = append(out, main)
		for _, pool := range keepPools {
			sets, _ := k.draw(e.plan, e.shape, set, pool)
			for i, s := range sets {
				c := k.keeping(fmt.Sprintf("%s %d@%s", pool, i, main.name), s, e.shape)
				c.controlOf, c.pool = main.name, pool
				c.scoreOnly = i >= k.Decoded && !e.plan.FullAnswers
				c.texts = i < k.Decoded
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// KeepResult is what sets of heads keep of the model, by their size.
type KeepResult struct {
	Units  int         `json:"units"` // heads, or key/value groups, of the model
	Points []KeepPoint `json:"points"`
	Areas  []KeepArea  `json:"areas"`
}

// KeepPoint is one size.
type KeepPoint struct {
	Condition string         `json:"condition"`
	Size      int            `json:"size"`
	Share     float64        `json:"share"` // of the model's units
	Recall    Metric         `json:"recall"`
	Primary   Metric         `json:"primary"` // of the plan's metric
	Controls  []KeepControls `json:"controls,omitempty"`
}

// KeepControls are the control sets of one size and pool.
type KeepControls struct {
	Pool    string  `json:"pool"`
	Sets    int     `json:"sets"`
	Recall  Number  `json:"mean_recall"` // of those whose answers are decoded; null without any
	Primary Number  `json:"mean_primary"`
	Highest Number  `json:"highest_primary"`
	AtLeast int     `json:"at_least"` // that keep at least as much of the primary outcome as the set
	P       *Number `json:"p"`        // head-set randomisation, one-sided; null where reason says why
	Reason  string  `json:"reason,omitempty"`
}

// KeepArea is the area under a curve against the share of units that are kept, by trapezoids between the sizes, over the range of shares:
// the mean height of the curve. The set's own curve has the pool "set".
type KeepArea struct {
	Pool    string `json:"pool"`
	Recall  Number `json:"recall"`
	Primary Number `json:"primary"`
}

func (k *PlanKeep) fill(e *evidence, _ *target, res *Result, _ map[string][]Trial) error {
	r := &KeepResult{Units: len(k.allUnits(e.shape)), Points: []KeepPoint{}, Areas: []KeepArea{}}
	units := k.units(e.shape)
	primary := func(m *Metrics) Metric {
		if e.plan.Primary.Metric == metricMargin {
			return m.Margin
		}
		return m.SumLogProb
	}
	for _, size := range k.Sizes {
		pt := KeepPoint{Condition: k.name(size), Size: size, Share: float64(size) / float64(r.Units)}
		of := map[string][]*ConditionResult{}
		for i := range res.Conditions {
			switch c := &res.Conditions[i]; {
			case c.Name == pt.Condition:
				pt.Recall, pt.Primary = c.Metrics.Recall, primary(&c.Metrics)
			case c.ControlOf == pt.Condition:
				of[c.Pool] = append(of[c.Pool], c)
			}
		}
		for _, pool := range keepPools {
			_, why := k.draw(e.plan, e.shape, units.Top(size), pool)
			if len(of[pool]) == 0 && why == "" {
				continue
			}
			pt.Controls = append(pt.Controls, keepControls(pool, why, of[pool], pt.Primary, primary))
		}
		r.Points = append(r.Points, pt)
	}
	r.areas()
	res.Keep = r
	return nil
}

func keepControls(pool, why string, sets []*ConditionResult, own Metric, primary func(*Metrics) Metric) KeepControls {
	c := KeepControls{Pool: pool, Sets: len(sets), Recall: nan, Primary: nan, Highest: nan, Reason: why}
	var recalls, values, drops []float64
	for _, s := range sets {
		x := float64(primary(&s.Metrics).Value)
		values, drops = append(values, x), append(drops, x)
		if v := float64(s.Metrics.Recall.Value); v == v {
			recalls = append(recalls, v)
		}
	}
	if len(recalls) > 0 {
		c.Recall = Number(stats.Mean(recalls))
	}
	if len(values) == 0 {
		return c
	}
	c.Primary, c.Highest = Number(stats.Mean(values)), Number(slices.Max(values))
	// Here the large values are the extreme ones: the set is to keep more than chance does.
	test := stats.HeadSetTest(float64(own.Value), drops)
	c.AtLeast = test.AtLeast
	switch p, ok := test.P.Get(); {
	case !ok:
		c.Reason = "is undefined: a value is not a number"
	case len(sets) < fewestControls:
		if c.Reason == "" {
			c.Reason = "needs >= 19 controls"
		}
	default:
		v := Number(p)
		c.P = &v
	}
	return c
}

// areas integrates the curves. A pool's curve has the set's own values where there are no controls, at size 0 and for all units.
func (r *KeepResult) areas() {
	for _, pool := range append([]string{"set"}, keepPools[:]...) {
		a := KeepArea{pool, nan, nan}
		found := pool == "set"
		var x, recall, primary []float64
		for _, p := range r.Points {
			x = append(x, p.Share)
			rv, pv := float64(p.Recall.Value), float64(p.Primary.Value)
			for _, c := range p.Controls {
				if c.Pool == pool {
					rv, pv, found = float64(c.Recall), float64(c.Primary), true
				}
			}
			recall, primary = append(recall, rv), append(primary, pv)
		}
		if !found || len(x) < 2 {
			continue
		}
		a.Recall, a.Primary = Number(meanHeight(x, recall)), Number(meanHeight(x, primary))
		r.Areas = append(r.Areas, a)
	}
}

// meanHeight is the area under y against x by trapezoids, over the range of x.
func meanHeight(x, y []float64) float64 {
	sum := 0.0
	for i := 1; i < len(x); i++ {
		sum += (x[i] - x[i-1]) * (y[i] + y[i-1]) / 2
	}
	return sum / (x[len(x)-1] - x[0])
}

// ReadKeep reads the list of heads to keep: any list that ReadHeads takes, or a file about key/value heads, such as DuoAttention's gates,
// whose groups are then kept whole: those of its mask, or all by descending gate.
func ReadKeep(list string, s *loader.Spec) (KeepOptions, error) {
	d, err := heads.ReadDocument(list)
	if err != nil || !d.KV {
		given, err := ReadHeads(list)
		if err != nil {
			return KeepOptions{}, err
		}
		return KeepOptions{Heads: given.Heads, DetectedOn: given.DetectedOn}, nil
	}
	if x := d.Shape; x.Layers != s.Layers || x.KVHeads != s.KVHeads {
		return KeepOptions{}, &hintError{fmt.Errorf("%s: gates of %d layers x %d key/value heads, the model has %d x %d", list, x.Layers, x.KVHeads, s.Layers, s.KVHeads),
			"the file is of another model"}
	}
	kv := d.Detectors[0].Heads
	if kv == nil {
		kv = byScore(d.Detectors[0].Scores)
	}
	out := KeepOptions{KVGroups: true}
	for _, h := range kv {
		for i := range s.Group() {
			out.Heads = append(out.Heads, decoder.Head{Layer: h.Layer, Index: h.Index*s.Group() + i})
		}
	}
	return out, nil
}

// byScore ranks all heads by descending score, equal ones in their order.
func byScore(s *heads.Scores) heads.Ranking {
	var out heads.Ranking
	for l := range s.Layers {
		for i := range s.Heads {
			out = append(out, decoder.Head{Layer: l, Index: i})
		}
	}
	slices.SortStableFunc(out, func(a, b decoder.Head) int { return cmp.Compare(s.At(b), s.At(a)) })
	return out
}
