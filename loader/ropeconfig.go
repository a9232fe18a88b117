package loader

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headscope/headscope/loader/rope"
)

// ropeParameters reads the rotary part of a config with one table for all layers, in any of the four spellings found in checkpoints:
//
//	"rope_theta": b                                            and no or a null rope_scaling
//	"rope_theta": b, "rope_scaling": {"type" or "rope_type": ..., ...}
//	"rope_parameters": {"rope_theta": b, "rope_type": ..., ...}
//	"rope_parameters": {"full_attention": {"rope_theta": b, "rope_type": ..., ...}}
//
// Two places that disagree are an error, never a choice. For the last one transformers 5.24.0 silently uses base 10000 in the llama
// class; here it means what it says.
func ropeParameters(c *config, defaultTheta float64) rope.Config {
	theta := c.float("rope_theta", 0)
	scaling, parameters := c.object("rope_scaling"), c.object("rope_parameters")
	if scaling != nil && parameters != nil {
		c.want("rope_parameters", "it beside rope_scaling", "one of the two")
	}
	block := scaling
	if parameters != nil {
		block = unnest(c, parameters)
	}
	out := rope.Config{Type: "default", Theta: theta}
	if block != nil {
		out = ropeBlock(block, theta, scaling != nil)
		c.failIf(block.finish())
	}
	if out.Theta == 0 {
		out.Theta = defaultTheta
	}
	return out
}

// failIf records err unless it is nil.
func (c *config) failIf(err error) {
	if err != nil {
		c.fail(err)
	}
}

// unnest returns the parameters of the full layers where they are given by layer type.
func unnest(c, parameters *config) *config {
	const full = "full_attention"
	nested := false
	for _, layerType := range []string{full, "sliding_attention", "chunked_attention", "linear_attention"} {
		if !parameters.has(layerType) {
			continue
		}
		nested = true
		if layerType != full {
			parameters.refuse(layerType, "full_attention, the one kind of layer of this family", "")
		}
	}
	if !nested {
		return parameters
	}
	block := parameters.object(full)
	c.failIf(parameters.finish())
	return block
}

// ropeBlock reads one set of rope parameters. theta is that of the root, 0 where there is none.
func ropeBlock(b *config, theta float64, typeRequired bool) rope.Config {
	out := rope.Config{Type: ropeType(b, typeRequired), Theta: theta}
	if inner := b.float("rope_theta", 0); inner != 0 {
		if theta != 0 && theta != inner {
			b.want("rope_theta", fmt.Sprint(inner), fmt.Sprintf("the %v of the root key rope_theta", theta))
		}
		out.Theta = inner
	}
	if !slices.Contains(rope.Types(), out.Type) {
		key := "rope_type"
		if !b.has(key) {
			key = "type"
		}
		b.refuse(key, "one of "+strings.Join(rope.Types(), ", "), "")
		return out
	}
	// As at the root: transformers ignores it beside default frequencies and fails on it beside scaled ones.
	if partial := b.float("partial_rotary_factor", 1); partial != 1 && out.Type != "default" {
		b.refuse("partial_rotary_factor", "1 beside scaled frequencies", "")
	}
	if out.Type != "llama3" {
		return out
	}
	for _, k := range []struct {
		name string
		to   *float64
	}{{"factor", &out.Factor}, {"low_freq_factor", &out.LowFreqFactor}, {"high_freq_factor", &out.HighFreqFactor}} {
		if *k.to = b.float(k.name, 0); *k.to == 0 {
			b.want(k.name, "nothing", "a number, which llama3 frequencies need")
		}
	}
	out.OriginalMaxPositions = b.integer("original_max_position_embeddings", required)
	return out
}

// ropeType reads the type under its new or its old name, which may stand together when they agree.
func ropeType(b *config, typeRequired bool) string {
	name, old := b.text("rope_type", ""), b.text("type", "")
	switch {
	case name != "" && old != "" && name != old:
		b.want("type", quoted(old), "the "+quoted(name)+" of rope_type")
	case name == "":
		name = old
	}
	if name == "" {
		if typeRequired {
			b.want("rope_type", "nothing", "one of "+strings.Join(rope.Types(), ", "))
		}
		return "default"
	}
	return name
}

// checkRope builds the table once, so that what cannot be built is refused where the config is read.
func checkRope(c *config, r rope.Config, headDim, maxPositions int) {
	if c.err != nil {
		return
	}
	_, err := rope.New(r, headDim, maxPositions)
	var unsupported *rope.UnsupportedError
	if errors.As(err, &unsupported) {
		err = &UnsupportedError{File: c.file, Key: "rope_type", Got: quoted(unsupported.Type), Want: "one of " + strings.Join(rope.Types(), ", ")}
	}
	if err != nil {
		c.fail(fmt.Errorf("%s: %w", c.file, err))
	}
}
