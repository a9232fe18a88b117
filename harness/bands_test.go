package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
	"github.com/headscope/headscope/patch"
)

// bandOptions ask for bands of two given heads of the tiny model, with statistics of planes from other prompts.
func bandOptions(t *testing.T) Options {
	o := tinyOptions(t, 2)
	o.Verb, o.Stages, o.Top, o.MaxNew = "bands", []string{StageBands}, 0, 1
	o.Heads = heads.Ranking{{Layer: 1, Index: 1}, {Layer: 2, Index: 3}}
	o.Exclude, o.Scopes, o.DetectPrompts = o.Heads.Set(), []decoder.Scope{decoder.ScopeQuestion}, shifted(t, 2)
	o.Pools = []string{PoolLayer, PoolLayerKV}
	o.Bands = &BandOptions{Protocol: ProtocolCorrected, K: []int{2, 4}, Windows: 2, Matched: true, Planes: 2, Ledger: true}
	return o
}

// TestBands: the stage asks the dose curve and its controls, is resumed to the same bytes, and its result is computed again from the trials.
func TestBands(t *testing.T) {
	o := bandOptions(t)
	s, r := runStudy(t, o)
	whole := readFile(t, s.TrialsPath())
	names := map[string]bool{}
	for _, c := range r.Conditions {
		names[c.Name] = true
	}
	for _, n := range []string{"zero/slow2@question", "freeze/slow4@question", "mirror/fast2@question", "control0:zero/slow2@question", "kvcontrol0:freeze/slow2@question",
		"random0:zero/slow4@question", "dims1:zero/slow2@question", "variance0:zero/slow4@question", "temperature0:zero/slow2@question", "zero/window0-0@question", "random1:zero/window0-0@question"} {
		if !names[n] {
			t.Errorf("condition %s is missing", n)
		}
	}
	if es := r.condition("temperature0:zero/slow2@question").Edits; len(es) != 2 || es[0].Op != decoder.OpZeroPlanes || es[1].Op != decoder.OpKeepSpread || len(es[1].Heads) != 2 {
		t.Errorf("the control with the old spread of scores edits %v", es)
	}
	if b := r.Bands; b == nil || len(b.Matches) != 7 || b.Distance.Largest < 10 {
		t.Fatalf("got %+v", b)
	}
	checkPlaneControls(t, r)
	if r.N.Planned > s.Cost().Trials || r.N.Planned < s.Cost().Trials-12 { // matched sets may be fewer

		t.Errorf("%d trials, the plan says %d", r.N.Planned, s.Cost().Trials)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	if err := os.WriteFile(s.TrialsPath(), bytes.Join(lines[:6], nil), 0o644); err != nil {
		t.Fatal(err)
	}
	runStudy(t, o)
	if !bytes.Equal(readFile(t, s.TrialsPath()), whole) {
		t.Error("a resumed run differs")
	}
	c, err := Recheck(r.Path)
	if err != nil || !c.OK {
		t.Errorf("recheck: %v, %+v", err, c)
	}
	exportsParts(t, r, map[string]int{"bands.csv": len(r.Bands.Rows)})
	var b strings.Builder
	if err := r.Write(&b, View{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cannot test rotation", "slow2 @question", "other KV groups", "Planes, temperature", "Score ledger", "random dims", "Windows @question by recall"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q", want)
		}
	}
}

// checkPlaneControls: controls of other planes are as large as the band, none is the band or another control, and each window is held against the
// same ones.
func checkPlaneControls(t *testing.T, r *Result) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range r.Conditions {
		if c.ControlOf == "" || c.Pool == PoolLayer || c.Pool == PoolLayerKV {
			continue
		}
		key := c.ControlOf + c.Pool
		for _, e := range c.Edits {
			key += " " + e.String()
		}
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if c.Pool == PoolRandomDims && (c.Edits[0].Op != decoder.OpZeroDims || len(c.Edits[0].Dims) != bandDims(strings.TrimPrefix(strings.Split(c.ControlOf, "@")[0], "zero/"))) {
			t.Errorf("%s: %v", c.Name, c.Edits)
		}
	}
	for _, e := range r.Effects {
		if want := 2; strings.HasPrefix(e.Condition, "zero/window") && (e.Pool != PoolRandomPlanes || e.Controls != want) {
			t.Errorf("window %s: %+v", e.Condition, e)
		}
	}
	for _, m := range r.Bands.Matches {
		if m.Sets < 1 || m.Sets < 2 && m.Reason == "" || len(m.Heads) != 2 {
			t.Errorf("%+v", m)
		}
	}
}

func bandDims(slow string) (k int) {
	fmt.Sscanf(slow, "slow%d", &k)
	return k
}

// TestEnough: few planes make few sets, and what is missing is said.
func TestEnough(t *testing.T) {
	b := &PlanBands{Tables: []PlanTable{{Layers: []int{0}, InvFreq: []float64{1, 0.1, 0.01}}}, Protocol: ProtocolCorrected}
	c := &bandConditions{b: b, e: &evidence{plan: &Plan{}}}
	got, err := c.randomPlanes([]string{"slow2"}, 2, 19)
	if err != nil || len(got.bands) != 2 || !strings.Contains(got.reason, "asked for 19, 2 other sets of as many planes exist, 2 are used") {
		t.Errorf("%+v, %v", got, err)
	}
	dims, reason, err := c.randomDims("slow2", 2, 14)
	if err != nil || len(dims) != 14 || reason != "" {
		t.Errorf("%v, %q, %v: 15 pairs of 6 dimensions exist, one of them the plane", dims, reason, err)
	}
	b.Tables = append(b.Tables, PlanTable{Layers: []int{1}, InvFreq: []float64{1, 0.1}})
	if dims, _, err = c.randomDims("slow2", 2, 9); err != nil || len(dims) == 0 || slices.Max(slices.Concat(dims...)) > 3 {
		t.Errorf("%v, %v: the smallest table rotates 4 dimensions", dims, err)
	}
	b.Tables = b.Tables[:1]
	if got, _ = c.randomPlanes([]string{"slow6"}, 6, 19); len(got.bands) != 0 || got.reason != "there are no other sets of as many planes" {
		t.Errorf("%+v", got)
	}
}

// TestMatchedRules: a head whose planes do not match leaves no p; a share of planes is a control only where queries alone are edited; and planes
// that were not looked at are an error.
func TestMatchedRules(t *testing.T) {
	target := &target{heads: heads.NewSet(decoder.Head{})}
	for norms, want := range map[[3]Number]string{{3, 4, 1}: patch.MatchedPartial, {0.1, 0.2, 1}: patch.Unmatched, {1, 0.5, 1}: patch.MatchedWhole} {
		for _, protocol := range []string{ProtocolCorrected, ProtocolPublished} {
			b := &PlanBands{Tables: []PlanTable{{Layers: []int{0}, InvFreq: []float64{1, 0.1, 0.01}}}, Protocol: protocol, K: []int{2}, Focus: 2, Planes: &PlanPlanes{planeTolerance, streamPlanes}}
			e := &evidence{plan: &Plan{Bands: b}, trials: map[string][]Trial{}}
			c := &bandConditions{b: b, e: e, t: target}
			main := &condition{name: "main", edits: []decoder.Edit{{Op: b.op()}}}
			if _, err := c.matched(main, 2, 1); err == nil {
				t.Error("planes that were not looked at have matches")
			}
			target.guessed = true
			if got, err := c.matched(main, 2, 1); err != nil || len(got) != len(matchedPools) {
				t.Errorf("an estimate: %v, %v", got, err)
			}
			target.guessed = false
			e.trials[StagePlanes] = []Trial{{Planes: &TrialPlanes{Heads: []HeadPlanes{{Norm: norms[:], Contribution: make([]Number, 4), Covariance: make([]Number, 10)}}}}}
			m := &BandMatch{Pool: PoolNorm, Band: "slow2"}
			if err := b.match(e, target, m, 1); err != nil {
				t.Fatal(err)
			}
			if want == patch.MatchedPartial && protocol == ProtocolPublished {
				if m.Sets != 0 || !strings.Contains(m.Reason, "no published form") {
					t.Errorf("%+v", m)
				}
				continue
			}
			if m.Sets != 1 || m.Heads[0].Kind != want || (m.noP() != "") != (want == patch.Unmatched) {
				t.Errorf("%v, %s: %+v, %q", norms, protocol, m, m.noP())
			}
		}
	}
}

// TestPlaneCounts: the number of sets of planes does not hang on that of other heads, and whole passes have fewer beside the focus.
func TestPlaneCounts(t *testing.T) {
	b := &PlanBands{PlanControls: PlanControls{Scopes: []decoder.Scope{"all", "question"}, Controls: map[decoder.Scope]int{}, Decoded: 3, WholePasses: []decoder.Scope{"all"}}}
	b.countPlanes(&Options{Bands: &BandOptions{Planes: AutoControls}})
	for scope, want := range map[decoder.Scope][2]int{"all": {19, 3}, "question": {19, 19}} {
		if got := [2]int{b.planeSets(scope, true), b.planeSets(scope, false)}; got != want {
			t.Errorf("%s: got %v, want %v", scope, got, want)
		}
	}
}

// TestPlaneSums: the statistics of planes are those of a plain float64 computation, in both layouts, with unrotated dimensions and a window.
func TestPlaneSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	const keys, d, planes = 23, 10, 3 // 6 of 10 dimensions rotate
	for _, layout := range []rope.Layout{rope.RotateHalf, rope.Interleaved} {
		for _, window := range []int{0, 9} {
			h := &planeHead{rot: &rope.Table{InvFreq: make([]float64, planes), RotaryDim: 2 * planes}, layout: layout, window: window, scale: 0.3, needle: heads.Span{12, 16}}
			for range keys * d {
				h.k = append(h.k, float32(rng.NormFloat64()))
			}
			for _, at := range []int{18, 22} {
				q := make([]float32, d)
				for i := range q {
					q[i] = float32(rng.NormFloat64())
				}
				h.q, h.positions = append(h.q, q), append(h.positions, at)
			}
			s := newPlaneSums(planes)
			s.add(h)
			checkPlanes(t, s.means(decoder.Head{}), h)
		}
	}
}

// checkPlanes computes everything anew, by other formulas.
func checkPlanes(t *testing.T, got HeadPlanes, h *planeHead) {
	t.Helper()
	planes, d := len(h.rot.InvFreq), len(h.q[0])
	member := func(dim int) int {
		if p := h.layout.Plane(dim, h.rot.RotaryDim); p >= 0 {
			return p
		}
		return planes
	}
	cov := make([][]float64, planes+1)
	for p := range cov {
		cov[p] = make([]float64, planes+1)
	}
	contribution, norm := make([]float64, planes+1), make([]float64, planes)
	total := 0.0 // variance of whole scores
	for i, q := range h.q {
		at := h.positions[i]
		var seen []int
		for j := 0; j <= at; j++ {
			if h.window == 0 || at-j < h.window {
				seen = append(seen, j)
			}
		}
		x := make([][]float64, planes+1) // [term][key]
		score := make([]float64, len(seen))
		for n, j := range seen {
			k := h.k[j*d:][:d]
			qq, kk := make([]float64, planes+1), make([]float64, planes+1)
			dot := make([]float64, planes+1)
			for dim := range d {
				p := member(dim)
				dot[p] += float64(q[dim]) * float64(k[dim]) * h.scale
				qq[p] += float64(q[dim]) * float64(q[dim])
				kk[p] += float64(k[dim]) * float64(k[dim])
			}
			for p := range x {
				x[p] = append(x[p], dot[p])
				score[n] += dot[p]
			}
			for p := range norm {
				norm[p] += math.Sqrt(qq[p]) * math.Sqrt(kk[p]) / float64(len(seen)*len(h.q))
			}
		}
		product := func(a, b []float64) float64 { // E[ab] - E[a]E[b]
			ab, ea, eb := 0.0, 0.0, 0.0
			for n := range a {
				ab, ea, eb = ab+a[n]*b[n], ea+a[n], eb+b[n]
			}
			n := float64(len(a))
			return ab/n - ea/n*eb/n
		}
		total += product(score, score) / float64(len(h.q))
		for p := range cov {
			for r := range cov {
				cov[p][r] += product(x[p], x[r]) / float64(len(h.q))
			}
			in, out, nin := 0.0, 0.0, 0.0
			for n, j := range seen {
				if j >= h.needle[0] && j < h.needle[1] {
					in, nin = in+x[p][n], nin+1
				} else {
					out += x[p][n]
				}
			}
			contribution[p] += (in/nin - out/(float64(len(seen))-nin)) / float64(len(h.q))
		}
	}
	near := func(what string, a, b float64) {
		if !(math.Abs(a-b) <= 1e-12*max(1, math.Abs(b))) {
			t.Errorf("%s, window %d: %s: got %g, want %g", h.layout, h.window, what, a, b)
		}
	}
	for p := range cov {
		for r := range cov {
			near("covariance", got.cov(p, r), cov[p][r])
		}
		near("contribution", float64(got.Contribution[p]), contribution[p])
	}
	for p := range norm {
		near("norm", float64(got.Norm[p]), norm[p])
	}
	near("variance of the score", got.variance(func(int) bool { return true }), total)
	near("variance of two planes", got.size(PoolVariance).Of([]int{0, 2}, 1), cov[0][0]+cov[2][2]+2*cov[0][2])
}

// TestObservedPlanes: what is observed of a real pass belongs to the scores: whole scores of a head vary as its terms together do, and the
// attention that the model itself returns is their softmax.
func TestObservedPlanes(t *testing.T) {
	o := bandOptions(t)
	s := inUnits(t, o)
	r := &runner{o: s.o, plan: s.Plan, trace: s.trace}
	got, err := r.observePlanes(context.Background(), o.Heads.Set(), s.detects, func() {})
	if err != nil {
		t.Fatal(err)
	}
	spec := &o.Checkpoint.Spec
	for _, h := range got.Heads {
		want, rows := 0.0, 0
		for _, p := range s.detects {
			tr, err := s.trace(context.Background(), &decoder.Prompt{IDs: p.IDs, Answer: p.Answer}, nil, decoder.TraceOptions{Hidden: -1, Attention: rowsOf(p)})
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range rowsOf(p) {
				w := tr.Attention[h.Head.Layer][(h.Head.Index*len(rowsOf(p))+i)*tr.T:][:row+1]
				mean, square := 0.0, 0.0 // log weights are scores up to a constant
				for _, x := range w {
					mean += math.Log(float64(x)) / float64(len(w))
				}
				for _, x := range w {
					square += (math.Log(float64(x)) - mean) * (math.Log(float64(x)) - mean) / float64(len(w))
				}
				want, rows = want+square, rows+1
			}
		}
		if v := h.variance(func(int) bool { return true }); h.Rows != rows || math.Abs(v-want/float64(rows)) > 1e-4*v {
			t.Errorf("%s: variance %g of %d rows, that of the attention's logarithm is %g of %d (scale %g)", h.Head, v, h.Rows, want/float64(rows), rows, spec.ScoreScale)
		}
	}
}

// TestPlanesNotFinite: planes of keys that are not numbers are an error, as those of queries are.
func TestPlanesNotFinite(t *testing.T) {
	o := bandOptions(t)
	s := inUnits(t, o)
	for what, spoil := range map[string]func(*decoder.Trace, *Prompt){
		"queries": func(tr *decoder.Trace, p *Prompt) {
			at := tr.QK[1].QRot[(len(p.IDs)-1)*o.Checkpoint.Spec.Heads*o.Checkpoint.Spec.HeadDim:]
			at[o.Checkpoint.Spec.HeadDim] = float32(math.NaN())
		},
		"keys": func(tr *decoder.Trace, _ *Prompt) { tr.QK[1].KRot[0] = float32(math.Inf(1)) },
	} {
		trace := func(ctx context.Context, p *decoder.Prompt, edits []decoder.Edit, to decoder.TraceOptions) (*decoder.Trace, error) {
			tr, err := s.trace(ctx, p, edits, to)
			if err == nil {
				spoil(tr, s.detects[0])
			}
			return tr, err
		}
		r := &runner{o: s.o, plan: s.Plan, trace: trace}
		if _, err := r.observePlanes(context.Background(), o.Heads.Set(), s.detects[:1], func() {}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func rowsOf(p *Prompt) []int {
	var out []int
	for i := range p.Answer {
		out = append(out, len(p.IDs)-1+i)
	}
	return out
}

// TestBandsPublished: the published form lists the heads that its keys leak to, and draws controls of its own.
func TestBandsPublished(t *testing.T) {
	o := bandOptions(t)
	o.Bands = &BandOptions{Protocol: ProtocolPublished, K: []int{4}}
	o.DetectPrompts, o.Scopes = nil, []decoder.Scope{decoder.ScopeAll}
	_, r := runStudy(t, o)
	if b := r.Bands; len(b.Siblings) != 6 || b.NoPlanes == "" || len(b.Matches) != 0 {
		t.Errorf("siblings %v, %q, matches %v", b.Siblings, b.NoPlanes, b.Matches)
	}
	c := r.condition("control0:legacy/slow4@all")
	if c == nil || c.Edits[0].Op != decoder.OpLegacy || c.Heads.Equal(o.Heads.Set()) {
		t.Errorf("got %+v", c)
	}
}

// TestBandsRefuses: what cannot be asked is refused before anything is computed, and says what would be valid.
func TestBandsRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"odd k":         {func(o *Options) { o.Bands.K = []int{3} }, "rotates"},
		"k too large":   {func(o *Options) { o.Bands.K = []int{8, 100} }, "rotates"},
		"k twice":       {func(o *Options) { o.Bands.K = []int{2, 2} }, "twice"},
		"no heads":      {func(o *Options) { o.Heads = nil }, "no heads"},
		"missing head":  {func(o *Options) { o.Heads = heads.Ranking{{Layer: 9}} }, "no such head"},
		"protocol":      {func(o *Options) { o.Bands.Protocol = "x" }, "protocol"},
		"another model": {func(o *Options) { o.HeadsOf = strings.Repeat("ab", 32) }, "another model"},
		"one window":    {func(o *Options) { o.Bands.Windows = 1 }, "windows"},
		"many windows":  {func(o *Options) { o.Bands.Windows = 900 }, "there are 8 windows of 1"},
		"planes":        {func(o *Options) { o.Bands.Planes = -2 }, "plane controls"},
		"no scope":      {func(o *Options) { o.Scopes = nil }, "no scope"},
		"shard":         {func(o *Options) { o.Shard = Shard{1, 2} }, "detect prompts"},
	} {
		o := bandOptions(t)
		tc.change(&o)
		_, err := NewStudy(context.Background(), o)
		var usage *UsageError
		if err == nil || !strings.Contains(err.Error(), tc.want) || !errors.As(err, &usage) && name != "missing head" {
			t.Errorf("%s: got %v, want a usage error about %q", name, err, tc.want)
		}
	}
}

// TestBandsUnrotated: heads of layers without rotation are left out and named; none left is an error.
func TestBandsUnrotated(t *testing.T) {
	b := &PlanBands{Tables: []PlanTable{{Layers: []int{0, 2}, InvFreq: []float64{1, 0.1}}}}
	c := &controlled{PlanTarget: &PlanTarget{Heads: heads.Ranking{{Layer: 1}, {Layer: 2}}}, PlanControls: &PlanControls{}, shape: Shape{3, 2, 2}, edits: b.edits}
	got, err := c.choose()
	if err != nil || !got.heads.Equal(heads.NewSet(decoder.Head{Layer: 2})) || !got.skipped.Equal(heads.NewSet(decoder.Head{Layer: 1})) {
		t.Errorf("got %+v, %v", got, err)
	}
	c.Heads = c.Heads[:1]
	if got, err := c.choose(); err == nil {
		t.Errorf("got %+v, want an error", got)
	}
}

// TestNoOp: what changes no bit is said to be nothing, with the reason where the planes do not turn.
func TestNoOp(t *testing.T) {
	b := &PlanBands{Tables: []PlanTable{{Layers: []int{0}, InvFreq: []float64{1, 0.1, 0}}}}
	target := &target{heads: heads.NewSet(decoder.Head{})}
	for row, want := range map[[2]string]bool{{"freeze", "slow2"}: true, {"mirror", "slow2"}: true, {"freeze", "slow4"}: false, {"zero", "slow2"}: false} {
		if got := b.still(target, &BandRow{Op: row[0], Band: row[1]}); got != want {
			t.Errorf("%s: planes that stand still: got %t", row, got)
		}
	}
	near := "no log-probability moved"
	r := &Result{Bands: &BandsResult{Rows: []BandRow{{Condition: "a", Op: "zero", Rotation: true, NoOp: near}, {Condition: "b", Op: "freeze", Rotation: true, NoOp: doNotTurn}}}, Plan: &Plan{}}
	if n := r.bandNotes(); len(n) != 2 || n[0] != "a did nothing beyond rounding: "+near+"." || n[1] != "b is a no-op: "+doNotTurn+"." {
		t.Errorf("got %q", n)
	}
	if _, rows := r.bandRows(); rows[1][2] != "0.000" || rows[1][3] != "no-op" {
		t.Errorf("got %q", rows)
	}
	if w, err := b.fastest(target, "mid2"); err != nil || w != 0.1 {
		t.Errorf("got %g, %v", w, err)
	}
}
