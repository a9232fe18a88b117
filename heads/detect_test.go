package heads

import (
	"math"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
)

// Two prompts, one layer of two heads. The first has a code of two tokens, the second of three; both codes hold
// a token twice, so that a rule by token and a rule by position disagree.
func smallObservations() []Observation {
	row := func(a, b int32) Row {
		return Row{Argmax: []int32{a, b}, Gap: []float32{.5, .5}, SpanMass: []float32{.25, .5}}
	}
	return []Observation{{
		Prompt: 10, Needle: Span{2, 6}, Code: Span{4, 6}, Tokens: []int{1, 7, 5, 8, 9, 9, 3, 8},
		Rows: []Row{row(4, 3), row(5, 4)},
	}, {
		Prompt: 11, Needle: Span{1, 5}, Code: Span{2, 5}, Tokens: []int{1, 5, 4, 4, 6, 2},
		Rows: []Row{row(0, 5), row(3, 3), row(4, 2)},
	}}
}

func observe(t *testing.T, list []Observation) *Observations {
	t.Helper()
	obs, err := NewObservations(1, 2, list)
	if err != nil {
		t.Fatal(err)
	}
	return obs
}

func TestDetectorsByHand(t *testing.T) {
	obs := observe(t, smallObservations())
	copyTF, err := obs.CopyTF()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		got  Scores
		n    int
		want [2]float64
	}{
		// Head 0 hits the needle in prompt 10 only; head 1 too (position 3), but not the code.
		{obs.ArgmaxLast(), 2, [2]float64{.5, .5}},
		{obs.ArgmaxCode(), 2, [2]float64{.5, 0}},
		{obs.MassLast(), 2, [2]float64{.25, .5}},
		// Pooled over 5 tokens, not a mean of prompt means. Head 1 sees an equal token in the wrong place at row 1
		// of prompt 10 (a miss) and the right one at row 1 of prompt 11.
		{copyTF, 5, [2]float64{4. / 5, 1. / 5}},
	} {
		if tt.got.N != tt.n || tt.got.Data[0] != tt.want[0] || tt.got.Data[1] != tt.want[1] {
			t.Errorf("%s: got %v of %d, want %v of %d", tt.got.Detector, tt.got.Data, tt.got.N, tt.want, tt.n)
		}
	}
}

func TestHitsByHand(t *testing.T) {
	hits := observe(t, smallObservations()).Hits(NewSet(decoder.Head{}, decoder.Head{Index: 1}))
	if g := hits[0]; g.Total != 1 || g.Code != 1 || g.Offsets[2] != 1 || g.Label != LabelCode {
		t.Errorf("head 0: got %+v", g)
	}
	// Position 3 holds token 8, which is also the last token.
	if g := hits[1]; g.Total != 1 || g.RepeatedWord != 1 || g.Offsets[1] != 1 || g.Label != LabelRepeatedWord {
		t.Errorf("head 1: got %+v", g)
	}
	for _, tt := range []struct {
		h    Hits
		want Label
	}{
		{Hits{}, LabelOther},
		{Hits{Total: 4, Code: 2, RepeatedWord: 2}, LabelOther},
		{Hits{Total: 5, Code: 3}, LabelCode},
		{Hits{Total: 5, Code: 1, RepeatedWord: 3}, LabelRepeatedWord},
	} {
		if got := tt.h.label(); got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.h, got, tt.want)
		}
	}
}

func TestCloseCallsNameRows(t *testing.T) {
	list := smallObservations()
	list[1].Rows[2].Gap[1] = 3e-5
	list[0].Rows[0].Gap[0] = 0
	got := observe(t, list).CloseCalls(1e-4)
	if len(got) != 2 || got[0].Prompt != 10 || got[0].Row != 0 || got[1].Prompt != 11 || got[1].Row != 2 || got[1].Head.Index != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestCopyTFNeedsEveryRow(t *testing.T) {
	list := smallObservations()
	list[1].Rows = list[1].Rows[:2]
	if s, err := observe(t, list).CopyTF(); err == nil || !strings.Contains(err.Error(), "prompt 11: 2 rows for a code of 3") {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestNewObservationsRefuses(t *testing.T) {
	for msg, spoil := range map[string]func(*Observation){
		"prompt 11: needle span [1, 7)": func(o *Observation) { o.Needle[1] = 7 },
		"prompt 11: needle span [5, 5)": func(o *Observation) { o.Needle = Span{5, 5} },
		"prompt 11: code span [-1, 5)":  func(o *Observation) { o.Code[0] = -1 },
		"prompt 11: no row":             func(o *Observation) { o.Rows = nil },
		"row 1: got 1 arg maxes":        func(o *Observation) { o.Rows[1].Argmax = []int32{1} },
		"row 2: got 2 arg maxes, 0":     func(o *Observation) { o.Rows[2].Gap = nil },
		"2 gaps and 3 masses":           func(o *Observation) { o.Rows[0].SpanMass = make([]float32, 3) },
	} {
		list := smallObservations()
		spoil(&list[1])
		if _, err := NewObservations(1, 2, list); err == nil || !strings.Contains(err.Error(), msg) {
			t.Errorf("got %v, want %q", err, msg)
		}
	}
	if _, err := NewObservations(1, 2, nil); err == nil {
		t.Error("scores of no prompts would be NaN")
	}
	if _, err := NewObservations(0, 2, smallObservations()); err == nil {
		t.Error("a model without layers was accepted")
	}
}

// Float32 masses are summed in float64: 10^5 prompts of 0.1 each would be off in the fourth digit otherwise.
func TestMassLastKeepsPrecision(t *testing.T) {
	o := smallObservations()[0]
	o.Rows = []Row{{Argmax: []int32{0, 0}, Gap: []float32{1, 1}, SpanMass: []float32{.1, 0}}}
	list := make([]Observation, 100000)
	for i := range list {
		list[i] = o
	}
	if got := observe(t, list).MassLast().Data[0]; math.Abs(got-float64(float32(.1))) > 1e-12 {
		t.Errorf("got %.12f", got)
	}
}
