package harness

import (
	"bytes"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
)

// TestNoOpRule: to the bit everywhere, within rounding only where another program runs in float32, and never where nothing was asked for.
func TestNoOpRule(t *testing.T) {
	trials := func(x ...Number) []Trial { return []Trial{{LogProb: x[:1], Decoy: x[1:]}} }
	base := trials(-1, -2)
	form := func(forms ...string) *condition {
		c := &condition{}
		for _, f := range forms {
			e, err := decoder.ParseEdit(f, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.edits = append(c.edits, e)
		}
		return c
	}
	float, brain := &Plan{Run: PlanRun{DType: "float32"}}, &Plan{Run: PlanRun{DType: "bfloat16"}}
	for _, c := range []struct {
		plan   *Plan
		cond   *condition
		trials []Trial
		want   string
	}{
		{float, form("zero:L0H0"), trials(-1, -2), unchanged},
		{float, form("zero:L0H0"), trials(-1, -2.00001), ""},
		{float, form("zero:L0H0@question"), trials(-1, -2.00001), "moved by 0.0001 nats"},
		{float, form("freeze:L0H0:slow4"), trials(-1.00001, -2), "moved by 0.0001 nats"},
		{brain, form("zero:L0H0@question"), trials(-1, -2.00001), ""},
		{brain, form("zero:L0H0@question"), trials(-1, -2), unchanged},
		{float, form("zero:L0H0@question"), trials(-1, -2.001), ""},
		{float, form("zero:L0H0@question"), trials(-1, nan), ""},
		{float, form("scale=1:L0H0"), trials(-1, -2), ""},
		{float, form("temperature=1:L0H0", "length_scale=0+9:L0H1"), trials(-1, -2), ""},
		{float, form("scale=1:L0H0", "scale=0.5:L0H1"), trials(-1, -2), unchanged},
		{float, form(), trials(-1, -2), ""},
		{float, form("zero:L0H0"), []Trial{{Outcome: Failed}}, ""},
		{float, form("zero:L0H0"), nil, ""},
	} {
		got := c.plan.noOp(c.cond, c.trials, base)
		if got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%v in %s, %v: got %q, want %q", c.cond.edits, c.plan.Run.DType, c.trials, got, c.want)
		}
	}
}

// TestNoOpsNamed: a knock-out that no log-probability shows is called a no-op in table and result, others are not; keep finds that heads which
// see all of a short prompt miss nothing.
func TestNoOpsNamed(t *testing.T) {
	o := tinyOptions(t, 2)
	o.Stages, o.Scopes, o.Top, o.Controls, o.MaxNew = []string{StageKnockout}, nil, 0, 0, 1
	all := func(op decoder.Op, scope decoder.Scope) []decoder.Edit {
		return []decoder.Edit{{Op: op, Heads: []decoder.Head{{Layer: 1, Index: 1}}, Sink: 4, Recent: 400, Scope: scope}}
	}
	zero := all(decoder.OpZero, decoder.ScopeAll)
	zero[0].Sink, zero[0].Recent = 0, 0
	late := []decoder.Edit{{Op: decoder.OpZero, Heads: zero[0].Heads, Scope: decoder.ScopeRows(400, 500)}}
	o.Conditions = []NamedEdits{{"sees all", all(decoder.OpStreaming, decoder.ScopeAll)}, {"sees all late", all(decoder.OpStreaming, decoder.ScopeQuestion)}, {"off", zero}, {"off nowhere", late}}
	_, r := runStudy(t, o)
	for name, want := range map[string]bool{"sees all": true, "sees all late": true, "off": false, "off nowhere": true, baseline: false} {
		if c := r.condition(name); (c.NoOp != "") != want {
			t.Errorf("%s: got %q", name, c.NoOp)
		}
	}
	var b bytes.Buffer
	if err := r.Write(&b, View{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sees all is a no-op: no log-probability changed by a bit.", "   no-op  "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &b)
		}
	}
	r.Conditions = []ConditionResult{{Name: "a", NoOp: unchanged, ControlOf: "b"}, {Name: "b", Heads: heads.Set{}}}
	if n := r.noOpNotes(); len(n) != 1 || !strings.Contains(n[0], "1 control sets of b did nothing") {
		t.Errorf("got %q", n)
	}
	if s := fixed(-0.0004, 3); s != "0.000" || fixed(-0.0005001, 3) != "-0.001" || signed(Metric{Value: -1e-9}, 2) != "0.00" || signed(Metric{Value: 1e-9}, 2) != "0.00" {
		t.Errorf("rounded to nothing: %q", s)
	}
}

// TestFewRows: a range of rows counts as cheap by where it begins, not by being a range.
func TestFewRows(t *testing.T) {
	tests := []*Prompt{{IDs: make([]int32, 500), Question: 480}, {IDs: make([]int32, 520), Question: 490}}
	for scope, want := range map[decoder.Scope]bool{
		"all": false, "haystack": false, "question": true, "answer": true, "last": true, "0..8": false, "12..20": false, "400..500": false,
		"460..470": true, "485..486": true, "600..700": true,
	} {
		if got := fewRows(scope, tests); got != want {
			t.Errorf("%s: %t, want %t", scope, got, want)
		}
		o := &Options{Controls: AutoControls, Scopes: []decoder.Scope{scope}}
		if n := planControls(o, tests).Controls[scope]; n != map[bool]int{true: manyControls, false: fewControls}[want] {
			t.Errorf("%s: %d controls", scope, n)
		}
	}
	if tests[0].Question = 0; fewRows("400..410", tests) || !fewRows("490..495", tests) {
		t.Error("without a question the prompt's end counts")
	}
}
