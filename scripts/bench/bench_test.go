package main

import (
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

const printed = `load 0.41 s; loadavg (0.1, 0.2, 0.3) float32 n 2
argmax         2.4 s, 2 samples, 1.201 s per sample (CPU 2.350 core-s), load 0.9
copy           2.2 s, 2 samples, 1.104 s per sample (CPU 2.200 core-s), load 0.9
retrieval heads 2 [(18, 6), (20, 3)] copy >= .1: 7
knockout      13.0 s, 8 samples, 1.629 s per sample (CPU 3.200 core-s), load 1.0, scaled to full: 22.8 s
recall base 1.0 knockout 0.0 random [1.0, 0.5] tokens generated (mean) 12.5
perplexity     2.2 s, 2 samples, 1.100 s per sample (CPU 2.200 core-s), load 1.0
total (scaled) 30 s; measured 20 s; peak RSS MB 2213
`

func TestParseProfile(t *testing.T) {
	r, err := parseProfile(printed)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.total(), 2*1.201+2*1.104+8*1.629; got != want {
		t.Errorf("total: got %v, want %v", got, want)
	}
	want := heads.NewSet(decoder.Head{Layer: 18, Index: 6}, decoder.Head{Layer: 20, Index: 3})
	if !r.heads.Equal(want) {
		t.Errorf("heads: got %v, want %v", r.heads, want)
	}
	if r.base != 1 || r.without != 0 || len(r.random) != 2 || r.random[1] != 0.5 || r.generated != 12.5 || r.peakMB != 2213 || r.samples != 8 {
		t.Errorf("got %+v", r)
	}
	for _, line := range []string{"argmax", "recall base", "retrieval heads", "peak RSS"} {
		if _, err := parseProfile(strings.Replace(printed, line, "?", 1)); err == nil {
			t.Errorf("no error without %q", line)
		}
	}
}

func TestSpeedup(t *testing.T) {
	ours, other := timing{rounds: []float64{1, 2, 4}}, timing{rounds: []float64{2, 2, 12}}
	got := speedup(ours, other)
	if *got != (interval{2, 1, 3}) {
		t.Errorf("got %+v, want 2 (1-3)", *got)
	}
	f := figure{Ratio: got, Target: 2}
	if f.verdict() != "pass" {
		t.Errorf("ratio at its target: %s", f.verdict())
	}
	f.Target = 2.01
	if f.verdict() != "FAIL" {
		t.Errorf("ratio below its target: %s", f.verdict())
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median of four: got %v, want 2.5", m)
	}
}

func TestDifference(t *testing.T) {
	d, s := difference([]float32{1, -4, 2}, []float32{1, -3, 2.5})
	if d != 1 || s != 4 {
		t.Errorf("got %v of %v, want 1 of 4", d, s)
	}
}
