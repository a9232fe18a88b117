package planes

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/loadertest"
)

func parsed(t *testing.T, forms ...string) []decoder.Edit {
	t.Helper()
	var out []decoder.Edit
	for _, f := range forms {
		e, err := decoder.ParseEdit(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// TestLedger: the planes of a balance add up to the measured scores; what zeroing, freezing and swapping do to every score, and so to the
// attention, is predicted to float32's precision; the log-probability of a small change to first order.
func TestLedger(t *testing.T) {
	cases := map[string]loadertest.Options{
		"NeoX":   {Family: "GPTNeoXForCausalLM", Seed: 5, Config: map[string]any{"rotary_pct": 0.5}},
		"Gemma2": {Family: "Gemma2ForCausalLM", KVHeads: 2, Seed: 6, Config: map[string]any{"attn_logit_softcapping": 1.5}},
		"Cohere": {Family: "CohereForCausalLM", KVHeads: 2, Seed: 8},
		"Llama":  {KVHeads: 2, Seed: 9, Config: map[string]any{"rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}}},
	}
	for name, o := range cases {
		t.Run(name, func(t *testing.T) {
			n := 1
			if name == "Llama" {
				n = 2
			}
			c, m, path := tiny(t, o, n)
			edits := parsed(t, "zero_planes:L1H1:slow4", "freeze:L1H1:fast4@question", "swap=theta50:L1H2", "temperature=2:L0H3@last", "uniform:L0H0",
				"scale_planes=3:L0H0:0+1@all", "scale=1.005:L1H1,L0H3", "zero:L0H1@answer", "length_scale=0.4+9:L1H2")
			l, err := KeepLedger(context.Background(), &LedgerRequest{Checkpoint: c, Model: m, Prompts: readPrompts(t, path), Edits: edits})
			if err != nil {
				t.Fatal(err)
			}
			if len(l.Edits) != 11 || len(l.Heads) != 5 {
				t.Fatalf("%d edits, %d heads", len(l.Edits), len(l.Heads))
			}
			for _, e := range l.Edits {
				for _, p := range e.Prompts {
					if e.Head == nil {
						continue
					}
					if !(p.Worst <= 2e-6*(1+p.Scale)) {
						t.Errorf("%s: a score differs by %g of %g", e.Edit, p.Worst, p.Scale)
					}
					for what, x := range map[string]Prediction{"score": p.Score, "attention": p.Attention} {
						if !(math.Abs(float64(x.Predicted-x.Measured)) <= 4e-6) {
							t.Errorf("%s: %s: got %g, want %g", e.Edit, what, x.Predicted, x.Measured)
						}
					}
				}
				if strings.HasPrefix(e.Edit, "scale=1.005") {
					for what, x := range map[string]Prediction{"log-probability": e.Mean.LogProb, "logit": e.Mean.Logit} {
						if !(math.Abs(float64(x.Predicted-x.Measured)) <= 2e-5+0.05*math.Abs(float64(x.Measured))) {
							t.Errorf("%s: %s %+v", e.Edit, what, x)
						}
					}
				}
			}
			if f := l.Edits[1]; f.Edit != "freeze:L1H1:fast4@question" || math.Abs(float64(f.Mean.Score.Measured)) < 1e-4 {
				t.Errorf("%s changes the score by %g: nothing is tested", f.Edit, f.Mean.Score.Measured)
			}
			var b strings.Builder
			if err := l.Write(&b); err != nil || !strings.Contains(b.String(), "swap=theta50:L1H2@all") {
				t.Errorf("%v in %s", err, b.String())
			}
			balanceAddsUp(t, c, m, path)
			valid(t, LedgerSchema, l)
		})
	}
}

// balanceAddsUp: a balance is the difference of means of measured scores; without its rotation it is that of the frozen head, without a plane
// that of the head without it.
func balanceAddsUp(t *testing.T, c *loader.Checkpoint, m *decoder.Model, path string) {
	prompts, err := readPrompts(t, path).Tokenize(m.Spec, c.Tokenizer, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := prompts[len(prompts)-1]
	at := decoder.Head{Layer: 1, Index: 1}
	planes := planesOf(m.Spec)
	band := []string{"0", "1", "2"}
	for _, form := range []string{"", "freeze:L1H1:" + strings.Join(band, "+"), "zero_planes:L1H1:" + strings.Join(band, "+")} {
		var edits []decoder.Edit
		if form != "" {
			edits = parsed(t, form)
		}
		b, err := newBaseline(context.Background(), m, p, []decoder.Head{at}, nil)
		if err != nil {
			t.Fatal(err)
		}
		balance := b.heads[at].Balance(b.rows[0], p.Needle, p.Code)
		if len(balance.Planes) != planes+1 {
			t.Fatalf("%d planes", len(balance.Planes))
		}
		wantCode, wantNeedle := balance.Code, balance.Needle
		for i := range band {
			e := balance.Planes[i]
			switch form[:min(4, len(form))] {
			case "free":
				wantCode, wantNeedle = wantCode-e.CodeRotation, wantNeedle-e.NeedleRotation
			case "zero":
				wantCode, wantNeedle = wantCode-e.CodeRotation-e.CodeContent, wantNeedle-e.NeedleRotation-e.NeedleContent
			}
		}
		tr, err := m.Trace(context.Background(), b.ask(), edits, decoder.TraceOptions{Hidden: -1, Attention: b.rows[:1], Scores: true})
		if err != nil {
			t.Fatal(err)
		}
		span := b.heads[at].visible(b.rows[0])
		one := &baseline{rows: b.rows[:1]}
		got := one.measured(tr, at, 0, span)
		if limit := m.Spec.ScoreCap; limit > 0 { // a balance is of scores before the cap
			for i, x := range got {
				got[i] = limit * math.Atanh(x/limit)
			}
		}
		for what, pair := range map[string][2]float64{"code": {overRest(got, span, p.Code, p.Needle), wantCode}, "needle": {overRest(got, span, p.Needle, p.Needle), wantNeedle}} {
			if !(math.Abs(pair[0]-pair[1]) <= 1e-5) {
				t.Errorf("%s: %s: measured %g, the ledger says %g", form, what, pair[0], pair[1])
			}
		}
		if offset := mean(got); form == "" && !(math.Abs(offset-offsets(balance)) <= 1e-5) {
			t.Errorf("mean score %g, the offsets are %g", offset, offsets(balance))
		}
	}
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v / float64(len(x))
	}
	return sum
}

func offsets(b *Balanced) float64 {
	sum := 0.0
	for _, e := range b.Planes {
		sum += e.Offset
	}
	return sum
}

func TestLedgerRefusals(t *testing.T) {
	c, m, path := tiny(t, loadertest.Options{Seed: 3}, 1)
	for _, bad := range []struct {
		heads []decoder.Head
		edits []string
		want  string
	}{
		{nil, nil, "no heads"},
		{[]decoder.Head{{Layer: 9, Index: 0}}, nil, "L9H0"},
		{nil, []string{"legacy:L1H1:slow4"}, "not predicted"},
		{nil, []string{"streaming=1+4:L1H1"}, "not predicted"},
		{nil, []string{"zero:L1H1,L8H1"}, "L8H1"},
	} {
		r := &LedgerRequest{Checkpoint: c, Model: m, Prompts: readPrompts(t, path), Heads: bad.heads, Edits: parsed(t, bad.edits...)}
		if _, err := KeepLedger(context.Background(), r); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v: got %v, want %s", bad, err, bad.want)
		}
	}
	if clip(heads.Span{3, 9}, heads.Span{5, 7}) != (heads.Span{5, 7}) || clip(heads.Span{1, 2}, heads.Span{5, 7}).Len() != 0 {
		t.Error("clip")
	}
}

// TestLedgerReasons: what is null says why, and one number that is none takes the others with it.
func TestLedgerReasons(t *testing.T) {
	one := Prediction{1, 2}
	whole := LedgerEffect{Score: one, Attention: one, LogProb: one, Logit: one, Worst: 1, Scale: 2, Before: 0.5}
	fine, broken := whole, whole
	if fine.explain(1, true); fine != whole {
		t.Errorf("got %+v", fine)
	}
	broken.LogProb.Measured = harness.Number(math.Inf(1))
	if broken.explain(1, true); broken.Reason != overflow || broken.Score.Predicted == broken.Score.Predicted || broken.Before != 0.5 {
		t.Errorf("got %+v", broken)
	}
	nan := harness.Number(math.NaN())
	several := LedgerEffect{Score: Prediction{nan, nan}, Attention: Prediction{nan, nan}, LogProb: one, Logit: Prediction{nan, nan}, Worst: nan, Scale: nan}
	if several.explain(2, false); !strings.Contains(several.Reason, "one head at a time; there is no decoy") || several.LogProb != one {
		t.Errorf("got %+v", several)
	}
	if m := meanEffect([]LedgerEffect{whole, broken, several}); m.Reason != overflow || m.LogProb.Measured == m.LogProb.Measured {
		t.Errorf("got %+v", m)
	}
}
