package harness

import (
	"fmt"
	"slices"

	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
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
	PoolRandomDims   = "random_dims"   // as many single dimensions of all that rotate: mostly one of a plane, whose other one stays
)

// matchedPools are those that need statistics of planes.
var matchedPools = []string{PoolVariance, PoolContribution, PoolNorm, PoolTemperature}

const (
	streamPlanes   = 4
	streamDims     = 8
	planeTolerance = 0.1
	focusDims      = 16 // as published
)

// BandOptions ask for the bands stage.
type BandOptions struct {
	Protocol string // ProtocolCorrected or ProtocolPublished
	K        []int  // dimensions of the dose curve, two a plane; nil: 8,16,32,48,64 as far as they fit
	Windows  int    // windows over the spectrum; 0 = none
	Matched  bool   // controls that need statistics of planes, from the detect prompts
	Planes   int    // sets of other planes a pool and scope, at every dose; AutoControls = 19, in whole passes 3 of them beside the focus
	Ledger   bool   // predict what the conditions do, from the unmodified model
}

// PlanBands says which planes of which heads are edited.
type PlanBands struct {
	PlanTarget
	PlanControls
	Protocol    string      `json:"protocol"`
	K           []int       `json:"k"`           // dimensions of the dose curve
	Focus       int         `json:"focus"`       // of these, the one with middle and fast planes and all controls
	Windows     []string    `json:"windows"`     // bands
	Tables      []PlanTable `json:"tables"`      // of the layers that rotate
	Interleaved bool        `json:"interleaved"` // how planes lie among a head's dimensions
	Planes      *PlanPlanes `json:"planes,omitempty"`
	NoPlanes    string      `json:"no_planes,omitempty"` // why there are no statistics of planes
	Ledger      bool        `json:"ledger"`              // conditions are predicted

	PlaneControls map[decoder.Scope]int `json:"plane_controls"`      // sets of other planes of the same heads, of each pool
	PlanesAuto    bool                  `json:"auto_plane_controls"` // their number was left to the plan: fewer beside the focus in whole passes
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
	case b.Planes < AutoControls || b.Planes > maxControls:
		return usagef(fmt.Sprintf("give 0 to %d", maxControls), "plane controls %d is out of range", b.Planes)
	case o.Shard != (Shard{}) && b.Matched:
		return usagef("give --matched=false, or run it whole", "shard %s with matched planes: what is asked rests on the planes of all detect prompts", o.Shard)
	}
	rotary := rotaryDims(s)
	if rotary == 0 {
		return usagef("`headscope inspect MODEL` prints which layers rotate", "no layer of the model rotates: there are no planes to edit")
	}
	if most := rotary/2 - windowWidth(rotary) + 1; b.Windows < 0 || b.Windows == 1 || b.Windows > most {
		return usagef(fmt.Sprintf("give 2 to %d; 0 = none", most), "windows %d: of %d planes there are %d windows of %d, an eighth", b.Windows, rotary/2, most, windowWidth(rotary))
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

// windowWidth is how many planes a window has, as published: an eighth.
func windowWidth(rotary int) int { return max(1, rotary/16) }

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
	b := &PlanBands{PlanTarget: planTarget(o, unreachable), PlanControls: planControls(o, tests), Protocol: o.Bands.Protocol, K: slices.Clone(o.Bands.K), Windows: []string{}, Ledger: o.Bands.Ledger, Interleaved: o.Model.Spec.Interleaved}
	b.countPlanes(o)
	if err := p.checkHeadsOf(o); err != nil {
		return err
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
		width := windowWidth(rotary)
		for i := range n { // their starts are spread evenly over the order by speed, as published
			start := i * (planes - width) / (n - 1)
			b.Windows = append(b.Windows, fmt.Sprintf("window%d-%d", start, start+width-1))
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
		b.NoPlanes = notAsked
	case b.NoPlanes == "":
		b.Planes = &PlanPlanes{planeTolerance, streamPlanes}
	}
	p.Bands = b
	p.declare("taking the slow planes out of the heads' scores lowers the metric more than taking the same planes out of matched heads does", &b.PlanControls,
		func(s decoder.Scope) string { return bandName(b.op(), slow(b.Focus), s) })
	return nil
}

const notAsked = "they were not asked for"

// Matched tells whether controls that rest on statistics of planes were asked for, be they to be had or not.
func (b *PlanBands) Matched() bool { return b.NoPlanes != notAsked }

// countPlanes fixes how many sets of other planes a band is compared with.
func (b *PlanBands) countPlanes(o *Options) {
	b.PlaneControls, b.PlanesAuto = map[decoder.Scope]int{}, o.Bands.Planes == AutoControls
	for _, s := range b.Scopes {
		if b.PlaneControls[s] = o.Bands.Planes; b.PlanesAuto {
			b.PlaneControls[s] = fewControls
		}
	}
}

// planeSets is their number for one dose: whole passes are dear, and beside the focus those that are decoded show what is usual.
func (b *PlanBands) planeSets(scope decoder.Scope, focus bool) int {
	if n := b.PlaneControls[scope]; !b.PlanesAuto || focus || !slices.Contains(b.WholePasses, scope) {
		return n
	}
	return min(b.Decoded, b.PlaneControls[scope])
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

// smallest is the table with the fewest planes: bands of all layers have to fit it.
func (b *PlanBands) smallest() *PlanTable {
	t := &b.Tables[0]
	for i := range b.Tables {
		if len(b.Tables[i].InvFreq) < len(t.InvFreq) {
			t = &b.Tables[i]
		}
	}
	return t
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

func (b *PlanBands) predicts() bool { return b.Ledger }

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
