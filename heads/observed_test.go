package heads

import (
	"math"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/stats"
)

// twoHeads is an observation of two heads at three rows with two spans.
var twoHeads = View{&decoder.Observation{
	Argmax:    []int32{4, 5, 4, 0, 6, 9},
	ArgmaxFar: []int32{4, 5, 4, 6, 6, 9},
	Mass:      []float32{.5, .1, .3, .2, .1, 0, .0, .4, .2, .2, .4, 0},
	Direct:    []float64{1, 2, 3, -1, 0, 4},
	From:      []float64{.5, 0, 2, 0, 1, 0, -1, 0, 1, 0, 4, 0},
}, 3, 2}

func near(t *testing.T, name string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %v, want %v", name, got, want)
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-7 {
			t.Errorf("%s: %v, want %v", name, got, want)
			return
		}
	}
}

func TestView(t *testing.T) {
	v := twoHeads
	near(t, "argmax_nosink", v.NoSink(0, Span{4, 7}), []float64{1, 1})
	near(t, "argmax_nosink", v.NoSink(2, Span{4, 7}), []float64{1, 0})
	near(t, "select", v.Select(0, Span{4, 7}, Span{9, 10}), []float64{1, 0})
	near(t, "select", v.Select(2, Span{4, 7}, Span{9, 10}), []float64{1, -1})
	near(t, "qr_raw", v.MeanMass(0, 2, 0), []float64{.4, .1})
	near(t, "qr_raw", v.MeanMass(0, 2, 1), []float64{.15, .3})
	near(t, "logit_attr", v.MeanDirect(1, 3), []float64{2.5, 2})
	near(t, "locos", v.Locos(1, []int{11, 7}, Span{4, 7}), []float64{(2 - 0*3/8. + 1 - 2*3/4.) / 2, (1 + 1*3/8. + 4 - 0*3/4.) / 2})
}

// TestWu: a token that is copied twice counts twice by steps and once as a set; an equal token outside of the needle, and another token
// inside of it, do not count.
func TestWu(t *testing.T) {
	prompt := []int32{7, 8, 9, 9, 50, 51, 50, 8, 50}
	answer := []int32{50, 51, 50}
	step, set := twoHeads.Wu(0, answer, prompt, Span{4, 8})
	near(t, "wu_step", step, []float64{3. / 4, 0})
	near(t, "wu_set", set, []float64{2. / 3, 0})
	v := View{&decoder.Observation{Argmax: []int32{8, 6, 6, 5, 4, 6}}, 3, 0}
	step, set = v.Wu(0, answer, prompt, Span{4, 8})
	near(t, "wu_step", step, []float64{1. / 4, 1. / 4})
	near(t, "wu_set", set, []float64{1. / 3, 1. / 3})
	short := []int32{1, 50, 50}
	v = View{&decoder.Observation{Argmax: []int32{1, 1, 1, 2}}, 4, 0}
	step, set = v.Wu(0, []int32{50, 50, 50, 50}, short, Span{1, 3})
	near(t, "wu_step passes 1", step, []float64{2})
	near(t, "wu_set does not", set, []float64{1})
}

// TestCalibrated: a token more than two standard deviations below the mean of the differences is left out; one just inside of it is not.
func TestCalibrated(t *testing.T) {
	var asked, null [][]float64
	differences := []float64{.1, .1, .1, .1, .1, .1, .1, .1, .1, -1}
	for i, d := range differences {
		asked = append(asked, []float64{.5 + d, float64(i)})
		null = append(null, []float64{.5, 0})
	}
	near(t, "qr_cal", Calibrated(asked, null), []float64{.9, 45})
}

// TestPerPrompt: means over prompts are the detectors' scores; of copy_tf pooled over tokens.
func TestPerPrompt(t *testing.T) {
	row := func(argmax []int32, mass []float32) Row { return Row{argmax, make([]float32, 2), mass} }
	list := []Observation{
		{Needle: Span{2, 6}, Code: Span{4, 6}, Tokens: make([]int, 10), Rows: []Row{row([]int32{4, 3}, []float32{.5, .25}), row([]int32{5, 5}, []float32{0, 0})}},
		{Needle: Span{2, 7}, Code: Span{4, 5}, Tokens: make([]int, 10), Rows: []Row{row([]int32{9, 4}, []float32{.1, .75})}},
		{Needle: Span{2, 7}, Code: Span{2, 5}, Tokens: make([]int, 10), Rows: []Row{row([]int32{2, 2}, []float32{.1, .75}), row([]int32{3, 2}, []float32{0, 0}), row([]int32{1, 4}, []float32{0, 0})}},
	}
	o, err := NewObservations(1, 2, list)
	if err != nil {
		t.Fatal(err)
	}
	copying, err := o.CopyTF()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Scores{o.ArgmaxLast(), o.MassLast(), o.ArgmaxCode(), copying} {
		p := o.PerPrompt()[i]
		got := p.Mean()
		if got.Detector != want.Detector || len(p.Values) != 3 {
			t.Errorf("got %s of %d prompts, want %s of 3", got.Detector, len(p.Values), want.Detector)
		}
		near(t, want.Detector, got.Data, want.Data)
	}
	p := &PerPrompt{Detector: "x", Layers: 1, Heads: 2, Values: [][]float64{{1, 0}, {2, 0}, {3, 0}}}
	if pv := p.PositiveP(); pv[1] != 1 || !(pv[0] > 0.03 && pv[0] < 0.04) {
		t.Errorf("p %v, want 0.037 and 1", pv)
	}
	iv := p.Interval(decoder.Head{}, stats.Resampling{N: 500, Level: 0.95}, stats.Source{Seed: 1})
	if !(iv.Lo >= 1 && iv.Lo < 2 && iv.Hi > 2 && iv.Hi <= 3) {
		t.Errorf("interval %v around 2", iv)
	}
}

func TestScoresTop(t *testing.T) {
	s := NewScores("x", 2, 2)
	s.Data = []float64{3, 1, math.NaN(), 1}
	set, ties := s.Top(2)
	if !slices.Equal(set, NewSet(decoder.Head{}, decoder.Head{Index: 1})) || !ties.Equal(NewSet(decoder.Head{Index: 1}, decoder.Head{Layer: 1, Index: 1})) {
		t.Errorf("top %v, ties %v", set, ties)
	}
	if set, _ = s.Top(4); len(set) != 3 {
		t.Errorf("top of all: %v, want the three with a score", set)
	}
}
