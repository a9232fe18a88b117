package harness

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/headscope/headscope/heads"
	"github.com/headscope/headscope/loader"
	"github.com/headscope/headscope/loader/decoder"
	"github.com/headscope/headscope/loader/rope"
)

// StageSwap asks the tested prompts with other rotary tables.
const StageSwap = "swap"

// PlanSwap is the tables that take the place of the model's, a condition each.
type PlanSwap struct {
	Tables  []SwapTable `json:"tables"`
	Hybrid  *PlanHybrid `json:"hybrid,omitempty"`
	Skipped []int       `json:"unrotated_layers,omitempty"` // asked for, but without rotation: they have no table to swap

	KVGroups   bool         `json:"kv_groups"`             // the heads are whole key/value groups, and so are their controls
	Against    *SwapAgainst `json:"against,omitempty"`     // other heads that get the tables too
	NoControls string       `json:"no_controls,omitempty"` // why there are none
	Ledger     bool         `json:"ledger"`                // conditions are predicted
}

// SwapAgainst says which heads have the tables, and with how many sets of others they are compared.
type SwapAgainst struct {
	PlanTarget
	PlanControls
}

// PlanHybrid says that a share of each layer's heads, by whole key/value groups, has the other table.
type PlanHybrid struct {
	Share  float64 `json:"share"`
	Groups int     `json:"groups"`         // of each layer
	Seed   *uint64 `json:"seed,omitempty"` // they are drawn; absent: the first ones
}

// SwapTable is one table in some heads.
type SwapTable struct {
	Name    string         `json:"name"`
	Edits   []decoder.Edit `json:"edits"`
	Heads   int            `json:"heads"` // that have it
	Changes []TableChange  `json:"changes"`
	NoOp    bool           `json:"no_op"` // every table stays what it was
}

// TableChange compares a table with the own one of the layers that have it.
type TableChange struct {
	Layers  []int    `json:"layers"`
	Planes  int      `json:"planes"`  // whose frequency is another
	Of      int      `json:"of"`      // planes of the table
	Largest *float64 `json:"largest"` // relative change of a frequency; null where a plane that stood still turns
	Factor  float64  `json:"factor"`  // on cosine and sine, over the own one's
}

// SwapOptions ask for tables. Zero values mean what their comments say.
type SwapOptions struct {
	Tables     []string       // names of rope.Rules, or paths of table files
	Heads      []decoder.Head // which have it; nil: all
	KVGroups   bool           // and all heads that share their keys
	Layers     []int          // only in these; nil: in all
	Hybrid     float64        // a share of every layer's heads, by whole key/value groups; 0: not asked
	HybridSeed *uint64        // which are drawn; nil: the first ones
	Scope      decoder.Scope  // rows that are scored with the other table
	Ledger     bool           // predict what the conditions do, from the unmodified model
}

// shareGroups is how many key/value groups make up a share of a layer's heads, at least one.
func shareGroups(s *loader.Spec, share float64) int {
	return int(math.Ceil(share*float64(s.KVHeads) - 1e-9))
}

// PlanSwaps turns a request into conditions. Layers without rotation are left out and listed; it is an error if none is left.
func PlanSwaps(s *loader.Spec, o SwapOptions) (*PlanSwap, error) {
	p := &PlanSwap{KVGroups: o.KVGroups || o.Hybrid != 0, Ledger: o.Ledger}
	set, err := o.heads(s, p)
	if err != nil {
		return nil, err
	}
	var turning []decoder.Head
	for _, h := range set {
		if !s.Unrotated(h.Layer) {
			turning = append(turning, h)
		} else if !slices.Contains(p.Skipped, h.Layer) {
			p.Skipped = append(p.Skipped, h.Layer)
		}
	}
	if len(turning) == 0 {
		return nil, usagef("`headscope inspect MODEL` prints which layers rotate", "none of the %d heads is in a layer that rotates", len(set))
	}
	if len(o.Tables) == 0 {
		return nil, usagef("give --table NAME or FILE.json; `headscope inspect --table NAME --dims N` shows one", "no table")
	}
	names := map[string]bool{}
	for _, name := range o.Tables {
		t, err := swapTable(s, name, turning, o.Scope)
		if err != nil {
			return nil, err
		}
		if names[t.Name] {
			return nil, usagef("give each table once; tables of files need names of their own", "table %s is there twice", t.Name)
		}
		names[t.Name] = true
		p.Tables = append(p.Tables, *t)
	}
	return p, nil
}

// heads are those that are asked for, whether or not their layers rotate.
func (o *SwapOptions) heads(s *loader.Spec, p *PlanSwap) (heads.Set, error) {
	for _, l := range o.Layers {
		if l < 0 || l >= s.Layers {
			return nil, usagef(fmt.Sprintf("the model has layers 0-%d", s.Layers-1), "layer %d does not exist", l)
		}
	}
	var out []decoder.Head
	switch {
	case o.Hybrid != 0 && o.Heads != nil:
		return nil, usagef("a hybrid chooses its heads itself: leave --heads out", "--hybrid and --heads")
	case o.Hybrid != 0 && !(o.Hybrid > 0 && o.Hybrid <= 1):
		return nil, usagef("give a share such as .25", "hybrid %g is not in (0, 1]", o.Hybrid)
	case o.HybridSeed != nil && o.Hybrid == 0:
		return nil, usagef("give --hybrid .25 too", "a seed for the groups of a hybrid, and no hybrid")
	case o.Hybrid != 0:
		p.Hybrid = &PlanHybrid{o.Hybrid, shareGroups(s, o.Hybrid), o.HybridSeed}
		out = p.Hybrid.heads(s)
	case o.Heads != nil:
		out = slices.Clone(o.Heads)
	default:
		for l := range s.Layers {
			for h := range s.Heads {
				out = append(out, decoder.Head{Layer: l, Index: h})
			}
		}
	}
	set := heads.NewSet(out...)
	if err := set.Validate(s.Layers, s.Heads); err != nil {
		return nil, err
	}
	if o.KVGroups {
		set = set.KVSiblings(s.Group())
	}
	if o.Layers != nil {
		set = slices.DeleteFunc(set, func(h decoder.Head) bool { return !slices.Contains(o.Layers, h.Layer) })
		if len(set) == 0 {
			return nil, usagef("--layers takes away from --heads", "none of the heads is in the layers given")
		}
	}
	return set, nil
}

// streamHybrid is the stream of a hybrid's draws.
const streamHybrid = 0x687962726964 // "hybrid"

func (h *PlanHybrid) heads(s *loader.Spec) []decoder.Head {
	var rng *rand.Rand
	if h.Seed != nil {
		rng = rand.New(rand.NewPCG(*h.Seed, streamHybrid))
	}
	var out []decoder.Head
	for l := range s.Layers {
		groups := make([]int, s.KVHeads)
		for i := range groups {
			groups[i] = i
		}
		if rng != nil {
			rng.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
		}
		for _, g := range groups[:h.Groups] {
			for i := range s.Group() {
				out = append(out, decoder.Head{Layer: l, Index: g*s.Group() + i})
			}
		}
	}
	return out
}

// swapTable is one table in the given heads, compared with their own.
func swapTable(s *loader.Spec, name string, set heads.Set, scope decoder.Scope) (*SwapTable, error) {
	e := decoder.Edit{Op: decoder.OpSwap, Table: name, Heads: slices.Clone(set), Scope: scope}
	if rope.IsTableFile(name) {
		f, err := rope.ReadFile(name)
		if err != nil {
			return nil, &hintError{err, `a table file is {"name": ..., "planes": [...], "layout": "rotate_half"}; ` + "`headscope inspect --table NAME --out FILE.json` writes one"}
		}
		e.Table, e.InvFreq = f.Name, f.Planes
	}
	if err := CheckEdits(s, []decoder.Edit{e}); err != nil {
		return nil, err
	}
	t := &SwapTable{Name: "swap " + e.Table, Edits: []decoder.Edit{e}, Heads: len(set), NoOp: true}
	seen := map[int]int{} // by table of the Spec
	for _, l := range set.Layers() {
		key := s.Kinds[l].Table
		if at, ok := seen[key]; ok {
			t.Changes[at].Layers = append(t.Changes[at].Layers, l)
			continue
		}
		own, err := decoder.RopeTable(s, l, 1)
		if err != nil {
			return nil, err
		}
		change, err := compareTables(&e, own)
		if err != nil {
			return nil, err
		}
		change.Layers = []int{l}
		seen[key], t.Changes = len(t.Changes), append(t.Changes, change)
		t.NoOp = t.NoOp && change.Planes == 0 && change.Factor == 1
	}
	return t, nil
}

// compareTables compares an edit's table with the own one.
func compareTables(e *decoder.Edit, own *rope.Table) (TableChange, error) {
	c, largest := TableChange{Of: own.Planes(), Factor: 1}, 0.0
	other := e.InvFreq
	if other == nil {
		rule, err := rope.ParseRule(e.Table)
		if err != nil {
			return c, err
		}
		t, err := rule.Apply(own)
		if err != nil {
			return c, err
		}
		other, c.Factor = t.InvFreq, t.Scale/own.Scale
	}
	for i, w := range own.InvFreq {
		if other[i] == w {
			continue
		}
		c.Planes++
		largest = max(largest, math.Abs(other[i]-w)/w)
	}
	if !math.IsInf(largest, 0) {
		c.Largest = &largest
	}
	return c, nil
}

func (p *Plan) addSwap(o *Options, unreachable []int, tests []*Prompt) error {
	swap := *o.Swap
	p.Swap = &swap
	if err := p.checkHeadsOf(o); err != nil {
		return err
	}
	e := o.Swap.Tables[0].Edits[0]
	set := heads.NewSet(e.Heads...)
	if swap.Against == nil && swap.NoControls == "" {
		if swap.NoControls = noOthers(o.Model.Spec, set); swap.NoControls == "" {
			asked := *o
			asked.Heads, asked.Scopes, asked.Top = heads.Ranking(set), []decoder.Scope{e.Scope}, 0
			if swap.KVGroups {
				asked.Pools = []string{PoolLayerKV}
			}
			swap.Against = &SwapAgainst{planTarget(&asked, unreachable), planControls(&asked, tests)}
		}
	}
	_, controls := swap.about()
	hypothesis := "another rotary table lowers the metric"
	if swap.Against != nil {
		hypothesis = "another rotary table in these heads lowers the metric more than in matched heads"
	}
	if p.declare(hypothesis, controls, func(decoder.Scope) string { return swap.Tables[0].Name }); len(p.experiments()) == 1 {
		p.Primary.Condition = swap.Tables[0].Name
	}
	return nil
}

// noOthers says that no head is left to compare a set with: in the layers of the set, or anywhere.
func noOthers(s *loader.Spec, set heads.Set) string {
	layers := set.Layers()
	if len(set) < len(layers)*s.Heads {
		return ""
	}
	turning := 0
	for l := range s.Layers {
		if !s.Unrotated(l) {
			turning++
		}
	}
	if len(layers) == turning {
		return "every head that rotates has the table: there are no others to compare with"
	}
	return fmt.Sprintf("every head of %d layers has the table: those layers have no others to compare with", len(layers))
}

func (*PlanSwap) stage() string { return StageSwap }

func (s *PlanSwap) predicts() bool { return s.Ledger }

func (s *PlanSwap) about() (*PlanTarget, *PlanControls) {
	if s.Against == nil {
		return &PlanTarget{}, &PlanControls{}
	}
	return &s.Against.PlanTarget, &s.Against.PlanControls
}

// conditions are the tables, behind each its control sets with the same table.
func (s *PlanSwap) conditions(e *evidence, t *target) ([]condition, error) {
	var out []condition
	_, controls := s.about()
	for _, table := range s.Tables {
		edit := table.Edits[0]
		main := condition{name: table.Name, edits: table.Edits, heads: heads.NewSet(edit.Heads...), scope: edit.Scope, texts: edit.Scope == decoder.ScopeAll}
		main.looksAtScores = true
		for _, pool := range t.controls {
			main.compared = append(main.compared, comparison{pool: pool.Pool, reason: pool.Reason})
		}
		out = append(out, main)
		for _, pool := range t.controls {
			for i, set := range pool.Sets[:min(len(pool.Sets), controls.Controls[edit.Scope])] {
				other := edit
				other.Heads = set
				one := controls.control(&main, pool.Pool, i, e.plan)
				one.edits, one.heads = []decoder.Edit{other}, set
				out = append(out, one)
			}
		}
	}
	return out, nil
}

// fill sorts every condition by depth, the unmodified model first.
func (s *PlanSwap) fill(e *evidence, _ *target, res *Result, trials map[string][]Trial) error {
	base := e.baseline()
	res.Depths = append(res.Depths, e.plan.byDepth(baseline, e.tests, base, nil))
	for _, t := range s.Tables {
		res.Depths = append(res.Depths, e.plan.byDepth(t.Name, e.tests, trials[t.Name], base))
	}
	return nil
}
