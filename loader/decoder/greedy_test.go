package decoder

import (
	"fmt"
	"slices"
	"testing"
)

// naiveGreedy decodes by a full dense pass for each token. It stops before a step that is too close to call, which it reports.
func naiveGreedy(t *testing.T, m *Model, p *Prompt, es []Edit, o AskOptions) (ids []int32, close bool) {
	t.Helper()
	for len(ids) < o.MaxNew {
		sofar := &Prompt{IDs: p.IDs, Question: p.Question, Answer: ids}
		row := len(p.IDs) + len(ids) - 1
		s := summarise(trace(t, m, sofar, es, TraceOptions{Logits: []int{row}, Hidden: -1}).Logits[0])
		if s.gap <= m.FragileGap(s.scale) {
			return ids, true
		}
		ids = append(ids, s.argmax)
		if isEOS(s.argmax, o.EOS) {
			break
		}
	}
	return ids, false
}

// confirmed checks a greedy answer in one dense pass over prompt and answer: by causality each row is what a pass over the tokens
// before it would give. It returns the answer up to the first close call.
func confirmed(t *testing.T, m *Model, p *Prompt, es []Edit, answer []int32) (ids []int32, close bool) {
	t.Helper()
	q := &Prompt{IDs: p.IDs, Question: p.Question, Answer: answer}
	rows := rowRange(len(p.IDs)-1, len(p.IDs)+len(answer)-1)
	for k, lg := range trace(t, m, q, es, TraceOptions{Logits: rows, Hidden: -1}).Logits {
		s := summarise(lg)
		if s.gap <= m.FragileGap(s.scale) {
			return answer[:k], true
		}
		if s.argmax != answer[k] {
			t.Errorf("prompt of %d tokens, %v, step %d: got %d, a full pass gives %d", len(p.IDs), es, k, answer[k], s.argmax)
		}
	}
	return answer, false
}

var greedyForms = []string{"", "zero:L1H2@all", "uniform:L0H3,L2H1@question", "scale=-2:L0H1@answer", "zero_planes:L1H0:slow8@haystack", "temperature=0.3:L2H2@last"}

// greedyPlan is what TestGreedy asks: prompts, conditions, and the batches for each kind of fed answer.
type greedyPlan struct {
	lengths []int
	forms   []string
	options map[string][]AskOptions
	maxNew  int
}

// newGreedyPlan has, in full, more prompts than a batch of 4, unequal, in two buckets; the long ones cross into their bucket by the
// answer alone. Short, it is all of that with fewer of each on the Go backend, and what needs few shapes on XLA.
func newGreedyPlan(be *Backend) greedyPlan {
	p := greedyPlan{
		lengths: []int{60, 23, 127, 41, 88}, forms: greedyForms, maxNew: 12,
		options: map[string][]AskOptions{
			"nothing": {{Batch: 4, Verify: true}}, "right": {{Batch: 4}, {Batch: 1, DecodeBatch: 1, Verify: true}},
			"partly right": {{Batch: 4, DecodeBatch: 1}}, "wrong": {{Batch: 4, Verify: true}},
		},
	}
	switch {
	case slow():
	case be.Kind == KindGo:
		p.lengths, p.maxNew = []int{60, 127}, 8
		for _, options := range p.options { // the copies that fill a batch are computed too
			for i := range options {
				options[i].Batch = min(options[i].Batch, smallBatch(be))
			}
		}
	default:
		p.lengths, p.forms = []int{60, 23}, greedyForms[:4]
		p.options = map[string][]AskOptions{"right": {{Batch: 1}, {Batch: 1, DecodeBatch: 1, Verify: true}}, "partly right": {{Batch: 1}}}
	}
	return p
}

// TestGreedy: the tokens that Ask decodes, on whichever path, are those of a full pass per token.
func TestGreedy(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		plan := newGreedyPlan(be)
		maxNew := plan.maxNew
		var prompts []*Prompt
		for i, n := range plan.lengths {
			prompts = append(prompts, &Prompt{IDs: tokens(uint64(200+i), n), Question: n - 9})
		}
		conds := make([]Condition, len(plan.forms))
		for i, f := range plan.forms {
			if f != "" {
				conds[i].Edits = edits(t, f)
			}
		}
		m := model(t, be, "float32")
		want := make([][][]int32, len(prompts))
		clear := make([][]bool, len(prompts))
		steps, closeCalls := 0, 0
		for i, rs := range ask(t, m, prompts, conds, AskOptions{Batch: 1, MaxNew: maxNew}) {
			for k, c := range conds {
				ids, close := confirmed(t, m, prompts[i], c.Edits, rs[k].Greedy)
				if i == 0 {
					if naive, _ := naiveGreedy(t, m, prompts[i], c.Edits, AskOptions{MaxNew: maxNew}); !slices.Equal(ids, naive) {
						t.Errorf("%q: one full pass a token gives %v, want %v", plan.forms[k], naive, ids)
					}
				}
				want[i], clear[i] = append(want[i], ids), append(clear[i], !close)
				steps += len(ids)
				if close {
					closeCalls++
				}
			}
		}
		t.Logf("%d answers of %d steps, %d ended at a close call", len(prompts)*len(conds), steps, closeCalls)
		if steps < len(prompts)*len(conds)*maxNew*9/10 {
			t.Errorf("too many close calls: %d steps compared", steps)
		}
		for fed, options := range plan.options {
			var asked []*Prompt
			for i, p := range prompts {
				q := *p
				q.Answer = fedAnswer(fed, want[i][0])
				asked = append(asked, &q)
			}
			for _, o := range options {
				o.MaxNew = maxNew
				verified := 0
				for i, rs := range ask(t, m, asked, conds, o) {
					for k, r := range rs {
						name := fmt.Sprintf("%s fed, %+v, prompt %d, %q", fed, o, i, plan.forms[k])
						checkGreedy(t, name, r, asked[i], want[i][k], clear[i][k], o)
						if r.Verified {
							verified++
						}
					}
				}
				if (verified > 0) != (o.Verify && fed == "right") {
					t.Errorf("%s fed, %+v: %d answers verified", fed, o, verified)
				}
			}
		}
	})
}

// fedAnswer is four tokens: the unmodified model's, its first two and two others, or four others.
func fedAnswer(kind string, greedy []int32) []int32 {
	other := func(id int32) int32 { return 3 + (id+17)%60 }
	a := slices.Clone(greedy[:4])
	switch kind {
	case "nothing":
		return nil
	case "partly right":
		a[2], a[3] = other(a[2]), other(a[3])
	case "wrong":
		for i := range a {
			a[i] = other(a[i])
		}
	}
	return a
}

func checkGreedy(t *testing.T, name string, r *Reply, p *Prompt, want []int32, clear bool, o AskOptions) {
	t.Helper()
	if len(r.Greedy) != len(r.GreedyGap) {
		t.Fatalf("%s: %d tokens with %d gaps", name, len(r.Greedy), len(r.GreedyGap))
	}
	if r.Verified {
		if !slices.Equal(r.Greedy, p.Answer) {
			t.Errorf("%s: verified %v, fed %v", name, r.Greedy, p.Answer)
		}
		want = want[:min(len(want), len(p.Answer))]
	}
	if len(r.Greedy) < len(want) || !slices.Equal(r.Greedy[:len(want)], want) {
		t.Errorf("%s: got %v, want %v", name, r.Greedy, want)
	}
	if !r.Verified && len(r.Greedy) != o.MaxNew {
		t.Errorf("%s: got %d tokens, want %d", name, len(r.Greedy), o.MaxNew)
	}
	if clear == r.Fragile && !r.Verified {
		t.Errorf("%s: fragile %t, but a full pass a token has close calls: %t", name, r.Fragile, !clear)
	}
	if g := float64(slices.Min(r.GreedyGap)); r.MinGap() != g {
		t.Errorf("%s: MinGap %g, want %g", name, r.MinGap(), g)
	}
}

// TestGreedyEnds: an end token ends the answer and belongs to it, whether it is decoded, fed, or comes first; so does MaxNew.
func TestGreedyEnds(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		conds := []Condition{{}, {Edits: edits(t, "zero:L1H2@question")}}
		p := &Prompt{IDs: tokens(200, 60), Question: 51}
		o := AskOptions{Batch: 1, MaxNew: 12}
		free := ask(t, m, []*Prompt{p}, conds, o)[0]
		for k, full := range free {
			for _, at := range []int{0, 4} {
				eos := full.Greedy[at]
				want := full.Greedy[:slices.Index(full.Greedy, eos)+1]
				for _, fed := range [][]int32{nil, full.Greedy[:5]} {
					for _, verify := range []bool{false, true}[:1+min(len(fed), 1)] {
						q := *p
						q.Answer = fed
						got := ask(t, m, []*Prompt{&q}, conds, AskOptions{Batch: 1, MaxNew: 12, EOS: []int32{63, eos}, Verify: verify})[0][k]
						expect := want
						if got.Verified {
							expect = want[:min(len(want), len(fed))]
						}
						if !slices.Equal(got.Greedy, expect) {
							t.Errorf("condition %d, end token at %d, %d fed, verify %t: got %v, want %v", k, at, len(fed), verify, got.Greedy, expect)
						}
					}
				}
			}
			q := *p
			q.Answer = full.Greedy[:5]
			short := ask(t, m, []*Prompt{&q}, conds, AskOptions{Batch: 1, MaxNew: 3, Verify: true})[0][k]
			if !slices.Equal(short.Greedy, full.Greedy[:3]) || len(short.LogProb) != 5 {
				t.Errorf("condition %d, MaxNew 3 with 5 fed: got %v and %d log-probabilities", k, short.Greedy, len(short.LogProb))
			}
			none := ask(t, m, []*Prompt{&q}, conds, AskOptions{Batch: 1})[0][k]
			if none.Greedy != nil || none.Verified {
				t.Errorf("condition %d, MaxNew 0: got %v", k, none.Greedy)
			}
		}
	})
}

// TestScoreOnly: conditions that are only scored give the scores of decoded ones, and an answer only where the fed one is it.
func TestScoreOnly(t *testing.T) {
	onBackends(t, func(t *testing.T, be *Backend) {
		m := model(t, be, "float32")
		forms := []string{"zero:L1H2@all", "zero:L1H2@question", "uniform:L0H3,L2H1@question"}
		var decoded, scored []Condition
		for _, f := range forms {
			decoded = append(decoded, Condition{Edits: edits(t, f)})
			scored = append(scored, Condition{Edits: edits(t, f), ScoreOnly: true})
		}
		p := &Prompt{IDs: tokens(200, 60), Question: 51, Decoy: tokens(201, 4)}
		o := AskOptions{Batch: 1, MaxNew: 6, DecodeBatch: 1}
		for _, fed := range []string{"right", "wrong"} {
			q := *p
			q.Answer = fedAnswer(fed, ask(t, m, []*Prompt{p}, decoded, o)[0][1].Greedy)
			want, got := ask(t, m, []*Prompt{&q}, decoded, o)[0], ask(t, m, []*Prompt{&q}, scored, o)[0]
			verified := 0
			for k, r := range got {
				if !slices.Equal(r.LogProb, want[k].LogProb) || !slices.Equal(r.Decoy, want[k].Decoy) {
					t.Errorf("%s fed, %q: scores %v, %v, decoded %v, %v", fed, forms[k], r.LogProb, r.Decoy, want[k].LogProb, want[k].Decoy)
				}
				switch {
				case !r.Verified && r.Greedy != nil:
					t.Errorf("%s fed, %q: answer %v, and not verified", fed, forms[k], r.Greedy)
				case r.Verified && !slices.Equal(r.Greedy, want[k].Greedy[:len(q.Answer)]):
					t.Errorf("%s fed, %q: verified %v, decoded %v", fed, forms[k], r.Greedy, want[k].Greedy)
				case r.Verified:
					verified++
				}
			}
			if (verified > 0) != (fed == "right") {
				t.Errorf("%s fed: %d answers verified", fed, verified)
			}
		}
	})
}
