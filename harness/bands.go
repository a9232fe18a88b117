package harness

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
	"github.com/headscope/headscope/patch"
)

// StageBands edits bands of rotary planes of the heads.
const StageBands = "bands"

// Protocols of taking planes away.
const (
	ProtocolCorrected = "corrected" // zero_planes: the heads' own queries, behind any norm
	ProtocolPublished = "published" // legacy: the outputs of q_proj and k_proj, which all query heads of a KV group share
)

// Pools of controls that are other planes, not other heads.
const (
	PoolRandomPlanes = "random_planes" // of all planes of the same heads
	PoolVariance     = "variance"      // planes whose terms vary as much over the visible keys
	PoolContribution = "contribution"  // planes that favour the needle as much
	PoolNorm         = "norm"          // planes with as large a product of norms
	PoolTemperature  = "temperature"   // the band away, and the rest scaled up to the old spread of scores
)

// matchedPools are those that need statistics of planes.
var matchedPools = []string{PoolVariance, PoolContribution, PoolNorm, PoolTemperature}

const (
	streamPlanes   = 4
	planeTolerance = 0.1
	focusDims      = 16 // as published
)

// BandOptions ask for the bands stage.
type BandOptions struct {
	Protocol string // ProtocolCorrected or ProtocolPublished
	K        []int  // dimensions of the dose curve, two a plane; nil: 8,16,32,48,64 as far as they fit
	Windows  int    // windows over the spectrum; 0 = none
	Matched  bool   // controls that need statistics of planes, from the detect prompts
}

// PlanBands says which planes of which heads are edited.
type PlanBands struct {
	PlanTarget
	PlanControls
	Protocol string      `json:"protocol"`
	K        []int       `json:"k"`       // dimensions of the dose curve
	Focus    int         `json:"focus"`   // of these, the one with middle and fast planes and all controls
	Windows  []string    `json:"windows"` // bands
	Tables   []PlanTable `json:"tables"`  // of the layers that rotate
	Planes   *PlanPlanes `json:"planes,omitempty"`
	NoPlanes string      `json:"no_planes,omitempty"` // why there are no statistics of planes
}

// PlanTable is the rotary table of some layers, of passes as long as the longest prompt.
type PlanTable struct {
	Layers  []int     `json:"layers"`
	InvFreq []float64 `json:"inv_freq"` // [planes], radians a token
}

// PlanPlanes says how planes are matched.
type PlanPlanes struct {
	Tolerance float64 `json:"tolerance"` // a share of the band's size
	Stream    uint64  `json:"stream"`
}

func (o *Options) checkBands() error {
	if !slices.Contains(o.Stages, StageBands) {
		return nil
	}
	b, s := o.Bands, &o.Checkpoint.Spec
	switch {
	case b == nil:
		return usagef("fill in Options.Bands", "no bands to edit")
	case b.Protocol != ProtocolCorrected && b.Protocol != ProtocolPublished:
		return usagef("give corrected (the heads' own queries) or published (q_proj and k_proj outputs)", "protocol %q", b.Protocol)
	case !slices.Contains(o.Stages, StageDetect) && len(o.Heads) == 0:
		return usagef("give --heads LIST, FILE or RESULT, or leave the detect stage in", "no heads whose planes to edit")
	case len(o.Scopes) == 0:
		return usagef("give --scope all, or another", "no scope to edit planes at")
	case b.Windows < 0 || b.Windows == 1:
		return usagef("give 2 or more windows; 0 = none", "windows %d", b.Windows)
	case o.Shard != (Shard{}) && b.Matched:
		return usagef("give --matched=false, or run it whole", "shard %s with matched planes: what is asked rests on the planes of all detect prompts", o.Shard)
	}
	rotary := rotaryDims(s)
	if rotary == 0 {
		return usagef("`headscope inspect MODEL` prints which layers rotate", "no layer of the model rotates: there are no planes to edit")
	}
	if len(o.Heads) > 0 && !slices.ContainsFunc(o.Heads, func(h decoder.Head) bool { return h.Layer >= s.Layers || !s.Unrotated(h.Layer) }) {
		return usagef("give heads of layers that rotate: `headscope inspect MODEL` prints them", "no head of the list is in a layer that rotates")
	}
	for i, k := range b.K {
		switch {
		case k < 2 || k%2 != 0 || k > rotary:
			return usagef(fmt.Sprintf("give even numbers of dimensions, two a plane, from 2 to %d", rotary), "k %d: the model rotates %d dimensions of a head", k, rotary)
		case slices.Contains(b.K[:i], k):
			return usagef("give each k once", "k %d is there twice", k)
		}
	}
	return nil
}

// rotaryDims is how many dimensions of a head all rotating layers rotate; 0 where none does.
func rotaryDims(s *loader.Spec) int {
	dims := 0
	for l := range s.Layers {
		if t, err := decoder.RopeTable(s, l, 1); err == nil && t != nil && (dims == 0 || t.RotaryDim < dims) {
			dims = t.RotaryDim
		}
	}
	return dims
}

func (p *Plan) addBands(o *Options, unreachable []int, tests []*Prompt) error {
	b := &PlanBands{PlanTarget: planTarget(o, unreachable), PlanControls: planControls(o, tests), Protocol: o.Bands.Protocol, K: slices.Clone(o.Bands.K), Windows: []string{}}
	if o.HeadsOf != "" && o.HeadsOf != p.Model.WeightsSHA256 {
		return usagef("give the result of this model; heads to be taken over on purpose can be given as a list, such as L18H6,L8H0",
			"the heads were found in another model: weights %.12s, this model's are %.12s", o.HeadsOf, p.Model.WeightsSHA256)
	}
	rotary := rotaryDims(o.Model.Spec)
	if b.K == nil {
		for _, k := range []int{8, 16, 32, 48, 64} {
			if k <= rotary {
				b.K = append(b.K, k)
			}
		}
		if b.K == nil {
			b.K = []int{rotary}
		}
	}
	slices.Sort(b.K)
	if b.Focus = b.K[0]; slices.Contains(b.K, focusDims) {
		b.Focus = focusDims
	}
	planes := rotary / 2
	if n := o.Bands.Windows; n > 0 {
		// As published: windows of an eighth of the planes, their starts spread evenly over the order by speed.
		width := max(1, planes/8)
		for i := range n {
			start := i * (planes - width) / (n - 1)
			if w := fmt.Sprintf("window%d-%d", start, start+width-1); !slices.Contains(b.Windows, w) {
				b.Windows = append(b.Windows, w)
			}
		}
	}
	longest := 0
	for _, t := range tests {
		longest = max(longest, len(t.IDs)+max(len(t.Answer), o.MaxNew))
	}
	if err := b.addTables(o.Model.Spec, longest); err != nil {
		return err
	}
	switch b.NoPlanes = noPlanes(o); {
	case !o.Bands.Matched:
		b.NoPlanes = "they were not asked for"
	case b.NoPlanes == "":
		b.Planes = &PlanPlanes{planeTolerance, streamPlanes}
	}
	p.Bands = b
	p.declare("taking the slow planes out of the heads' scores lowers the metric more than taking the same planes out of matched heads does", &b.PlanControls,
		func(s decoder.Scope) string { return bandName(b.op(), slow(b.Focus), s) })
	return nil
}

// noPlanes says why statistics of planes cannot be had; empty where they can.
func noPlanes(o *Options) string {
	if o.DetectPrompts == nil {
		return "there are no detect prompts, and planes are never matched on tested ones"
	}
	have := map[string]bool{}
	for _, s := range o.Prompts.Specs {
		have[s.Text] = true
	}
	for _, s := range o.DetectPrompts.Specs {
		if have[s.Text] {
			return "the detect prompts are tested ones too"
		}
	}
	return ""
}

// addTables lists the tables of the layers that rotate, equal ones once.
func (b *PlanBands) addTables(s *loader.Spec, tokens int) error {
	for l := range s.Layers {
		t, err := decoder.RopeTable(s, l, tokens)
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		at := slices.IndexFunc(b.Tables, func(p PlanTable) bool { return slices.Equal(p.InvFreq, t.InvFreq) })
		if at < 0 {
			at = len(b.Tables)
			b.Tables = append(b.Tables, PlanTable{InvFreq: t.InvFreq})
		}
		b.Tables[at].Layers = append(b.Tables[at].Layers, l)
	}
	return nil
}

// table is that of a layer; nil where it does not rotate.
func (b *PlanBands) table(layer int) *PlanTable {
	for i := range b.Tables {
		if slices.Contains(b.Tables[i].Layers, layer) {
			return &b.Tables[i]
		}
	}
	return nil
}

// planes resolves a band, ascending.
func (t *PlanTable) planes(band string) ([]int, error) {
	b, err := rope.ParseBand(band)
	if err != nil {
		return nil, err
	}
	return b.Planes(&rope.Table{InvFreq: t.InvFreq, Scale: 1, RotaryDim: 2 * len(t.InvFreq)})
}

func (b *PlanBands) stage() string { return StageBands }

func (b *PlanBands) about() (*PlanTarget, *PlanControls) { return &b.PlanTarget, &b.PlanControls }

// edits tells whether the experiment can edit a head: heads of layers without rotation are skipped.
func (b *PlanBands) edits(h decoder.Head) bool { return b.table(h.Layer) != nil }

// op takes planes away.
func (b *PlanBands) op() decoder.Op {
	if b.Protocol == ProtocolPublished {
		return decoder.OpLegacy
	}
	return decoder.OpZeroPlanes
}

func slow(k int) string { return fmt.Sprintf("slow%d", k) }

// opMirror is the name of the swap that makes planes turn the wrong way round.
const opMirror decoder.Op = "mirror"

// bandName is the name of a band under an operation.
func bandName(op decoder.Op, band string, scope decoder.Scope) string {
	name := string(op)
	if op == decoder.OpZeroPlanes {
		name = "zero"
	}
	return fmt.Sprintf("%s/%s@%s", name, band, scope)
}

// bandConditions collects the conditions of the stage.
type bandConditions struct {
	b     *PlanBands
	e     *evidence
	t     *target
	match map[string]*BandMatch // of the focus, by pool; nil without statistics
	out   []condition
}

// conditions are, for each scope, the dose curve, then middle and fast planes, then windows; behind each its controls.
func (b *PlanBands) conditions(e *evidence, t *target) ([]condition, error) {
	if len(t.heads) == 0 {
		return nil, nil
	}
	c := &bandConditions{b: b, e: e, t: t}
	var err error
	if c.match, err = b.matches(e, t); err != nil {
		return nil, err
	}
	op := b.op()
	for _, scope := range b.Scopes {
		for _, k := range b.K {
			for _, o := range []decoder.Op{op, decoder.OpFreeze} {
				if err := c.band(o, slow(k), scope); err != nil {
					return nil, err
				}
			}
		}
		for _, band := range []string{fmt.Sprintf("mid%d", b.Focus), fmt.Sprintf("fast%d", b.Focus)} {
			for _, o := range []decoder.Op{op, decoder.OpFreeze, opMirror} {
				if err := c.main(o, band, scope); err != nil {
					return nil, err
				}
			}
		}
		if err := c.main(opMirror, slow(b.Focus), scope); err != nil {
			return nil, err
		}
		for _, band := range b.Windows {
			if err := c.main(op, band, scope); err != nil {
				return nil, err
			}
		}
	}
	return c.out, nil
}

// on is an operation on a band of a set of heads.
func (c *bandConditions) on(set heads.Set, op decoder.Op, band string, scope decoder.Scope) ([]decoder.Edit, error) {
	if op != opMirror {
		return patch.Band(set, op, band, scope), nil
	}
	var out []decoder.Edit
	for i := range c.b.Tables {
		t := &c.b.Tables[i]
		planes, err := t.planes(band)
		if err != nil {
			return nil, err
		}
		some := slices.DeleteFunc(slices.Clone(set), func(h decoder.Head) bool { return !slices.Contains(t.Layers, h.Layer) })
		out = append(out, patch.Mirror(some, t.InvFreq, planes, scope)...)
	}
	return out, nil
}

// main is a condition without controls.
func (c *bandConditions) main(op decoder.Op, band string, scope decoder.Scope) error {
	edits, err := c.on(c.t.heads, op, band, scope)
	c.out = append(c.out, condition{name: bandName(op, band, scope), edits: edits, heads: c.t.heads, scope: scope})
	return err
}

// band is a condition with its controls: all of them at the focus, else as many as are decoded.
func (c *bandConditions) band(op decoder.Op, band string, scope decoder.Scope) error {
	if err := c.main(op, band, scope); err != nil {
		return err
	}
	at := len(c.out) - 1
	main := c.out[at]
	n, focus := c.b.Controls[scope], band == slow(c.b.Focus)
	if !focus {
		n = min(n, c.b.Decoded)
	}
	var compared []comparison
	for _, pool := range c.t.controls {
		compared = append(compared, comparison{pool.Pool, pool.Reason, ""})
		for i, set := range pool.Sets[:min(len(pool.Sets), n)] {
			edits, err := c.on(set, op, band, scope)
			if err != nil {
				return err
			}
			c.control(&main, pool.Pool, i, set, edits)
		}
	}
	if n > 0 {
		random := comparison{PoolRandomPlanes, "", "plane-set"}
		if dims := bandDims(band); dims == 2*len(c.b.Tables[0].InvFreq) {
			random.reason = "the band has all planes"
		} else {
			for i := range n {
				name := fmt.Sprintf("random%d/%d", dims, c.e.plan.Statistics.Seed%1e9*1000+uint64(i))
				c.control(&main, PoolRandomPlanes, i, c.t.heads, patch.Band(c.t.heads, op, name, scope))
			}
		}
		compared = append(compared, random)
	}
	if focus && op != decoder.OpFreeze {
		compared = append(compared, c.matched(&main)...)
	}
	c.out[at].compared = compared
	return nil
}

func bandDims(slow string) (k int) {
	fmt.Sscanf(slow, "slow%d", &k)
	return k
}

// control adds control i of a pool.
func (c *bandConditions) control(main *condition, pool string, i int, set heads.Set, edits []decoder.Edit) {
	prefix := map[string]string{PoolLayer: "control", PoolLayerKV: "kvcontrol", PoolRandomPlanes: "random"}[pool]
	if prefix == "" {
		prefix = pool
	} else {
		prefix = fmt.Sprint(prefix, i)
	}
	c.out = append(c.out, condition{
		name: prefix + ":" + main.name, edits: edits, heads: set, scope: main.scope, controlOf: main.name, pool: pool,
		scoreOnly: i >= c.b.Decoded && !c.e.plan.FullAnswers,
	})
}

// matched adds the controls that are matched on what the planes do.
func (c *bandConditions) matched(main *condition) []comparison {
	var out []comparison
	for _, pool := range matchedPools {
		with := comparison{pool, c.b.NoPlanes, "plane-set"}
		if c.b.Planes != nil {
			var edits []decoder.Edit
			switch m := c.match[pool]; {
			case c.t.guessed || c.match == nil: // an estimate: planes that stand in
				edits = patch.Band(c.t.heads, main.edits[0].Op, slow(c.b.Focus), main.scope)
			case m.Reason != "":
				with.reason = m.Reason
			default:
				edits = m.edits(main)
			}
			if edits != nil {
				c.control(main, pool, 0, c.t.heads, edits)
			}
		}
		out = append(out, with)
	}
	return out
}

// planesRand is the stream of one head's matching: independent of which other heads there are.
func (b *PlanBands) planesRand(s *PlanStats, h decoder.Head) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, b.Planes.Stream+uint64(h.Layer)<<32+uint64(h.Index)<<12))
}
