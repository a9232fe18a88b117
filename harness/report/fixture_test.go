package report

import (
	"fmt"
	"math"
	"math/big"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

var nan = harness.Number(math.NaN())

func head(l, i int) decoder.Head { return decoder.Head{Layer: l, Index: i} }

func wilson(v, lo, hi float64, of int) harness.Metric {
	return harness.Metric{Value: harness.Number(v), Low: harness.Number(lo), High: harness.Number(hi), Method: "wilson 0.95", Of: of}
}

func boot(v, half float64, of int) harness.Metric {
	m := wilson(v, v-half, v+half, of)
	m.Method = "bootstrap over prompts, 10000, percentile 0.95"
	return m
}

func undefined(reason string) harness.Metric {
	return harness.Metric{Value: nan, Low: nan, High: nan, Method: "none", Reason: reason}
}

func scores(name string, layers, n int, of func(l, i int) float64) heads.Scores {
	s := heads.NewScores(name, layers, n)
	s.N = 24
	for k := range s.Data {
		s.Data[k] = of(k/n, k%n)
	}
	return s
}

// nasty is a text that would end an attribute, an element or the page if it were not escaped.
const nasty = `<script>alert("x")</script>' onload=evil() </title></svg> & {{.}}`

func counts(hit, decoy, other, refusal, broken, failed, fragile int) harness.Counts {
	return harness.Counts{
		Planned: hit + decoy + other + refusal + broken + failed, Hit: hit, Decoy: decoy, Other: other, Refusal: refusal, Broken: broken,
		Failed: failed, Fragile: fragile,
	}
}

// study is a made-up result in which every part of the page has something to say.
func study() *harness.Result {
	found := heads.Ranking{head(2, 5), head(1, 0), head(3, 7)}
	argmax := scores("argmax_last", 4, 8, func(l, i int) float64 {
		switch head(l, i) {
		case head(2, 5):
			return 0.875
		case head(1, 0):
			return 0.5
		case head(3, 7):
			return 0.125
		case head(0, 3):
			return math.NaN()
		case head(3, 1):
			return 1.0 / 12
		}
		return 0
	})
	r := base("study", 4, 8, 4)
	r.Heads, r.Scores = found, &argmax
	r.Detection = &harness.Detection{
		Threshold: 0.1, Heads: found, Borderline: heads.NewSet(head(3, 1), head(3, 7)), Ties: heads.NewSet(head(3, 1)),
		Cuts: []harness.Cut{
			{Head: head(2, 5), Score: 0.875, Low: 0.69, High: 0.957, Class: "sure"},
			{Head: head(1, 0), Score: 0.5, Low: 0.314, High: 0.686, Class: "sure"},
			{Head: head(3, 7), Score: 0.125, Low: 0.043, High: 0.31, Class: "likely"},
			{Head: head(3, 1), Score: 1.0 / 12, Low: 0.023, High: 0.258, Class: "near"},
		},
		Hits: []heads.Hits{
			{Head: head(1, 0), Total: 12, RepeatedWord: 11, BeforeCode: 11, Elsewhere: 2, Label: heads.LabelRepeatedWord},
			{Head: head(2, 5), Total: 21, Code: 20, Label: heads.LabelCode},
			{Head: head(3, 7), Total: 3, Code: 1, BeforeCode: 1, Label: heads.LabelOther},
		},
		Scores: []heads.Scores{
			argmax, scores("mass_last", 4, 8, func(l, i int) float64 { return float64(l*8+i) / 40 }),
			scores("induction", 4, 8, func(l, i int) float64 { return float64((l+i)%3) / 4 }),
			scores("write_norm", 4, 8, func(l, i int) float64 { return 10 + float64(l*i) }),
		},
		CloseCalls: 2, CopyTFOf: 23, NoCopyTF: []harness.PromptFailure{{Prompt: "p7", Reason: "the answer's tokens differ from the code's"}},
	}
	r.InSample = new(bool)
	r.N = counts(610, 30, 120, 8, 20, 2, 31)
	addConditions(r)
	addGrid(r)
	addExample(r)
	r.Failures = []harness.PromptFailure{{Prompt: "p3 under control4@question", Reason: "out of memory: " + nasty}}
	r.Refused = []harness.PromptFailure{{Prompt: "p30", Reason: "no code of 4 tokens"}}
	return r
}

// base is a result without numbers.
func base(verb string, layers, n, kv int) *harness.Result {
	dirty := true
	return &harness.Result{
		Schema: 1, Verb: verb, Key: "0123456789ab", Seconds: 12.5, Command: []string{verb, "org/tiny model", "--limit", "24", "--edit", "zero:L1H0@all"},
		Tool:  harness.Tool{Name: "headscope", Version: "v0.1.0", GitCommit: "abc1234", GitDirty: &dirty},
		Model: harness.ModelInfo{Ref: "org/tiny", Revision: "d04e592b", Family: "llama", Layers: layers, Heads: n, KVHeads: kv, HeadDim: 64, ConfigSHA256: "c0", TokenizerSHA256: "70", WeightsSHA256: "3e"},
		Plan: &harness.Plan{
			Schema: 1, Verb: verb, Stages: []string{"detect", "knockout"}, Prompts: harness.PlanPrompts{SHA256: "9a", IDs: []string{"p0"}},
			Primary:    harness.PlanPrimary{Hypothesis: "switching the heads off lowers the metric more than switching off matched heads does", Metric: "margin", Scope: "question", Pool: "layer"},
			Detect:     &harness.PlanDetect{Detector: "argmax_last", TieBreaker: "mass_last", Threshold: 0.1},
			Knockout:   &harness.PlanKnockout{PlanControls: harness.PlanControls{Controls: map[decoder.Scope]int{"all": 2, "question": 19}, Pools: []string{"layer", "layer+kv"}, Scopes: []decoder.Scope{"question", "all"}}},
			Statistics: harness.PlanStats{Seed: 7, Controls: 1, Bootstrap: 2, Resamples: 10000, Level: 0.95, Equivalence: 0.5},
			Run:        harness.PlanRun{DType: "bfloat16", Device: "cpu", Backend: "xla:cpu", Batch: 1, DecodeBatch: 8, Unit: 8}, MaxNew: 16,
		},
		Prompts:    harness.PromptInfo{Source: "prompts & more.jsonl", DetectSource: "detect.jsonl", N: 24, Limit: 24, Shortest: 505, Longest: 517},
		Heads:      heads.Ranking{},
		Conditions: []harness.ConditionResult{},
		Failures:   []harness.PromptFailure{},
		Environment: harness.Environment{
			Go: "go1.26.8", Platform: "linux/amd64", CPUs: 2, Packages: map[string]string{"github.com/gomlx/gomlx": "v0.28.8", "gonum.org/v1/gonum": "v0.17.0"},
			Hardware: harness.Hardware{Device: "cpu", About: "xla:cpu (plugin)", SIMD: true},
		},
	}
}

func condition(name string, change float64, half float64, n harness.Counts) harness.ConditionResult {
	recall := wilson(float64(n.Hit)/float64(max(1, n.Planned-n.Failed)), 0.1, 0.9, n.Planned-n.Failed)
	c := harness.ConditionResult{Name: name, Stage: harness.StageKnockout, Edits: []decoder.Edit{}, N: n}
	c.Metrics = harness.Metrics{
		Recall: recall, Margin: boot(6+change, half, recall.Of), SumLogProb: boot(-1+change, half, recall.Of),
		Scorers: &harness.ScorerShares{FirstToken: 0.75, Substring: recall.Value, Exact: 0.5, Rouge1: nan, Of: recall.Of},
	}
	if name == "unmodified" {
		return c
	}
	m, s := boot(change, half, recall.Of), boot(change*1.1, half, recall.Of)
	c.Metrics.MarginChange, c.Metrics.Change = &m, &s
	c.Metrics.McNemar = &harness.Paired{Lost: 9, Gained: 1, P: 0.0215, Of: recall.Of, About: "prompts only"}
	c.Metrics.Equivalence = &harness.Equivalence{Margin: 0.5, Low: harness.Number(change - half), High: harness.Number(change + half), Equivalent: math.Abs(change)+half < 0.5}
	return c
}

func addConditions(r *harness.Result) {
	set := r.Heads.Set()
	add := func(c harness.ConditionResult, hs heads.Set, scope decoder.Scope, of, pool string) *harness.ConditionResult {
		c.Heads, c.Scope, c.ControlOf, c.Pool = hs, scope, of, pool
		r.Conditions = append(r.Conditions, c)
		return &r.Conditions[len(r.Conditions)-1]
	}
	unmodified := condition("unmodified", 0, 0.4, counts(23, 0, 1, 0, 0, 0, 1))
	r.Metrics = &unmodified.Metrics
	add(unmodified, heads.Set{}, "", "", "")
	flipped := [2]int{4, 7}
	add(condition("without@question", -5.25, 0.75, counts(5, 6, 10, 2, 1, 0, 3)), set, "question", "", "").Metrics.Flipped = &flipped
	add(condition("sure@question", -2, 0.5, counts(9, 5, 8, 2, 0, 0, 0)), heads.NewSet(head(1, 0), head(2, 5)), "question", "", "")
	for i := range 19 {
		add(condition(fmt.Sprintf("control%d@question", i), -0.05*float64(i), 0.3, counts(22, 0, 1, 0, 0, i/18, 0)),
			heads.NewSet(head(1, 1), head(2, i%5), head(3, i%7)), "question", "without@question", "layer")
	}
	add(condition("without@all", -0.1, 0.2, counts(22, 0, 2, 0, 0, 0, 0)), set, "all", "", "")
	c := add(condition("control0@all", 0, 0, counts(0, 0, 0, 0, 0, 24, 0)), set, "all", "without@all", "layer")
	m := undefined("every trial failed")
	c.Metrics.MarginChange = &m
	add(condition(nasty, 0.3, 0.9, counts(20, 1, 1, 1, 1, 0, 0)), heads.Set{}, "", "", "").Edits = []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{head(1, 0)}, Scope: "all"}}
	r.Plan.Conditions = []harness.NamedEdits{{Name: nasty, Edits: r.Conditions[len(r.Conditions)-1].Edits}}
	p := harness.Number(0.05)
	r.Effects = []harness.Effect{
		{Condition: "without@question", Pool: "layer", Primary: true, Metric: "margin", Controls: 19, Drop: 5.25, ControlDrop: 0.45, LargestControl: 0.9, P: &p, Method: "head-set randomisation on the drop of margin"},
		{Condition: "without@question", Pool: "layer+kv", Metric: "margin", Drop: nan, ControlDrop: nan, LargestControl: nan, Reason: "has no controls: pool exhausted in layers 3 (has 0, needs 1)", Method: "head-set randomisation on the drop of margin"},
		{Condition: "without@all", Pool: "layer", Metric: "margin", Controls: 1, AtLeast: 1, Drop: nan, ControlDrop: nan, LargestControl: nan, Reason: "is undefined: one of the drops is not a number", Method: "head-set randomisation on the drop of margin"},
	}
	r.Controls = []harness.Controls{
		{
			Pool: "layer", About: "heads of the same layer that no detector flags", Seed: 7, Stream: 1, Sets: []heads.Set{heads.NewSet(head(1, 1), head(2, 0), head(3, 0))},
			Report: patch.Report{Layers: []patch.LayerDraw{{Layer: 1, Want: 1, Pool: 1}, {Layer: 2, Want: 1, Pool: 5}}, Possible: big.NewInt(245), Forced: heads.NewSet(head(1, 1)), Pairs: 171, MeanOverlap: 0.55, MaxOverlap: 0.667},
			Match:  &patch.Match{Size: "write_norm", Target: 34, Mean: 25, Candidates: 190, Unmatched: 0.5, Mismatch: 0.3, Largest: 0.41},
		},
		{Pool: "layer+kv", About: "of these, heads that share no key/value head", Seed: 7, Stream: 17, Sets: []heads.Set{}, Reason: "pool exhausted in layers 3 (has 0, needs 1)"},
	}
}

func addGrid(r *harness.Result) {
	for i, name := range []string{"literal prefix", "paraphrase", "list <b>"} {
		total := harness.Counts{}
		for j, depth := range []float64{0.5, 0, 1} {
			if i == 2 && j == 1 {
				continue
			}
			n := counts(4-i*2, 0, i*2, 0, 0, 0, 0)
			recall, margin := wilson(1-float64(i)/2, 0.4, 1, 4), boot(5-3*float64(i), 1, 4)
			switch {
			case i == 1 && j == 2:
				n = counts(1, 0, 1, 0, 0, 2, 0)
			case i == 2 && j == 2:
				n, recall, margin = counts(0, 0, 0, 0, 0, 4, 0), undefined("every trial failed"), undefined("every trial failed")
			}
			addCounts(&total, n)
			r.Grid = append(r.Grid, harness.GridCell{Template: name, Depth: harness.Number(depth), Tokens: 510 + j, N: n, Recall: recall, SumLogProb: margin, Margin: margin})
		}
		r.Templates = append(r.Templates, harness.TemplateResult{
			Template: name, N: total, Recall: wilson(1-float64(i)/2, 0.6, 1, 12), SumLogProb: boot(-1, 0.2, 12), Margin: boot(5-3*float64(i), 0.5, 12),
			Place: []string{"ceiling", "between", "floor"}[i],
		})
	}
	r.Variants = []harness.VariantResult{
		{Variant: harness.VariantNoDecoy, N: counts(24, 0, 0, 0, 0, 0, 0), Recall: wilson(1, 0.86, 1, 24), SumLogProb: boot(-0.4, 0.1, 24), Margin: undefined("no trial has a decoy to compare with")},
		{Variant: harness.VariantAbsent, N: counts(1, 0, 15, 6, 2, 0, 0), Recall: wilson(1.0/24, 0, 0.2, 24), SumLogProb: boot(-20, 2, 24), Margin: boot(0.1, 0.5, 24)},
	}
}

func addExample(r *harness.Result) {
	ex := &harness.Example{Prompt: "p0", Needle: heads.Span{60, 70}, Code: heads.Span{65, 68}, Question: 100}
	for i := range 110 {
		switch {
		case i == 62:
			ex.Tokens = append(ex.Tokens, nasty)
		case i == 105:
			ex.Tokens = append(ex.Tokens, " end\n")
		default:
			ex.Tokens = append(ex.Tokens, fmt.Sprintf(" t%d", i))
		}
	}
	for _, h := range r.Heads[:min(2, len(r.Heads))] {
		w := make([]float32, 110)
		w[0], w[30], w[65], w[109] = 0.25, 0.125, 0.5, 0.0625
		ex.Heads = append(ex.Heads, harness.ExampleHead{Head: h, Weights: w})
	}
	r.Example = ex
}
