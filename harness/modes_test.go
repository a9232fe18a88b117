package harness

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// withDonors gives each prompt the one that has the next code in the place of its own.
func withDonors(f *PromptFile) *PromptFile {
	for i := range f.Specs {
		s := &f.Specs[i]
		other := f.Specs[(i+1)%len(f.Specs)].Answer
		s.Donor = &DonorSpec{Answer: other, Text: strings.Replace(s.Text, s.Answer, other, 1)}
	}
	return f
}

func modesOptions(t *testing.T) Options {
	o := tinyOptions(t, 4)
	o.Prompts, o.DetectPrompts = withDonors(o.Prompts), shifted(t, 3)
	o.Scopes, o.Modes, o.MaxNew, o.Equivalence = o.Scopes[1:], []string{ModeResample, ModeZero, ModeMean}, 2, 0.5
	return o
}

// TestModes: every mode is asked for the set and for the first control sets, and the table of modes follows from the trials.
func TestModes(t *testing.T) {
	o := modesOptions(t)
	s, res := runStudy(t, o)
	var names []string
	byName := map[string]*ConditionResult{}
	for i := range res.Conditions {
		c := &res.Conditions[i]
		names = append(names, c.Name)
		byName[c.Name] = c
	}
	for _, want := range []string{"without@question", "control0@question", "mean@question", "mean_control0@question", "resample@question", "resample_control0@question"} {
		if byName[want] == nil {
			t.Fatalf("no condition %s: got %v", want, names)
		}
	}
	if op := byName["mean@question"].Edits[0].Op; op != decoder.OpMean {
		t.Errorf("mode mean edits by %s", op)
	}
	if !slices.Equal(byName["resample_control0@question"].Heads, byName["control0@question"].Heads) {
		t.Error("the modes have other control sets")
	}
	if res.Means == nil || res.Means.Of != 3 || res.Means.Heads != 4 || !slices.Contains(res.Means.Classes, "needle") {
		t.Errorf("means %+v: want those of 4 heads over 3 detection prompts", res.Means)
	}
	if len(res.Modes) != 3 {
		t.Fatalf("got %d modes: %+v", len(res.Modes), res.Modes)
	}
	stored, err := readTrials(s.TrialsPath())
	if err != nil {
		t.Fatal(err)
	}
	e, err := stored.evidence()
	if err != nil {
		t.Fatal(err)
	}
	margin := map[string]map[string]float64{}
	for _, tr := range e.trials[StageKnockout] {
		if margin[tr.Condition] == nil {
			margin[tr.Condition] = map[string]float64{}
		}
		margin[tr.Condition][tr.Prompt] = float64(tr.Margin)
	}
	mean := func(a, b string) float64 {
		sum := 0.0
		for p, x := range margin[a] {
			sum += x - margin[b][p]
		}
		return sum / float64(len(margin[a]))
	}
	for i, mode := range []string{ModeZero, ModeMean, ModeResample} {
		m, name, control := res.Modes[i], mode+"@question", mode+"_control0@question"
		if mode == ModeZero {
			name, control = "without@question", "control0@question"
		}
		if m.Mode != mode || m.Condition != name || m.Controls != 1 {
			t.Errorf("mode %d: got %+v", i, m)
		}
		if want := mean(name, baseline); math.Abs(float64(m.Change.Value)-want) > 1e-12 || want == 0 {
			t.Errorf("%s: change %g, want %g", name, float64(m.Change.Value), want)
		}
		if want := mean(control, baseline); math.Abs(float64(m.ControlChange)-want) > 1e-12 {
			t.Errorf("%s: controls %g, want %g", name, float64(m.ControlChange), want)
		}
		if (m.AgainstZero == nil) != (mode == ModeZero) {
			t.Fatalf("%s: against zero %v", name, m.AgainstZero)
		}
		if mode != ModeZero {
			if want := mean(name, "without@question"); math.Abs(float64(m.AgainstZero.Value)-want) > 1e-12 || want == 0 {
				t.Errorf("%s: against zero %g, want %g", name, float64(m.AgainstZero.Value), want)
			}
			if m.Verdict == "" {
				t.Errorf("%s: no verdict", name)
			}
		}
	}
	if c, err := Recheck(res.Path); err != nil || !c.OK {
		t.Errorf("checked again: %+v, %v", c, err)
	}
	var text bytes.Buffer
	if err := res.Write(&text, View{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mean of 2 heads @question", "2 heads resampled @question", "zero @question", "of 3 detection prompts"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &text)
		}
	}
}

// TestMeanPools: no prompt's means are over rows of a prompt with its answer, and where no prompt for them has such an answer one pool does.
func TestMeanPools(t *testing.T) {
	same := []string{"a", "b", "a", "c", "d", "e", "f", "g", "h", "i", "j"}
	pools, part, err := meanPools(same, same)
	if err != nil || len(pools) != meanParts || part[0] != part[2] {
		t.Fatalf("%v: %v, %v", err, pools, part)
	}
	for i, k := range part {
		for _, at := range pools[k] {
			if same[at] == same[i] {
				t.Errorf("prompt %d has means over prompt %d, which has its answer", i, at)
			}
		}
		if len(pools[k]) < len(same)-3 {
			t.Errorf("pool %d has %d prompts", k, len(pools[k]))
		}
	}
	if pools, part, err = meanPools([]string{"a", "b"}, []string{"c", "d", "c"}); err != nil || len(pools) != 1 || len(pools[0]) != 3 || part[1] != 0 {
		t.Errorf("other answers: %v: %v, %v", err, pools, part)
	}
	if pools, part, err = meanPools([]string{"a", "b"}, []string{"c", "a"}); err != nil || len(pools) != 2 || len(pools[part[0]]) != 1 || len(pools[part[1]]) != 2 {
		t.Errorf("one answer in common: %v: %v, %v", err, pools, part)
	}
	var usage *UsageError
	if _, _, err = meanPools([]string{"a", "a"}, []string{"a", "a"}); !errors.As(err, &usage) {
		t.Errorf("one answer: got %v", err)
	}
}

// TestMeansLeaveOut: without detection prompts a prompt has means over the others, and the result says so and is computed again.
func TestMeansLeaveOut(t *testing.T) {
	o := tinyOptions(t, 3)
	o.Stages, o.Heads, o.Scopes, o.Modes, o.MaxNew, o.Top, o.Controls = []string{StageKnockout}, heads.Ranking{{Layer: 1, Index: 1}}, o.Scopes[1:], []string{ModeZero, ModeMean}, 1, 0, 0
	s, res := runStudy(t, o)
	if m := res.Means; m == nil || m.Of != 3 || m.Parts != 3 {
		t.Fatalf("means %+v", m)
	}
	stored, err := readTrials(s.TrialsPath())
	if err != nil {
		t.Fatal(err)
	}
	e, err := stored.evidence()
	if err != nil {
		t.Fatal(err)
	}
	h := decoder.Head{Layer: 1, Index: 1}
	for i, p := range s.prompts {
		var others []*decoder.Prompt
		for k, q := range s.prompts {
			if k != i {
				others = append(others, q.ask())
			}
		}
		want, err := o.Model.HeadMeans(context.Background(), others, []decoder.Head{h}, [][]int{{0, 1}})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.trials[StageMeans][i].Means; got.Of != 2 || !slices.Equal(got.Vectors[0], floats(want[0].Heads[h])) || !slices.Equal(p.means.Heads[h], want[0].Heads[h]) {
			t.Errorf("prompt %d: its means are not those over the others", i)
		}
	}
	if c, err := Recheck(res.Path); err != nil || !c.OK {
		t.Errorf("checked again: %+v, %v", c, err)
	}
	o.Prompts = o.Prompts.Limit(1)
	if _, err := NewStudy(context.Background(), o); err == nil {
		t.Error("one prompt, whose means would be its own: taken")
	}
}

// TestModesResume: means that are in the trials file are not computed again, those of other heads are refused.
func TestModesResume(t *testing.T) {
	o := modesOptions(t)
	s, _ := runStudy(t, o)
	whole := readFile(t, s.TrialsPath())
	at := bytes.Index(whole, []byte(`{"stage":"knockout"`))
	if err := os.WriteFile(s.TrialsPath(), whole[:at], 0o644); err != nil {
		t.Fatal(err)
	}
	again := inUnits(t, o)
	again.headMeans = func(context.Context, []*decoder.Prompt, []decoder.Head, [][]int) ([]*decoder.Means, error) {
		t.Error("computed again")
		return nil, errors.New("not here")
	}
	if _, err := again.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readFile(t, s.TrialsPath()), whole) {
		t.Error("the trials differ from those of an unbroken run")
	}
	from := bytes.Index(whole, []byte(`"means":{`))
	bad := slices.Clone(whole[:at])
	h := from + bytes.Index(whole[from:], []byte(`"heads":[[`)) + len(`"heads":[[`)
	bad[h] = '2' + 1 - (bad[h] - '0') // another layer
	if err := os.WriteFile(s.TrialsPath(), bad, 0o644); err != nil {
		t.Fatal(err)
	}
	var damaged *DamagedError
	if _, err := inUnits(t, o).Run(context.Background()); !errors.As(err, &damaged) {
		t.Errorf("means of other heads: got %v, want a damaged file", err)
	}
}

// TestModesRefused: modes that do not exist, that the prompts do not allow, and mean edits where there are no means.
func TestModesRefused(t *testing.T) {
	mean := []decoder.Edit{{Op: decoder.OpMean, Heads: []decoder.Head{{Layer: 1, Index: 1}}, Scope: decoder.ScopeAll}}
	for name, change := range map[string]func(*Options){
		"unknown":           func(o *Options) { o.Modes = []string{ModeZero, "median"} },
		"twice":             func(o *Options) { o.Modes = []string{ModeZero, ModeZero} },
		"without zero":      func(o *Options) { o.Modes = []string{ModeMean} },
		"no donors":         func(o *Options) { o.Modes = []string{ModeZero, ModeResample} },
		"parts":             func(o *Options) { o.Modes, o.Shard = []string{ModeZero, ModeMean}, Shard{1, 2} },
		"while detecting":   func(o *Options) { o.Edits = mean },
		"named as the mode": func(o *Options) { o.Conditions = []NamedEdits{{"mean@all", mean}} },
	} {
		o := tinyOptions(t, 2)
		change(&o)
		var usage *UsageError
		if _, err := NewStudy(context.Background(), o); !errors.As(err, &usage) {
			t.Errorf("%s: got %v, want a usage error", name, err)
		}
	}
	o := tinyOptions(t, 2)
	o.AutoModes = true
	if s, err := NewStudy(context.Background(), o); err != nil || !slices.Equal(s.Plan.Knockout.Modes, []string{ModeMean}) {
		t.Errorf("what prompts without donors allow: %v", err)
	}
}
