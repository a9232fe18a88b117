package harness

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// What an edit gets wrong is said before anything is computed or written.
func TestImpossibleEdits(t *testing.T) {
	c, _ := tinyModel(t)
	for _, test := range []struct{ edits, want string }{
		{"zero:L0H1 scale=2:L0H1", ""},
		{"zero:L0H1 uniform:L0H1@last", ""}, // two inputs: the output's gain and the query's
		{"scale=2:L0H1@answer scale=2:L0H2@all", ""},
		{"zero_planes:L0H1:0+7 scale_planes=2:L0H2:slow16", ""},
		{"zero:L3H0", "no such head"},
		{"zero_planes:L0H1:8", "plane 8 does not exist: the model has planes 0-7"},
		{"zero_planes:L0H1:-1", "plane -1 does not exist"},
		{"zero_planes:L0H1:fast18", "rotates 16 dimensions"},
		{"freeze:L0H1:slow16 swap=theta500:L0H1 legacy:L0H2:0+7 own_mean:L0H3 streaming=4+8:L1H0", ""},
		{"freeze:L0H1:slow18", "rotates 16 dimensions"},
		{"freeze:L0H1:mid4 freeze:L0H2:random8/3 freeze:L0H3:window0-7 swap=yarn2/256:L1H1", ""},
		{"freeze:L0H1:window0-8", "ranks 0-7"},
		{"swap=moved64/8:L0H1", "planes 0-7"},
		{"swap=nope:L0H1 swap=times2:L0H1", "two edits give the head its table"},
		{"zero:L0H1 scale=2:L1H1,L0H1@last", "head L0H1: two edits with different scopes at one site"},
		{"uniform:L0H1@question temperature=2:L0H1", "head L0H1: two edits with different scopes at one site"},
	} {
		var edits []decoder.Edit
		for _, s := range strings.Fields(test.edits) {
			e, err := decoder.ParseEdit(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			edits = append(edits, e)
		}
		err := CheckEdits(&c.Spec, edits)
		if err == nil {
			err = checkRows(&c.Spec, edits, 20, 10)
		}
		var usage *UsageError
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.edits, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %q", test.edits, err, test.want)
		case test.want != "" && !errors.As(err, &usage) && !errors.Is(err, heads.ErrNoSuchHead):
			t.Errorf("%s: %T is no wrong usage", test.edits, err)
		}
	}
	same, err := decoder.ParseEdit("scale=2:L0H1@answer", nil)
	if err != nil {
		t.Fatal(err)
	}
	question := same
	question.Scope = decoder.ScopeQuestion
	if err := checkRows(&c.Spec, []decoder.Edit{same, question}, 20, 19); err != nil {
		t.Errorf("two names of one range: %v", err)
	}
}

func TestConditionWithoutEdits(t *testing.T) {
	o := tinyOptions(t, 1)
	o.Conditions = []NamedEdits{{Name: "nothing"}}
	_, err := NewStudy(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), `condition "nothing" changes nothing`) {
		t.Errorf("got %v", err)
	}
}

// A head whose weights are not numbers has no arg max; the position that a NaN wins is not evidence.
func TestDetectRefusesNaN(t *testing.T) {
	c, _ := tinyModel(t)
	o := tinyOptions(t, 2)
	prompts, err := o.Prompts.Tokenize(&c.Spec, c.Tokenizer, 4)
	if err != nil {
		t.Fatal(err)
	}
	n := c.Spec.Layers * c.Spec.Heads
	trial := func(p *Prompt, mass float32) Trial {
		a := &TrialAttention{}
		for range p.Code.Len() {
			row := make(floats, n)
			row[n-1] = mass
			a.Argmax, a.Gap, a.Mass = append(a.Argmax, make([]int32, n)), append(a.Gap, make(floats, n)), append(a.Mass, row)
		}
		a.Write = make(floats, n)
		return Trial{Prompt: p.Spec.ID, Outcome: Other, Attention: a}
	}
	detect := func(trials ...Trial) (*Detection, error) {
		e := newEvidence(&Plan{Detect: &PlanDetect{Threshold: 0.1}}, Shape{c.Spec.Layers, c.Spec.Heads, c.Spec.KVHeads}, recordsOf(prompts, nil, true))
		e.trials[StageDetect] = trials
		return e.detection()
	}
	if _, err := detect(trial(prompts[0], 0), trial(prompts[1], 0.5)); err != nil {
		t.Fatal(err)
	}
	_, err = detect(trial(prompts[0], 0), trial(prompts[1], float32(math.NaN())))
	if err == nil || !strings.Contains(err.Error(), "prompt p1: attention weights are not finite numbers") {
		t.Errorf("got %v", err)
	}
}
