package report

import (
	"strings"
	"testing"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// TestDetectors: the tables of detectors and of their agreement with the causal map stand in the page, undefined numbers with a reason.
func TestDetectors(t *testing.T) {
	nan := harness.Number(0)
	if err := nan.UnmarshalJSON([]byte("null")); err != nil {
		t.Fatal(err)
	}
	r := study()
	best := []harness.ScoredHead{{Head: decoder.Head{Layer: 1, Index: 2}, Score: 0.5, Low: 0.4, High: 0.6}}
	r.Detection.Detectors = []harness.DetectorResult{
		{Name: "argmax_last", Prompts: 4, Top: best, SplitHalf: 0.9, Gini: 0.8},
		{Name: "locos", About: "what the head writes", Prompts: 3, Top: best, SplitHalf: nan, Gini: 0.7},
		{Name: "select", Reason: "the prompt has no decoy", SplitHalf: nan, Gini: nan},
	}
	r.Detection.Pairs = []harness.DetectorPair{{A: "argmax_last", B: "locos", Spearman: 0.25, Jaccard: 1, Shared: 1}}
	of := harness.AgreementMap{
		Prompts: 5, Relevant: 2, Significant: heads.Set{},
		Detectors: []harness.DetectorAgreement{{Name: "locos", AUPRC: 0.75, AUPRCLow: 0.5, AUPRCHigh: 1, AUPRCSignificant: nan, Spearman: -0.5, Area: 1.5, Curve: []harness.Number{1, 2}}},
		Random:    harness.RandomCurves{Curve: []harness.Number{0, 0}, Area: 0.02, Largest: 0.1, Rankings: 10, Base: 0.05},
	}
	r.Agreement = &harness.Agreement{AgreementMap: of, Sizes: []int{1, 2}, Kinds: []harness.KindAgreement{{Kind: "no_overlap", AgreementMap: of}}}
	page := render(t, r)
	for _, want := range []string{
		`<a href="#detectors">Detectors</a>`, `title="what the head writes"`, "1 of 1", "0.25", "the prompt has no decoy", "Agreement with the causal map",
		"top 2", "[0.50, 1.00]", "no head is significant", "\u22120.50", "at most 0.10", "Agreement on needles of kind no_overlap",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
