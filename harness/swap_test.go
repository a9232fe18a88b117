package harness

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
)

// tinyTexts are one or two short documents.
func tinyTexts(t testing.TB, n int) *Texts {
	t.Helper()
	c, _ := tinyModel(t)
	texts, err := CutTexts(c, &TextSet{Source: "two", SHA256: sumOf("two"), Documents: []Document{{"a", "The sea is far."}, {"b", "What is the code?"}}[:n]}, Windows{})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// tinySwap swaps tables in all heads; the needles of its prompts stand at five depths in turn.
func tinySwap(t testing.TB, prompts int, tables ...string) Options {
	t.Helper()
	o := tinyOptions(t, prompts)
	o.Verb, o.Stages, o.Top, o.Controls, o.Scopes = "swap", []string{StageSwap}, 0, 0, nil
	for i := range o.Prompts.Specs {
		o.Prompts.Specs[i].Depth = []float64{0.1, 0.25, 0.5, 0.75, 0.9}[i%5]
	}
	var err error
	if o.Swap, err = PlanSwaps(&o.Checkpoint.Spec, SwapOptions{Tables: tables, Scope: decoder.ScopeAll}); err != nil {
		t.Fatal(err)
	}
	o.Texts, o.MaxNew = tinyTexts(t, 1), 1
	return o
}

// TestSwap: conditions are what the model says with the other table in the heads asked for; the own table is called a no-op and changes
// nothing; groups by depth and differences are those of the trials.
func TestSwap(t *testing.T) {
	o := tinySwap(t, 5, "own", "nope")
	o.Texts = tinyTexts(t, 2)
	s, r := runStudy(t, o)
	_, m := tinyModel(t)
	twice, err := PlanSwaps(&o.Checkpoint.Spec, SwapOptions{Tables: []string{"thetatimes2"}, Scope: decoder.ScopeAll})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []TableChange{{Planes: 0}, {Planes: 8}, {Planes: 7}} {
		got := append(slices.Clone(o.Swap.Tables), twice.Tables...)[i]
		if len(got.Changes) != 1 || got.Changes[0].Planes != want.Planes || len(got.Changes[0].Layers) != 3 || got.NoOp != (i == 0) || got.Heads != 36 {
			t.Errorf("table %d: %+v", i, got)
		}
	}
	if x := o.Swap.Tables[1].Changes[0].Largest; x == nil || *x != 1 {
		t.Errorf("without rotation frequencies change by %v, want 1", x)
	}
	if x, want := *twice.Tables[0].Changes[0].Largest, 1-math.Pow(2, -14./16); math.Abs(x-want) > 1e-12 {
		t.Errorf("twice the base: frequencies change by %v, want %v", x, want)
	}
	trials := stageTrials(t, s.TrialsPath(), StageSwap)
	for i, p := range s.prompts[:1] {
		for k, list := range [][]decoder.Edit{nil, o.Swap.Tables[0].Edits, o.Swap.Tables[1].Edits} {
			rows := []int{len(p.IDs) - 1}
			tr, err := m.Trace(context.Background(), &decoder.Prompt{IDs: p.IDs, Answer: p.Answer}, list, decoder.TraceOptions{Logits: rows, Hidden: -1})
			if err != nil {
				t.Fatal(err)
			}
			l := tr.Logits[0]
			want := float64(l[p.Answer[0]]) - logSumExp(l, float64(slices.Max(l)))
			if got := float64(trials[i*3+k].LogProb[0]); math.Abs(got-want) > 1e-4 {
				t.Errorf("prompt %d, condition %d: %g, want %g", i, k, got, want)
			}
		}
	}
	if own := r.Conditions[1].Metrics.MarginChange; math.Abs(float64(own.Value)) > 1e-4 {
		t.Errorf("the own table changes the margin by %g", own.Value)
	}
	checkDepths(t, r, trials)
	exportsParts(t, r, map[string]int{"depths.csv": 3 * 8, "texts.csv": 3})
	if len(r.Texts) != 3 || r.Texts[1].Largest > unmoved || float64(r.Texts[2].KL.Value) < 1e-5 || r.Texts[0].NLL.Of != 2 {
		t.Errorf("texts %+v", r.Texts)
	}
	var table strings.Builder
	if err := r.Write(&table, View{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"swap own: 36 heads, no plane of 8 changes in 3 layers: a no-op", "swap nope: 36 heads, 8 of 8 planes change in 3 layers, by up to 1 of the frequency.",
		"recall at depth", "2 documents of two", "far - near",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}

func checkDepths(t *testing.T, r *Result, trials []Trial) {
	t.Helper()
	if len(r.Depths) != 3 || len(r.Depths[0].Depths) != 5 || r.Depths[0].Change != nil {
		t.Fatalf("depths %+v", r.Depths)
	}
	for k, d := range r.Depths {
		far, near, change := 0.0, 0.0, 0.0
		for i := range 5 {
			trial, base := trials[i*3+k], trials[i*3]
			switch i {
			case 0, 1:
				far += float64(trial.Margin) / 2
				change += float64(trial.Margin-base.Margin) / 2
			case 3, 4:
				near += float64(trial.Margin) / 2
				change -= float64(trial.Margin-base.Margin) / 2
			}
		}
		if math.Abs(float64(d.Far.Margin.Value)-far) > 1e-9 || math.Abs(float64(d.Near.Margin.Value)-near) > 1e-9 || math.Abs(float64(d.Margin.Value)-(far-near)) > 1e-9 {
			t.Errorf("condition %d: far %v, near %v, difference %v; want %g and %g", k, d.Far.Margin.Value, d.Near.Margin.Value, d.Margin.Value, far, near)
		}
		if d.Far.N != 2 || d.Near.N != 2 || d.Depths[2].N != 1 || !(d.Margin.Low <= d.Margin.Value && d.Margin.Value <= d.Margin.High) {
			t.Errorf("condition %d: %+v", k, d)
		}
		if k > 0 && math.Abs(float64(d.Change.Value)-change) > 1e-9 {
			t.Errorf("condition %d: change %v, want %g", k, d.Change.Value, change)
		}
	}
}

// TestSwapResumes: a run that stops among the texts goes on there, and comes to the same bytes; so do two parts of it.
func TestSwapResumes(t *testing.T) {
	o := tinySwap(t, 1, "nope")
	o.Texts = tinyTexts(t, 2)
	s, _ := runStudy(t, o)
	want := readFile(t, s.TrialsPath())
	o.Out = t.TempDir()
	o.Events = func(e Event) {
		if e.Stage == StageTexts && e.Done == 2 {
			panic("stopped")
		}
	}
	again := inUnits(t, o)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the run was not stopped")
			}
		}()
		_, _ = again.Run(context.Background())
	}()
	o.Events = nil
	s, _ = runStudy(t, o)
	if string(readFile(t, s.TrialsPath())) != string(want) {
		t.Error("other trials after a stop")
	}
	o.Out = t.TempDir()
	r, err := Merge(runParts(t, o, 2), MergeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if string(readFile(t, TrialsOf(r.Path))) != string(want) {
		t.Error("other trials from two parts")
	}
	if c, err := Recheck(r.Path); err != nil || !c.OK {
		t.Errorf("verify: %+v, %v", c, err)
	}
}

// TestSwapControls: the same table in other heads, of as many in every layer, or in other whole groups; where there are none, that is said.
func TestSwapControls(t *testing.T) {
	o := tinySwap(t, 1, "nope")
	given := []decoder.Head{{Layer: 1, Index: 1}, {Layer: 2, Index: 3}}
	var err error
	if o.Swap, err = PlanSwaps(&o.Checkpoint.Spec, SwapOptions{Tables: []string{"nope"}, Heads: given, Scope: decoder.ScopeQuestion, Ledger: true}); err != nil {
		t.Fatal(err)
	}
	o.Texts, o.Controls, o.Pools, o.HeadsOf = nil, 19, []string{PoolLayer, PoolLayerKV}, ""
	_, r := runStudy(t, o)
	if err := compiledSchema(t).Validate(any(document(t, readFile(t, r.Path)))); err != nil {
		t.Error(err)
	}
	if c, err := Recheck(r.Path); err != nil || !c.OK {
		t.Errorf("verify: %+v, %v", c, err)
	}
	for _, c := range r.Conditions {
		if c.ControlOf != "" && (len(c.Heads) != 2 || c.Edits[0].Table != "nope" || c.Edits[0].Scope != decoder.ScopeQuestion || len(c.Heads.Intersect(given)) > 0 || !slices.Equal(c.Heads.Layers(), []int{1, 2})) {
			t.Errorf("%s: %+v", c.Name, c.Edits)
		}
		if c.Name != baseline && (c.Predicted == nil || c.Predicted.N != 1 || c.Unpredicted != "") {
			t.Errorf("%s: %+v %s", c.Name, c.Predicted, c.Unpredicted)
		}
	}
	if len(r.Effects) != 2 || r.Effects[0].Controls != 19 || r.Effects[0].P == nil || !r.Effects[0].Primary || r.Effects[1].Pool != PoolLayerKV {
		t.Errorf("effects %+v", r.Effects)
	}
	var table strings.Builder
	if err := r.Write(&table, View{}); err != nil || !strings.Contains(table.String(), "swap nope, layer+kv      2") || !strings.Contains(table.String(), "Score ledger") {
		t.Errorf("%v\n%s", err, table.String())
	}

	c := &controlled{PlanTarget: &PlanTarget{}, PlanControls: &PlanControls{Pools: []string{PoolLayerKV}}, shape: Shape{3, 12, 3}, stats: &PlanStats{}, groups: true}
	c.Controls = map[decoder.Scope]int{decoder.ScopeAll: 5}
	c.Heads = heads.Ranking(heads.NewSet(given...).KVSiblings(4))
	got, err := c.choose()
	if err != nil || len(got.controls[0].Sets) != 4 || !strings.Contains(got.controls[0].Reason, "only 4 distinct") {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, s := range got.controls[0].Sets {
		if len(s) != 8 || !s.Equal(s.KVSiblings(4)) || len(s.Intersect(c.Heads.Set())) > 0 {
			t.Errorf("%v are no other groups", s)
		}
	}
	for want, set := range map[string]SwapOptions{"every head that rotates": {}, "every head of 1 layers": {Layers: []int{1}}} {
		set.Tables, set.Scope = []string{"nope"}, decoder.ScopeAll
		o := tinySwap(t, 1, "nope")
		if o.Swap, err = PlanSwaps(&o.Checkpoint.Spec, set); err != nil {
			t.Fatal(err)
		}
		if s := inUnits(t, o); s.Plan.Swap.Against != nil || !strings.Contains(s.Plan.Swap.NoControls, want) {
			t.Errorf("%+v, want %q", s.Plan.Swap, want)
		}
	}
}

func TestSwapHeads(t *testing.T) {
	spec := &loader.Spec{Layers: 3, Heads: 8, KVHeads: 4, HeadDim: 8, Kinds: []loader.LayerKind{{}, {Table: loader.Unrotated}, {}}}
	head := func(l, i int) decoder.Head { return decoder.Head{Layer: l, Index: i} }
	seed := uint64(5)
	for name, c := range map[string]struct {
		o    SwapOptions
		want int
	}{
		"all":            {SwapOptions{}, 24},
		"layers":         {SwapOptions{Layers: []int{0, 2}}, 16},
		"groups":         {SwapOptions{Heads: []decoder.Head{head(0, 0), head(2, 7)}, KVGroups: true}, 4},
		"hybrid":         {SwapOptions{Hybrid: .25}, 6},
		"hybrid, more":   {SwapOptions{Hybrid: .3, Layers: []int{2}}, 4},
		"hybrid, seeded": {SwapOptions{Hybrid: .5, HybridSeed: &seed}, 12},
	} {
		set, err := c.o.heads(spec, &PlanSwap{})
		if err != nil || len(set) != c.want {
			t.Errorf("%s: %v, %v, want %d heads", name, set, err, c.want)
		}
		if strings.HasPrefix(name, "hybrid") && !set.Equal(set.KVSiblings(2)) {
			t.Errorf("%s: %v are no whole groups", name, set)
		}
	}
	if set, _ := (&SwapOptions{Hybrid: .25}).heads(spec, &PlanSwap{}); !set.Equal(heads.NewSet(head(0, 0), head(0, 1), head(1, 0), head(1, 1), head(2, 0), head(2, 1))) {
		t.Errorf("the first groups are %v", set)
	}
}

func TestSwapErrors(t *testing.T) {
	c, _ := tinyModel(t)
	short := writeText(t, "short.json", `{"name": "short", "planes": [1, 0.5], "layout": "rotate_half"}`)
	seed := uint64(1)
	for want, o := range map[string]SwapOptions{
		"no table":                    {},
		"want one of own":             {Tables: []string{"ladder"}},
		"2 frequencies: the model":    {Tables: []string{short}},
		"is there twice":              {Tables: []string{"nope", "nope"}},
		"layer 3 does not exist":      {Tables: []string{"nope"}, Layers: []int{3}},
		"no such head: L9H0":          {Tables: []string{"nope"}, Heads: []decoder.Head{{Layer: 9}}},
		"--hybrid and --heads":        {Tables: []string{"nope"}, Heads: []decoder.Head{{}}, Hybrid: .25},
		"hybrid 2 is not in":          {Tables: []string{"nope"}, Hybrid: 2},
		"and no hybrid":               {Tables: []string{"nope"}, HybridSeed: &seed},
		"none of the heads is in the": {Tables: []string{"nope"}, Heads: []decoder.Head{{}}, Layers: []int{1}},
		"planes 0-7":                  {Tables: []string{"moved64/8"}},
		"nowhere.json":                {Tables: []string{"nowhere.json"}},
		"no base to change":           {Tables: []string{"exact"}},
		"in a layer that rotates":     {Tables: []string{"unrotated"}},
	} {
		spec := c.Spec
		switch {
		case len(o.Tables) == 0:
		case o.Tables[0] == "exact":
			spec.Tables = slices.Clone(spec.Tables)
			spec.Tables[0].Type, spec.Tables[0].Exact, o.Tables = "exact", make([]float64, 8), []string{"thetatimes2"}
		case o.Tables[0] == "unrotated":
			spec.Kinds, o.Tables = []loader.LayerKind{{Table: loader.Unrotated}, {Table: loader.Unrotated}, {Table: loader.Unrotated}}, []string{"nope"}
		}
		o.Scope = decoder.ScopeAll
		if _, err := PlanSwaps(&spec, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// Layers that do not rotate are left out and counted.
	spec := c.Spec
	spec.Kinds = slices.Clone(spec.Kinds)
	spec.Kinds[1].Table = loader.Unrotated
	p, err := PlanSwaps(&spec, SwapOptions{Tables: []string{"nope"}, Scope: decoder.ScopeAll})
	if err != nil || !slices.Equal(p.Skipped, []int{1}) || p.Tables[0].Heads != 24 {
		t.Errorf("got %+v, %v", p, err)
	}
	o := tinyOptions(t, 2)
	o.Stages = []string{StageSwap}
	if _, err := NewStudy(context.Background(), o); err == nil || !strings.Contains(err.Error(), "without tables") {
		t.Errorf("a swap stage without tables: %v", err)
	}
}
