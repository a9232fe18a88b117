package loader

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/headscope/headscope/loader/rope"
)

// ropeDefaults is what a family's class takes for rotary keys that are absent, and how it departs from the others.
type ropeDefaults struct {
	theta    float64
	partial  float64 // part of a head that rotates; 0 = the class takes no notice of it with default frequencies, and fails with scaled ones
	original int     // original_max_position_embeddings, where the class has a default

	thetaKey, partialKey string   // root keys, where they are not rope_theta and partial_rotary_factor
	longrope             []string // other names of the type
}

// ropeAll reads the table of a class in which all layers have the same, in any of the four spellings found in checkpoints:
//
//	"rope_theta": b                                            and no or a null rope_scaling
//	"rope_theta": b, "rope_scaling": {"type" or "rope_type": ..., ...}
//	"rope_parameters": {"rope_theta": b, "rope_type": ..., ...}
//	"rope_parameters": {"full_attention": {"rope_theta": b, "rope_type": ..., ...}}
//
// Two places that disagree are an error, never a choice. For the last one transformers 5.24.0 silently uses the class's base without
// scaling where the class has one table; here it means what it says.
func ropeAll(c *config, s *Spec, d ropeDefaults) {
	block, scaling := ropeBlock(c)
	nested := false
	if block != nil && !scaling {
		block, nested = unnest(c, block)
	}
	from := ropeSource{block: block, typeRequired: scaling, nested: nested, rootKey: cmp.Or(d.thetaKey, "rope_theta")}
	s.Tables = []rope.Config{ropeTable(c, s, from, d)}
}

// layerRope is what a class with a table for full and one for sliding layers takes for absent keys.
type layerRope struct {
	full, local ropeDefaults
	localKey    string // root key with the base of the sliding layers, if the class has one
}

// ropeByLayer reads the tables of such a class and gives each layer its own. In their older spelling rope_theta and rope_scaling are those
// of the full layers alone.
func ropeByLayer(c *config, s *Spec, sliding []bool, d layerRope) {
	block, scaling := ropeBlock(c)
	fullFrom, localFrom := ropeSource{rootKey: "rope_theta", nested: true}, ropeSource{rootKey: d.localKey, nested: true}
	switch {
	case block == nil:
	case scaling:
		fullFrom.block, fullFrom.typeRequired = block, true
	case !block.present(fullAttention) && !block.present(slidingAttention):
		c.refuse("rope_parameters", "them by layer type, under full_attention and sliding_attention", "transformers' class overlooks flat ones")
	default:
		fullFrom.block, localFrom.block = block.object(fullAttention), block.object(slidingAttention)
		c.fail(block.finish())
	}
	tables := []rope.Config{ropeTable(c, s, fullFrom, d.full), ropeTable(c, s, localFrom, d.local)}
	for l := range s.Kinds {
		t := tables[0]
		if sliding[l] {
			t = tables[1]
		}
		at := slices.IndexFunc(s.Tables, func(have rope.Config) bool { return reflect.DeepEqual(have, t) })
		if at < 0 {
			at, s.Tables = len(s.Tables), append(s.Tables, t)
		}
		s.Kinds[l].Table = at
	}
}

// ropeBlock returns rope_scaling or rope_parameters, whichever there is, and whether it is the former.
func ropeBlock(c *config) (block *config, scaling bool) {
	old, block := c.object("rope_scaling"), c.object("rope_parameters")
	if old != nil && block != nil {
		c.want("rope_parameters", "it beside rope_scaling", "one of the two")
	}
	if old != nil {
		return old, true
	}
	return block, false
}

// unnest returns the parameters of the full layers where they are given by layer type.
func unnest(c, parameters *config) (block *config, nested bool) {
	for _, layerType := range []string{fullAttention, slidingAttention, "chunked_attention", "linear_attention"} {
		if !parameters.has(layerType) {
			continue
		}
		nested = true
		if layerType != fullAttention {
			parameters.refuse(layerType, fullAttention+", the one kind of layer of this family", "")
		}
	}
	if !nested {
		return parameters, false
	}
	block = parameters.object(fullAttention)
	c.fail(parameters.finish())
	return block, true
}

// ropeSource is where the parameters of one table stand.
type ropeSource struct {
	block        *config // nil: none, the table is plain
	typeRequired bool    // the block has no default type
	nested       bool    // the block is inside another, by layer type
	rootKey      string  // of the base beside the block, empty where the class has none
}

// ropeTable reads one table, checks it by building it, and leaves no key of its block unread.
func ropeTable(c *config, s *Spec, from ropeSource, d ropeDefaults) rope.Config {
	out := rope.Config{Type: "default"}
	if from.rootKey != "" {
		out.Theta = c.float(from.rootKey, 0)
	}
	if b := from.block; b != nil {
		out.Type = ropeType(b, from.typeRequired, d)
		if inner := b.float("rope_theta", 0); inner != 0 {
			if out.Theta != 0 && out.Theta != inner {
				b.want("rope_theta", fmt.Sprint(inner), fmt.Sprintf("the %v of the root key %s", out.Theta, from.rootKey))
			}
			out.Theta = inner
		}
		readScaling(c, from, &out, s.MaxPositions, d.original)
	}
	if out.Theta == 0 {
		c.notNull(from.rootKey, d.theta)
		out.Theta = d.theta
	}
	if out.OriginalMaxPositions == 0 {
		c.ignore("original_max_position_embeddings") // says how the checkpoint came about
	}
	out.RotaryDim = rotaryDim(c, s, d, from.block, out.Type)
	if from.block != nil {
		c.fail(from.block.finish())
	}
	checkRope(c, s, out)
	return out
}

// readScaling reads the keys of the table's type, which are those that transformers' _compute_*_parameters read.
func readScaling(c *config, from ropeSource, out *rope.Config, maxPositions, original int) {
	b := from.block
	number := func(key string, to *float64) {
		if *to = b.float(key, 0); *to == 0 {
			b.want(key, "nothing", "a number, which "+out.Type+" frequencies need")
		}
	}
	switch out.Type {
	case "default":
	case "linear":
		number("factor", &out.Factor)
	case "dynamic":
		number("factor", &out.Factor)
		out.MaxPositions = maxPositions
	case "llama3":
		number("factor", &out.Factor)
		number("low_freq_factor", &out.LowFreqFactor)
		number("high_freq_factor", &out.HighFreqFactor)
		out.OriginalMaxPositions = originalLength(c, from, original, maxPositions)
	case "yarn":
		if out.Factor = b.float("factor", 0); out.Factor == 0 && !b.present("factor") {
			number("factor", &out.Factor)
		}
		out.OriginalMaxPositions, out.MaxPositions = originalLength(c, from, original, maxPositions), maxPositions
		out.BetaFast, out.BetaSlow = b.float("beta_fast", 0), b.float("beta_slow", 0)
		out.MScale, out.MScaleAllDim = b.nonNegative("mscale", 0), b.nonNegative("mscale_all_dim", 0)
		out.AttentionFactor = b.float("attention_factor", 0)
		b.ignore("finetuned") // says how the checkpoint came about
		if out.Untruncated = !b.boolean("truncate", true); out.Untruncated && from.nested {
			b.refuse("truncate", "true", "transformers looks for this key outside of the layer types and does not see it here: write rope_parameters flat")
		}
	case "longrope":
		b.value("short_factor", "a list of numbers", &out.ShortFactor)
		b.value("long_factor", "a list of numbers", &out.LongFactor)
		out.Factor, out.AttentionFactor = b.float("factor", 0), b.float("attention_factor", 0)
		out.OriginalMaxPositions, out.MaxPositions = originalLength(c, from, original, maxPositions), maxPositions
	}
}

// originalLength reads original_max_position_embeddings. As in transformers, the root key wins over the block's, and so does the class's
// default of it, if there is one; def stands for all of them.
func originalLength(c *config, from ropeSource, class, def int) int {
	const key = "original_max_position_embeddings"
	if root := c.integer(key, 0); root != 0 && !from.nested {
		from.block.ignore(key)
		return root
	}
	n := from.block.integer(key, cmp.Or(class, def))
	if class != 0 && n != class {
		from.block.refuse(key, fmt.Sprint(class), "transformers' class looks for this key at the root alone: write it there")
	}
	return n
}

// rotaryDim returns how many dimensions of a head rotate: partial_rotary_factor of the block, of the root, or the class's.
func rotaryDim(c *config, s *Spec, d ropeDefaults, block *config, ropeType string) int {
	const key = "partial_rotary_factor"
	rootKey := cmp.Or(d.partialKey, key)
	at, atKey, partial := c, rootKey, c.float(rootKey, 0)
	if block != nil && block.float(key, 0) != 0 {
		inner := block.float(key, 0)
		if partial != 0 && partial != inner {
			block.want(key, fmt.Sprint(inner), fmt.Sprintf("the %v of the root key", partial))
		}
		at, atKey, partial = block, key, inner
	}
	if partial == 0 && d.partial != 0 {
		c.notNull(rootKey, d.partial)
		partial = d.partial
	}
	n := int(float64(s.HeadDim) * partial)
	switch {
	case partial == 0 || partial == 1:
		return s.HeadDim
	case d.partial == 0 && ropeType == "default":
		return s.HeadDim
	case d.partial == 0:
		at.refuse(atKey, "1 beside scaled frequencies", "transformers fails on it as well")
	case partial > 1:
		at.want(atKey, fmt.Sprint(partial), "a part of a head, 0 to 1")
	case n%2 != 0 || n == 0:
		at.want(atKey, fmt.Sprint(partial), fmt.Sprintf("an even number of rotated dimensions, not %d of %d", n, s.HeadDim))
	default:
		return n
	}
	return s.HeadDim
}

// ropeType reads the type under its new or its old name, which may stand together when they agree.
func ropeType(b *config, typeRequired bool, d ropeDefaults) string {
	name, old := b.text("rope_type", ""), b.text("type", "")
	key := "rope_type"
	switch {
	case name != "" && old != "" && name != old:
		b.want("type", quoted(old), "the "+quoted(name)+" of rope_type")
	case name == "":
		name, key = old, "type"
	}
	if name == "" {
		if typeRequired {
			b.want("rope_type", "nothing", "one of "+strings.Join(RopeTypes(), ", "))
		}
		return "default"
	}
	if slices.Contains(d.longrope, name) {
		return "longrope"
	}
	if !slices.Contains(RopeTypes(), name) {
		b.refuse(key, "one of "+strings.Join(RopeTypes(), ", "), "")
	}
	return name
}

// RopeTypes lists the types of rotary tables that a family here reads. No published checkpoint of these families has proportional tables.
func RopeTypes() []string {
	return slices.DeleteFunc(rope.Types(), func(t string) bool { return t == "proportional" })
}

// checkRope builds the table once, so that what cannot be built is refused where the config is read.
func checkRope(c *config, s *Spec, r rope.Config) {
	if c.err != nil {
		return
	}
	if _, err := rope.New(r, s.HeadDim, s.MaxPositions); err != nil {
		c.fail(&ConfigError{File: c.file, Err: err})
	}
}
