package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
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
	if got, _ = c.randomPlanes([]string{"slow6"}, 6, 19); len(got.bands) != 0 || got.reason != "there are no other sets of as many planes" {
		t.Errorf("%+v", got)
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
	if w, err := b.fastest(target, "mid2"); err != nil || w != 0.1 {
		t.Errorf("got %g, %v", w, err)
	}
}
