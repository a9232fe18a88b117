package harness

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/tokenizer"
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
		for _, name := range []string{"argmax_nosink", "select", "qr_raw", "qr_cal", "locos_logit", "logit_attr"} {
			if len(got[name]) != n {
				t.Fatalf("prompt %d: %s has %d scores, want %d (%s)", i, name, len(got[name]), n, seen[i].Unscored[name])
			}
		}
		if len(got["wu_step"]) != 0 || seen[i].Unscored["wu_step"] == "" || len(got["locos"]) != 0 || seen[i].Unscored["locos"] == "" {
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
		if d.Name == "wu_step" && (d.Prompts != 0 || d.Unscored != 3) || d.Name == "locos_logit" && (d.Prompts != 3 || d.KV == nil || len(d.Top) != 2) {
			t.Errorf("%s: %d prompts, %d unscored, %d best", d.Name, d.Prompts, d.Unscored, len(d.Top))
		}
	}
	check, err := Recheck(res.Path)
	if err != nil || !check.OK {
		t.Errorf("recheck: %v, %+v", err, check)
	}
	e, err := s.DryRun(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	look := map[string]StageEstimate{}
	for _, st := range e.Stages {
		look[st.Name] = st
	}
	if w := look[StageCausal].Work; e.Trials != res.N.Planned || w.RowPasses != 3*37 || w.RowTokens != int64(37*3*len(s.detects[0].Answer)) || w.WholePasses != 3 {
		t.Errorf("%d trials, the run had %d; causal %+v", e.Trials, res.N.Planned, w)
	}
	if w := look[StageObserve].Work; w.WholePasses != 3*3 || look[StageObserve].Trials != 3 {
		t.Errorf("observe %+v", w)
	}
	t.Run("causal", func(t *testing.T) { causalScores(t, s) })
	t.Run("locos", func(t *testing.T) { locosScores(t, s) })
}

// locosScores: of a model that says the right answer, at once or later, locos is the mean over the answer's steps of what a head writes from
// a needle's key on average less what it writes from any other, times the needle's keys.
func locosScores(t *testing.T, s *Study) {
	c, m := tinyModel(t)
	r, _, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.file.close()
	p := s.detects[0]
	other := p.IDs[2]
	for late, greedy := range [][]int32{slices.Clone(p.Answer), append([]int32{other, other}, p.Answer...)} {
		late *= 2
		own, err := c.Tokenizer.Encode(p.Spec.Answer, tokenizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		skip := len(p.Answer) - len(own.IDs) // the space before it
		trial := Trial{}
		o := &observer{r: r, p: p, t: &trial, decoys: true, greedy: append(greedy, c.Spec.EOS...), text: p.Spec.Answer}
		if err := o.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		var rows []decoder.LookAt
		for j, id := range own.IDs {
			rows = append(rows, decoder.LookAt{Row: len(p.IDs) - 1 + late + skip + j, Contrast: &decoder.Contrast{Token: id, Bare: true}})
		}
		n := int32(len(p.IDs) + len(greedy))
		spans := [][2]int32{{int32(p.Needle[0]), int32(p.Needle[1])}, {0, int32(p.Needle[0])}, {int32(p.Needle[1]), n}}
		seen, err := m.Observe(context.Background(), &decoder.Prompt{IDs: p.IDs, Answer: greedy}, rows, spans)
		if err != nil {
			t.Fatal(err)
		}
		got := trial.HeadScores["locos"]
		if len(got) != 36 || len(trial.HeadScores["wu_step"]) != 36 {
			t.Fatalf("%d scores: %v", len(got), trial.Unscored)
		}
		for h := range got {
			want := 0.0
			for j := range rows {
				f := seen.From[(h*len(rows)+j)*3:][:3]
				keys := float64(len(p.IDs) + late + skip + j)
				size := float64(p.Needle.Len())
				want += size * (f[0]/size - (f[1]+f[2])/(keys-size)) / float64(len(rows))
			}
			if math.Abs(float64(got[h])-want) > 1e-5*max(1, math.Abs(want)) || want == 0 {
				t.Errorf("%d steps before it, head %d: %g, want %g", late, h, got[h], want)
			}
		}
	}
}

// TestAnswerSteps: the answer's own tokens, else its letters; nothing behind a newline or the end token.
func TestAnswerSteps(t *testing.T) {
	c, _ := tinyModel(t)
	tok := c.Tokenizer
	ids := func(text string) []int32 {
		e, err := tok.Encode(text, tokenizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return e.IDs
	}
	spelled := func(greedy []int32, steps []int) string {
		var said []int32
		for _, s := range steps {
			said = append(said, greedy[s])
		}
		return tok.Decode(said, true)
	}
	for _, x := range []struct{ said, want, text string }{
		{" K1Q.", "K1Q", "K1Q."}, {"K1Q", "K1Q", "K1Q"}, {" it is k1q now", "k1q", "it is k1q now"}, {" no\n K1Q", "", "no"}, {" K2", "", "K2"},
	} {
		greedy := ids(x.said)
		steps, text := answerSteps(c, greedy, "K1Q")
		if got := spelled(greedy, steps); got != x.want || text != x.text {
			t.Errorf("%q: %q of %q, want %q of %q", x.said, got, text, x.want, x.text)
		}
	}
	if steps, text := answerSteps(c, append(slices.Clone(c.Spec.EOS), ids("K1Q")...), "K1Q"); steps != nil || text != "" {
		t.Errorf("steps %v of %q behind the end", steps, text)
	}
}

// causalScores: without a head the answer loses what a dense pass without that head says.
func causalScores(t *testing.T, s *Study) {
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

// TestDetectorsResume: a run that stopped among the observed units, and then among those of the agreement, ends as an unbroken one does.
func TestDetectorsResume(t *testing.T) {
	o := tinyOptions(t, 5)
	o.Verb, o.Stages, o.Detectors = "detect", []string{StageDetect}, []string{"qr_raw", "locos_logit"}
	o.AgreementPrompts = shifted(t, 3)
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
	ask, maps := s.ask, 0
	s.ask = func(ctx context.Context, p []*decoder.Prompt, c []decoder.Condition, o decoder.AskOptions, emit decoder.Emit) error {
		if o.Sweep {
			if maps++; maps == 3 {
				return errors.New("stop")
			}
		}
		return ask(ctx, p, c, o, emit)
	}
	if _, err := s.Run(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "agreement: prompt ") || !strings.HasSuffix(err.Error(), ": stop") {
		t.Fatalf("got %v", err)
	}
	got, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	a, b := *want, *got
	a.Seconds, b.Seconds = 0, 0
	a.Path, b.Path = "", ""
	if x, y := toJSON(t, &b), toJSON(t, &a); x != y {
		t.Errorf("got\n%s\nwant\n%s", x, y)
	}
	if maps != 4 {
		t.Errorf("%d prompts were mapped, want 3 and one that was stopped: whole units are kept", maps)
	}
	if trials := readFile(t, s.TrialsPath()); !slices.Equal(trials, readFile(t, whole.TrialsPath())) {
		t.Error("other trials than an unbroken run's")
	}
	if want.N.Planned != 5+5+3+tinyRepeats {
		t.Errorf("%d trials", want.N.Planned)
	}
}

// TestDetectorsMemory: what stays of a prompt is its scores: behind ten prompts, all of one length, the heap is hardly larger than behind two.
func TestDetectorsMemory(t *testing.T) {
	o := tinyOptions(t, 10)
	o.Verb, o.Stages, o.Detectors = "detect", []string{StageDetect}, []string{"qr_cal", "select", "locos_logit", "logit_attr"}
	heap := map[int]uint64{}
	o.Events = func(e Event) {
		if e.Stage == StageObserve {
			for range 3 { // pools and finalisers keep some for a cycle or two
				runtime.GC()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heap[e.Done] = m.HeapAlloc
		}
	}
	s, _ := runStudy(t, o)
	matrix := 4 * len(s.detects[0].IDs) * len(s.detects[0].IDs) // bytes of one head's attention
	if grown := int(heap[10]) - int(heap[2]); heap[2] == 0 || grown > 8*matrix {
		t.Errorf("eight prompts leave %d bytes behind; one head's attention in one has %d", grown, matrix)
	}
}

func TestParseDetectors(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want []string
	}{
		{nil, nil}, {[]string{"basic"}, nil}, {[]string{"argmax_last", "wu_set", "qr_raw"}, []string{"qr_raw", "wu_set"}},
		{[]string{"all"}, []string{"argmax_nosink", "select", "qr_raw", "qr_cal", "wu_step", "wu_set", "locos", "locos_logit", "logit_attr", "causal"}},
	} {
		if got, err := parseDetectors(c.in); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, %v", c.in, got, err)
		}
	}
	if _, err := parseDetectors([]string{"magic"}); err == nil {
		t.Error("magic is taken")
	}
}
