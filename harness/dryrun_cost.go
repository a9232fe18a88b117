package harness

import (
	"math"
	"slices"

	"github.com/headscope/headscope/loader/decoder"
)

// dryStage is a stage as it will be run, or as much as is known of it.
type dryStage struct {
	name    string
	prompts []*Prompt
	conds   []condition
	guessed bool // the heads are not known: those of conds stand in for them
	look    *dryLook
}

// drystages lists the stages. Heads that are still to be detected are stood in for.
func (s *Study) drystages() ([]dryStage, error) {
	spec := &s.o.Checkpoint.Spec
	e := newEvidence(s.Plan, Shape{spec.Layers, spec.Heads, spec.KVHeads}, nil)
	var out []dryStage
	if s.Plan.Detect != nil {
		out = append(out, dryStage{name: StageDetect, prompts: s.detects, conds: []condition{s.Plan.detectCondition()}})
		out = append(out, s.detectLooks()...)
	}
	for _, x := range s.Plan.experiments() {
		about, _ := x.about()
		if look := s.planesLook(x); look != nil {
			out = append(out, *look)
		}
		st := dryStage{name: x.stage(), prompts: s.prompts, guessed: s.Plan.Detect != nil && about.Heads == nil}
		var err error
		if st.guessed {
			st.conds, err = s.standInConditions(x)
		} else {
			var t *target
			if t, err = e.target(x); err == nil {
				t.guessed = true // its planes have not been looked at
				st.conds, err = e.conditions(x)
			}
		}
		if err != nil {
			return nil, err
		}
		if len(meanHeads(st.conds)) > 0 && !slices.ContainsFunc(out, func(d dryStage) bool { return d.name == StageMeans }) {
			one := func(*Prompt) (int, int) { return 1, 0 }
			out = append(out, dryStage{name: StageMeans, prompts: s.detects, look: &dryLook{passes: one}})
		}
		if len(predicted(x, st.conds)) > 0 {
			ten := func(*Prompt) (int, int) { return 10, 0 } // about: two passes back and forth, and traces
			out = append(out, dryStage{name: ledgerStage(x), prompts: s.prompts, guessed: st.guessed, look: &dryLook{trials: len(s.prompts), passes: ten}})
		}
		out = append(out, st)
	}
	if s.Plan.Texts != nil {
		conds, err := s.textStandIns()
		if err != nil {
			return nil, err
		}
		for i := range conds {
			conds[i].scoreOnly = true // there is no answer to decode
		}
		out = append(out, dryStage{name: StageTexts, prompts: s.o.Texts.textPrompts(), conds: conds})
	}
	if len(s.variants) > 0 {
		out = append(out, dryStage{name: StageVariants, prompts: s.variants, conds: []condition{{name: baseline}}})
	}
	return out, nil
}

// firstRow is the first row that a condition edits, -1 for none.
func (c *condition) firstRow(p *Prompt) int {
	first := -1
	for _, e := range c.edits {
		row, err := e.FirstRow(len(p.IDs), p.Question)
		if row = min(row, len(p.IDs)-1); err == nil && (first < 0 || row < first) {
			first = row
		}
	}
	return first
}

// firstLayer is the first layer that a condition edits.
func (c *condition) firstLayer(layers int) int {
	first := layers
	for _, e := range c.edits {
		for _, h := range e.Heads {
			first = min(first, h.Layer)
		}
	}
	return first
}

// geometry is what FLOPs follow from.
type geometry struct{ layers, layerParams, attention, output float64 }

func (s *Study) geometry() geometry {
	p := &s.o.Checkpoint.Spec
	q, kv := float64(p.Heads*p.HeadDim), float64(p.KVHeads*p.HeadDim)
	hidden, mlp := float64(p.Hidden), 2.0 // matrices of the MLP
	if p.Gated {
		mlp = 3
	}
	return geometry{
		layers: float64(p.Layers), layerParams: hidden*(2*q+2*kv) + mlp*hidden*float64(p.Intermediate),
		attention: 4 * q, output: 2 * hidden * float64(p.Vocab),
	}
}

// rows is the FLOPs of n rows that end at position end, in a share of the layers: 2 x parameters a row, and 4 x heads x head_dim for
// each key that a row sees.
func (g geometry) rows(n, end int, share float64) float64 {
	first := end - n
	keys := float64(n)*float64(first) + float64(n)*float64(n+1)/2
	return share * g.layers * (2*g.layerParams*float64(n) + g.attention*keys)
}

// estimate counts a stage's work, as the decoder carries it out: the unmodified model and conditions that edit early rows in whole
// passes, the layers before their first edit left out, the others over the unmodified model's cache.
func (st *dryStage) estimate(s *Study) StageEstimate {
	if st.look != nil {
		return st.look.estimate(s, st)
	}
	e := StageEstimate{Name: st.name, Prompts: len(st.prompts), Conditions: len(st.conds), Trials: len(st.prompts) * len(st.conds)}
	g, maxNew := s.geometry(), s.Plan.MaxNew
	for _, p := range st.prompts {
		t, answer := len(p.IDs), len(p.Answer)
		var w Work
		whole := func(share float64) {
			n := t + answer
			w.WholePasses++
			w.WholeTokens += int64(n)
			w.WholeFLOPs += g.rows(n, n, share) + g.output*float64(answer+1)
		}
		base, decoded, donor, path := false, 0, false, false
		for i := range st.conds {
			c := &st.conds[i]
			if !c.scoreOnly {
				decoded++
			}
			for _, e := range c.edits {
				donor = donor || e.Op == decoder.OpPatch || e.Op == decoder.OpPath
				path = path || e.Op == decoder.OpPath
			}
			lo := c.firstRow(p)
			switch {
			case lo < 0:
				base = true
				continue
			case lo == 0 || c.probe:
				share := 1.0
				if !st.guessed && !c.probe {
					share = 1 - float64(c.firstLayer(int(g.layers)))/g.layers
				}
				whole(share)
			default:
				base = true
				n := t + answer - lo
				w.RowPasses++
				w.RowTokens += int64(n)
				w.RowFLOPs += g.rows(n, t+answer, 1) + g.output*float64(answer+1)
			}
		}
		if base {
			whole(1)
		}
		if donor {
			whole(1)
		}
		if path { // what the heads behind the source read in the unmodified model
			whole(1)
		}
		w.DecodeTokens = int64(decoded * maxNew)
		w.DecodeFLOPs = float64(decoded) * (g.rows(maxNew, t+maxNew, 1) + g.output*float64(maxNew))
		e.Work.add(w)
	}
	return e
}

// memory estimates the largest that is held at once.
func (s *Study) memory(stages []dryStage) MemoryEstimate {
	c := s.o.Checkpoint
	spec := &c.Spec
	size := int64(4)
	if s.Plan.Run.DType == "bfloat16" {
		size = 2
	}
	var m MemoryEstimate
	for _, name := range c.Weights.Names() {
		if info, ok := c.Weights.Info(name); ok {
			m.Weights += int64(info.Elements()) * size
		}
	}
	longest, whole := 0, 1
	for _, st := range stages {
		for _, p := range st.prompts {
			longest = max(longest, len(p.IDs)+max(len(p.Answer), s.Plan.MaxNew))
		}
		n := 1
		for i := range st.conds {
			if len(st.prompts) > 0 && st.conds[i].firstRow(st.prompts[0]) == 0 {
				n++
			}
		}
		whole = max(whole, n)
	}
	batch, t := int64(s.Plan.Run.Batch), int64(decoder.LengthBucket(longest))
	cache := 2 * int64(spec.Layers) * int64(spec.KVHeads*spec.HeadDim) * t * size
	m.Caches = max(batch*int64(whole)*cache, min(decoder.DefaultCacheBytes, batch*int64(whole)*cache*int64(s.Plan.Run.Unit)))
	row := 4*int64(spec.Hidden) + 3*int64(spec.Intermediate) + int64((2*spec.Heads+2*spec.KVHeads)*spec.HeadDim)
	tile := max(128, t/16)
	m.Activations = batch*(t*row*4+2*4*int64(spec.Heads)*tile*t) + int64(math.Max(8, float64(s.Plan.Run.DecodeBatch)))*int64(spec.Vocab)*4*int64(1+len(s.prompts[0].Answer))
	m.Activations += int64(whole) * batch * t * int64(spec.Hidden) * size // a residual of each condition is in flight
	return m
}
