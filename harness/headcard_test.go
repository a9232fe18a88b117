package harness

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// TestDistances: two rows by hand.
func TestDistances(t *testing.T) {
	var d distances
	d.add([]float32{.5, .25, 0, .25})         // row 3: distances 2 and 0
	d.add([]float32{.2, .4, .1, 0, 0, 0, .3}) // row 6: distances 5, 4 and 0
	c := d.card()
	want := CardDistance{2, .35, .275, Number((.5 + 2 + .4) / 1.3), 2, Number((.25 + .4 + .1) / 1.3)}
	for i, x := range [][2]Number{{c.First, want.First}, {c.Own, want.Own}, {c.Mean, want.Mean}, {c.Median, want.Median}, {c.Far, want.Far}} {
		if math.Abs(float64(x[0]-x[1])) > 1e-6 {
			t.Errorf("%d: got %g, want %g", i, x[0], x[1])
		}
	}
}

// TestHeadCard: rank, ties and siblings are those of the result's scores, looks those of whole attention rows.
func TestHeadCard(t *testing.T) {
	c, m := tinyModel(t)
	h := decoder.Head{Layer: 1, Index: 6}
	card, err := NewHeadCard(context.Background(), &CardRequest{Checkpoint: c, Model: m, Head: h, Prompts: tinyPrompts(t, 3), Show: 2, TopK: 3})
	if err != nil {
		t.Fatal(err)
	}
	if card.KVHead != 1 || !card.Siblings.Equal(heads.NewSet(decoder.Head{Layer: 1, Index: 4}, decoder.Head{Layer: 1, Index: 5}, decoder.Head{Layer: 1, Index: 7})) {
		t.Errorf("key/value head %d with %v", card.KVHead, card.Siblings)
	}
	o := tinyOptions(t, 2)
	o.Verb, o.Stages, o.Detectors = "detect", []string{StageDetect}, []string{"qr_raw", "locos_logit"}
	_, res := runStudy(t, o)
	for _, name := range []string{"mass_last", "qr_raw", "locos_logit"} {
		s, _ := res.Detection.Score(name)
		i := slices.IndexFunc(card.Scores, func(x CardScore) bool { return x.Detector == name })
		got := card.Scores[i]
		if rank := slices.Index(s.Ranking(), h) + 1; got.Rank != rank || got.Tied != 1 || got.Of != 36 || float64(got.Score) != s.At(h) || float64(got.Siblings[2]) != s.At(decoder.Head{Layer: 1, Index: 7}) {
			t.Errorf("%s: %+v, want rank %d of score %g", name, got, rank, s.At(h))
		}
	}
	if len(card.Looks) != 2 || len(card.Looks[0].Top) != 3 || card.Looks[1].Prompt != "p1" {
		t.Fatalf("looks %+v", card.Looks)
	}
	s, _ := res.Detection.Score("mass_last")
	mean := 0.0
	for _, l := range card.Looks {
		for _, x := range l.Mass {
			if x.Name == "needle" {
				mean += float64(x.Weight) / 2
			}
		}
	}
	if math.Abs(mean-s.At(h)) > 1e-6 {
		t.Errorf("weight on the needle %g, mass_last %g", mean, s.At(h))
	}
	// The planes are those of the dumped queries and keys.
	q, k, rows := make([]float64, 16), make([]float64, 16), 0
	for i := range 2 {
		p := mustTokenize(t, Options{Checkpoint: c, Prompts: tinyPrompts(t, 3)})[i]
		tr, err := m.Trace(context.Background(), &decoder.Prompt{IDs: p.IDs}, nil, decoder.TraceOptions{Hidden: -1, QK: []int{1}})
		if err != nil {
			t.Fatal(err)
		}
		qk, d := tr.QK[1], c.Spec.HeadDim
		q, k = q[:d/2], k[:d/2]
		for r := range tr.T {
			for j := range d / 2 {
				at, kt := (r*12+6)*d+j, (1*tr.T+r)*d+j
				q[j] += math.Hypot(float64(qk.QPre[at]), float64(qk.QPre[at+d/2]))
				k[j] += math.Hypot(float64(qk.KPre[kt]), float64(qk.KPre[kt+d/2]))
			}
		}
		rows += tr.T
	}
	best, sum := 0, 0.0
	for j := range q {
		sum += q[j] * k[j]
		if q[j]*k[j] > q[best]*k[best] {
			best = j
		}
	}
	if p := card.Planes[0]; len(card.Planes) != 4 || p.Plane != best || math.Abs(float64(p.Share)-q[best]*k[best]/sum) > 1e-5 ||
		math.Abs(float64(p.Wavelength)-2*math.Pi*math.Pow(10000, float64(2*best)/float64(c.Spec.HeadDim))) > 1e-3*float64(p.Wavelength) {
		t.Errorf("planes %+v, want first %d with %g of %d rows", card.Planes, best, q[best]*k[best]/sum, rows)
	}
	var text bytes.Buffer
	if err := card.Write(&text); err != nil || !strings.Contains(text.String(), "L1H6 of ") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if _, err := NewHeadCard(context.Background(), &CardRequest{Checkpoint: c, Model: m, Head: decoder.Head{Layer: 9}, Prompts: tinyPrompts(t, 1), Show: 1}); err == nil {
		t.Error("a head that does not exist is shown")
	}
}
