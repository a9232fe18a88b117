package decoder

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// meanPrompts differ in length, and in where their needle and question are.
func meanPrompts() []*Prompt {
	return []*Prompt{
		{IDs: tokens(520, 40), Needle: [2]int{5, 12}, Question: 30, Answer: tokens(521, 3)},
		{IDs: tokens(522, 33), Needle: [2]int{20, 24}, Question: 26, Answer: tokens(523, 2)},
	}
}

func headMeans(t *testing.T, m *Model, names ...string) *Means {
	t.Helper()
	var hs []Head
	for _, n := range names {
		h, err := ParseHead(n)
		if err != nil {
			t.Fatal(err)
		}
		hs = append(hs, h)
	}
	prompts := meanPrompts()
	means, err := m.HeadMeans(t.Context(), prompts, hs, [][]int{rowRange(0, len(prompts)), {1}})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := m.HeadMeans(t.Context(), prompts[1:2], hs, [][]int{{0}})
	if err != nil || !reflect.DeepEqual(alone[0], means[1]) {
		t.Errorf("a set of one prompt: %v, %v, want %v", err, alone, means[1])
	}
	return means[0]
}

// TestHeadMeans: the means are those of the outputs that a trace shows, row by row, and a head under a mean edit puts out the mean of each
// row's class at the rows of the scope and nothing else.
func TestHeadMeans(t *testing.T) {
	m := model(t, backend(t, "go"), "float32")
	h := Head{Layer: 1, Index: 2}
	means := headMeans(t, m, "L1H2", "L0H1")
	want := map[string][]float64{}
	n := map[string]int{}
	d, width := m.cfg.headDim, m.cfg.heads*m.cfg.headDim
	for _, p := range meanPrompts() {
		z := trace(t, m, p, nil, TraceOptions{QK: []int{1}, Hidden: -1}).QK[1].Z
		for r := range len(p.IDs) + len(p.Answer) {
			class := "haystack"
			switch {
			case r >= len(p.IDs):
				class = []string{"answer0", "answer1", "answer2"}[r-len(p.IDs)]
			case r == len(p.IDs)-1:
				class = "last"
			case r >= p.Question:
				class = "question"
			case r >= p.Needle[0] && r < p.Needle[1]:
				class = "needle"
			}
			if want[class] == nil {
				want[class] = make([]float64, d)
			}
			n[class]++
			for i := range d {
				want[class][i] += float64(z[r*width+h.Index*d+i])
			}
		}
	}
	if len(means.Classes) != len(want) {
		t.Fatalf("classes %v, want %d", means.Classes, len(want))
	}
	for k, c := range means.Classes {
		for i, x := range means.Heads[h][k*d : (k+1)*d] {
			if w := want[c.String()][i] / float64(n[c.String()]); math.Abs(float64(x)-w) > 1e-6 {
				t.Fatalf("class %s, dimension %d: got %g, want %g", c, i, x, w)
			}
		}
	}
	p := &Prompt{IDs: tokens(524, 50), Needle: [2]int{8, 15}, Question: 40, Answer: tokens(525, 5), Means: means}
	plain := trace(t, m, p, nil, TraceOptions{QK: []int{1}, Hidden: -1}).QK[1].Z
	z := trace(t, m, p, edits(t, "mean:L1H2@question"), TraceOptions{QK: []int{1}, Hidden: -1}).QK[1].Z
	for r := range len(p.IDs) + len(p.Answer) {
		got, class := z[r*width+h.Index*d:][:d], RowClass(0)
		switch {
		case r < p.Question:
			if !slices.Equal(got, plain[r*width+h.Index*d:][:d]) {
				t.Fatalf("row %d is outside the scope and changed", r)
			}
			continue
		case r < len(p.IDs)-1:
			class = ClassQuestion
		case r == len(p.IDs)-1:
			class = ClassLast
		default:
			class = RowClass(min(r-len(p.IDs), 2)) // answers of the prompts that were looked at have three tokens at most
		}
		mean, err := means.of(h, class, d)
		if err != nil || !slices.Equal(got, mean) {
			t.Fatalf("row %d: got %v, want the mean of class %s, %v (%v)", r, got[:2], class, mean[:2], err)
		}
	}
	for form, part := range map[string]string{"mean:L2H2": "no mean of head L2H2", "mean:L1H2": "rows of class haystack"} {
		q := *p
		if form == "mean:L1H2" {
			q.Means = &Means{Classes: []RowClass{ClassLast, 0}, Heads: map[Head][]float32{h: make([]float32, 2*d)}}
		}
		if _, err := m.Trace(t.Context(), &q, edits(t, form), TraceOptions{Hidden: -1}); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, want an error with %q", form, err, part)
		}
	}
	if _, err := m.HeadMeans(t.Context(), meanPrompts(), []Head{{Layer: 9}}, [][]int{{0}}); err == nil {
		t.Error("means of a head that does not exist")
	}
}
