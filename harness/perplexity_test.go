package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/headscope/headscope/loader/decoder"
)

// TestWindows: every token is scored once, by a row that sees at least the overlap of two windows before it.
func TestWindows(t *testing.T) {
	ids := make([]int32, 57)
	for i := range ids {
		ids[i] = int32(100 + i)
	}
	for _, front := range [][]int32{nil, {1}, {1, 2}} {
		for _, w := range []Windows{{57, 20}, {64, 32}, {20, 10}, {10, 1}, {12, 5}, {4, 1}} {
			got, err := w.windows(front, ids)
			if err != nil {
				t.Fatal(err)
			}
			var scored []int32
			for i, x := range got {
				if len(x.IDs) > w.Tokens || !slices.Equal(x.IDs[:len(front)], front) {
					t.Errorf("%v, %d in front: window %v", w, len(front), x.IDs)
				}
				if i > 0 && x.From-len(front) < w.Tokens-len(front)-w.Stride {
					t.Errorf("%v, %d in front: window %d scores from %d on", w, len(front), i, x.From)
				}
				scored = append(scored, x.IDs[x.From:]...)
			}
			want := ids
			if front == nil {
				want = ids[1:]
			}
			if !slices.Equal(scored, want) {
				t.Errorf("%v, %d in front: scored %v", w, len(front), scored)
			}
		}
	}
	if _, err := (Windows{10, 8}).windows([]int32{1, 2}, ids); err == nil {
		t.Error("a window without room for one token before the stride is taken")
	}
	if _, err := (Windows{10, 5}).windows(nil, ids[:1]); err == nil {
		t.Error("a text of one token is taken")
	}
}

func writeText(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadTexts(t *testing.T) {
	lines := writeText(t, "some.jsonl", `{"text": "The sea is far.", "id": "a", "url": 7}`+"\n\n"+`{"text": "The sea is near."}`+"\n")
	whole := writeText(t, "one.txt", "The sea.\n\nThe land.\n")
	s, err := ReadTexts([]string{lines, whole, BuiltinProse, BuiltinHaystack})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range s.Documents {
		ids = append(ids, d.ID)
	}
	if len(ids) != 23 || !slices.Equal(ids[:4], []string{"some.jsonl:a", "some.jsonl:3", "one.txt", "prose0"}) || ids[22] != "haystack9" {
		t.Errorf("documents %v", ids)
	}
	if s.Source != "some.jsonl,one.txt,builtin:prose,builtin:haystack" || s.Warning == "" || len(s.SHA256) != 64 {
		t.Errorf("got %+v", s)
	}
	if n := len(strings.Fields(s.Documents[13].Text)); n < 40 {
		t.Errorf("%d words of haystack: %q", n, s.Documents[13].Text)
	}
	for want, sources := range map[string][]string{
		"unknown set":           {"builtin:verse"},
		"no such file":          {"nowhere.txt"},
		"leaves texts out":      {whole, NoTexts},
		"is there twice":        {whole, whole},
		"not UTF-8":             {writeText(t, "latin1.txt", "\xff\xfe")},
		"is empty":              {writeText(t, "empty.txt", " \n")},
		"no documents":          {writeText(t, "empty.jsonl", "\n")},
		`:1: key "text"`:        {writeText(t, "other.jsonl", `{"txt": "a"}`)},
		":2: unexpected end":    {writeText(t, "torn.jsonl", `{"text": "a"}`+"\n"+`{"text`)},
		"cannot unmarshal numb": {writeText(t, "number.jsonl", `{"text": 1}`)},
	} {
		if _, err := ReadTexts(sources); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", sources, err, want)
		}
	}
}

// TestPerplexity: the numbers of a result are those of the traces of its windows, and its intervals are computed from them alone; the
// same request gives the same bytes and another edit another key.
func TestPerplexity(t *testing.T) {
	c, m := tinyModel(t)
	texts := &TextSet{Source: "two", SHA256: "0", Documents: []Document{{"a", strings.Repeat("The sea is far. The code is old. ", 3)}, {"b", "What is the code?"}}}
	edit := []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{{Layer: 1, Index: 2}, {Layer: 2}}, Scope: decoder.ScopeAll}}
	own := []decoder.Edit{{Op: decoder.OpSwap, Table: "own", Heads: []decoder.Head{{Layer: 1, Index: 2}}, Scope: decoder.ScopeAll}}
	o := PerplexityOptions{
		Checkpoint: c, Model: m, Texts: texts, Windows: Windows{24, 8}, Conditions: []NamedEdits{{"off", edit}, {"own", own}}, Out: t.TempDir(),
	}
	r, err := MeasurePerplexity(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, docs, err := planTexts(c, texts, o.Windows)
	if err != nil {
		t.Fatal(err)
	}
	if len(docs[0].windows) < 3 || len(docs[1].windows) != 1 {
		t.Fatalf("%d and %d windows", len(docs[0].windows), len(docs[1].windows))
	}
	want := [2]float64{}
	tokens := 0
	for _, d := range docs {
		for _, w := range d.windows {
			for k, list := range [][]decoder.Edit{nil, edit} {
				rows := []int{}
				for row := w.From - 1; row < len(w.IDs)-1; row++ {
					rows = append(rows, row)
				}
				tr, err := m.Trace(context.Background(), &decoder.Prompt{IDs: w.IDs}, list, decoder.TraceOptions{Logits: rows, Hidden: -1})
				if err != nil {
					t.Fatal(err)
				}
				for j, l := range tr.Logits {
					want[k] += logSumExp(l, float64(slices.Max(l))) - float64(l[w.IDs[w.From+j]])
				}
				tokens += k * len(rows)
			}
		}
	}
	for k := range want {
		if got := float64(r.Conditions[k].NLL.Value); math.Abs(got-want[k]/float64(tokens)) > 1e-5 {
			t.Errorf("condition %d: nll %g, want %g", k, got, want[k]/float64(tokens))
		}
	}
	off, same := r.Conditions[1], r.Conditions[2]
	if got, want := float64(off.Tax.Value), 100*math.Expm1((want[1]-want[0])/float64(tokens)); math.Abs(got-want) > 1e-3 {
		t.Errorf("tax %g, want %g", got, want)
	}
	if !(float64(off.KL.Value) > 1e-4) || !(float64(off.Largest) > 1e-2) {
		t.Errorf("a knock-out has KL %g and moves a token by %g", off.KL.Value, off.Largest)
	}
	if float64(same.KL.Value) > 1e-8 || float64(same.Largest) > unmoved {
		t.Errorf("the model's own table has KL %g and moves a token by %g", same.KL.Value, same.Largest)
	}
	if same.NoOp == "" || off.NoOp != "" || r.Conditions[0].NoOp != "" {
		t.Errorf("no-ops: own %q, off %q, unmodified %q", same.NoOp, off.NoOp, r.Conditions[0].NoOp)
	}
	if !(off.NLL.Low <= off.NLL.Value && off.NLL.Value <= off.NLL.High) || off.NLL.Of != 2 {
		t.Errorf("nll %+v", off.NLL)
	}
	checkStoredPerplexity(t, o, r)
}

func checkStoredPerplexity(t *testing.T, o PerplexityOptions, r *Perplexity) {
	t.Helper()
	data := readFile(t, r.Path)
	schema, err := PerplexitySchema()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("perplexity.json", document(t, schema)); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("perplexity.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(document(t, data)); err != nil {
		t.Error(err)
	}
	var back Perplexity
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	st := PlanStats{Seed: back.Run.Seed, Bootstrap: back.Run.Stream, Resamples: back.Run.Resamples, Level: back.Run.Level}
	base := back.Conditions[0].Documents
	for k, c := range back.Conditions[1:] {
		again := st.textResult(NamedEdits{c.Name, c.Edits}, back.Run.DType, c.Documents, base)
		if *again.Tax != *back.Conditions[k+1].Tax || again.NLL != c.NLL || *again.KL != *c.KL {
			t.Errorf("%s: other numbers from the stored ones: %+v, %+v", c.Name, again, c)
		}
	}
	var table strings.Builder
	if err := r.Write(&table, View{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 documents of two", "own is a no-op: no log-probability changed by a bit", "bootstrap over documents"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	o.Conditions = o.Conditions[:1]
	other, err := MeasurePerplexity(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if other.Key == r.Key || other.Conditions[1].NLL != r.Conditions[1].NLL {
		t.Errorf("key %s, nll %v beside another condition; %v without", other.Key, r.Conditions[1].NLL, other.Conditions[1].NLL)
	}
}

// TestPerplexityResume: a measurement that is stopped keeps the windows that were done, and goes on to the bytes of an unbroken one; while one
// process writes, another is refused.
func TestPerplexityResume(t *testing.T) {
	c, m := tinyModel(t)
	texts := &TextSet{Source: "two", SHA256: "0", Documents: []Document{{"a", strings.Repeat("The sea is far. The code is old. ", 5)}, {"b", "What is the code?"}}}
	off := []decoder.Edit{{Op: decoder.OpZero, Heads: []decoder.Head{{Layer: 1, Index: 2}}, Scope: decoder.ScopeAll}}
	o := PerplexityOptions{Checkpoint: c, Model: m, Texts: texts, Windows: Windows{24, 8}, Conditions: []NamedEdits{{"off", off}}, Out: t.TempDir()}
	want, err := MeasurePerplexity(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	whole := readFile(t, TrialsOf(want.Path))
	if n := bytes.Count(whole, []byte("\n")); n < 6 {
		t.Fatalf("%d lines", n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.Out = t.TempDir()
	o.Events = func(e Event) {
		if e.Done > 0 {
			cancel()
		}
	}
	var stopped *Interrupted
	if _, err := MeasurePerplexity(ctx, o); !errors.As(err, &stopped) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want an interruption", err)
	}
	part := readFile(t, stopped.Trials)
	if !bytes.HasPrefix(whole, part) || len(part) == len(whole) || bytes.Count(part, []byte("\n")) < 2 {
		t.Fatalf("what was kept is no beginning of the unbroken run's %d bytes: %d", len(whole), len(part))
	}
	if err := os.WriteFile(stopped.Trials, whole[:len(part)+20], 0o644); err != nil { // torn
		t.Fatal(err)
	}
	var first Event
	o.Events = func(e Event) {
		if first.Total == 0 {
			first = e
		}
	}
	got, err := MeasurePerplexity(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readFile(t, stopped.Trials), whole) || first.Resumed == 0 || first.Resumed == first.Total {
		t.Errorf("the resumed trials differ from the unbroken ones, or nothing was taken over: %+v", first)
	}
	if a, b := got.Conditions, want.Conditions; !reflect.DeepEqual(a, b) {
		t.Errorf("got %+v, want %+v", a, b)
	}
	held, err := OpenLines(stopped.Trials, LinesOptions{Same: func([]byte) bool { return true }, Each: func([]byte) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := MeasurePerplexity(context.Background(), o); err == nil || !strings.Contains(err.Error(), "another run is writing it") {
		t.Errorf("while another has the file: got %v", err)
	}
}

func TestPerplexityErrors(t *testing.T) {
	c, m := tinyModel(t)
	texts := &TextSet{Source: "one", Documents: []Document{{"a", "The sea is far."}}}
	zero := decoder.Edit{Op: decoder.OpZero, Heads: []decoder.Head{{}}, Scope: decoder.ScopeAll}
	at := func(scope decoder.Scope, op decoder.Op) []decoder.Edit {
		e := zero
		e.Scope, e.Op = scope, op
		return []decoder.Edit{e}
	}
	swap := func(table string) []decoder.Edit {
		return []decoder.Edit{{Op: decoder.OpSwap, Table: table, Heads: []decoder.Head{{}}, Scope: decoder.ScopeAll}}
	}
	for want, change := range map[string]func(*PerplexityOptions){
		"scope question":      func(o *PerplexityOptions) { o.Conditions[0].Edits = at(decoder.ScopeQuestion, decoder.OpZero) },
		"a text has no donor": func(o *PerplexityOptions) { o.Conditions[0].Edits = at(decoder.ScopeAll, decoder.OpPatch) },
		"no prompts to take":  func(o *PerplexityOptions) { o.Conditions[0].Edits = at(decoder.ScopeAll, decoder.OpMean) },
		"is there twice":      func(o *PerplexityOptions) { o.Conditions = append(o.Conditions, o.Conditions[0]) },
		"L99H0":               func(o *PerplexityOptions) { o.Conditions[0].Edits[0].Heads = []decoder.Head{{Layer: 99}} },
		"window 3":            func(o *PerplexityOptions) { o.Windows.Tokens = 3 },
		"window 513 is too":   func(o *PerplexityOptions) { o.Windows.Tokens = 513 },
		"stride 63":           func(o *PerplexityOptions) { o.Windows = Windows{64, 63} },
		"nothing to score":    func(o *PerplexityOptions) { o.Texts = &TextSet{Documents: []Document{{"a", "."}}} },
		"context canceled":    nil,
		"two edits give":      func(o *PerplexityOptions) { o.Conditions[0].Edits = append(swap("nope"), swap("theta10")...) },
	} {
		o := PerplexityOptions{Checkpoint: c, Model: m, Texts: texts, Conditions: []NamedEdits{{"x", at(decoder.ScopeAll, decoder.OpZero)}}}
		ctx := context.Background()
		if change != nil {
			change(&o)
		} else {
			cancelled, cancel := context.WithCancel(ctx)
			cancel()
			ctx = cancelled
		}
		if _, err := MeasurePerplexity(ctx, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestPerTokenInterval: perplexity is of all tokens together, whatever document they are in, and its interval comes from whole documents.
func TestPerTokenInterval(t *testing.T) {
	s := &PlanStats{Seed: 1, Bootstrap: streamBootstrap, Resamples: 2000, Level: level}
	totals := []TextTotals{{Tokens: 10, NLL: 20}, {Tokens: 90, NLL: 90}}
	r := s.textResult(NamedEdits{Name: "x"}, "float32", totals, nil)
	if float64(r.NLL.Value) != 1.1 || math.Abs(float64(r.Perplexity.Value)-math.Exp(1.1)) > 1e-12 || float64(r.NLL.Low) != 1 || float64(r.NLL.High) != 2 {
		t.Errorf("got %+v, %+v", r.NLL, r.Perplexity)
	}
	one := s.textResult(NamedEdits{Name: "x"}, "float32", totals[:1], totals[:1])
	if one.NLL.Reason == "" || one.NLL.Low == one.NLL.Low || float64(one.Tax.Value) != 0 {
		t.Errorf("one document: %+v, %+v", one.NLL, one.Tax)
	}
	broken := s.textResult(NamedEdits{Name: "x"}, "float32", []TextTotals{{Tokens: 1, NLL: nan, Largest: nan}, totals[1]}, totals)
	if broken.Tax.Reason == "" || broken.Largest == broken.Largest {
		t.Errorf("not a number: %+v", broken)
	}
}
