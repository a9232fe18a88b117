package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/loadertest"
)

// tiny is a request about a random model with a real tokenizer, and two prompts with donors.
func tiny(t *testing.T) *Request {
	t.Helper()
	dir := t.TempDir()
	if err := loadertest.Write(dir, loadertest.Options{Layers: 3, Heads: 2, KVHeads: 1, HeadDim: 8, Vocab: 960, MaxPositions: 512, Seed: 7}); err != nil {
		t.Fatal(err)
	}
	tok, err := os.ReadFile(filepath.Join("..", "testdata", "tiny", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), tok, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	be, err := decoder.OpenBackend(decoder.BackendOptions{Device: "go"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := decoder.New(be, c, decoder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "prompts.jsonl")
	if err := os.WriteFile(path, promptLines(t), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := harness.ReadPrompts(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Checkpoint: c, Model: m, Prompts: f, Groups: Groups(), Pairs: 3, Out: dir, Paths: []Path{{decoder.Head{}, decoder.Head{Layer: 2, Index: 1}, "k"}}}
}

// headerKey is the key in a trials file's first line.
func headerKey(t *testing.T, data []byte) string {
	t.Helper()
	first, _, _ := bytes.Cut(data, []byte("\n"))
	var x line
	if err := json.Unmarshal(first, &x); err != nil {
		t.Fatal(err)
	}
	return x.Header.Key
}

func promptLines(t *testing.T) []byte {
	var b bytes.Buffer
	for i, answers := range [][2]string{{"K1Q", "K5Q"}, {"R7W", "B2X"}} {
		text := func(code string) string {
			return "The sea is far. The code is " + code + ". The sun is warm. What is the code? The code is"
		}
		whole := text(answers[0])
		line, err := json.Marshal(map[string]any{
			"id": fmt.Sprint("p", i), "text": whole, "needle": [2]int{16, 32}, "answer": answers[0],
			"question": [2]int{strings.Index(whole, "What"), strings.Index(whole, "? ") + 1},
			"donor":    map[string]string{"answer": answers[1], "text": text(answers[1])},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

// bare is a trace without what differs from run to run.
func bare(t *testing.T, x *Trace) string {
	t.Helper()
	c := *x
	c.Seconds, c.Command = 0, nil
	c.Prompts = append([]PromptTrace(nil), x.Prompts...)
	for i := range c.Prompts {
		c.Prompts[i].Seconds = 0
	}
	b, err := json.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTrace: effects are those of whole passes with that head patched; all heads of a row together give the donor's behaviour; the first-order
// estimate agrees where effects are small; a run that was stopped and went on gives what an unbroken one does.
func TestTrace(t *testing.T) {
	r := tiny(t)
	ctx, cancel := context.WithCancel(context.Background())
	r.Done = func(done, of int) {
		if of != 4 {
			t.Errorf("%d steps", of)
		}
		if done == 1 {
			cancel()
		}
	}
	var stopped *harness.Interrupted
	if _, err := Run(ctx, r); !errors.As(err, &stopped) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want an interruption", err)
	}
	data, err := os.ReadFile(stopped.Trials)
	if err != nil || bytes.Count(data, []byte("\n")) != 2 {
		t.Fatalf("%v: got %d lines, want the header and one prompt", err, bytes.Count(data, []byte("\n")))
	}
	held, err := openTrials(stopped.Trials, &harness.Header{Key: headerKey(t, data)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), r); err == nil || !strings.Contains(err.Error(), "another run is writing it") {
		t.Errorf("while another run has the file: got %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stopped.Trials, append(data, `{"heads":{"prom`...), 0o644); err != nil { // cut short
		t.Fatal(err)
	}
	r.Done = nil
	resumed, err := Run(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	other := *r
	other.Out = t.TempDir()
	whole, err := Run(context.Background(), &other)
	if err != nil {
		t.Fatal(err)
	}
	if bare(t, resumed) != bare(t, whole) {
		t.Errorf("a resumed run gave %s, want %s", bare(t, resumed), bare(t, whole))
	}
	if _, err := os.Stat(whole.Path); err != nil || len(whole.Groups) != 3 || len(whole.Prompts) != 2 || len(whole.Pairs.Pairs) != 3 {
		t.Fatalf("%v, %d groups, %d prompts, %d pairs", err, len(whole.Groups), len(whole.Prompts), len(whole.Pairs.Pairs))
	}
	if whole.Prompts[0].Tokens == whole.Prompts[1].Tokens {
		t.Error("no answer has a token in common with its donor's")
	}
	var b strings.Builder
	if err := whole.Write(&b, 5); err != nil || !strings.Contains(b.String(), "L0H0->L2H1.k") {
		t.Errorf("%v in %s", err, b.String())
	}
	tasks, err := r.tasks()
	if err != nil {
		t.Fatal(err)
	}
	for i := range tasks {
		checkPrompt(t, r, &tasks[i], &whole.Prompts[i], whole.Asked.Heads)
	}
	checkMeans(t, whole)
	valid(t, Schema, whole)
}

// difference is logit(answer) - logit(the donor's answer) of a whole pass.
func difference(t *testing.T, r *Request, x *task, edits ...decoder.Edit) float64 {
	t.Helper()
	last := len(x.ids) - 1
	tr, err := r.Model.Trace(context.Background(), &decoder.Prompt{IDs: x.ids, Donor: x.donor, Question: x.question}, edits, decoder.TraceOptions{Hidden: -1, Logits: []int{last}})
	if err != nil {
		t.Fatal(err)
	}
	return float64(tr.Logits[0][x.answer]) - float64(tr.Logits[0][x.other])
}

func checkPrompt(t *testing.T, r *Request, x *task, p *PromptTrace, hs []decoder.Head) {
	t.Helper()
	near := func(what string, got harness.Number, want float64) {
		if !(math.Abs(float64(got)-want) <= 2e-5) {
			t.Errorf("prompt %s: %s: got %g, want %g", x.id, what, got, want)
		}
	}
	plain := difference(t, r, x)
	near("plain", p.Plain, plain)
	near("donor", p.Donor, difference(t, r, &task{ids: x.donor, answer: x.answer, other: x.other}))
	near("all heads", p.Donor, difference(t, r, x, x.patch(Last, hs...)))
	largest := 0.0
	for _, g := range Groups() {
		for _, i := range []int{0, 3, 5} {
			near(g+" "+hs[i].String(), p.Total[g][i], difference(t, r, x, x.patch(g, hs[i]))-plain)
			largest = math.Max(largest, math.Abs(float64(p.Total[g][i])))
		}
		near("path at "+g, p.Paths[g][0], difference(t, r, x, r.Paths[0].edit(x.scope(g)))-plain)
	}
	if largest < 1e-3 {
		t.Errorf("prompt %s: the largest effect is %g", x.id, largest)
	}
	checkEstimates(t, r, x, p, hs)
}

// checkEstimates forms the products of derivative and change from whole layers' arrays.
func checkEstimates(t *testing.T, r *Request, x *task, p *PromptTrace, hs []decoder.Head) {
	t.Helper()
	s, last := r.Model.Spec, len(x.ids)-1
	arrays := func(ids []int32) map[int]decoder.QueryKey {
		tr, err := r.Model.Trace(context.Background(), &decoder.Prompt{IDs: ids}, nil, decoder.TraceOptions{Hidden: -1, QK: []int{0, 1, 2}})
		if err != nil {
			t.Fatal(err)
		}
		return tr.QK
	}
	plain, donor := arrays(x.ids), arrays(x.donor)
	grad, err := r.Model.HeadGradient(context.Background(), x.ids, []decoder.Term{{Row: last, Token: x.answer, Weight: 1}, {Row: last, Token: x.other, Weight: -1}})
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range hs {
		for _, g := range Groups() {
			lo, hi := x.rows(g)
			want := 0.0
			for k := range grad.Z[h.Layer] {
				if row := k / (s.Heads * s.HeadDim); k/s.HeadDim%s.Heads == h.Index && row >= lo && row < hi {
					want += float64(grad.Z[h.Layer][k]) * float64(donor[h.Layer].Z[k]-plain[h.Layer].Z[k])
				}
			}
			if got := float64(p.First[g][i]); !(math.Abs(got-want) <= 1e-5) {
				t.Errorf("prompt %s: estimate of %s at %s rows: got %g, want %g", x.id, h, g, got, want)
			}
		}
		if g := p.First[Needle][i]; h.Layer == 2 && g != 0 {
			t.Errorf("prompt %s: %s at the needle's rows has the estimate %g: nothing reads them", x.id, h, g)
		}
	}
}

func checkMeans(t *testing.T, x *Trace) {
	t.Helper()
	for _, g := range x.Groups {
		if g.FirstPearson == 0 || !(math.Abs(float64(g.FirstPearson)) <= 1) {
			t.Errorf("%s: estimate and effect correlate by %g", g.Rows, g.FirstPearson)
		}
		h := g.Heads[3]
		a, b := float64(x.Prompts[0].Total[g.Rows][3]), float64(x.Prompts[1].Total[g.Rows][3])
		if math.Abs(float64(h.Total)-(a+b)/2) > 1e-12 || math.Abs(float64(h.SD)-math.Abs(a-b)/math.Sqrt2) > 1e-12 {
			t.Errorf("%s: mean %g, sd %g of %g and %g", g.Rows, h.Total, h.SD, a, b)
		}
		if want := -float64(h.Total) / g.Gap; float64(h.Normalised) != want {
			t.Errorf("%s: normalised %g, want %g", g.Rows, h.Normalised, want)
		}
		if g.Rows == Needle && h.Direct != 0 || g.Rows == Last && h.Direct == 0 || math.Abs(float64(h.SelfRepair-h.Total+h.Direct)) > 1e-12 {
			t.Errorf("%s: direct %g, total %g, rest %g", g.Rows, h.Direct, h.Total, h.SelfRepair)
		}
	}
	for _, p := range x.Pairs.Pairs {
		if math.Abs(float64(p.Both-p.Sum-p.Interaction)) > 1e-12 || p.A == p.B {
			t.Errorf("pair %+v", p)
		}
	}
}

func TestRefusals(t *testing.T) {
	r := tiny(t)
	refused := func(want string, change func(*Request)) {
		c := *r
		file := *r.Prompts
		file.Specs = append([]harness.PromptSpec(nil), file.Specs...)
		c.Prompts = &file
		change(&c)
		if _, err := Run(context.Background(), &c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	refused("no donor", func(r *Request) { r.Prompts.Specs[1].Donor = nil })
	refused("no question", func(r *Request) { r.Prompts.Specs[0].Question = nil })
	refused("no token tells them apart", func(r *Request) {
		d := *r.Prompts.Specs[0].Donor
		d.Answer = r.Prompts.Specs[0].Answer
		r.Prompts.Specs[0].Donor = &d
	})
	refused(`rows "middle"`, func(r *Request) { r.Groups = []string{"middle"} })
	refused("0 groups", func(r *Request) { r.Groups = nil })
	refused("L9H0", func(r *Request) { r.Heads = []decoder.Head{{Layer: 9, Index: 0}} })
	refused("L0H8", func(r *Request) {
		r.Paths = []Path{{decoder.Head{Layer: 0, Index: 8}, decoder.Head{Layer: 1, Index: 0}, "q"}}
	})
	for _, bad := range []string{"L0H0", "L0H0->L1H0", "L0H0->L0H1.q", "L2H0->L1H0.q", "L0H0->L1H0.z", "x->L1H0.q", "L0H0->y.q"} {
		if _, err := ParsePath(bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	if p, err := ParsePath("L0H0->L2H1.k"); err != nil || p != r.Paths[0] || p.String() != "L0H0->L2H1.k" {
		t.Errorf("got %v, %v", p, err)
	}
}

// valid holds a document against its JSON Schema.
func valid(t *testing.T, schema func() ([]byte, error), document any) {
	t.Helper()
	text, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", parsed); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Error(err)
	}
}
