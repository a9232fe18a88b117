package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// TestResume: a run that is cut off anywhere and started again leaves the bytes of an unbroken one.
func TestResume(t *testing.T) {
	o := tinyOptions(t, 4) // two units a stage
	o.Scopes, o.MaxNew = o.Scopes[1:], 2
	s, want := runStudy(t, o)
	whole := readFile(t, s.TrialsPath())
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	if n := 2 + tinyRepeats + 4 + 4*2; len(lines) != n {
		t.Fatalf("got %d lines, want %d", len(lines), n)
	}
	// In the header, after its first line and its second, in the repeated sequences, in and after the second unit of detection, in and
	// after the first of the knock-out, at the end.
	upTo := func(n int) int { return len(bytes.Join(lines[:n], nil)) }
	const head = 2 + tinyRepeats
	for _, cut := range []int{0, len(lines[0]) - 3, len(lines[0]), upTo(2), upTo(3), upTo(head + 3), upTo(head + 4), upTo(head+6) + 40, upTo(head + 8),
		len(whole) - 1, len(whole)} {
		asked := 0
		if err := os.WriteFile(s.TrialsPath(), whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(want.Path); err != nil {
			t.Fatal(err)
		}
		again := inUnits(t, o)
		ask := again.ask
		again.ask = func(ctx context.Context, p []*decoder.Prompt, c []decoder.Condition, o decoder.AskOptions, emit decoder.Emit) error {
			asked += len(p) * len(c)
			return ask(ctx, p, c, o, emit)
		}
		got, err := again.Run(context.Background())
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if !bytes.Equal(readFile(t, s.TrialsPath()), whole) {
			t.Errorf("cut at %d: the trials differ from those of an unbroken run", cut)
		}
		if (cut == len(whole)) != (asked == 0) {
			t.Errorf("cut at %d: %d trials were computed", cut, asked)
		}
		a, b := *want, *got
		a.Seconds, b.Seconds = 0, 0
		if x, y := toJSON(t, &a), toJSON(t, &b); x != y {
			t.Errorf("cut at %d: the result differs", cut)
		}
	}
}

func toJSON(t *testing.T, r *Result) string {
	t.Helper()
	b, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestInterrupt: nothing that looks whole is left behind, and what is left can be gone on from.
func TestInterrupt(t *testing.T) {
	o := tinyOptions(t, 4)
	ctx, cancel := context.WithCancel(context.Background())
	o.Events = func(e Event) {
		if e.Stage == StageKnockout && e.Done > 0 {
			cancel()
		}
	}
	s := inUnits(t, o)
	if _, err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	entries, err := os.ReadDir(filepath.Dir(s.TrialsPath()))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || !strings.HasSuffix(entries[0].Name(), ".trials.jsonl") {
		t.Fatalf("left behind: %v", entries)
	}
	var resumed int
	o.Events = func(e Event) { resumed = max(resumed, e.Resumed) }
	runStudy(t, o)
	if resumed == 0 {
		t.Error("nothing was taken from the interrupted run")
	}
}

// TestOutOfMemory: a unit that does not fit is failed trials, counted and never scored.
func TestOutOfMemory(t *testing.T) {
	o := tinyOptions(t, 4)
	s := inUnits(t, o)
	ask, calls := s.ask, 0
	s.ask = func(ctx context.Context, p []*decoder.Prompt, c []decoder.Condition, o decoder.AskOptions, emit decoder.Emit) error {
		if calls++; calls == 4 { // the second unit of the knockout stage
			return &decoder.OutOfMemoryError{Err: errors.New("no room")}
		}
		return ask(ctx, p, c, o, emit)
	}
	res, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if !res.Failed() || res.N.Failed != 2*4 || len(res.Failures) != 8 || !strings.Contains(res.Failures[0].Reason, "no room") {
		t.Fatalf("got %+v, %v", res.N, res.Failures)
	}
	for _, c := range res.Conditions[1:] {
		if c.N.Failed != 2 || c.Metrics.Recall.Of != 2 || c.Metrics.Change.Of != 2 || c.Metrics.McNemar.Of != 2 {
			t.Errorf("%s: got %+v, %+v", c.Name, c.N, c.Metrics)
		}
	}
	if _, again := runStudy(t, o); again.N != res.N {
		t.Errorf("a rerun counts %+v, want %+v", again.N, res.N)
	}
}

// TestPlanKey: whatever decides a number changes the key, and nothing else does.
func TestPlanKey(t *testing.T) {
	o := tinyOptions(t, 3)
	key := func(change func(*Options)) string {
		c := o
		change(&c)
		s, err := NewStudy(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		return s.Key
	}
	first := key(func(*Options) {})
	for name, change := range map[string]func(*Options){
		"out": func(o *Options) { o.Out = "" }, "command": func(o *Options) { o.Command = []string{"x"} },
	} {
		if key(change) != first {
			t.Errorf("%s changes the key", name)
		}
	}
	seen := map[string]string{first: "the first"}
	for name, change := range map[string]func(*Options){
		"verb": func(o *Options) { o.Verb = "other" }, "limit": func(o *Options) { o.Prompts = o.Prompts.Limit(2) },
		"prompts": func(o *Options) { o.Prompts = tinyPrompts(t, 4).Limit(3) }, "threshold": func(o *Options) { o.Threshold = 0.2 },
		"top": func(o *Options) { o.Top = 1 }, "controls": func(o *Options) { o.Controls = 2 }, "auto": func(o *Options) { o.Controls = AutoControls },
		"pools": func(o *Options) { o.Pools = []string{PoolLayerKV} }, "cuts": func(o *Options) { o.Cuts = true },
		"equivalence": func(o *Options) { o.Equivalence = 1 }, "seed": func(o *Options) { o.Seed++ },
		"scopes": func(o *Options) { o.Scopes = o.Scopes[:1] }, "max-new": func(o *Options) { o.MaxNew++ },
		"full": func(o *Options) { o.FullAnswers = true }, "batch": func(o *Options) { o.Batch = 2 },
		"detect prompts": func(o *Options) { o.DetectPrompts = tinyPrompts(t, 2) },
		"heads":          func(o *Options) { o.Heads = heads.Ranking{{Layer: 1, Index: 1}, {Layer: 0, Index: 1}} },
		"conditions": func(o *Options) {
			o.Conditions = []NamedEdits{{"x", []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{{Layer: 1, Index: 1}}, Scope: decoder.ScopeAll}}}}
		},
		"stages": func(o *Options) { o.Stages = o.Stages[:1] },
		"edits": func(o *Options) {
			o.Edits = []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{{Layer: 1, Index: 1}}, Scope: decoder.ScopeAll}}
		},
	} {
		k := key(change)
		if seen[k] != "" {
			t.Errorf("%s has the key of %s", name, seen[k])
		}
		seen[k] = name
	}
}

// TestWeightsHash: one changed bit of one weight is another model.
func TestWeightsHash(t *testing.T) {
	dir := t.TempDir()
	if err := writeTiny(dir); err != nil {
		t.Fatal(err)
	}
	hash := func() string {
		c, err := loader.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		sum, err := WeightsSHA256(context.Background(), c)
		if err != nil || len(sum) != 64 {
			t.Fatalf("got %q, %v", sum, err)
		}
		return sum
	}
	before := hash()
	path := filepath.Join(dir, "model.safetensors")
	data := readFile(t, path)
	data[len(data)-100] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if hash() == before {
		t.Error("a changed weight does not change the hash")
	}
}

// TestSeparatePrompts: with prompts of their own for detection the unmodified model is asked on the tested ones too.
func TestSeparatePrompts(t *testing.T) {
	o := tinyOptions(t, 4)
	_, in := runStudy(t, o)
	if in.InSample == nil || !*in.InSample {
		t.Error("detected and tested on the same prompts, and not marked")
	}
	o.DetectPrompts = shifted(t, 3)
	_, out := runStudy(t, o)
	if out.InSample == nil || *out.InSample {
		t.Error("detected on other prompts, and marked in-sample")
	}
	if out.Conditions[0].N.Planned != 3 || out.Conditions[1].Name != baseline || out.Conditions[1].N.Planned != 4 {
		t.Errorf("got conditions %+v", out.Conditions[:2])
	}
	o.DetectPrompts = tinyPrompts(t, 1)
	if _, mixed := runStudy(t, o); !*mixed.InSample {
		t.Error("one shared text, and not marked in-sample")
	}
}

func shifted(t *testing.T, n int) *PromptFile {
	f := tinyPrompts(t, n+4)
	return &PromptFile{Source: "other.jsonl", SHA256: strings.Repeat("0", 64), Specs: f.Specs[4:], Total: n}
}

// TestConditions: names, order and heads of what a study asks.
func TestConditions(t *testing.T) {
	o := tinyOptions(t, 3)
	o.Conditions = []NamedEdits{{"half", []decoder.Edit{{Op: decoder.OpScale, Value: 0.5, Heads: []decoder.Head{{Layer: 2, Index: 0}}, Scope: decoder.ScopeAll}}}}
	_, r := runStudy(t, o)
	var names []string
	for _, c := range r.Conditions {
		names = append(names, c.Name)
		if c.ControlOf != "" && len(c.Heads.Intersect(r.Heads.Top(o.Top))) > 0 {
			t.Errorf("%s shares heads with the set: %v", c.Name, c.Heads)
		}
	}
	want := []string{"unmodified", "without@all", "control0@all", "without@question", "control0@question", "half"}
	if !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if len(r.Effects) != 2 || r.Effects[0].P != nil || r.Effects[0].Reason == "" {
		t.Errorf("effects: got %+v, want two without a p", r.Effects)
	}
	var back Result
	if err := json.Unmarshal([]byte(toJSON(t, r)), &back); err != nil {
		t.Fatal(err)
	}
	if again := toJSON(t, &back); again != toJSON(t, r) {
		t.Error("a result that is read and written again differs")
	}
	for _, v := range []View{{}, {Markdown: true}} {
		var b bytes.Buffer
		if err := r.Write(&b, v); err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"unmodified", "without 2 heads @question", "In-sample", "needs >= 19 controls", "n = 3"} {
			if !strings.Contains(b.String(), s) {
				t.Errorf("the table lacks %q:\n%s", s, b.String())
			}
		}
	}
}

// TestHeadSetP: with 19 controls there is a p, for each pool alone, of the plan's metric.
func TestHeadSetP(t *testing.T) {
	change := func(x float64) *Metric { return &Metric{Value: Number(x)} }
	conds := []ConditionResult{{Name: "without@all", Scope: "all", Metrics: Metrics{Change: change(-5), MarginChange: change(-1)}}}
	for i := range 19 {
		conds = append(conds, ConditionResult{Name: "c", ControlOf: "without@all", Pool: PoolLayer,
			Metrics: Metrics{Change: change(-float64(i) / 10), MarginChange: change(-float64(i) / 10)}})
	}
	p := &Plan{Primary: PlanPrimary{Metric: metricSum, Scope: "all", Pool: PoolLayer}}
	asked := make([]condition, len(conds))
	asked[0].compared = []comparison{{pool: PoolLayer}, {pool: PoolLayerKV, reason: "pool exhausted"}}
	e := effects(p, asked, conds)
	if len(e) != 2 || e[0].P == nil || math.Abs(float64(*e[0].P)-0.05) > 1e-12 || e[0].AtLeast != 0 || !e[0].Primary || e[0].Drop != 5 {
		t.Errorf("got %+v", e)
	}
	if e[1].P != nil || !strings.Contains(e[1].Reason, "pool exhausted") || e[1].Primary {
		t.Errorf("a pool without sets: got %+v", e[1])
	}
	asked[0].compared = []comparison{{pool: PoolLayer, noP: "needs controls that match"}}
	if e = effects(p, asked, conds); e[0].P != nil || e[0].Reason != "needs controls that match" || e[0].Controls != 19 || e[0].AtLeast != 0 {
		t.Errorf("controls that do not match: got %+v", e[0])
	}
	asked[0].compared[0].noP = ""
	p.Primary.Metric = metricMargin // a drop of 1 against 0 .. 1.8: nine do as much
	asked[0].compared = asked[0].compared[:1]
	if e = effects(p, asked, conds); e[0].AtLeast != 9 || math.Abs(float64(*e[0].P)-0.5) > 1e-12 {
		t.Errorf("by margin: got %+v", e[0])
	}
}
