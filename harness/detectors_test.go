package harness

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/patch"
)

// observedTiny is a detection with every detector, on three prompts.
func observedTiny(t *testing.T) (*Study, *Result) {
	o := tinyOptions(t, 3)
	o.Verb, o.Stages, o.Detectors = "detect", []string{StageDetect}, []string{DetectorsAll}
	return runStudy(t, o)
}

// TestDetectors holds the trials of the further detectors against other ways to the same numbers: the detect stage's own probe, whole
// attention rows, a dense pass without the head, and the sum that all writes have to have.
func TestDetectors(t *testing.T) {
	s, res := observedTiny(t)
	c, m := tinyModel(t)
	seen, probed := stageTrials(t, s.TrialsPath(), StageObserve), stageTrials(t, s.TrialsPath(), StageDetect)
	n := c.Spec.Layers * c.Spec.Heads
	for i, p := range s.detects {
		got := seen[i].HeadScores
		for _, name := range []string{"argmax_nosink", "select", "qr_raw", "qr_cal", "locos", "logit_attr"} {
			if len(got[name]) != n {
				t.Fatalf("prompt %d: %s has %d scores, want %d (%s)", i, name, len(got[name]), n, seen[i].Unscored[name])
			}
		}
		if len(got["wu_step"]) != 0 || seen[i].Unscored["wu_step"] == "" {
			t.Errorf("prompt %d: a random model is said to answer", i)
		}
		for h, at := range probed[i].Attention.Argmax[0] {
			want := 0
			if p.Code.Contains(int(at)) {
				want = 1
			} else if p.DecoyAt.Contains(int(at)) {
				want = -1
			}
			if int(got["select"][h]) != want {
				t.Errorf("prompt %d, head %d: select %g, want %d", i, h, got["select"][h], want)
			}
			if at != 0 && (got["argmax_nosink"][h] == 1) != p.Needle.Contains(int(at)) {
				t.Errorf("prompt %d, head %d: argmax_nosink %g with the largest weight at %d", i, h, got["argmax_nosink"][h], at)
			}
		}
		question := make([]int, len(p.IDs)-p.Question)
		for k := range question {
			question[k] = p.Question + k
		}
		tr, err := m.Trace(context.Background(), p.ask(), nil, decoder.TraceOptions{Attention: question, Hidden: -1})
		if err != nil {
			t.Fatal(err)
		}
		for h, v := range got["qr_raw"] {
			want, rows := 0.0, tr.Attention[h/c.Spec.Heads]
			for k := range question {
				for key := p.Needle[0]; key < p.Needle[1]; key++ {
					want += float64(rows[(h%c.Spec.Heads*len(question)+k)*tr.T+key]) / float64(len(question))
				}
			}
			if math.Abs(float64(v)-want) > 1e-5 {
				t.Errorf("prompt %d, head %d: qr_raw %g, want %g", i, h, v, want)
			}
		}
	}
	for _, d := range res.Detection.Detectors {
		if d.Name == "wu_step" && (d.Prompts != 0 || d.Unscored != 3) || d.Name == "locos" && (d.Prompts != 3 || d.KV == nil || len(d.Top) != 2) {
			t.Errorf("%s: %d prompts, %d unscored, %d best", d.Name, d.Prompts, d.Unscored, len(d.Top))
		}
	}
	check, err := Recheck(res.Path)
	if err != nil || !check.OK {
		t.Errorf("recheck: %v, %+v", err, check)
	}
}

// TestCausal: without a head the answer loses what a dense pass without that head says.
func TestCausal(t *testing.T) {
	o := tinyOptions(t, 2)
	o.Verb, o.Stages, o.Detectors = "detect", []string{StageDetect}, []string{"causal"}
	s, _ := runStudy(t, o)
	_, m := tinyModel(t)
	for i, trial := range stageTrials(t, s.TrialsPath(), StageCausal) {
		for _, h := range []decoder.Head{{Layer: 0, Index: 3}, {Layer: 2, Index: 11}} {
			conds := []decoder.Condition{{}, {Edits: patch.ZeroHeads([]decoder.Head{h}, decoder.ScopeAnswer), Probe: true}} // a probe makes it a whole pass
			var sums []float64
			err := m.Ask(context.Background(), []*decoder.Prompt{s.detects[i].ask()}, conds, decoder.AskOptions{}, func(_, _ int, r *decoder.Reply) error {
				sum := 0.0
				for _, x := range r.LogProb {
					sum += x
				}
				sums = append(sums, sum)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := float64(trial.HeadScores["causal"][h.Layer*12+h.Index]), sums[0]-sums[1]; math.Abs(got-want) > 2e-5 || want == 0 {
				t.Errorf("prompt %d, %v: causal %g, want %g", i, h, got, want)
			}
		}
	}
}

// TestDetectorsResume: a run that stopped among the observed units ends as an unbroken one does.
func TestDetectorsResume(t *testing.T) {
	o := tinyOptions(t, 5)
	o.Verb, o.Stages, o.Detectors = "detect", []string{StageDetect}, []string{"qr_raw", "locos"}
	whole, want := runStudy(t, o)
	o.Out = t.TempDir()
	s := inUnits(t, o)
	see, calls := s.see, 0
	s.see = func(ctx context.Context, p *decoder.Prompt, rows []decoder.LookAt, spans [][2]int32) (*decoder.Observation, error) {
		if calls++; calls == 4 {
			return nil, errors.New("stop")
		}
		return see(ctx, p, rows, spans)
	}
	if _, err := s.Run(context.Background()); err == nil || err.Error() != "observe: prompt p3: stop" {
		t.Fatalf("got %v", err)
	}
	s.see = see
	if _, err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, s.TrialsPath()); !slices.Equal(got, readFile(t, whole.TrialsPath())) {
		t.Error("other trials than an unbroken run's")
	}
	if want.N.Planned != 5+5+tinyRepeats {
		t.Errorf("%d trials", want.N.Planned)
	}
}

func TestParseDetectors(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want []string
	}{
		{nil, nil}, {[]string{"basic"}, nil}, {[]string{"argmax_last", "wu_set", "qr_raw"}, []string{"qr_raw", "wu_set"}},
		{[]string{"all"}, []string{"argmax_nosink", "select", "qr_raw", "qr_cal", "wu_step", "wu_set", "locos", "logit_attr", "causal"}},
	} {
		if got, err := parseDetectors(c.in); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, %v", c.in, got, err)
		}
	}
	if _, err := parseDetectors([]string{"magic"}); err == nil {
		t.Error("magic is taken")
	}
}
