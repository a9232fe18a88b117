package stats

import (
	"math"
	"testing"
)

// TestAUPRC: the example of scikit-learn's average_precision_score, ties in one step, the extremes, NaN last.
func TestAUPRC(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		scores   []float64
		relevant []bool
		want     float64
	}{
		"scikit-learn": {[]float64{0.1, 0.4, 0.35, 0.8}, []bool{false, false, true, true}, 0.5 + 0.5*2/3},
		"perfect":      {[]float64{3, 2, 1}, []bool{true, true, false}, 1},
		"last":         {[]float64{3, 2, 1}, []bool{false, false, true}, 1.0 / 3},
		"all tie":      {[]float64{2, 2, 2, 2}, []bool{true, false, false, false}, 0.25},
		"tie in part":  {[]float64{5, 2, 2, 1}, []bool{true, true, false, true}, 1.0/3 + 2.0/3/3 + 3.0/4/3},
		"NaN":          {[]float64{nan, 1, nan}, []bool{true, false, true}, 2.0 / 3},
	} {
		r := AUPRC(c.scores, c.relevant)
		if got := r.Value.Or(-1); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
	if r := AUPRC([]float64{1, 2}, []bool{false, false}); r.Value.Why() != ReasonNoData {
		t.Errorf("nothing relevant: got %v", r.Value)
	}
	if r := AUPRC([]float64{1, 2, 3, 4}, []bool{true, false, false, false}); r.Base.Or(-1) != 0.25 {
		t.Errorf("by chance %v, want 0.25", r.Base)
	}
}

// TestPositiveMean: t of 1, 2, 3 is sqrt(12) with 2 degrees of freedom, whose tail has a closed form; and the cases without variation.
func TestPositiveMean(t *testing.T) {
	tt := math.Sqrt(12)
	want := 0.5 - tt/(2*math.Sqrt(2+tt*tt))
	if got := PositiveMean([]float64{1, 2, 3}); math.Abs(got-want) > 1e-12 {
		t.Errorf("p %g, want %g", got, want)
	}
	if got := PositiveMean([]float64{-1, -2, -3}); math.Abs(got-(1-want)) > 1e-12 {
		t.Errorf("p %g, want %g", got, 1-want)
	}
	for want, x := range map[float64][]float64{0: {2, 2}, 1: {0, 0, 0}} {
		if got := PositiveMean(x); got != want {
			t.Errorf("%v: p %g, want %g", x, got, want)
		}
	}
	if got := PositiveMean([]float64{5}); got != 1 {
		t.Errorf("one value: p %g, want 1", got)
	}
}
