package report

import (
	"strings"
	"testing"

	"github.com/headscope/headscope/harness"
)

// TestSummary holds each sentence to the numbers that it is said for.
func TestSummary(t *testing.T) {
	number := func(x float64) *harness.Number { n := harness.Number(x); return &n }
	for _, c := range []struct {
		name   string
		change func(r *harness.Result)
		want   string
		not    string
	}{
		{"a fall", func(*harness.Result) {}, "With the 3 heads off on the rows from the question on the log-probability of the code minus that of the decoy falls by 5.25 [\u22126.00, \u22124.50]; recall goes from 0.96 to 0.21 (24 prompts).", ""},
		{"no change, equivalent", func(*harness.Result) {}, "no change of the log-probability of the code minus that of the decoy is shown: \u22120.10 [\u22120.30, 0.10]; recall goes from 0.96 to 0.92", ""},
		{"equivalent", func(*harness.Result) {}, "It lies within \u00b10.50: equivalent to no effect by that margin.", ""},
		{"not equivalent", func(*harness.Result) {}, "equivalence within \u00b10.50 is not shown either", ""},
		{"these heads", func(*harness.Result) {}, "Primary. without@question, pool layer: switching the heads off costs 5.25 nats; switching off as many other heads costs 0.45 on average and 0.90 at most over 19 control sets; none costs as much. p = 0.05: evidence that these heads matter more than matched ones do.", ""},
		{"not these heads", func(r *harness.Result) { r.Effects[0].AtLeast, r.Effects[0].P = 7, number(0.4) }, "7 of 19 cost at least as much. p = 0.4: by this test it is not shown that these heads matter more", "evidence that these"},
		{"a rise is no drop", func(r *harness.Result) { r.Effects[0].Drop = -1 }, "there is no drop to explain", "evidence that these"},
		{"pool exhausted", func(*harness.Result) {}, "has no controls: pool exhausted in layers 3 (has 0, needs 1). Whether other heads would have done the same is not known.", ""},
		{"no p", func(r *harness.Result) { r.Effects[0].P, r.Effects[0].Reason = nil, "needs >= 19 controls" }, "The primary test has no p: it needs \u2265 19 controls.", ""},
		{"no controls", func(r *harness.Result) { r.Effects = nil }, "No controls were run", ""},
		{"in-sample", func(r *harness.Result) { *r.InSample = true }, "the effect is in-sample and likely too large", ""},
		{"not in-sample", func(*harness.Result) {}, "", "in-sample and likely"},
		{"few prompts", func(r *harness.Result) { r.Prompts.N = 6 }, "Few prompts: 6.", ""},
		{"enough prompts", func(*harness.Result) {}, "Partial: limited to 24 prompts", "Few prompts"},
		{"ceiling", func(*harness.Result) {}, "recall is at the ceiling (0.96)", ""},
		{"floor", func(r *harness.Result) { r.Metrics.Recall.Value = 0.1 }, "recall is at the floor (0.10)", "at the ceiling (0"},
		{"neither", func(r *harness.Result) { r.Metrics.Recall.Value = 0.5 }, "", "model&#39;s recall is at the"},
		{"labels", func(*harness.Result) {}, "Where their hits fall: 1 at the code itself, 1 at a repetition of the prompt&#39;s last token, as heads that follow duplicates do, 1 at no one place.", ""},
		{"repeats", func(*harness.Result) {}, "1 head is counted that follows a repeated word, not the code: other wording may drop it.", ""},
		{"cut", func(*harness.Result) {}, "Where the cut lies matters: without the 2 heads that are sure @question gives \u22122.00, not \u22125.25.", ""},
		{"one hit", func(r *harness.Result) { r.Scores.N = 6 }, "One hit in 6 prompts is over the threshold of 0.1", ""},
		{"overlap", func(*harness.Result) {}, "share 55 % of their heads on average", ""},
		{"forced", func(*harness.Result) {}, "Every control set of pool layer must hold L1H1", ""},
		{"size", func(*harness.Result) {}, "mean norm 25.0 against 34.0", ""},
		{"failed", func(*harness.Result) {}, "2 of 790 trials failed and are left out", ""},
		{"fragile", func(r *harness.Result) { r.N.Fragile = 100 }, "100 of 788 trials are fragile", ""},
		{"hardly fragile", func(*harness.Result) {}, "", "trials are fragile"},
		{"variants", func(*harness.Result) {}, "With needle and decoy absent the code is answered all the same in 1 of 24 prompts", ""},
		{"template at the floor", func(*harness.Result) {}, "At the floor without any edit: list &lt;b&gt;.", ""},
		{"refused", func(*harness.Result) {}, "1 prompt could not be made for this tokenizer and is left out", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := study()
			c.change(r)
			page := plain(t, r)
			from, to := strings.Index(page, `<section id="summary">`), strings.Index(page, `<section id="heads">`)
			text := page[from:to]
			if !strings.Contains(strings.ReplaceAll(text, "\u00a0", " "), c.want) {
				t.Errorf("no %q in\n%s", c.want, text)
			}
			if c.not != "" && strings.Contains(text, c.not) {
				t.Errorf("says %q", c.not)
			}
		})
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{decimals(-0.001, 2), "0.00"}, {decimals(-1.5, 1), "\u22121.5"}, {signed(0.001, 2), "0.00"}, {signed(2, 1), "+2.0"},
		{count(1, "head"), "1 head"}, {count(0, "head"), "0 heads"}, {probability(0.0123456), "0.0123"},
		{shellWord("plain/-x=1"), "plain/-x=1"}, {shellWord("it's"), `'it'\''s'`}, {shellWord(""), "''"},
		{lastPart("/a/b/"), "b"}, {lastPart("org/name"), "name"}, {visible("a\tb\r\n"), "a\u21e5b\ufffd\u21b5"},
		{shadeClass("s", 0, 1), "s0"}, {shadeClass("s", 0.001, 1), "s1"}, {shadeClass("s", 1, 1), "s10"}, {shadeClass("s", 2, 1), "s10"},
		{shadeClass("s", float64(nan), 1), "hatch"}, {shadeClass("s", 1, 0), "s0"},
		{number(float64(nan), 2, "").Title, "undefined"}, {pct(1.0 / 3), "33.333%"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// TestAxis: the axis covers its numbers with a handful of round ticks.
func TestAxis(t *testing.T) {
	for _, c := range []struct{ lo, hi float64 }{{-41.3, 0}, {0, 1}, {-0.004, 0.001}, {3, 3}, {-1e6, 2e6}, {0, 7e-9}} {
		a := newAxis(c.lo, c.hi, 5)
		if a.at(c.lo) < 0 || a.at(c.hi) > 1 || a.at(c.lo) > a.at(c.hi) {
			t.Errorf("%v does not cover its numbers: %+v", c, a)
		}
		if n := len(a.ticks()); n < 2 || n > 9 {
			t.Errorf("%v: %d ticks", c, n)
		}
		seen := map[string]bool{}
		for _, x := range a.ticks() {
			if s := decimals(x, a.digits()); seen[s] {
				t.Errorf("%v: two ticks are labelled %s", c, s)
			} else {
				seen[s] = true
			}
		}
	}
}
