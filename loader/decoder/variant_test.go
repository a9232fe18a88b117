package decoder

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/loader/loadertest"
)

// variantForms are one edit of every operation beyond the base ones, without the scope.
var variantForms = []string{
	"freeze:L1H2,L2H0:fast4", "swap=moebius64:L0H1,L2H3", "legacy:L1H1:fast8", "own_mean:L1H2", "mean:L0H3,L2H1", "patch:L0H0,L2H2", "streaming=2+3:L1H1,L0H2",
	"length_scale=0.7+20:L0H2,L2H1",
	"zero_dims:L0H1,L2H1:0+3+5+9",
}

// variantPrompt has a donor of the same length.
func variantPrompt() *Prompt {
	return &Prompt{IDs: tokens(500, 60), Question: 44, Answer: tokens(501, 4), Decoy: tokens(502, 4), Donor: tokens(503, 60)}
}

// TestVariantScopeLaw: under every operation and scope, Ask, which takes the kept cache where it can, says what the dense forward with the
// same edit says, and that is something else than the unmodified model's.
func TestVariantScopeLaw(t *testing.T) {
	const tolerance = 1e-4
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		p := variantPrompt()
		p.Needle, p.Means = [2]int{20, 29}, headMeans(t, m, "L0H3", "L2H1")
		conds := []Condition{{}}
		for i, form := range variantForms {
			for k, s := range scopes {
				if slow() || be.Kind == KindGo && (i+k)%2 == 0 {
					conds = append(conds, Condition{Edits: edits(t, form+"@"+string(s))})
				}
			}
		}
		conds = append(conds, // one layer with all of them, and two tables in one head's group
			Condition{Edits: edits(t, "freeze:L1H2:slow4@question", "swap=theta500:L1H3@question", "legacy:L1H0:fast4@question",
				"patch:L1H1@question", "streaming=1+9:L1H0@question", "scale=0.5:L1H1@question")})
		if slow() || be.Kind == KindGo {
			conds = append(conds, Condition{Edits: edits(t, "zero_planes:L1H2,L2H0:slow4@question", "keep_spread:L1H2,L2H0@question")})
		}
		o := AskOptions{Batch: 1, MaxNew: 4}
		if be.Kind != KindGo && !slow() { // few shapes to compile: one condition, nothing decoded
			p.Decoy, o.MaxNew = nil, 0
		}
		replies := ask(t, m, []*Prompt{p}, conds, o)[0]
		rows := rowRange(len(p.IDs)-1, len(p.IDs)+len(p.Answer))
		plain := trace(t, m, p, nil, TraceOptions{Logits: rows, Hidden: -1})
		for k, c := range conds {
			dense := trace(t, m, p, c.Edits, TraceOptions{Logits: rows, Hidden: -1})
			moved, worst := 0.0, 0.0
			for j, r := range dense.Logits {
				d, _ := largest(r, plain.Logits[j])
				moved = max(moved, d)
				if j < len(p.Answer) {
					worst = max(worst, math.Abs(replies[k].LogProb[j]-summarise(r).logProb[p.Answer[j]]))
				}
			}
			if !(worst <= tolerance) {
				t.Errorf("%v: Ask and Trace differ by %.1e", c.Edits, worst)
			}
			if k > 0 && !(moved > 1e-3) {
				t.Errorf("%v: moves the logits by %.1e only", c.Edits, moved)
			}
			if !slow() && (be.Kind != KindGo || k%3 != 0) {
				continue
			}
			// The greedy answer, decoded over the cache, is what passes over the sequence so far say.
			ids := slices.Clone(p.IDs)
			for i, id := range replies[k].Greedy {
				q := *p
				q.Answer = ids[len(p.IDs):]
				step := summarise(trace(t, m, &q, c.Edits, TraceOptions{Logits: []int{len(ids) - 1}, Hidden: -1}).Logits[0])
				if step.gap > tolerance && step.argmax != id {
					t.Errorf("%v: token %d decoded as %d, a full pass says %d", c.Edits, i, id, step.argmax)
				}
				ids = append(ids, id)
			}
		}
	})
}

// TestVariantNothing: edits that put in what is there already change nothing but roundings, and two ways to say one thing agree.
func TestVariantNothing(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		p := variantPrompt()
		p.Donor = p.IDs
		rows := rowRange(0, len(p.IDs))
		logits := func(m *Model, forms ...string) []float32 {
			return slices.Concat(trace(t, m, p, edits(t, forms...), TraceOptions{Logits: rows, Hidden: -1}).Logits...)
		}
		same := func(m *Model, what string, a, b []string) {
			t.Helper()
			if d, _ := largest(logits(m, a...), logits(m, b...)); !(d <= 2e-5) {
				t.Errorf("%s: %v and %v differ by %.1e", what, a, b, d)
			}
		}
		for _, form := range []string{"swap=theta10000:L0H0,L1H1", "swap=times1:L2H3", "streaming=0+1000:L1H2", "patch:L0H1,L2H2"} {
			same(m, "nothing", []string{form + "@all"}, nil)
		}
		same(m, "nothing turns", []string{"freeze:L1H2:slow16"}, []string{"swap=nope:L1H2"})
		same(m, "one key", []string{"streaming=0+1:L1H2@all", "scale=2:L1H2"}, []string{"scale=2:L1H2", "streaming=0+1:L1H2"})
		// Both dimensions of each plane are the planes: 8 planes of 16 dims, halves turned together.
		for _, scope := range []string{"@all", "@question"} {
			dims, planes := logits(m, "zero_dims:L0H1,L2H2:1+9+6+14"+scope), logits(m, "zero_planes:L0H1,L2H2:1+6"+scope)
			if d, _ := largest(dims, planes); be.Kind == KindGo && d != 0 || !(d <= 2e-5) {
				t.Errorf("dims of whole planes%s and these planes differ by %.1e", scope, d)
			}
		}
		if d, _ := largest(logits(m, "zero_dims:L0H1:1"), logits(m, "zero_planes:L0H1:1")); !(d > 1e-4) {
			t.Errorf("one dimension is as good as its plane: %.1e apart", d)
		}
		if be.Kind != KindGo && !slow() {
			return
		}
		// Without a norm of queries and keys, and with a key head for each query head, planes without query, without key and without both
		// are planes without a score term.
		mha := loadertest.Open(t, loadertest.Options{Layers: 2, Heads: 2, HeadDim: 8, Hidden: 16, Intermediate: 16, Seed: 9})
		one, err := New(be, mha, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		same(one, "MHA", []string{"legacy:L1H1:slow4"}, []string{"zero_planes:L1H1:slow4"})
	})
}

// TestVariantErrors: what an edit of a variant cannot do.
func TestVariantErrors(t *testing.T) {
	m := model(t, backend(t, "go"), "float32")
	p := &Prompt{IDs: tokens(510, 20), Question: 10}
	for form, want := range map[string]string{
		"patch:L0H0":         "the prompt has no donor",
		"mean:L0H0":          "there are no means",
		"freeze:L0H0:slow34": "the model rotates 16 dimensions",
		"zero_dims:L0H0:16":  "a head has dimensions 0-15",
	} {
		if _, err := m.Trace(t.Context(), p, edits(t, form), TraceOptions{Logits: []int{0}, Hidden: -1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", form, err, want)
		}
	}
	for want, forms := range map[string][]string{
		"two edits give the head its table":  {"swap=nope:L0H0", "swap=times2:L0H0"},
		"two edits give the head its output": {"patch:L0H0", "own_mean:L0H0"},
		"two edits restrict the head's keys": {"streaming=1+2:L0H0", "streaming=1+3:L0H0"},
	} {
		if _, err := m.geo.resolve(edits(t, forms...), 20, 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want an error with %q", forms, err, want)
		}
	}
	short := Edit{Op: OpSwap, Heads: []Head{{0, 0}}, InvFreq: []float64{1, 2}, Table: "short", Scope: ScopeAll}
	if _, err := m.geo.resolve([]Edit{short}, 20, 10); err == nil || !strings.Contains(err.Error(), "2 frequencies: the model rotates 8 planes") {
		t.Errorf("table of two frequencies: got %v", err)
	}
}

// TestSwapRules: each rule reaches the head as rope.Rule makes it from the layer's own table, a file as its frequencies; what the model's table
// does not allow is refused.
func TestSwapRules(t *testing.T) {
	g := model(t, backend(t, "go"), "float32").geo
	own := g.tables[0]
	path := filepath.Join(t.TempDir(), "t.json")
	if err := os.WriteFile(path, []byte(`{"name":"mine","planes":[1,0.5,0.25,0.125,0,0.01,0.02,0.03],"layout":"rotate_half"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	noFiles := func(string) ([]Head, error) { return nil, errors.New("no file of heads") }
	for form, want := range map[string]func(i int) float64{
		"theta100":      func(i int) float64 { return math.Pow(100, -float64(i)/8) },
		"moebius64":     func(i int) float64 { return math.Pi * float64(2*i+1) / 64 },
		"periodic64/0":  func(i int) float64 { return 2 * math.Pi * float64(i) / 64 },
		"times0.5":      func(i int) float64 { return own.InvFreq[i] / 2 },
		"thetatimes1e0": func(i int) float64 { return own.InvFreq[i] },
		"nope":          func(int) float64 { return 0 },
		path:            func(i int) float64 { return []float64{1, 0.5, 0.25, 0.125, 0, 0.01, 0.02, 0.03}[i] },
	} {
		e, err := ParseEdit("swap="+form+":L0H1", noFiles)
		if err != nil {
			t.Fatal(err)
		}
		c, err := g.resolve([]Edit{e}, 20, 10)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.layers[0].variant.tables[1].apply(own)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range got.InvFreq {
			if math.Abs(w-want(i)) > 1e-15 {
				t.Errorf("%s: plane %d: got %g, want %g", form, i, w, want(i))
			}
		}
		if got.Scale != own.Scale || got.RotaryDim != own.RotaryDim {
			t.Errorf("%s: scale %g and %d dims, want the own table's %g and %d", form, got.Scale, got.RotaryDim, own.Scale, own.RotaryDim)
		}
	}
	for form, want := range map[string]string{"swap=moved64/8:L0H0": "planes 0-7", "swap:L0H0": "takes a value", "swap=ladder:L0H0": "want one of own"} {
		e, err := ParseEdit(form, nil)
		if err == nil {
			_, err = g.resolve([]Edit{e}, 20, 10)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", form, err, want)
		}
	}
	for want, readFile := range map[string]func(string) ([]Head, error){"only names are taken here": nil, "nowhere.json": noFiles} {
		if e, err := ParseEdit("swap=nowhere.json:L0H0", readFile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a file that is not there: got %v, %v, want an error with %q", e, err, want)
		}
	}
}
