package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

func dryRun(t *testing.T, o Options, calibrate bool) *Estimate {
	t.Helper()
	s, err := NewStudy(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.DryRun(context.Background(), calibrate)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestDryRunCounts: of given heads, trials and rows are those that the run then computes.
func TestDryRunCounts(t *testing.T) {
	o := tinyOptions(t, 3)
	o.Verb, o.Stages, o.Top = "knockout", []string{StageKnockout}, 0
	o.Heads = heads.Ranking{{Layer: 1, Index: 1}}
	o.Exclude, o.Controls, o.MaxNew, o.FullAnswers = o.Heads.Set(), 2, 1, false
	e := dryRun(t, o, false)
	if entries, err := os.ReadDir(o.Out); err != nil || len(entries) > 0 {
		t.Errorf("a dry run wrote %v, %v", entries, err)
	}
	before := o.Model.Work()
	_, r := runStudy(t, o)
	after := o.Model.Work()
	if e.Trials != r.N.Planned || e.Stages[0].Conditions != len(r.Conditions) {
		t.Errorf("%d trials of %d conditions, the run had %d of %d", e.Trials, e.Stages[0].Conditions, r.N.Planned, len(r.Conditions))
	}
	if p := e.Power.Controls; len(p) != 2 || p[0].Sets != 2 || !math.IsNaN(float64(p[0].SmallestP)) {
		t.Errorf("controls: got %+v", p)
	}
	// Whole passes of edited conditions begin at the first edited layer: 2 of 3 layers; the unmodified one runs through all.
	n := int64(0)
	for _, p := range mustTokenize(t, o) {
		rows := int64(len(p.IDs) + len(p.Answer))
		n += 3*rows + 3*2*rows
	}
	if got := after.PrefillLayerRows - before.PrefillLayerRows; got != n {
		t.Errorf("the decoder computed %d rows x layers in whole passes, the estimate's rule says %d", got, n)
	}
	if e.Work.WholePasses != 3*4 || e.Work.RowPasses != 3*3 {
		t.Errorf("got %+v", e.Work)
	}
}

func mustTokenize(t *testing.T, o Options) []*Prompt {
	t.Helper()
	prompts, err := o.Prompts.Tokenize(&o.Checkpoint.Spec, o.Checkpoint.Tokenizer, o.MaxNew)
	if err != nil {
		t.Fatal(err)
	}
	return prompts
}

// TestDryRunFLOPs: the count of one pass, by hand.
func TestDryRunFLOPs(t *testing.T) {
	o := tinyOptions(t, 1)
	o.Verb, o.Stages, o.MaxNew = "detect", []string{StageDetect}, 1
	e := dryRun(t, o, false)
	p, s := mustTokenize(t, o)[0], &o.Checkpoint.Spec
	n := len(p.IDs) + len(p.Answer)
	layer := s.Hidden*s.HeadDim*(2*s.Heads+2*s.KVHeads) + 3*s.Hidden*s.Intermediate
	want := s.Layers * (2*layer*n + 4*s.Heads*s.HeadDim*(n*(n+1)/2))
	want += 2 * s.Hidden * s.Vocab * (len(p.Answer) + 1)
	if w := e.Stages[0].Work; w.WholeFLOPs != float64(want) || w.WholePasses != 1 {
		t.Errorf("got %g, want %d", w.WholeFLOPs, want)
	}
	if r := e.Stages[1]; r.Name != StageRepeat || r.Trials != repeatSequences || r.Work.WholePasses != repeatSequences {
		t.Errorf("repeated sequences: %+v", r)
	}
}

// TestDryRunOfStudy: before detection the counts are bounds, and the text says what they rest on.
func TestDryRunOfStudy(t *testing.T) {
	o := tinyOptions(t, 5)
	o.Controls, o.Pools, o.Scopes, o.Cuts, o.Top = AutoControls, []string{PoolLayer}, []decoder.Scope{decoder.ScopeQuestion, decoder.ScopeAll}, true, 0
	s, err := NewStudy(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	e := dryRun(t, o, true)
	if e.Trials != s.Cost().Trials {
		t.Errorf("%d trials, the plan says %d", e.Trials, s.Cost().Trials)
	}
	if e.Time == nil || !(e.Time.Seconds > 0) || len(e.Time.Parts) < 3 {
		t.Errorf("time: got %+v", e.Time)
	}
	if c := e.Power.Controls; len(c) != 2 || c[0].SmallestP != 0.01 || c[1].SmallestP != 0.05 {
		t.Errorf("controls: got %+v", c)
	}
	if e.Power.EnoughPrompts || e.Power.FewestLost != 6 || math.Abs(float64(e.Power.MinDropSD)-1.682) > 0.001 {
		t.Errorf("power: got %+v", e.Power)
	}
	var b bytes.Buffer
	if err := e.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FLOPs", "memory", "over the kept cache", "more than the 5 prompts", "smallest p 0.01", "not known before detection"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	if _, err := json.Marshal(e); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(o.Out); err != nil || len(entries) > 0 {
		t.Errorf("a dry run wrote %v, %v", entries, err)
	}
}

// TestDryRunSpread: with given heads the spread of the primary change is measured.
func TestDryRunSpread(t *testing.T) {
	o := tinyOptions(t, 6)
	o.Verb, o.Stages, o.Top = "knockout", []string{StageKnockout}, 0
	o.Heads = heads.Ranking{{Layer: 1, Index: 1}}
	o.Exclude, o.MaxNew = o.Heads.Set(), 1
	e := dryRun(t, o, true)
	p := e.Power
	if p.SDOf < 5 && e.Time.Calibration > calibrationSeconds {
		t.Skipf("SKIPPED: this machine is too slow for the calibration's seconds: %+v", e.Time)
	}
	if p.SDOf < 5 || !(p.SD > 0) || p.MinDrop != p.MinDropSD*p.SD {
		t.Errorf("got %+v", p)
	}
}
