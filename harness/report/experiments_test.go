package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/decoder"
)

// experiments is a made-up result of bands, a table in some heads, kept heads and texts.
func experiments() *harness.Result {
	r := base("swap", 4, 8, 4)
	r.Plan.Knockout, r.Plan.Primary = nil, harness.PlanPrimary{Metric: "margin", Condition: "swap nope", Pool: "layer"}
	p := harness.Number(0.05)
	r.Bands = &harness.BandsResult{Protocol: "corrected", Focus: 16, Distance: harness.BandDistance{Mean: 200, Largest: 400}, Rows: []harness.BandRow{
		{Condition: "zero/slow16@question", Band: "slow16", Op: "zero", Scope: "question", Angle: 0.05, Drop: 4.25, Controls: []harness.BandControl{{Pool: "random_dims", Controls: 19, Drop: 1.5, P: &p}}},
		{Condition: "freeze/slow16@question", Band: "slow16", Op: "freeze", Scope: "question", Angle: 0.05, Drop: 0.125},
	}}
	edits := []decoder.Edit{{Op: decoder.OpSwap, Table: "nope", Heads: []decoder.Head{head(1, 2)}, Scope: "question"}}
	r.Plan.Swap = &harness.PlanSwap{Against: &harness.SwapAgainst{}, Tables: []harness.SwapTable{{Name: "swap nope", Heads: 1, Edits: edits}}}
	r.Effects = []harness.Effect{{Condition: "swap nope", Pool: "layer", Primary: true, Metric: "margin", Controls: 19, AtLeast: 2, Drop: 7.5, ControlDrop: 0.5, LargestControl: 8, P: &p, Method: "head-set randomisation"}}
	c := harness.ConditionResult{Name: "swap nope", Stage: "swap", Edits: edits, Heads: edits[0].Heads, Scope: "question", Predicted: &harness.Prediction{N: 4, Score: -1.75, Drop: 6.5}}
	change := boot(-7.5, 1, 4)
	c.Metrics = harness.Metrics{Recall: wilson(0.5, 0.2, 0.8, 4), Margin: boot(2, 1, 4), SumLogProb: boot(-3, 1, 4), MarginChange: &change, Change: &change}
	r.Conditions = []harness.ConditionResult{c}
	group := func(depth, recall float64) harness.DepthGroup {
		return harness.DepthGroup{From: harness.Number(depth), To: harness.Number(depth), N: 4, Recall: wilson(recall, 0, 1, 4), Margin: boot(2, 1, 4), SumLogProb: boot(-3, 1, 4)}
	}
	r.Depths = []harness.DepthResult{{Condition: "swap nope", Depths: []harness.DepthGroup{group(0.1, 0.125), group(0.9, 0.875)}, Far: group(0.1, 0.125), Near: group(0.9, 0.875), Recall: wilson(-0.75, -1, 0, 8), Margin: boot(-4.5, 1, 8), SumLogProb: boot(-4, 1, 8)}}
	r.Plan.Keep = &harness.PlanKeep{Sizes: []int{0, 2}}
	r.Keep = &harness.KeepResult{Units: 32, Points: []harness.KeepPoint{
		{Condition: "keep 0 heads", Recall: wilson(0, 0, 0.5, 4), Primary: boot(-20, 1, 4)},
		{Condition: "keep 2 heads", Size: 2, Share: 0.0625, Recall: wilson(0.75, 0.3, 1, 4), Primary: boot(-2.25, 1, 4), Controls: []harness.KeepControls{{Pool: "random", Sets: 19, Recall: 0, Primary: -18.5, Highest: -15, P: &p}}},
	}, Areas: []harness.KeepArea{{Pool: "set", Recall: 0.375, Primary: -11.125}}}
	tax, kl := boot(12.5, 1, 2), boot(0.0625, 0.01, 2)
	r.Plan.Texts = &harness.PlanTexts{Source: "builtin:prose", Texts: []harness.PlanText{{ID: "a", Scored: 10, Windows: 1}}}
	r.Texts = []harness.TextResult{{Name: "unmodified", NLL: boot(3, 0.1, 2), Perplexity: boot(20, 1, 2)}, {Name: "swap nope", NLL: boot(3.1, 0.1, 2), Perplexity: boot(22.5, 1, 2), Tax: &tax, KL: &kl}}
	return r
}

// TestExperiments: a page shows the tables of every experiment, and the curve of the heads that are kept.
func TestExperiments(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, experiments(), Options{}); err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		`<section id="experiments">`, `href="#experiments"`, "Bands of planes", "<th class=\"n\">random dims</th>", "1.500 p 0.05", "cannot test rotation", "The same table in other heads", "swap nope, layer",
		"By depth of the needle", "-0.75", "Predicted and measured", "-1.750", "6.500", "7.500", "Heads that are kept", "2 heads", "-18.500", "area", "Plain texts", "22.5", "0.06250",
		"by the number of heads kept", "keep 2 heads (6 %)", "recall 0.75", "Under swap nope the",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "With this head off") {
		t.Error("a head with another table is not off")
	}
	r := experiments()
	r.Bands = nil
	if asked := asked(r); !strings.Contains(asked[0], "in 1 head, against the same in other heads") {
		t.Errorf("asked %q", asked)
	}
	r = base("detect", 4, 8, 4)
	if newCurve(r) != nil || len(experimentTables(r)) != 0 {
		t.Error("a detection has no experiments")
	}
}
