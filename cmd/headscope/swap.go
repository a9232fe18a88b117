package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headscope/headscope/harness"
	"github.com/headscope/headscope/loader/decoder"
)

// beside cuts the texts that are scored beside an experiment; nil for none. A result that is repeated has to have the same. An embedded
// model, which knows no prose, has none unless they are asked for.
func (t *textSetFlags) beside(c *configFlag, o *harness.Options) error {
	if own, _ := harness.OwnPrompts(o.Checkpoint.Ref); own != "" && !t.flags.Changed("text") {
		return nil
	}
	if len(t.texts) == 1 && t.texts[0] == harness.NoTexts {
		return nil
	}
	set, err := harness.ReadTexts(t.texts)
	if err != nil {
		return err
	}
	if r := c.result; r != nil && !slices.Contains(c.given, "text") {
		if p := r.Plan.Texts; p == nil || p.SHA256 != set.SHA256 {
			return &usageError{fmt.Errorf("%s: its texts are others than those of %s", c.path, set.Source), "give them again with --text, or --text none where it has none"}
		}
	}
	o.Texts, err = harness.CutTexts(o.Checkpoint, set, t.windows)
	return err
}

// planned opens the model, lets fill say what the experiment is, and runs it.
func (e *experimentFlags) planned(ctx context.Context, a *app, ref string, o *harness.Options, fill func(*harness.Options) error) error {
	m, err := e.prepare(ctx, a, ref, o)
	if err != nil {
		return err
	}
	if err := fill(o); err != nil {
		return errors.Join(err, m.close(nil))
	}
	return e.experiment(ctx, a, o, m)
}

// swapFlags choose tables and the heads that have them.
type swapFlags struct {
	tables, layers []string
	heads          string
	kvGroups       bool
	hybrid         float64
	flags          *pflag.FlagSet
	hybridSeed     string
	scope          string
	controls       string
	pools          []string
	ledger         bool
}

func (s *swapFlags) add(fs *pflag.FlagSet) {
	s.flags = fs
	fs.StringArrayVar(&s.tables, "table", nil, "rotary table in place of the model's: a name of docs/rope.md (theta10000, thetatimes2, times0.5, ntk4, moebius2048, nope, ...) or a FILE.json (repeatable: a condition each)")
	fs.StringVar(&s.heads, "heads", "", "heads that have it: a list (L18H6,L8H0), a FILE of one, or a result; default: all")
	fs.BoolVar(&s.kvGroups, "kv-groups", false, "and all heads that share a key/value head with one of them")
	fs.StringSliceVar(&s.layers, "layers", nil, "only in these layers, such as 0,4-7")
	fs.Float64Var(&s.hybrid, "hybrid", 0, "in this share of every layer's heads, by whole key/value groups, the first ones; .25 is published")
	fs.StringVar(&s.hybridSeed, "hybrid-seed", "", "draw the groups of --hybrid with this seed")
	fs.StringVar(&s.scope, "scope", "all", "rows that are scored with the other table: all, haystack, question, answer or last")
	fs.StringVar(&s.controls, "controls", "auto", "matched sets of other heads that get the same tables, of each pool, where not all heads have them; 19 or more give a p; auto = 99 on question, answer and last rows, 19 in whole passes")
	fs.StringSliceVar(&s.pools, "pool", []string{harness.PoolLayer, harness.PoolLayerKV}, "what controls are drawn from: layer, layer+kv (shares no key/value head with the set); whole groups have layer+kv alone")
	fs.BoolVar(&s.ledger, "ledger", true, "predict what the conditions do from the unmodified model, by the score ledger")
}

// options are the request but for the heads.
func (s *swapFlags) options() (o harness.SwapOptions, err error) {
	o = harness.SwapOptions{Tables: s.tables, KVGroups: s.kvGroups, Hybrid: s.hybrid, Scope: decoder.Scope(s.scope), Ledger: s.ledger}
	if s.flags.Changed("hybrid") && s.hybrid == 0 {
		return o, &usageError{fmt.Errorf("--hybrid 0: no head"), "give a share such as .25; without the flag all heads have the table"}
	}
	if _, err := o.Scope.Resolve(2, 1); err != nil {
		return o, &usageError{err, "give --scope all, or another"}
	}
	if s.hybridSeed != "" {
		seed, err := strconv.ParseUint(s.hybridSeed, 10, 64)
		if err != nil {
			return o, &usageError{fmt.Errorf("--hybrid-seed %q", s.hybridSeed), "give a whole number from 0"}
		}
		o.HybridSeed = &seed
	}
	o.Layers, err = ranges("layers", s.layers)
	return o, err
}

// again takes the tables and heads of a result; what they are compared with follows from the flags.
func (s *swapFlags) again(p *harness.PlanSwap, o *harness.Options) {
	swap := *p
	if a := swap.Against; a != nil {
		o.Exclude, o.WriteNorm, o.DetectedOn = a.Exclude, a.WriteNorm, a.DetectedOn
	}
	swap.Against, swap.NoControls, swap.Ledger = nil, "", s.ledger
	o.Swap = &swap
}

// ranges reads numbers and ranges of them, ends included.
func ranges(flag string, list []string) ([]int, error) {
	var out []int
	for _, f := range list {
		from, to, isRange := strings.Cut(strings.TrimSpace(f), "-")
		a, err := strconv.Atoi(from)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(to)
		}
		if err != nil || a < 0 || b < a || b-a > 1e6 {
			return nil, &usageError{fmt.Errorf("--%s %q", flag, f), "give numbers and ranges from 0, such as 0,4-7"}
		}
		for i := a; i <= b; i++ {
			out = append(out, i)
		}
	}
	return out, nil
}

func swapVerb() *verb {
	return &verb{
		name: "swap", operands: "MODEL", summary: "other rotary tables in all heads or some: recall by depth, and the price on plain texts",
		details: "Far needles (depth .1-.25) and near ones (.75-.9) are compared; texts give the perplexity tax and the KL of the next-token distribution.\n" +
			"Layers that do not rotate are left out and counted.",
		flags: func(fs *pflag.FlagSet) action {
			var e experimentFlags
			var s swapFlags
			var t textSetFlags
			s.add(fs)
			t.add(fs, "plain texts beside the prompts, for an embedded model only if asked for; none leaves them out")
			e.add(fs)
			equivalence := fs.Float64("equivalence", 0.5, "nats: a change of the primary outcome that lies within it, by its 90 % interval, is no effect; 0 = do not test")
			return func(ctx context.Context, a *app, operands []string) error {
				if err := operandsOf("swap", operands, "MODEL"); err != nil {
					return err
				}
				if err := e.config.load(a, fs, "swap"); err != nil {
					return err
				}
				asked, err := s.options()
				if err != nil {
					return err
				}
				o := &harness.Options{Verb: "swap", Stages: []string{harness.StageSwap}, Equivalence: *equivalence}
				if len(s.tables) == 0 && e.config.result == nil {
					return &usageError{errors.New("--table is missing"), "give --table NAME or FILE.json; `headscope inspect --table NAME --dims N` shows one"}
				}
				o.Pools = s.pools
				if o.Controls, err = controlCount("controls", s.controls); err != nil {
					return err
				}
				if s.heads != "" {
					if err := e.heads(s.heads, o); err != nil {
						return err
					}
					asked.Heads = o.Heads
				}
				return e.planned(ctx, a, operands[0], o, func(o *harness.Options) (err error) {
					if len(s.tables) == 0 {
						s.again(e.config.result.Plan.Swap, o)
					} else if o.Swap, err = harness.PlanSwaps(&o.Checkpoint.Spec, asked); err != nil {
						return err
					}
					if o.Swap.Tables[0].Edits[0].Scope != decoder.ScopeAll {
						return nil // texts have no such rows
					}
					return t.beside(&e.config, o)
				})
			}
		},
	}
}
